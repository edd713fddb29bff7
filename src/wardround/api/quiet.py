"""Silence for `progress=False`: neither progress nor warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["warnings_if"]


@contextmanager
def warnings_if(shown: bool) -> Iterator[None]:
    """Run the block without warnings, those of libraries included, unless they are to be shown."""
    with warnings.catch_warnings():
        if not shown:
            warnings.simplefilter("ignore")
        yield
