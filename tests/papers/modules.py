"""The modules of a paper as fixtures: `papers/` is beside the product, not in it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

__all__ = ["fixture_of"]


def fixture_of(name: str) -> Any:
    """A fixture that gives `papers.<name>`, as in `variations = fixture_of("fedhe.variations")`."""

    @pytest.fixture(scope="module")
    def found(on_path: None) -> ModuleType:
        return import_module(f"papers.{name}")

    return found
