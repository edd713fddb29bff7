"""The table of a sweep: a row a cell, each figure over its seeds, what others published beside it; and its picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.evaluation.significance import Interval
from wardround.reports.plots import Band, Curve, Labels, Plot, bar_chart, learning_curves
from wardround.reports.tables import Cell as TableCell
from wardround.reports.tables import Table
from wardround.sweeps.folders import write_whole
from wardround.sweeps.grid import Axis, Cell
from wardround.sweeps.index import Index
from wardround.sweeps.seeds import OverSeeds, over_seeds
from wardround.sweeps.sweep_file import Figure, Sweep

__all__ = ["SweepTable"]

_NOTHING = "–"  # not run yet
_PUBLISHED = "published"
_SAID = {
    "range": "Means over seeds; in brackets the lowest and the highest seed.",
    "interval": "Means over seeds; in brackets a 95% interval from drawing seeds again.",
}


@dataclass(frozen=True)
class SweepTable:
    """What a sweep has found so far."""

    sweep: Sweep
    index: Index

    @property
    def cells(self) -> list[Cell]:
        """The rows, in the order of the grid."""
        return list({run.cell.name: run.cell for run in self.index.runs}.values())

    def found(self, cell: Cell, figure: Figure) -> OverSeeds | None:
        """A figure over the seeds that are finished; None where there is none."""
        runs = [run for run in self.index.runs if run.cell.name == cell.name]
        values = [value for run in runs if (value := self.index.figure(run, figure)) is not None]
        return over_seeds(values, self.sweep.spread) if values else None

    def published(self, cell: Cell, figure: Figure) -> float | str | None:
        """What others have for it."""
        for entry in self.sweep.published:
            if cell.matches(entry.where) and figure.title in entry.figures:
                return entry.figures[figure.title]
        return None

    def to_table(self, *titles: str) -> Table:
        """For a person; with titles, these figures alone."""
        figures = [figure for figure in self.sweep.figures if not titles or figure.title in titles]
        columns = [*self._heads(), "seeds", *(head for figure in figures for head in self._columns(figure))]
        rows = [tuple(self._row(cell, figures)) for cell in self.cells]
        return Table(self.sweep.title, tuple(columns), tuple(rows), note=_SAID[self.sweep.spread])

    def _row(self, cell: Cell, figures: Sequence[Figure]) -> Iterator[TableCell]:
        yield from self._choices(cell)
        yield f"{self._seeds(cell)} of {len(self.sweep.seeds)}"
        for figure in figures:
            yield _text(self.found(cell, figure), figure.digits)
            if self._has_published(figure):
                yield _published_text(self.published(cell, figure), figure.digits)

    def to_long_table(self) -> Table:
        """For a spreadsheet: a row a cell and figure, numbers unrounded."""
        heads = (*self._heads(), "figure", "mean", "low", "high", "seeds", _PUBLISHED)
        rows = [
            (*self._choices(cell), figure.title, *(found or (None, None, None, 0)), self.published(cell, figure))
            for cell in self.cells
            for figure in self.sweep.figures
            for found in [self.found(cell, figure)]
        ]
        return Table(self.sweep.title, heads, tuple(rows))

    def to_plot(self) -> Plot | None:
        """The first figure: lines over an axis of numbers, otherwise bars; None where nothing is finished."""
        if not any(self.found(cell, self.sweep.figures[0]) for cell in self.cells):
            return None
        along = next((axis for axis in self.sweep.axes if axis.numbers and len(axis.choices) > 1), None)
        return self._bars() if along is None else self._lines(along)

    def write(self, folder: Path) -> list[Path]:
        """`table.md`, `table.csv` and the picture."""
        texts = {"table.md": self.to_table().to_markdown(), "table.csv": self.to_long_table().to_csv()}
        plot = self.to_plot()
        if plot is not None:
            texts["plot.svg"] = plot.to_svg() + "\n"
            (folder / "plot.png").write_bytes(plot.to_png())
        for name, text in texts.items():
            write_whole(folder / name, text)
        return [folder / name for name in texts]

    def _heads(self) -> list[str]:
        return [axis.name for axis in self.sweep.axes] or ["study"]

    def _choices(self, cell: Cell) -> list[str]:
        return [cell.choices[axis.name].name for axis in self.sweep.axes] or [cell.name]

    def _columns(self, figure: Figure) -> list[str]:
        return [figure.title, f"{figure.title}, {_PUBLISHED}"] if self._has_published(figure) else [figure.title]

    def _has_published(self, figure: Figure) -> bool:
        return any(figure.title in entry.figures for entry in self.sweep.published)

    def _seeds(self, cell: Cell) -> int:
        return sum(run.cell.name == cell.name and self.index.has(run) for run in self.index.runs)

    def _bars(self) -> Plot:
        """Groups are the last axis, or the only one; what differs otherwise are bars of one group."""
        figure, bars = self.sweep.figures[0], dict[str, dict[str, float | Interval]]()
        for cell in self.cells:
            series, group = _series(self._choices(cell))
            if found := self.found(cell, figure):
                bars.setdefault(series or "measured", {})[group] = Interval(found.mean, found.low, found.high)
            told = self.published(cell, figure)
            if isinstance(told, float):
                bars.setdefault(f"{series}, {_PUBLISHED}" if series else _PUBLISHED, {})[group] = told
        *others, last = self._heads() if self.sweep.axes else [""]
        return bar_chart(bars, Labels(self.sweep.title, last, figure.title, ", ".join(others)))

    def _lines(self, along: Axis) -> Plot:
        figure, lines = self.sweep.figures[0], dict[str, list[tuple[float, float]]]()
        bands = dict[str, list[tuple[float, float, float]]]()
        for cell in self.cells:
            others = [choice.name for axis, choice in cell.choices.items() if axis != along.name]
            series, value = ", ".join(others) or "measured", float(cell.choices[along.name].value)
            if found := self.found(cell, figure):
                lines.setdefault(series, []).append((value, found.mean))
                bands.setdefault(series, []).append((value, found.low, found.high))
            told = self.published(cell, figure)
            if isinstance(told, float):
                lines.setdefault(", ".join([*others, _PUBLISHED]), []).append((value, told))
        others = [axis.name for axis in self.sweep.axes if axis.name != along.name]
        labels = Labels(self.sweep.title, along.name, figure.title, ", ".join(others))
        return learning_curves(_sorted(lines), labels, bands=_with_width(bands), along="choices")


def _series(choices: Sequence[str]) -> tuple[str, str]:
    """By what bars differ, and where they stand."""
    return ", ".join(choices[:-1]), choices[-1]


def _sorted(lines: Mapping[str, list[tuple[float, float]]]) -> dict[str, Curve]:
    return {name: sorted(points) for name, points in lines.items()}


def _with_width(bands: Mapping[str, list[tuple[float, float, float]]]) -> dict[str, Band]:
    """Those in which seeds differ anywhere."""
    return {name: sorted(points) for name, points in bands.items() if any(low < high for _, low, high in points)}


def _text(found: OverSeeds | None, digits: int) -> str:
    if found is None:
        return _NOTHING
    ends = f" ({found.low:,.{digits}f} – {found.high:,.{digits}f})" if found.seeds > 1 else ""
    return f"{found.mean:,.{digits}f}{ends}"


def _published_text(told: float | str | None, digits: int) -> str:
    if told is None:
        return _NOTHING
    return told if isinstance(told, str) else f"{told:,.{digits}f}"
