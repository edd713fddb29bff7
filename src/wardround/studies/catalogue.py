"""The algorithms that a study file can name: those built in, then those of installed packages.

Algorithms import torch. They are imported when `ALGORITHMS` is first used; `algorithm_descriptions` reads the names and
descriptions of the built-in ones from their files and imports none of them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from wardround.plugins import Registry, plugins

if TYPE_CHECKING:
    from wardround.algorithms.algorithm import Algorithm

__all__ = ["ALGORITHMS", "DEFAULT_ALGORITHM", "algorithm_descriptions"]

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
_GROUP = "wardround.algorithms"

# Both are module attributes that are computed when they are first imported: see `__getattr__`.
ALGORITHMS: Mapping[str, Algorithm[Any]]
DEFAULT_ALGORITHM: str  # of a study that names none


def __getattr__(name: str) -> Any:
    """Import the algorithms when one of the two attributes above is first used."""
    if name == "ALGORITHMS":
        return _algorithms()
    if name == "DEFAULT_ALGORITHM":
        return next(iter(_algorithms()))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def algorithm_descriptions() -> dict[str, str]:
    """Return the one-sentence description of every algorithm by its name, without importing a built-in one."""
    built_in = dict(map(_declaration, _MODULES))
    added = plugins(_GROUP)
    return built_in | {name: _algorithms()[name].description for name in added}


@cache
def _algorithms() -> Mapping[str, Algorithm[Any]]:
    from wardround.algorithms.algorithm import Algorithm

    built_in: list[Algorithm[Any]] = [import_module(f"wardround.algorithms.{name}").ALGORITHM for name in _MODULES]
    return Registry(_GROUP, {algorithm.name: algorithm for algorithm in built_in}, kind=Algorithm)


def _declaration(module: str) -> tuple[str, str]:
    """Return name and description as the file of an algorithm declares them; import the file if it computes one."""
    try:
        tree = ast.parse(files("wardround.algorithms").joinpath(f"{module}.py").read_text(encoding="utf-8"))
        (call,) = (
            node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ALGORITHM"
        )
        given = {word.arg: word.value for word in call.keywords} if isinstance(call, ast.Call) else {}
        return str(ast.literal_eval(given["name"])), str(ast.literal_eval(given["description"]))
    except (OSError, ValueError, KeyError):  # a package without sources, or a value that is no literal
        algorithm: Algorithm[Any] = import_module(f"wardround.algorithms.{module}").ALGORITHM
        return algorithm.name, algorithm.description
