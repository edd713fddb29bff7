#!/usr/bin/env python3
"""Build an environment with the lowest versions that pyproject.toml allows, and run tests in it.

The environment has the lower end of every runtime library and of the extras that Wardround imports. Libraries below
these are chosen by pip. torch is installed first, in the version of constraints.txt: other versions of its ordinary
wheels bring gigabytes of CUDA libraries.

    python3 scripts/lowest_versions.py                        # the tests below, in .lowest/
    python3 scripts/lowest_versions.py tests/cli              # other tests
    python3 scripts/lowest_versions.py --folder FOLDER        # an environment elsewhere
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = (
    "minilm",
    "lora",
    "sealed",
    "dp",
    "keyring",
    "flare",
    "console",
    "serve",
    "onnx",
    "spacy",
    "parquet",
    "tracking",
)
# What the tests need: the packages of `dev` that tests import, and the client of starlette's first supported versions.
TEST_PACKAGES = (
    "hypothesis",
    "nervaluate",
    "playwright",
    "pytest",
    "pytest-xdist",
    "pytorch-crf",
    "scipy",
    "seqeval",
)
CLIENT = "httpx>=0.28,<1"
TESTS = (
    "tests/models",
    "tests/tasks",
    "tests/training",
    "tests/redaction",
    "tests/reports",
    "tests/console",
    "tests/tracking",
    "tests/secure_aggregation",
    "tests/cli/test_train.py",
    "tests/cli/test_evaluate.py",
    "tests/cli/test_predict.py",
    "tests/cli/test_run.py",
)
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?\s*(?:>=|==)\s*(?P<version>[0-9][0-9A-Za-z.]*)")


def lowest(requirement: str) -> str:
    """Return the lowest version that a requirement allows: `"rich>=13.8,<16"` becomes `"rich==13.8"`."""
    found = _REQUIREMENT.match(requirement)
    if found is None:
        raise ValueError(f"{requirement!r} names no lower end; write NAME>=VERSION")
    return f"{found['name']}=={found['version']}"


def name_of(requirement: str) -> str:
    """Return the name of the package that is required."""
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


def lowest_requirements(project: Mapping[str, Any]) -> list[str]:
    """Return the lower ends of the `[project]` table; torch, which is installed first, is left out."""
    listed = [*project["dependencies"]]
    for extra in EXTRAS:
        listed += project["optional-dependencies"][extra]
    return sorted({lowest(requirement) for requirement in listed if name_of(requirement) != "torch"})


def pinned_torch(constraints: str) -> str:
    """Return the line of constraints.txt that pins torch."""
    return next(line for line in constraints.splitlines() if line.startswith("torch=="))


def build(folder: Path, project: Mapping[str, Any]) -> Path:
    """Create or reuse the environment, and return its Python."""
    python = folder / "bin" / "python"
    wanted = lowest_requirements(project)
    tools = [r for r in project["optional-dependencies"]["dev"] if name_of(r) in TEST_PACKAGES]
    stamp, content = folder / "installed.txt", "\n".join([*wanted, *tools]) + "\n"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == content:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    torch = pinned_torch((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    subprocess.run([*pip, torch], check=True)
    subprocess.run([*pip, torch, *wanted, *tools, CLIENT], check=True)
    subprocess.run([*pip, "--no-deps", "--editable", str(ROOT)], check=True)
    stamp.write_text(content, encoding="utf-8")
    return python


def run_tests(python: Path, tests: Iterable[str]) -> int:
    """Run tests and return the exit status. Old libraries warn about newer ones that they use; these are no errors."""
    warnings = ["-o", "filterwarnings=default", "-W", "ignore::DeprecationWarning", "--disable-warnings"]
    command = [str(python), "-m", "pytest", "-q", *warnings, *tests]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main() -> int:
    """Build the environment, run the tests, and return their exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tests", nargs="*", default=TESTS, help="tests to run instead of the named subset")
    parser.add_argument("--folder", type=Path, default=ROOT / ".lowest", help="where the environment is built")
    parser.add_argument("--list", action="store_true", help="print the lower ends and stop")
    options = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if options.list:
        print("\n".join(lowest_requirements(project)))
        return 0
    return run_tests(build(options.folder, project), options.tests)


if __name__ == "__main__":
    sys.exit(main())
