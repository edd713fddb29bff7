from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.studies.tiny_studies import run, tiny

from wardround.errors import SweepError
from wardround.sweeps.figures import (
    SeedSummary,
    bootstrap_interval,
    check_path,
    figure_at,
    read_scores,
    summarise_seeds,
)

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
def test_figure_at_a_path(path: str, value: float | None) -> None:
    assert figure_at(SCORES, path) == value


@pytest.mark.parametrize(
    "path",
    [
        *("rounds", "best_round", "traffic.up", "sites.*.strict.f1", "sites.harbour.relaxed.recall"),
        *("sites.hillside.types.Finding.strict.f1", "sites.*.macro.not_annotated", "sites.*.documents"),
    ],
)
def test_paths_that_a_study_will_have_are_accepted(path: str) -> None:
    check_path(tiny(), path)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "sites.*.strict",
            r"^\[report\] sites.\*.strict is not a single figure; .*: precision, recall, f1",
        ),
        ("sites.*.strikt.f1", r"there is no 'strikt' – did you mean 'strict'\?"),
        ("sites.habour.strict.f1", r"there is no 'habour' – did you mean 'harbour'\?; there are harbour, hillside"),
        ("f1", r"^\[report\] f1: there is no 'f1'; there are rounds, best_round, traffic, sites$"),
        ("rounds.f1", r"continues below a figure; remove f1"),
        ("sites.*.strict.interval", "is not a single figure"),
        ("sites.*.types.Dose.strict.f1", "there is no 'Dose' – did you mean 'Dosage'"),
    ],
)
def test_unknown_path_is_refused(path: str, said: str) -> None:
    with pytest.raises(SweepError, match=said):
        check_path(tiny(), path)


def test_path_below_unknown_types_is_accepted() -> None:
    unnamed = {"harbour": {"types": None}, "hillside": {"types": None}}
    check_path(tiny(sites=unnamed), "sites.*.types.Dose.strict.f1")


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"rounds": 3}'])
def test_missing_or_damaged_scores_are_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "scores.json").write_text(text)
    assert read_scores(tmp_path) is None


def paths(found: Any, above: str = "") -> list[str]:
    """Every figure of a file of scores."""
    if not isinstance(found, dict):
        return [] if isinstance(found, list) else [above]
    return [path for name, value in found.items() for path in paths(value, f"{above}.{name}".lstrip("."))]


@pytest.mark.parametrize("kind", ["ner", "deidentify"])
def test_every_written_figure_passes_the_check(tmp_path: Any, kind: str) -> None:
    study = tiny(algorithm={"rounds": 1}, task={"kind": kind})
    run(study, tmp_path)
    written = paths(read_scores(tmp_path))
    assert len(written) > 30
    for path in written:
        check_path(study, path)


def test_range_over_seeds() -> None:
    assert summarise_seeds([0.5, 0.75, 1.0]) == SeedSummary(0.75, 0.5, 1.0, 3)


@pytest.mark.parametrize("spread", ["range", "interval"])
def test_one_seed_has_no_spread(spread: str) -> None:
    assert summarise_seeds([0.5], "interval" if spread == "interval" else "range") == SeedSummary(0.5, 0.5, 0.5, 1)


def test_interval_of_the_mean() -> None:
    """Of two seeds each mean of two draws is 0, 1/2 or 1, the ends with a chance of a quarter: far above 2.5%."""
    assert summarise_seeds([0.0, 1.0], "interval") == SeedSummary(0.5, 0.0, 1.0, 2)


def test_interval_excludes_rare_draws() -> None:
    """Six draws that are all the same seed have a chance of one in 46,656 each."""
    low, high = bootstrap_interval(lambda drawn: float(len(set(drawn))), 6)
    assert 2.0 <= low < high <= 6.0
    assert bootstrap_interval(lambda drawn: 3.0, 6) == (3.0, 3.0)
