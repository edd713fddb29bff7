"""Settings that all studies of the papers share."""

from __future__ import annotations

from typing import Any

__all__ = ["AS_THE_PAPERS_AVERAGE"]

# The papers bound neither how few sentences an update is made of nor one site's share of the mean; the measured
# figures are of studies without these bounds, on public corpora.
AS_THE_PAPERS_AVERAGE: dict[str, Any] = {"smallest_batch": 1, "largest_share": 1.0}
