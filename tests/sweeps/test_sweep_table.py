from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.sweeps.test_index import finish
from tests.sweeps.tiny_sweeps import GRID, sweep_of

from wardround.sweeps.index import Index
from wardround.sweeps.plan import plan_runs
from wardround.sweeps.sweep_table import SweepTable


def table_of(folder: Path, f1: Sequence[float], **sections: Any) -> SweepTable:
    """A sweep whose first runs ended so."""
    sweep = sweep_of(**sections)
    index = Index(folder, plan_runs(sweep), sweep.figures)
    for run, score in zip(index.runs, f1, strict=False):
        finish(index, run, score)
        index.add(run)
    return SweepTable(sweep, index)


PUBLISHED = [{"method": "FedNER", "F1": 79.54}, {"method": "alone", "F1": "below it"}]


def test_means_ranges_and_published_figures(tmp_path: Path) -> None:
    # Seed 7 of FedNER and alone, then seed 8 of FedNER.
    table = table_of(tmp_path, [0.5, 0.25, 0.625], published=PUBLISHED).to_table()
    assert table.columns == ("method", "seeds", "F1", "F1, published")
    assert table.rows == (("FedNER", "2 of 2", "56.2 (50.0 – 62.5)", "79.5"), ("alone", "1 of 2", "25.0", "below it"))
    assert table.note == "Means over seeds; in brackets the lowest and the highest seed."


def test_without_published_figures_there_is_no_column_for_them(tmp_path: Path) -> None:
    table = table_of(tmp_path, []).to_table()
    assert table.columns == ("method", "seeds", "F1")
    assert table.rows == (("FedNER", "0 of 2", "–"), ("alone", "0 of 2", "–"))


def test_interval_instead_of_range(tmp_path: Path) -> None:
    table = table_of(tmp_path, [0.5, 0.25, 1.0], sweep={"name": "tiny", "spread": "interval"}).to_table()
    assert table.rows[0][2] == "75.0 (50.0 – 100.0)"
    assert "95% interval" in table.note


def test_selected_figures(tmp_path: Path) -> None:
    report = {"F1": "sites.*.strict.f1", "rounds": {"path": "rounds", "digits": 0}}
    found = table_of(tmp_path, [0.5], report=report)
    assert found.to_table().rows[0] == ("FedNER", "1 of 2", "0.500", "3")
    assert found.to_table("rounds").columns == ("method", "seeds", "rounds")


def test_long_table_has_unrounded_numbers(tmp_path: Path) -> None:
    text = table_of(tmp_path, [0.5, 0.25, 0.75], published=PUBLISHED[:1]).to_long_table().to_csv()
    assert text == (
        "method,figure,mean,low,high,seeds,published\nFedNER,F1,62.5,50.0,75.0,2,79.54\nalone,F1,25.0,25.0,25.0,1,\n"
    )


def test_bars_are_grouped_by_the_last_axis_with_published_ones(tmp_path: Path) -> None:
    plot = table_of(tmp_path, [0.5, 0.25, 0.75], published=PUBLISHED).to_plot()
    assert plot is not None
    (axes,) = plot.figure.axes
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == [62.5, 25.0, 79.54]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["FedNER", "alone"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("method", "F1")


def test_lines_along_numbers(tmp_path: Path) -> None:
    grid = {"model.lstm": [8, 4], "method": GRID["method"]}
    # Rows: 8 FedNER, 8 alone, 4 FedNER, 4 alone.
    plot = table_of(tmp_path, [0.5, 0.25, 0.125, 0.375], grid=grid).to_plot()
    assert plot is not None
    (axes,) = plot.figure.axes
    drawn = {str(line.get_label()): [(float(x), float(y)) for x, y in line.get_xydata()] for line in axes.lines}
    assert drawn == {"FedNER": [(4.0, 12.5), (8.0, 50.0)], "alone": [(4.0, 37.5), (8.0, 25.0)]}
    assert axes.get_xlabel() == "model.lstm"
    assert plot.figure.legends[0].get_title().get_text() == "method"


def test_legend_of_bars_names_its_axis(tmp_path: Path) -> None:
    grid = {"model.preset": ["fedner", "cnn-crf"], "method": GRID["method"]}
    plot = table_of(tmp_path, [0.5, 0.25, 0.125, 0.375], grid=grid).to_plot()
    assert plot is not None
    (legend,) = plot.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["fedner", "cnn-crf"]
    assert legend.get_title().get_text() == "model.preset"


def test_every_value_of_the_axis_has_a_tick(tmp_path: Path) -> None:
    rates = {"training.learning_rate": [0.001, 0.01, 0.03]}
    plot = table_of(tmp_path, [0.5, 0.25, 0.125], grid=rates).to_plot()
    assert plot is not None
    (axes,) = plot.figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.001", "0.01", "0.03"]
    sizes = table_of(tmp_path / "sizes", [0.5, 0.25, 0.125], grid={"model.lstm": [4, 8, 64]}).to_plot()
    assert sizes is not None
    (axes,) = sizes.figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8", "64"]


def test_lines_have_a_band_over_seeds(tmp_path: Path) -> None:
    grid = {"study.seed": [7, 8], "model.lstm": [8, 4]}
    # Seed 7 of 8 and 4, then seed 8 of both.
    plot = table_of(tmp_path, [0.5, 0.25, 0.75, 0.125], grid=grid).to_plot()
    assert plot is not None
    (axes,) = plot.figure.axes
    (band,) = axes.collections
    (outline,) = band.get_paths()
    corners = {(float(x), float(y)) for x, y in outline.vertices}
    assert corners == {(4.0, 12.5), (4.0, 25.0), (8.0, 50.0), (8.0, 75.0)}


def test_one_seed_has_no_band(tmp_path: Path) -> None:
    plot = table_of(tmp_path, [0.5, 0.25], grid={"model.lstm": [8, 4]}).to_plot()
    assert plot is not None and not plot.figure.axes[0].collections


def test_no_plot_without_finished_runs(tmp_path: Path) -> None:
    found = table_of(tmp_path, [])
    assert found.to_plot() is None
    assert [path.name for path in found.write(tmp_path)] == ["table.md", "table.csv"]


def test_written_files(tmp_path: Path) -> None:
    written = table_of(tmp_path, [0.5]).write(tmp_path)
    assert [path.name for path in written] == ["table.md", "table.csv", "plot.svg"]
    assert "| FedNER | 1 of 2 | 50.0 |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
