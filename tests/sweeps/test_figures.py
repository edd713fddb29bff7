from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.studies.tiny_studies import run, tiny

from wardround.errors import SweepError
from wardround.sweeps.figures import check_path, figure_in, scores_in

SCORES: dict[str, Any] = {
    "rounds": 6,
    "traffic": {"up": 1000},
    "sites": {
        "harbour": {"strict": {"f1": 0.5}, "macro": {"all": 0.25, "not_annotated": None}},
        "hillside": {"strict": {"f1": 0.75}, "macro": {"all": None, "not_annotated": None}},
    },
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("rounds", 6.0),
        ("traffic.up", 1000.0),
        ("sites.harbour.strict.f1", 0.5),
        ("sites.*.strict.f1", 0.625),
        ("sites.*.macro.all", 0.25),  # of the sites that have one
        ("sites.*.macro.not_annotated", None),
        ("sites.lakeside.strict.f1", None),
        ("sites", None),
        ("rounds.more", None),
    ],
)
def test_a_figure_by_its_path(path: str, value: float | None) -> None:
    assert figure_in(SCORES, path) == value


@pytest.mark.parametrize(
    "path",
    [
        *("rounds", "best_round", "traffic.up", "sites.*.strict.f1", "sites.harbour.relaxed.recall"),
        *("sites.hillside.types.Finding.strict.f1", "sites.*.macro.not_annotated", "sites.*.documents"),
    ],
)
def test_what_a_study_will_have(path: str) -> None:
    check_path(tiny(), path)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "sites.*.strict",
            r"^\[report\] sites.\*.strict is no single figure; .*: precision, recall, f1",
        ),
        ("sites.*.strikt.f1", r"there is no 'strikt' – did you mean 'strict'\?"),
        ("sites.habour.strict.f1", r"there is no 'habour' – did you mean 'harbour'\?; there are harbour, hillside"),
        ("f1", r"^\[report\] f1: there is no 'f1'; there are rounds, best_round, traffic, sites$"),
        ("rounds.f1", r"goes on below a figure; leave out f1"),
        ("sites.*.strict.interval", "is no single figure"),
        ("sites.*.types.Dose.strict.f1", "there is no 'Dose' – did you mean 'Dosage'"),
    ],
)
def test_a_path_that_no_run_has_is_refused(path: str, said: str) -> None:
    with pytest.raises(SweepError, match=said):
        check_path(tiny(), path)


def test_where_types_are_not_known_before_only_a_run_can_tell() -> None:
    unnamed = {"harbour": {"types": None}, "hillside": {"types": None}}
    check_path(tiny(sites=unnamed), "sites.*.types.Dose.strict.f1")


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"rounds": 3}'])
def test_scores_that_are_missing_or_damaged_are_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "scores.json").write_text(text)
    assert scores_in(tmp_path) is None


def paths(found: Any, above: str = "") -> list[str]:
    """Every figure of a file of scores."""
    if not isinstance(found, dict):
        return [] if isinstance(found, list) else [above]
    return [path for name, value in found.items() for path in paths(value, f"{above}.{name}".lstrip("."))]


@pytest.mark.parametrize("kind", ["ner", "deidentify"])
def test_everything_that_a_run_writes_could_have_been_asked_for(tmp_path: Any, kind: str) -> None:
    study = tiny(algorithm={"rounds": 1}, task={"kind": kind})
    run(study, tmp_path)
    written = paths(scores_in(tmp_path))
    assert len(written) > 30
    for path in written:
        check_path(study, path)
