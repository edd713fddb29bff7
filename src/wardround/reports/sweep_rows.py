"""What a sweep calls a run, whose folder is named by a digest that tells a person nothing."""

from __future__ import annotations

import re
from pathlib import Path

from wardround.parsing import read_json

__all__ = ["row_of"]

_SUMMARY = "summary.json"  # which a sweep leaves in the folder of a finished run
# A setting that is varied may be a file of this machine; where it lies is nobody's business.
_FOLDERS = re.compile(r"(?<![^\s,])~?/(?=\S)(?:[^,+]*/)?")


def row_of(folder: Path, seed: int | None) -> str:
    """The run's row in the table, without folders of files, and its seed; empty where no sweep has run it."""
    try:
        row = read_json(folder / _SUMMARY, finite=False)["cell"]
    except (OSError, ValueError, TypeError, KeyError):
        return ""
    if not isinstance(row, str) or not row:
        return ""
    named = _FOLDERS.sub("", row)
    return named if seed is None else f"{named}, seed {seed}"
