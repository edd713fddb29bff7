"""The modules of a paper as fixtures: `papers/` is beside the package, not in it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

__all__ = ["fixture_of", "measured_of"]


def fixture_of(name: str) -> Any:
    """Return a fixture for `papers.<name>`, as in `studies = fixture_of("fedhe.studies")`."""

    @pytest.fixture(scope="module")
    def found(on_path: None) -> ModuleType:
        return import_module(f"papers.{name}")

    return found


def measured_of(paper: ModuleType, runs: Sequence[dict[str, Any]], **expected: Any) -> Any:
    """Return the summary of these runs; `expected` has its settings and sites."""
    kind = paper.PAPER.measured
    return kind({**expected, "studies": kind.condense(runs, expected)})
