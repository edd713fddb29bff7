"""How scores came about: learning curves and the figures behind them, by round, site and type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan

from wardround.reports.history import History, RoundRecord, Scoring
from wardround.reports.page import Drawing, Section
from wardround.reports.plots import Curve, Labels, learning_curves
from wardround.reports.tables import Row, Table, score_cell

__all__ = ["rounds_section"]

_MOST_CURVES = 10  # sites drawn one by one; of more, their mean
_MOST_BANDS = 4  # intervals that can be told apart in one chart
_MOST_ACROSS = 8  # sites in the table by round


def rounds_section(history: History, reading: str) -> Section:
    """Of a study by round, of a training at one site by epoch."""
    if history.epochs:
        return Section("Epochs", tables=(_epoch_table(history),), drawings=tuple(_epoch_curves(history, reading)))
    drawings = (
        *_site_curves(history.scorings, reading),
        *_type_curves(history.scorings, reading),
        *_loss_curve(history.rounds),
        *_teaching(history.rounds),
    )
    tables = (*_site_table(history.scorings, reading), *_type_table(history.scorings, reading))
    return Section("Rounds", _failures(history), tables=tables, drawings=drawings)


def _failures(history: History) -> str:
    said = [f"The run was interrupted and went on {history.resumed} times."] if history.resumed else []
    said += [f"Round {number} was tried in vain: {reason}." for number, reason in history.failed[:5]]
    return "\n\n".join(said)


def _site_curves(scorings: Sequence[Scoring], reading: str) -> Iterable[Drawing]:
    names = list(dict.fromkeys(name for scoring in scorings for name in scoring.f1))
    series: dict[str, Curve] = {
        name: [(scoring.round, scoring.f1[name]) for scoring in scorings if name in scoring.f1] for name in names
    }
    if not names:
        return
    if len(names) > _MOST_CURVES:
        series = {"mean": [(scoring.round, scoring.mean) for scoring in scorings]}
    bands = {
        name: [(scoring.round, *scoring.intervals[name]) for scoring in scorings if name in scoring.intervals]
        for name in (names if len(names) <= _MOST_BANDS else ())
    }
    plot = learning_curves(series, Labels("Development F1", "round", f"{reading} micro-F1"), bands=bands)
    shaded = "; shaded are 95% bootstrap intervals over notes" if any(bands.values()) else ""
    caption = f"{reading.capitalize()} micro-F1 on each site's development notes{shaded}."
    yield Drawing.of(plot, "development-f1", caption, told=f"{caption} Last: {_last(series)}.")


def _type_curves(scorings: Sequence[Scoring], reading: str) -> Iterable[Drawing]:
    pooled = {scoring.round: scoring.pooled for scoring in scorings if scoring.counts}
    types = list(dict.fromkeys(kind for counts in pooled.values() for kind in counts))
    series: dict[str, Curve] = {
        kind: [(number, counts[kind].f1) for number, counts in pooled.items() if kind in counts] for kind in types
    }
    if len(types) > 1:
        plot = learning_curves(series, Labels("Development F1 by type", "round", f"{reading} F1"))
        caption = "Right, wrong and missed of all sites are added, then divided."
        yield Drawing.of(plot, "development-f1-by-type", caption, told=f"F1 by type and round. Last: {_last(series)}.")


def _loss_curve(rounds: Sequence[RoundRecord]) -> Iterable[Drawing]:
    points = [(float(record.number), record.loss) for record in rounds if _known(record.loss) is not None]
    if points:
        plot = learning_curves({"loss": points}, Labels("Training loss", "round", "mean an example"))
        caption = "Mean over the sites that answered, weighted by their sizes."
        told = f"Training loss from {points[0][1]:.3f} in round {points[0][0]:.0f} to {points[-1][1]:.3f} in the last."
        yield Drawing.of(plot, "training-loss", caption, told=told)


_SHARES = {
    "teacher_accuracy": "teacher right",
    "student_before": "student right before",
    "student_accuracy": "student right after",
    "agreement": "student as teacher",
}


def _teaching(rounds: Sequence[RoundRecord]) -> Iterable[Drawing]:
    """How well the ensemble and the central model that learns from it know the public set, head by head."""
    told = [record for record in rounds if record.figures]
    for head in dict.fromkeys(name.rpartition("/")[0] for record in told for name in record.figures):
        known = _shares(told, f"{head}/" if head else "")
        if known:
            title = f"Teacher and student: {head}" if head else "Teacher and student"
            plot = learning_curves(known, Labels(title, "round", "share of the public set"))
            caption = "The ensemble of the sites; the central model before and after each round."
            yield Drawing.of(plot, title, caption, told=f"{title} by round. Last: {_last(known)}.")


def _shares(told: Sequence[RoundRecord], prefix: str) -> dict[str, Curve]:
    series: dict[str, Curve] = {
        label: [(r.number, r.figures[prefix + name]) for r in told if prefix + name in r.figures]
        for name, label in _SHARES.items()
    }
    return {label: points for label, points in series.items() if points}


def _site_table(scorings: Sequence[Scoring], reading: str) -> Iterable[Table]:
    names = list(dict.fromkeys(name for scoring in scorings for name in scoring.f1))
    if not names:
        return
    shown = names if len(names) <= _MOST_ACROSS else []
    rows: tuple[Row, ...] = tuple(
        (str(s.round), *(score_cell(s.f1.get(name), s.intervals.get(name)) for name in shown), s.mean) for s in scorings
    )
    note = "In brackets 95% bootstrap intervals over a site's notes." if any(s.intervals for s in scorings) else ""
    title = f"Development {reading} micro-F1 by round and site"
    yield Table(title, ("round", *shown, "mean of sites"), rows, note=note)


def _type_table(scorings: Sequence[Scoring], reading: str) -> Iterable[Table]:
    pooled = {scoring.round: scoring.pooled for scoring in scorings if scoring.counts}
    types = list(dict.fromkeys(kind for counts in pooled.values() for kind in counts))
    if types:
        rows: tuple[Row, ...] = tuple(
            (str(number), *(counts[kind].f1 if kind in counts else None for kind in types))
            for number, counts in pooled.items()
        )
        yield Table(f"Development {reading} F1 by round and type, all sites", ("round", *types), rows)


def _epoch_table(history: History) -> Table:
    rows = tuple((str(e.epoch), _known(e.loss), e.dev_f1, "yes" if e.best else "", e.seconds) for e in history.epochs)
    return Table("Epochs", ("epoch", "loss", "development F1", "best so far", "seconds"), rows)


def _epoch_curves(history: History, reading: str) -> Iterable[Drawing]:
    f1: dict[str, Curve] = {"F1": [(e.epoch, e.dev_f1) for e in history.epochs]}
    loss: dict[str, Curve] = {"loss": [(e.epoch, e.loss) for e in history.epochs if _known(e.loss) is not None]}
    curve = learning_curves(f1, Labels("Development F1", "epoch", f"{reading} micro-F1"))
    caption = f"{reading.capitalize()} micro-F1 on the development notes after each epoch."
    yield Drawing.of(curve, "development-f1", caption, told=f"{caption} Last: {_last(f1)}.")
    if loss["loss"]:
        descent = learning_curves(loss, Labels("Training loss", "epoch", "mean an example"))
        caption = "Mean loss of a training example in each epoch."
        yield Drawing.of(descent, "training-loss", caption, told=f"{caption} Last: {_last(loss)}.")


def _known(loss: float) -> float | None:
    return None if isnan(loss) else loss


def _last(series: Mapping[str, Curve]) -> str:
    return ", ".join(f"{name} {curve[-1][1]:.3f}" for name, curve in series.items() if curve)
