"""The map names packages, files and functions that exist."""

from __future__ import annotations

import ast
import re

from tests.docs.pages import ROOT, codes, rows, section, text_of
from tests.test_architecture import MAY_IMPORT

PAGE = "architecture.md"
SOURCE = ROOT / "src" / "wardround"


def test_every_package_has_a_row_below_those_it_imports() -> None:
    packages = [codes(row["package"])[0] for row in rows(section(PAGE, "## Packages"))]
    assert set(packages) == {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    for place, package in enumerate(packages):
        assert not MAY_IMPORT[package] & set(packages[place + 1 :]), package


def test_every_single_module_is_named() -> None:
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert modules <= set(codes(section(PAGE, "## Packages").partition("\n|")[0]))


def test_every_stop_of_a_walk_exists() -> None:
    """A file in backticks, and the names in backticks right after it, defined in that file."""
    stops = re.findall(r"`([\w/]+\.py)`((?:\s+(?:and\s+)?`\w+`)*)", text_of(PAGE))
    assert len(stops) > 30
    for file, names in stops:
        path = SOURCE / file if "/" in file else SOURCE / "federation" / "engines" / file
        if file.startswith("tests/"):
            path = ROOT / file
        tree = ast.parse(path.read_text(encoding="utf-8"))
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert set(codes(names)) <= defined, file
