from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.studies.tiny_studies import TABLE
from tests.studies.tiny_studies import text_of as study_text
from tests.sweeps.tiny_sweeps import GRID, sweep_of, text_of

from wardround.errors import StudyError, SweepError
from wardround.sweeps.sweep_file import Figure, Published, parse_sweep, read_sweep


def test_sections_are_parsed() -> None:
    sweep = sweep_of(
        sweep={"name": "tiny", "description": "Two ways", "spread": "interval", "keep_models": True},
        exclude=[{"method": "alone"}],
        published=[{"method": "FedNER", "F1": 79.5}],
    )
    assert (sweep.name, sweep.title, sweep.spread, sweep.keep_models) == ("tiny", "Two ways", "interval", True)
    assert [(axis.name, [choice.name for choice in axis.choices]) for axis in sweep.axes] == [
        ("method", ["FedNER", "alone"])
    ]
    assert sweep.seeds == (7, 8)
    assert sweep.figures == (Figure("F1", "sites.*.strict.f1", 100.0, 1),)
    assert sweep.excluded == ({"method": "alone"},)
    assert sweep.published == (Published({"method": "FedNER"}, {"F1": 79.5}),)


def test_seed_defaults_to_that_of_the_base() -> None:
    assert sweep_of(grid={"model.lstm": [4, 8]}).seeds == (7,)


def test_a_setting_may_be_written_without_quotes() -> None:
    quoted, bare = (text_of(grid=grid) for grid in ({"model.lstm": [4, 8]}, {"model": {"lstm": [4, 8]}}))
    assert parse_sweep(quoted) == parse_sweep(bare)
    assert quoted != bare


def test_base_may_be_a_file_with_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "s.toml").write_text(study_text())
    (tmp_path / "sweep.toml").write_text(text_of(sweep={"name": "tiny", "study": "below/s.toml"}, base=None))
    sweep = read_sweep(tmp_path / "sweep.toml")
    assert (sweep.base, sweep.folder) == (TABLE, tmp_path / "below")


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"gird": {}}, r"\[gird\] is not a section of a sweep – did you mean 'grid'\?"),
        ({"sweep": {}}, r"\[sweep\] needs a name"),
        ({"sweep": {"name": "a", "spraed": "range"}}, r"\[sweep\] 'spraed' is not a setting – did you mean 'spread'"),
        ({"sweep": {"name": "a", "spread": "sd"}}, r"\[sweep\] spread is 'sd'; it can be range, interval"),
        ({"sweep": {"name": "a", "study": "s.toml"}}, "a sweep needs one base"),
        ({"base": None}, "a sweep needs one base"),
        ({"report": {}}, r"\[report\] has no figure"),
        ({"report": {"F1": 3}}, r"\[report\] 'F1' must be a path"),
        ({"report": {"F1": {"times": 3}}}, r"\[report.F1\] needs a path"),
        ({"grid": {"study.seed": [1, 1]}}, r"\[grid\] study.seed must be a list of distinct whole numbers"),
        ({"grid": {"study.seed": []}}, r"\[grid\] study.seed must be a list"),
        ({"grid": {"rounds": [1, 2]}}, r"\[grid\] 'rounds' is not a setting of a study such as model.preset"),
        ({"grid": {"model.lstm": 8}}, r"\[grid\] model.lstm must be a list of values or a section of named choices"),
        ({"grid": {"model.lstm": [8, 8]}}, r"\[grid\] model.lstm must have at least one choice, and no choice twice"),
        ({"grid": {"method": {"FedNER": "fedner"}}}, r"\[grid.method\] FedNER must be a table of settings"),
        ({"grid": {"method": {"a": {"unset": "model.lstm"}}}}, r"\[grid.method\] a: unset must be a list"),
        ({"grid": {"sites": [["harbour", "hilside"]]}}, r"the base has no site 'hilside' – did you mean 'hillside'\?"),
        ({"grid": {"sites": ["harbour"]}}, r"\[grid\] sites: sites takes lists of names"),
        ({"exclude": [{}]}, r"\[\[exclude\]\] is empty"),
        ({"exclude": {"method": "alone"}}, r"\[exclude\] must be written as \[\[exclude\]\]"),
        ({"exclude": [{"metod": "alone"}]}, r"'metod' is not varied – did you mean 'method'\?"),
        ({"exclude": [{"method": "pooled"}]}, r"method has no choice 'pooled'; there are FedNER, alone"),
        ({"published": [{"method": "alone"}]}, r"\[\[published\]\] has no figure of \[report\]; there are F1"),
        ({"published": [{"method": "alone", "F1": True}]}, r"\[\[published\]\] 'F1' must be a number or text"),
    ],
)
def test_invalid_file_is_refused(sections: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        sweep_of(**sections)


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="the sweep file is no TOML"):
        parse_sweep("[sweep")
    with pytest.raises(SweepError, match=r"^none.toml cannot be read as text: FileNotFoundError$"):
        read_sweep(tmp_path / "none.toml")


def test_a_choice_of_a_plain_setting_is_named_by_its_value() -> None:
    grid = {**GRID, "model.lstm": [4, 8]}
    sweep = sweep_of(grid=grid, exclude=[{"model.lstm": 8, "method": "alone"}])
    assert sweep.excluded == ({"model.lstm": "8", "method": "alone"},)
