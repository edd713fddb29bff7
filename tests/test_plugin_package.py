"""A package that is really installed adds an algorithm; a study uses it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.studies.tiny_studies import text_of

ALGORITHM = '''
from dataclasses import dataclass, replace

from wardround.algorithms import fedavg
from wardround.algorithms.algorithm import SiteStep
from wardround.algorithms.fedavg import FedAvg, local_update


class Halved(FedAvg):
    """Federated averaging of half of each change."""

    def gather(self, context):
        return context.gather("train_halved", self.local_settings())


def train_halved(site, message):
    with site.all_or_nothing():
        update, loss = local_update(site, message)
        half = {name: array / 2 for name, array in update.items()}
        return site.announce(half, weight=float(len(site.notes.train)), values={"loss": loss})


ALGORITHM = replace(
    fedavg.ALGORITHM,
    name="halved",
    description="Federated averaging of half of each change.",
    server=Halved,
    steps={"train_halved": SiteStep(train_halved, "trains on your notes and sends half of the change")},
)
'''
ENTRY_POINTS = "[wardround.algorithms]\nhalved = ward_plugin.halved:ALGORITHM\n"


def build_wheel(folder: Path) -> Path:
    """Write a wheel by hand: an installer needs the modules, the metadata and the list of files."""
    info = "ward_plugin-1.0.dist-info"
    files = {
        "ward_plugin/__init__.py": "",
        "ward_plugin/halved.py": ALGORITHM,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: ward-plugin\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": ENTRY_POINTS,
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    wheel = folder / "ward_plugin-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    target = folder / "site-packages"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(target)]
    subprocess.run([*command, "--disable-pip-version-check", str(build_wheel(folder))], check=True)
    return target


def wardround(*arguments: str, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    more = {} if packages is None else {"PYTHONPATH": str(packages)}
    return subprocess.run(
        [sys.executable, "-m", "wardround.cli.main", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120"} | more,
    )


def test_a_study_uses_what_an_installed_package_adds(installed: Path, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(text_of(algorithm={"name": "halved", "rounds": 2, "local_steps": 2}), encoding="utf-8")
    listed = wardround("study", "algorithms", packages=installed)
    assert "halved" in listed.stdout.splitlines()[-1]
    ran = wardround("run", str(study), "--out", str(tmp_path / "run"), "--workers", "1", packages=installed)
    assert ran.returncode == 0, ran.stderr
    assert "train_halved" in (tmp_path / "run" / "events.jsonl").read_text(encoding="utf-8")
    assert (tmp_path / "run" / "scores.json").is_file()


def test_a_machine_without_the_package_refuses_the_study(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(text_of(algorithm={"name": "halved"}), encoding="utf-8")
    ran = wardround("study", "show", str(study))
    assert ran.returncode == 2
    assert "'halved' is not an algorithm" in ran.stderr and "packages installed here" in ran.stderr
