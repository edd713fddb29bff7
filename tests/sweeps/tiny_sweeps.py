"""Sweeps small enough to run in a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from tests.studies.tiny_studies import TABLE

from wardround.sweeps.sweep_file import Sweep, parse_sweep

REPORT = {"F1": {"path": "sites.*.strict.f1", "times": 100, "digits": 1}}
GRID: dict[str, Any] = {
    "study.seed": [7, 8],
    "method": {
        "FedNER": {"algorithm.name": "fedner"},
        "alone": {"algorithm.name": "single", "unset": ["model.shared"]},
    },
}


def text_of(**sections: Any) -> str:
    """The tiny study under two methods with two seeds; a section that is given takes the place of the whole one."""
    base: Mapping[str, Any] = TABLE | {"algorithm": {"rounds": 3}}
    table = {"sweep": {"name": "tiny"}, "base": base, "report": REPORT, "grid": GRID, **sections}
    return tomli_w.dumps({name: section for name, section in table.items() if section is not None})


def sweep_of(**sections: Any) -> Sweep:
    """The same, read."""
    return parse_sweep(text_of(**sections))


def write(path: Path, **sections: Any) -> Path:
    """The same, in a file."""
    path.write_text(text_of(**sections), encoding="utf-8")
    return path
