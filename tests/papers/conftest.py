from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def on_path() -> Iterator[None]:
    """While tests of papers run, `papers` can be imported."""
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))
