"""The table of a sweep, one row per cell, with means over seeds and published figures; and its plot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wardround.evaluation.significance import Interval
from wardround.reports.plots import Band, Curve, Labels, Plot, bar_chart, learning_curves
from wardround.reports.tables import Cell as TableCell
from wardround.reports.tables import Table
from wardround.sweeps.figures import SeedSummary, summarise_seeds
from wardround.sweeps.folders import write_atomically
from wardround.sweeps.grid import Axis, Cell
from wardround.sweeps.index import Index
from wardround.sweeps.sweep_file import Figure, Sweep

__all__ = ["SweepTable"]

_MISSING = "–"  # not run yet
_PUBLISHED = "published"
_NOTES = {
    "range": "Means over seeds; in brackets the lowest and the highest seed.",
    "interval": "Means over seeds; in brackets a 95% interval from resampling the seeds.",
}


@dataclass(frozen=True)
class SweepTable:
    """The results of a sweep so far."""

    sweep: Sweep
    index: Index

    @property
    def cells(self) -> list[Cell]:
        """Return the rows, in the order of the grid."""
        return list({run.cell.name: run.cell for run in self.index.runs}.values())

    def measured(self, cell: Cell, figure: Figure) -> SeedSummary | None:
        """Return a figure over the finished seeds, or None if there are none."""
        runs = [run for run in self.index.runs if run.cell.name == cell.name]
        values = [value for run in runs if (value := self.index.figure(run, figure)) is not None]
        return summarise_seeds(values, self.sweep.spread) if values else None

    def published(self, cell: Cell, figure: Figure) -> float | str | None:
        """Return the published figure of the cell, or None."""
        for entry in self.sweep.published:
            if cell.matches(entry.where) and figure.title in entry.figures:
                return entry.figures[figure.title]
        return None

    def to_table(self, *titles: str) -> Table:
        """Return the table to read; with titles, only these figures."""
        figures = [figure for figure in self.sweep.figures if not titles or figure.title in titles]
        titled = {title for entry in self.sweep.published for title in entry.figures}
        columns = [*self._heads(), "seeds"]
        for figure in figures:
            columns += [figure.title, f"{figure.title}, {_PUBLISHED}"] if figure.title in titled else [figure.title]
        rows: list[tuple[TableCell, ...]] = []
        for cell in self.cells:
            finished = sum(run.cell.name == cell.name and self.index.has(run) for run in self.index.runs)
            row = [*self._choices(cell), f"{finished} of {len(self.sweep.seeds)}"]
            for figure in figures:
                row.append(_text(self.measured(cell, figure), figure.digits))
                if figure.title in titled:
                    published = self.published(cell, figure)
                    text = f"{published:,.{figure.digits}f}" if isinstance(published, int | float) else published
                    row.append(_MISSING if text is None else text)
            rows.append(tuple(row))
        return Table(self.sweep.title, tuple(columns), tuple(rows), note=_NOTES[self.sweep.spread])

    def to_long_table(self) -> Table:
        """Return the table for a spreadsheet: one row per cell and figure, numbers unrounded."""
        heads = (*self._heads(), "figure", "mean", "low", "high", "seeds", _PUBLISHED)
        rows = [
            (*self._choices(cell), figure.title, *(found or (None, None, None, 0)), self.published(cell, figure))
            for cell in self.cells
            for figure in self.sweep.figures
            for found in [self.measured(cell, figure)]
        ]
        return Table(self.sweep.title, heads, tuple(rows))

    def to_plot(self) -> Plot | None:
        """Plot the first figure, as lines along the first axis of numbers, otherwise as bars; None without results."""
        if not any(self.measured(cell, self.sweep.figures[0]) for cell in self.cells):
            return None
        along = next((axis for axis in self.sweep.axes if axis.numbers and len(axis.choices) > 1), None)
        return self._bars() if along is None else self._lines(along)

    def write(self, folder: Path) -> list[Path]:
        """Write `table.md`, `table.csv` and the plot; return their paths."""
        texts = {"table.md": self.to_table().to_markdown(), "table.csv": self.to_long_table().to_csv()}
        plot = self.to_plot()
        if plot is not None:
            texts["plot.svg"] = plot.to_svg() + "\n"
            (folder / "plot.png").write_bytes(plot.to_png())
        for name, text in texts.items():
            write_atomically(folder / name, text)
        return [folder / name for name in texts]

    def _heads(self) -> list[str]:
        return [axis.name for axis in self.sweep.axes] or ["study"]

    def _choices(self, cell: Cell) -> list[str]:
        return [cell.choices[axis.name].name for axis in self.sweep.axes] or [cell.name]

    def _bars(self) -> Plot:
        """Group the bars by the last axis; the other axes are the bars of each group."""
        figure, bars = self.sweep.figures[0], dict[str, dict[str, float | Interval]]()
        for cell in self.cells:
            *series_names, group = self._choices(cell)
            series = ", ".join(series_names)
            if found := self.measured(cell, figure):
                bars.setdefault(series or "measured", {})[group] = Interval(found.mean, found.low, found.high)
            published = self.published(cell, figure)
            if isinstance(published, float):
                bars.setdefault(f"{series}, {_PUBLISHED}" if series else _PUBLISHED, {})[group] = published
        *others, last = self._heads() if self.sweep.axes else [""]
        return bar_chart(bars, Labels(self.sweep.title, last, figure.title, ", ".join(others)))

    def _lines(self, along: Axis) -> Plot:
        figure, lines = self.sweep.figures[0], dict[str, list[tuple[float, float]]]()
        bands = dict[str, list[tuple[float, float, float]]]()
        for cell in self.cells:
            others = [choice.name for axis, choice in cell.choices.items() if axis != along.name]
            series, value = ", ".join(others) or "measured", float(cell.choices[along.name].value)
            if found := self.measured(cell, figure):
                lines.setdefault(series, []).append((value, found.mean))
                bands.setdefault(series, []).append((value, found.low, found.high))
            published = self.published(cell, figure)
            if isinstance(published, float):
                lines.setdefault(", ".join([*others, _PUBLISHED]), []).append((value, published))
        others = [axis.name for axis in self.sweep.axes if axis.name != along.name]
        labels = Labels(self.sweep.title, along.name, figure.title, ", ".join(others))
        curves: dict[str, Curve] = {name: sorted(points) for name, points in lines.items()}
        wide: dict[str, Band] = {  # without those where no seeds differ
            name: sorted(points) for name, points in bands.items() if any(low < high for _, low, high in points)
        }
        return learning_curves(curves, labels, bands=wide, x_kind="choices")


def _text(found: SeedSummary | None, digits: int) -> str:
    if found is None:
        return _MISSING
    ends = f" ({found.low:,.{digits}f} – {found.high:,.{digits}f})" if found.seeds > 1 else ""
    return f"{found.mean:,.{digits}f}{ends}"
