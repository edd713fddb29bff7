"""`study check` opens the notes of each site: what is wrong there is found before a round runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import run
from tests.cli.running import Run

import wardround
from wardround.corpora.brat import Brat
from wardround.errors import CorpusWarning
from wardround.studies.data_check import check_data
from wardround.studies.study_file import Study, study_from
from wardround.text.document import Document, Entity, Range

__all__ = ["run"]  # a fixture

MODEL = {"word_dimension": 4, "word_buckets": 16, "character_layer": "none", "word_cnn": 4, "lstm": 4}
TEXT = "Aspirin helps. Slept well."  # two sentences


def notes(kind: str, count: int, name: str) -> list[Document]:
    entity = Entity("T1", kind, (Range(0, 7),))
    return [Document(f"{name}-{number}", f"{TEXT[:-1]} {number}.", (entity,)) for number in range(count)]


def write(folder: Path, kind: str = "Drug", *, parts: tuple[str, ...] = ("train", "dev", "test")) -> Path:
    for part in parts:
        Brat().write(notes(kind, 10, part), folder / part)
    return folder


def study(sites: dict[str, dict[str, Any]], **sections: Any) -> Study:
    sections.setdefault("algorithm", {"name": "fedner", "rounds": 400})
    return study_from({"study": {"name": "check"}, "model": MODEL, "sites": sites, **sections})


def site(folder: Path, *types: str, form: str = "brat", **more: Any) -> dict[str, Any]:
    return {"data": str(folder), "format": form, "types": list(types), **more}


def test_a_correct_study_has_no_findings(tmp_path: Path) -> None:
    folder = write(tmp_path / "east")
    both = {"east": site(folder, "Drug"), "west": site(folder, "Drug")}
    found = check_data(study(both, training={"batch_size": 10}))
    assert list(found.sentences()) == []
    assert found.can_run
    assert found.table.rows == (("east", 10, 10, 10, 20), ("west", 10, 10, 10, 20))
    assert found.passes == 400 * 10 / 40  # rounds of ten sentences at both sites together


def test_a_declared_type_that_the_notes_write_differently(tmp_path: Path) -> None:
    found = check_data(study({"east": site(write(tmp_path / "east", "DRUG"), "Drug")}))
    assert not found.can_run
    assert next(found.sentences()) == (
        "error: [sites.east] the training notes have no entity of the type 'Drug' – did you mean 'DRUG'?"
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"data": "nowhere"}, "error: [sites.east] data: nowhere does not exist"),
        ({"format": "brta"}, "error: [sites.east] 'brta' is not a format – did you mean 'brat'?"),
        ({"options": {"x": "1"}}, "error: [sites.east] 'x' is not an option of brat; it has none"),
        ({"types": []}, ""),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, change: dict[str, Any], fault: str) -> None:
    found = check_data(study({"east": site(write(tmp_path / "east"), "Drug") | change}))
    assert next(found.sentences(), "").startswith(fault)
    assert found.can_run == (not fault)


def test_faulty_notes_and_how_they_are_skipped(tmp_path: Path) -> None:
    folder = write(tmp_path / "east")
    (folder / "train" / "train-0.ann").write_text("T1\tDrug 0 999\tAspirin\n")
    (error,) = check_data(study({"east": site(folder, "Drug")})).sentences()
    assert error.startswith("error: [sites.east] train-0.ann:1: T1 ends at 999")
    found = check_data(study({"east": site(folder, "Drug", skip_faulty=True)}))
    assert found.can_run
    assert next(found.sentences()) == "warning: [sites.east] 1 faulty part was left out"


def test_a_site_without_test_notes_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "east", parts=("train", "dev"))
    found = check_data(study({"east": site(folder, "Drug")}))
    assert list(found.sentences()) == [
        "warning: [sites.east] there is no test part: its scores will be those of development notes, and marked as such"
    ]


def test_few_passes_and_no_slack(tmp_path: Path) -> None:
    folder = write(tmp_path / "east")
    sites = {name: site(folder, "Drug") for name in ("a", "b", "c")}
    privacy = {"mechanism": "masked", "minimum_sites": 3}
    described = study(sites, privacy=privacy, algorithm={"name": "fedner", "rounds": 3}, training={"batch_size": 10})
    found = check_data(described)
    assert found.passes == 3 * 10 / 60
    assert [text.partition(":")[2][:40] for text in found.sentences()] == [
        " [privacy] masked needs 3 of the 3 sites",
        " [algorithm] rounds: 3 rounds are about ",
    ]
    four = study(sites | {"d": site(folder, "Drug")}, privacy=privacy)
    assert not [text for text in check_data(four).sentences() if "[privacy]" in text]


def test_passes_of_local_epochs(tmp_path: Path) -> None:
    folder = write(tmp_path / "east")
    epochs = {"name": "fedavg", "rounds": 8, "local_epochs": 2}
    assert check_data(study({"a": site(folder, "Drug")}, algorithm=epochs)).passes == 16
    steps = {"name": "fedavg", "rounds": 8, "local_steps": 3}
    found = check_data(study({"a": site(folder, "Drug")}, algorithm=steps, training={"batch_size": 5}))
    assert found.passes == 8 * 3 * 5 / 20


def test_the_command_exits_with_1_for_an_error(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "east", "DRUG")
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "check"\n[algorithm]\nname = "fedavg"\nrounds = 8\n[sites.east]\ndata = "east"\n'
        'format = "auto"\ntypes = ["Drug"]\n'
    )
    ran = run("study", "check", tmp_path / "study.toml")
    assert ran.code == 1
    assert "cost: about 8.0 passes over the training notes of a site; " in ran.out
    assert "did you mean 'DRUG'?" in ran.out


def test_scores_of_development_notes_are_marked_and_run_warns(tmp_path: Path) -> None:
    write(tmp_path / "east", parts=("train", "dev"))
    write(tmp_path / "west")
    described = wardround.Study(
        "marks",
        sites={"east": site(tmp_path / "east", "Drug"), "west": site(tmp_path / "west", "Drug", "ADE")},
        algorithm={"name": "fedavg", "rounds": 1},
        model=MODEL,
    )
    with pytest.warns(CorpusWarning) as caught:
        result = wardround.run(described, out=tmp_path / "run")
    said = [str(warning.message) for warning in caught]
    assert any("[sites.east] there is no test part" in text for text in said)
    assert any("[sites.west] the training notes have no entity of the type 'ADE'" in text for text in said)
    table = result.tables[0]
    assert [row[0] for row in table.rows] == ["east (dev)", "west"]
    assert table.note.startswith("(dev): the site has no test notes")
    assert "east (dev)" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    written = (tmp_path / "run" / "scores.json").read_text()
    assert written.count('"scored_on": "dev"') == 1


def test_passes_of_a_private_study_follow_from_its_sampling_rate_and_delta_from_its_units(
    tmp_path: Path,
) -> None:
    sites = {name: {"data": str(write(tmp_path / name)), "format": "brat"} for name in ("east", "west")}
    noise = {"epsilon": 8.0, "delta": 0.03, "sampling_rate": 0.25}
    privacy = {"mechanism": "plain", "minimum_sites": 2, "differential_privacy": noise}
    found = check_data(study(sites, privacy=privacy, algorithm={"name": "fedner", "rounds": 40}))
    assert found.passes == 10.0
    # Two sites with ten notes of two sentences each.
    assert any("have 40 sentences; it must be at most one over" in warning for warning in found.warnings)
    noise["delta"] = 0.025
    assert not any("delta" in text for text in check_data(study(sites, privacy=privacy)).warnings)
