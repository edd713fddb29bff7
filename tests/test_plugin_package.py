"""A package that is really installed adds an algorithm, a format and a model; one study uses all three."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.running import QUICK, TINY
from tests.models.tiny import notes
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
FORMAT = '''
from dataclasses import dataclass

from wardround.corpora.corpus_format import CorpusFormat, fail_on_error
from wardround.text.document import Document, Entity, Range


@dataclass(frozen=True)
class WardLines(CorpusFormat):
    """One note per line: id, text and entities, separated by tabs."""

    name = "ward-lines"
    description = "one note per line"
    holds = frozenset({"entities"})

    def read(self, path, *, problems=fail_on_error):
        for line in path.read_text(encoding="utf-8").splitlines():
            id, text, *found = line.split("\\t")
            places = [entity.split(":") for entity in found]
            entities = [
                Entity(f"T{number}", kind, (Range(int(start), int(end)),))
                for number, (start, end, kind) in enumerate(places, start=1)
            ]
            yield Document(id, text, tuple(entities))
'''
MODEL = '''
from dataclasses import replace

from wardround.models.word_tagger import FAMILY as WORDS
from wardround.models.word_tagger import WordTagger


class WardTagger(WordTagger):
    """A tagger of words under another name."""

    kind = "ward-tagger"


def load(folder, card):
    model = WORDS.load(folder, card)
    model.__class__ = WardTagger
    return model


FAMILY = replace(
    WORDS,
    name=WardTagger.kind,
    chosen_by=(),
    build=lambda config, labels, choice: WardTagger(config, labels.types),
    load=load,
)
'''
ENTRY_POINTS = """[wardround.algorithms]
halved = ward_plugin.halved:ALGORITHM
[wardround.formats]
ward-lines = ward_plugin.ward_lines:WardLines
[wardround.models]
ward-tagger = ward_plugin.ward_tagger:FAMILY
"""


def build_wheel(folder: Path) -> Path:
    """Write a wheel by hand: an installer needs the modules, the metadata and the list of files."""
    info = "ward_plugin-1.0.dist-info"
    files = {
        "ward_plugin/__init__.py": "",
        "ward_plugin/halved.py": ALGORITHM,
        "ward_plugin/ward_lines.py": FORMAT,
        "ward_plugin/ward_tagger.py": MODEL,
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
    paths = [str(packages), os.environ.get("PYTHONPATH", "")] if packages else []
    more = {"PYTHONPATH": os.pathsep.join(filter(None, paths))} if paths else {}
    return subprocess.run(
        [sys.executable, "-m", "wardround.cli.main", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120"} | more,
    )


def write_notes(folder: Path) -> Path:
    """Write a split corpus in the format of the package."""
    folder.mkdir()
    for number, part in enumerate(("train", "dev", "test")):
        lines = []
        for document in notes(6, seed=number):
            places = [f"{entity.start}:{entity.end}:{entity.type}" for entity in document.entities]
            assert "\t" not in document.text and "\n" not in document.text
            lines.append("\t".join([document.id, document.text, *places]))
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_a_study_uses_what_an_installed_package_adds(installed: Path, tmp_path: Path) -> None:
    own = {"data": str(write_notes(tmp_path / "notes")), "format": "ward-lines", "built_in": None, "types": ["Drug"]}
    study = tmp_path / "study.toml"
    text = text_of(
        algorithm={"name": "halved", "rounds": 2, "local_steps": 2},
        model={"family": "ward-tagger"},
        sites={"harbour": own, "hillside": {**own, "scheme": ""}},
    )
    study.write_text(text, encoding="utf-8")
    listed = wardround("study", "algorithms", packages=installed)
    assert "halved" in listed.stdout.splitlines()[-1]
    ran = wardround("run", str(study), "--out", str(tmp_path / "run"), "--workers", "1", packages=installed)
    assert ran.returncode == 0, ran.stderr
    assert "train_halved" in (tmp_path / "run" / "events.jsonl").read_text(encoding="utf-8")
    shown = wardround("model", "show", str(tmp_path / "run" / "sites" / "harbour" / "model"), packages=installed)
    assert shown.returncode == 0, shown.stderr
    assert "ward-tagger" in shown.stdout


def test_a_training_at_one_site_uses_a_model_family_of_an_installed_package(installed: Path, tmp_path: Path) -> None:
    data = write_notes(tmp_path / "notes")
    chosen = ("--format", "ward-lines", "--family", "ward-tagger", *TINY, *QUICK)
    ran = wardround("train", str(data), "--out", str(tmp_path / "run"), *chosen, packages=installed)
    assert ran.returncode == 0, ran.stderr
    assert "ward-tagger on notes, test" in ran.stdout
    assert json.loads((tmp_path / "run" / "model" / "wardround.json").read_text())["kind"] == "ward-tagger"


def test_a_machine_without_the_package_refuses_the_study(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(text_of(algorithm={"name": "halved"}), encoding="utf-8")
    ran = wardround("study", "show", str(study))
    assert ran.returncode == 2
    assert "'halved' is not an algorithm" in ran.stderr and "packages installed here" in ran.stderr
