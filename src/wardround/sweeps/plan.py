"""Everything a sweep will run, checked before the first of it: cells, seeds, and the study of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wardround.errors import SweepError, WardroundError
from wardround.studies.aggregation_setup import mechanism_of, payload_spec_of
from wardround.studies.assemble import common_task, coordinator_of
from wardround.studies.one_machine import check_notes
from wardround.studies.public_set import public_set
from wardround.studies.study_file import Study, to_toml
from wardround.studies.synthetic_sites import built_in_hospital
from wardround.sweeps.figures import check_path
from wardround.sweeps.grid import Cell, cells_of, key_of, study_of, varied
from wardround.sweeps.sweep_file import Figure, Published, Sweep

__all__ = ["Planned", "check_all", "planned"]


@dataclass(frozen=True)
class Planned:
    """One study of the sweep: a cell with one seed."""

    cell: Cell
    seed: int
    key: str  # the name of its folder; cells that are one and the same study have one
    study: Study = field(repr=False)

    @property
    def name(self) -> str:
        """By which a person knows it."""
        return f"{self.cell.name}, seed {self.seed}"

    @property
    def asked(self) -> str:
        """The study file, with every default."""
        return to_toml(self.study)


def planned(sweep: Sweep) -> list[Planned]:
    """Every cell with the first seed, then with the second: a table of one seed is whole before the next begins."""
    cells = cells_of(sweep.axes, sweep.excluded)
    for published in sweep.published:
        _check_published(published, cells)
    return [_planned(sweep, cell, seed) for seed in sweep.seeds for cell in cells]


def _planned(sweep: Sweep, cell: Cell, seed: int) -> Planned:
    study = study_of(sweep.base, cell, seed, folder=sweep.folder)
    return Planned(cell, seed, key_of(varied(sweep.base, cell, seed)), study)


def _check_published(published: Published, cells: Sequence[Cell]) -> None:
    """A figure of others stands in one row."""
    rows = [cell.name for cell in cells if cell.matches(published.where)]
    if len(rows) != 1:
        where = ", ".join(f"{axis} = {name}" for axis, name in published.where.items()) or "without a choice"
        raise SweepError(f"[[published]] {where}: it must name one cell, not {len(rows)}; name every choice of it")


def check_all(runs: Sequence[Planned], figures: Sequence[Figure]) -> None:
    """Refuse, with the name of the cell, what could not be run or would not be found in its scores.

    Networks are built and thrown away, once a cell: seeds change numbers, not shapes.
    """
    seen = set[str]()
    for run in runs:
        if run.cell.name not in seen:
            seen.add(run.cell.name)
            _check(run, figures)


def _check(run: Planned, figures: Sequence[Figure]) -> None:
    try:
        for figure in figures:
            check_path(run.study, figure.path)
        _check_sites(run.study)
        run.study.privacy.protection.check_installed()
        _build(run.study)
    except WardroundError as error:
        raise SweepError(f"{run.cell.name}: {error}") from None


def _check_sites(study: Study) -> None:
    check_notes(study)
    for section in study.sites.values():
        if section.built_in:
            built_in_hospital(section.built_in, study.study.seed)


def _build(study: Study) -> None:
    task = common_task(study)
    public = public_set(study, task)
    coordinator_of(study, task, public)
    if study.privacy.protection.protects:
        mechanism_of(study, payload_spec_of(study, task, public))
