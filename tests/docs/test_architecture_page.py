"""The map names packages, files and functions that exist."""

from __future__ import annotations

import ast
import re

import pytest
from tests.docs.pages import ROOT, blocks, codes, rows, section, text_of
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


PROTOCOLS = {
    "Federation": "federation.py",
    "AggregationServer": "aggregation.py",
    "AggregationClient": "aggregation.py",
}


def signatures(source: str, name: str) -> set[str]:
    """Return the heads of the methods of a class."""
    (found,) = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef) and node.name == name)
    methods = [node for node in found.body if isinstance(node, ast.FunctionDef)]
    return {f"{node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}" for node in methods if node.returns}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_protocols_are_those_of_the_code(name: str) -> None:
    (shown,) = (block for block in blocks(PAGE, "python") if f"class {name}(" in block)
    source = (SOURCE / "federation" / PROTOCOLS[name]).read_text(encoding="utf-8")
    assert signatures(shown, name)
    assert signatures(shown, name) <= signatures(source, name)
