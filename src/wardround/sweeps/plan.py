"""The plan of a sweep: the study of every cell and seed, all checked before the first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wardround.errors import SweepError, WardroundError
from wardround.studies.aggregation_setup import check_robust, mechanism_of, payload_of
from wardround.studies.assemble import common_task, coordinator_of
from wardround.studies.one_machine import check_notes
from wardround.studies.study_file import Study, to_toml
from wardround.studies.study_notes import built_in_hospital, public_set
from wardround.sweeps.figures import check_path
from wardround.sweeps.grid import Cell, apply_choices, cell_study, grid_cells, run_key
from wardround.sweeps.sweep_file import Figure, Sweep

__all__ = ["PlannedRun", "check_plan", "plan_runs"]


@dataclass(frozen=True)
class PlannedRun:
    """One study of the sweep: a cell with one seed."""

    cell: Cell
    seed: int
    key: str  # the name of its folder; cells with identical studies share one
    study: Study = field(repr=False)

    @property
    def name(self) -> str:
        """Return the name shown to the user."""
        return f"{self.cell.name}, seed {self.seed}"

    @property
    def study_text(self) -> str:
        """Return the study file, with every default written out."""
        return to_toml(self.study)


def plan_runs(sweep: Sweep) -> list[PlannedRun]:
    """Return every cell with the first seed, then with the second, so that one seed is complete before the next."""
    cells = grid_cells(sweep.axes, sweep.excluded)
    for published in sweep.published:
        rows = [cell.name for cell in cells if cell.matches(published.where)]
        if len(rows) != 1:
            where = ", ".join(f"{axis} = {name}" for axis, name in published.where.items()) or "without a choice"
            raise SweepError(f"[[published]] {where}: it must match one cell, not {len(rows)}; name all its choices")
    runs = []
    for seed in sweep.seeds:
        for cell in cells:
            study = cell_study(sweep.base, cell, seed, folder=sweep.folder)
            runs.append(PlannedRun(cell, seed, run_key(apply_choices(sweep.base, cell, seed)), study))
    return runs


def check_plan(runs: Sequence[PlannedRun], figures: Sequence[Figure]) -> None:
    """Raise `SweepError` with the cell's name if a run cannot start or will not have the reported figures.

    Networks are built once per cell and dropped: seeds change numbers, not shapes.
    """
    first_runs = dict[str, PlannedRun]()
    for run in runs:
        first_runs.setdefault(run.cell.name, run)
    for run in first_runs.values():
        try:
            for figure in figures:
                check_path(run.study, figure.path)
            _check_study(run.study)
        except WardroundError as error:
            raise SweepError(f"{run.cell.name}: {error}") from None


def _check_study(study: Study) -> None:
    check_notes(study)
    for section in study.sites.values():
        if section.built_in:
            built_in_hospital(section.built_in, study.study.seed)
    study.privacy.protection.check_installed()
    task = common_task(study)
    public = public_set(study, task)
    coordinator_of(study, task, public)
    payload = payload_of(study, task, public)
    check_robust(study, payload)
    if study.privacy.protection.protects:
        mechanism_of(study, payload)
