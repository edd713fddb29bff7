"""What is refused of a study as a whole; most of it is in `test_study_file`, beside the settings it is about."""

from __future__ import annotations

import pytest
from tests.studies.tiny_studies import tiny

from wardround.errors import StudyError


def test_a_type_that_the_tag_set_does_not_hold() -> None:
    said = (
        r"^\[sites.harbour\] types: 'FECHA' is not in the tag set meddocan – did you mean 'FECHAS'\?; there are NOMBRE"
    )
    with pytest.raises(StudyError, match=said):
        tiny(
            task={"kind": "deidentify", "tag_set": "meddocan"},
            sites={"harbour": {"types": ["FECHA"]}, "hillside": {"types": None}},
        )


def test_an_algorithm_that_learns_entities_learns_to_deidentify() -> None:
    sites = {name: {"types": ["PATIENT"], "scheme": ""} for name in ("harbour", "hillside")}
    study = tiny(task={"kind": "deidentify"}, algorithm={"name": "tagsets"}, model={"shared": None}, sites=sites)
    assert study.task.kind == "deidentify"
