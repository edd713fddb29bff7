"""The algorithms that a study file can name: those built in, then those of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from wardround.algorithms.algorithm import Algorithm
from wardround.plugins import Registry

__all__ = ["ALGORITHMS", "DEFAULT_ALGORITHM"]

# Modules of wardround.algorithms, in the order in which they are listed. A new algorithm is one file and one line here.
_MODULES = (
    "fedner",
    "fedavg",
    "fedprox",
    "fedatt",
    "feded",
    "public_only",
    "tagsets",
    "adversarial",
    "single",
    "pooled",
)
_BUILT_IN: list[Algorithm[Any]] = [import_module(f"wardround.algorithms.{name}").ALGORITHM for name in _MODULES]

ALGORITHMS: Mapping[str, Algorithm[Any]] = Registry(
    "wardround.algorithms", {algorithm.name: algorithm for algorithm in _BUILT_IN}, kind=Algorithm
)
DEFAULT_ALGORITHM = _BUILT_IN[0].name  # of a study that names none
