from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.papers.modules import fixture_of

from wardround.studies.study_file import study_from
from wardround.text.document import Document

joint = fixture_of("feded.joint")


def test_an_abstract_is_in_one_part_alone(joint: ModuleType) -> None:
    documents = [Document(f"{n}", "Text.", attributes=(("source", f"{n // 2}"),)) for n in range(80)]
    notes = joint.Notes(documents, [], {})
    parts = joint.drawn(notes, 1)
    assert {part: len(found) for part, found in parts.items()} == {"test": 12, "public": 12, "train": 56}
    sources = [{dict(d.attributes)["source"] for d in found} for found in parts.values()]
    assert sum(map(len, sources)) == len(set.union(*sources)) == 40
    assert parts == joint.drawn(notes, 1) != joint.drawn(notes, 2)


def test_an_official_test_part_is_not_changed(joint: ModuleType) -> None:
    documents, own = ([Document(f"{part}{n}", "Text.") for n in range(20)] for part in "ab")
    parts = joint.drawn(joint.Notes(documents, own, {}), 0)
    assert {part: len(found) for part, found in parts.items()} == {"test": 20, "public": 3, "train": 17}
    assert parts["test"] == own
    assert {d.id for part in ("public", "train") for d in parts[part]} == {d.id for d in documents}


def test_three_sites_share_the_notes_and_one_has_all(joint: ModuleType) -> None:
    train, test = list(range(10)), list(range(5))
    found = dict(joint._sites(train, test))
    assert found["all"] == (train, test)
    assert [found[name][0] for name in joint.SITES] == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9]]
    assert [number for name in joint.SITES for number in found[name][1]] == test


@pytest.mark.parametrize("method", ["single", "fedavg", "feded", "pooled"])
def test_a_study_of_each_method(joint: ModuleType, method: str, tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text('{"kind": "joint", "relations": {"treats": [["Drug", "Disease"]]}}')
    study = study_from(joint.study_of(method, 2, tmp_path, encoder="bert-tiny"))
    assert (study.task.kind, study.algorithm.config.rounds, study.study.seed) == ("joint", 8, 2)
    assert list(study.sites) == (["all"] if method == "pooled" else ["one", "two", "three"])
    assert study.public.exists == (method == "feded")


def test_the_table_adds_the_sites_of_a_run_and_averages_seeds(joint: ModuleType) -> None:
    def run(seed: int, tp: int) -> dict[str, Any]:
        site = {reading: {"tp": tp, "fp": 1, "fn": 1} for reading in ("entities", "given", "relations")}
        return {"variation": "joint-ade-fedavg", "seed": seed, "sites": {"one": site, "two": site}}

    kept = joint.condensed({"runs": [run(0, 1), run(1, 4)]})
    assert kept["ade"]["fedavg"]["given"] == {"0": [2, 2, 2], "1": [8, 2, 2]}
    lines = joint.joint_table(kept).splitlines()
    assert len(lines) == 3  # of two corpora and four methods, one was measured
    assert lines[2] == "| ADE | FedAvg of the whole network |" + " 65.0 (50.0 – 80.0) |" * 3
