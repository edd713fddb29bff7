from __future__ import annotations

from pathlib import Path

import pytest
from tests.studies.distilled_studies import distilled, related, write_notes
from tests.studies.tiny_studies import learnable, run, tiny

from wardround.reports.run_record import RunRecord
from wardround.studies.run_reading import read_run
from wardround.studies.shown_examples import with_examples
from wardround.studies.study_notes import built_in_hospital


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "synthetic"
    run(tiny(algorithm={"rounds": 1}), path)
    return path


def shown(path: Path, count: int = 4) -> RunRecord:
    return with_examples(read_run(path), path, count)


def test_notes_of_built_in_hospitals_in_turn(synthetic: Path) -> None:
    record = shown(synthetic)
    assert [found.where.partition(":")[0] for found in record.excerpts] == ["harbour", "hillside"] * 2
    written = {note.text for name in ("harbour-0000", "hillside-0001") for note in built_in_hospital(name, 7).test}
    assert {found.gold.text for found in record.excerpts} <= written
    assert all(found.gold.text == found.predicted.text for found in record.excerpts)
    assert all(found.gold.relations == () for found in record.excerpts)  # nobody looked for any


def test_as_many_as_asked_for(synthetic: Path) -> None:
    assert len(shown(synthetic, 1).excerpts) == 1
    assert shown(synthetic, 0).excerpts == ()


def test_notes_of_a_site_are_never_shown(tmp_path: Path) -> None:
    run(learnable(tmp_path / "notes", algorithm={"rounds": 1}), tmp_path / "run")
    record = shown(tmp_path / "run")
    assert record.excerpts == ()
    assert "notes of a site are never shown" in record.no_excerpts


def test_notes_of_the_public_set_and_no_others(tmp_path: Path) -> None:
    write_notes(tmp_path)
    run(distilled(tmp_path, algorithm={"rounds": 1}), tmp_path / "run")
    record = shown(tmp_path / "run", 20)
    public = {note.text for note in related(8, seed=99)}
    assert record.excerpts and {found.gold.text for found in record.excerpts} <= public
    (tmp_path / "public.jsonl").unlink()
    assert shown(tmp_path / "run").no_excerpts.startswith("None: no model lies in the folder")


def test_a_folder_that_says_nothing_of_where_notes_are_shows_none(synthetic: Path, tmp_path: Path) -> None:
    """As the coordinator's is among hospitals: the same files, but a study without places."""
    text = (synthetic / "study.toml").read_text()
    (synthetic / "study.toml").write_text("\n".join(line for line in text.splitlines() if "built_in" not in line))
    try:
        assert shown(synthetic).excerpts == ()
    finally:
        (synthetic / "study.toml").write_text(text)
