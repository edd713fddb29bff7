"""Every example of docs/adding.md is applied to a copy of the sources, as two changed files, and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, section, text_of

PAGE = "adding.md"
SECTIONS = ["An algorithm", "A corpus format", "A model family", "A mechanism", "An engine", "A command"]
PLUGINS = ["An algorithm", "A corpus format", "A model family"]


def block(text: str, title: str, language: str) -> tuple[str, str]:
    """Return the path and the code under a bold title."""
    rest = r"(?:(?!```).)*?:(?:(?!```).)*?"  # further words of the sentence
    pattern = rf"^\*\*{title}\*\*(?: in)?(?: `([^`]+)`)?{rest}\n\n```{language}\n(.*?)^```"
    ((path, code),) = re.findall(pattern, text, re.DOTALL | re.MULTILINE)
    return path, code


def apply(diff: str, text: str) -> str:
    """Return the text with a diff applied; `@@` separates its parts."""
    for part in diff.split("@@\n"):
        lines = part.splitlines(keepends=True)
        before = "".join(line[1:] or "\n" for line in lines if not line.startswith("+"))
        after = "".join(line[1:] for line in lines if not line.startswith("-"))
        assert text.count(before) == 1, f"the page changes a line that is not there once: {before}"
        text = text.replace(before, after)
    return text


def run(code: str, folder: Path, *paths: Path) -> None:
    """Run the page's first block and an example in a process that imports from these folders."""
    _, small = block(text_of(PAGE), "Used below", "python")
    (folder / "example.py").write_text(f"{small}\n{code}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(folder / "example.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "TMPDIR": str(folder)},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_the_table_lists_every_section() -> None:
    heads = re.findall(r"^## (.+)$", text_of(PAGE), re.MULTILINE)
    assert heads == [*SECTIONS, "From an installed package"]


@pytest.mark.parametrize("name", SECTIONS)
def test_an_example_works_with_two_files_changed(name: str, tmp_path: Path) -> None:
    if name == "A mechanism":
        pytest.importorskip("cryptography", reason="install wardround[sealed]")
    text = section(PAGE, f"## {name}")
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    new, code = block(text, "New file", "python")
    table, diff = block(text, "One (?:class and one )?line", "diff")
    assert not (source / new).exists()
    (source / new).write_text(code, encoding="utf-8")
    changed = apply(diff, (source / table).read_text(encoding="utf-8"))
    (source / table).write_text(changed, encoding="utf-8")
    for path in (source / new, source / table):  # the examples keep to the rules of this repository
        checked = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--quiet", "--config", str(ROOT / "pyproject.toml"), str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout
    _, example = block(text, "Try it", "python")
    run(example, tmp_path, source / "src")


def test_the_same_files_work_from_an_installed_package(tmp_path: Path) -> None:
    """The files that an installer would write: the modules of a package, and its metadata."""
    declared = re.findall(r"```toml\n(.*?)```", section(PAGE, "## From an installed package"), re.DOTALL)
    project = tomllib.loads(declared[0])["project"]
    package = tmp_path / "installed" / "my_algorithms"
    package.mkdir(parents=True)
    examples = []
    for name in PLUGINS:
        text = section(PAGE, f"## {name}")
        new, code = block(text, "New file", "python")
        (package / Path(new).name).write_text(code, encoding="utf-8")
        examples.append(block(text, "Try it", "python")[1])
    information = package.parent / "my_algorithms-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (information / "entry_points.txt").write_text("\n".join(groups))
    run("\n".join(examples), tmp_path, package.parent)
