"""Curves by round, rounds to the target, and what the teacher knew: tables and plots."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from papers.common.page import NOTHING, table
from papers.feded import published
from papers.feded.make_sites import SITES
from papers.feded.measured import Measured, Ratio, ratio_of
from papers.feded.variations import CORPORA, FEDED, FEDERATED, FRACTIONS, RACED_ON, RACERS, WORK

from wardround.reports.plots import Curve, Labels, Plot, learning_curves

TITLES = {
    **{"gad": "GAD", "euadr": "EU-ADR", "biored": "BioRED"},
    **{"fedavg": "FedAvg", "fedatt": "FedAtt", "public": "Public set alone"},
    **{"feded": "FedED", "feded-3": "FedED-3", "feded-5": "FedED-5"},
    **{"central": "Central", "single": "A site alone"},
}
DISTILLED = RACERS[-1]  # the FedED whose rounds are counted by C, B and E
BASE = 0.1  # C, where it is not varied
_MORE = [fraction for fraction in FRACTIONS if fraction != BASE]
_DRAWN = (*FEDED, "fedavg", "fedatt", "public")
_FIGURES = {
    "teacher_accuracy": "teacher, accuracy",
    "student_before": "student before, accuracy",
    "student_accuracy": "student after, accuracy",
    "agreement": "teacher and student agree",
    "teacher_f1": "teacher, F1",
    "student_f1": "student after, F1",
}
_PLOTTED = {
    "teacher_accuracy": "teacher",
    "student_before": "student before",
    "student_accuracy": "student after",
    "agreement": "both agree",
}
_SHOWN_ROUNDS = (1, 2, 3, 5, 8, 12, 16, 20, 30, 40)


@dataclass(frozen=True)
class Rounds:
    """Rounds to the target of one cell: none where it was not measured."""

    by_seed: Mapping[int, float]  # infinite where the target was not reached
    cut_off: int | None = None  # after so many rounds, without an answer

    @property
    def values(self) -> list[float]:
        """In the order of the seeds."""
        return [rounds for _, rounds in sorted(self.by_seed.items())]

    def of(self, seeds: Collection[int]) -> Rounds:
        """Of some seeds alone."""
        return Rounds({seed: rounds for seed, rounds in self.by_seed.items() if seed in seeds}, self.cut_off)

    def __str__(self) -> str:
        if not self.values:
            return NOTHING if self.cut_off is None else f"cut off after {self.cut_off}"
        middle = _number(median(self.values))
        ends = f" [{_number(min(self.values))}, {_number(max(self.values))}]" if len(self.values) > 1 else ""
        return f"{middle}{ends}"


def _number(rounds: float) -> str:
    return "not reached" if rounds == inf else f"{rounds:g}"


# Rounds to the target.


def base_rounds(measured: Measured, method: str) -> Rounds:
    """With the paper's C, B and E: from the curves of Table 3, and of seeds without one from a race."""
    raced = race(measured, f"race-{method}-c{BASE}")
    return Rounds({**raced.by_seed, **measured.rounds_to_target(f"{RACED_ON}-{method}")}, raced.cut_off)


def race(measured: Measured, study: str) -> Rounds:
    """Of a study that ends at the target."""
    return Rounds(measured.race(study), measured.cut_off(study))


def base_pair(measured: Measured, method: str) -> tuple[Rounds, Rounds]:
    """A FedED's rounds and FedAvg's on the same draws, with the paper's C, B and E."""
    ours, theirs = (base_rounds(measured, name) for name in (method, "fedavg"))
    both = ours.by_seed.keys() & theirs.by_seed.keys() if measured.target else set()
    return ours.of(both), theirs.of(both)


def base_ratio(measured: Measured, method: str) -> Ratio | None:
    """The one over the other."""
    return _ratio(measured, *base_pair(measured, method))


def _ratio(measured: Measured, ours: Rounds, theirs: Rounds) -> Ratio | None:
    known = ours.values and theirs.values
    return ratio_of(ours.values, theirs.values, limit=measured.limit) if known else None


def rounds_table(measured: Measured) -> str:
    """By seed, and in the median."""
    rows = []
    for method in (*FEDERATED, "public"):
        found = base_rounds(measured, method)
        if measured.target and found.values:
            ratio = base_ratio(measured, method) if method in FEDED else None
            by_seed = ", ".join(f"{seed}: {_number(rounds)}" for seed, rounds in sorted(found.by_seed.items()))
            rows.append([TITLES[method], str(found), by_seed, str(ratio or NOTHING)])
    head = ["method", "rounds, median [min, max]", "by seed", "over FedAvg's, on the same draws"]
    return f"{table(head, rows)}\n\nThe target is an F1 of {100 * measured.target:.1f}." if rows else ""


def figure2(measured: Measured) -> str:
    """Rounds against C."""
    rows = [_row(measured, [f"{fraction:g}"], cells) for fraction, cells in _parallel(measured).items()]
    raced = any(measured.has(f"race-{method}-c{fraction}") for method in RACERS for fraction in _MORE)
    return table(["C", *(TITLES[method] for method in RACERS), "FedED / FedAvg"], rows) if raced else ""


def _parallel(measured: Measured) -> dict[float, dict[str, Rounds]]:
    """By C and method."""
    races = {f: {method: race(measured, f"race-{method}-c{f}") for method in RACERS} for f in _MORE}
    return {BASE: {method: of_raced_seeds(measured, method) for method in RACERS}, **races}


def of_raced_seeds(measured: Measured, method: str) -> Rounds:
    """With the paper's C, B and E, on the draws on which others were raced too."""
    races = [found for name, found in measured.studies.items() if name.startswith("race-") and f"-c{BASE}" not in name]
    return base_rounds(measured, method).of({seed for found in races for seed in found["seed"]})


def table8(measured: Measured) -> str:
    """Rounds against B and E, beside the paper's on i2b2."""
    if not any(measured.has(f"race-{method}-b{size}-e{epochs}") for method in RACERS for epochs, size in WORK):
        return ""
    rows = []
    for epochs, size in WORK:
        cells = {method: race(measured, f"race-{method}-b{size}-e{epochs}") for method in RACERS}
        rows.append([*_row(measured, [str(size), str(epochs)], cells), *_published_rounds(size, epochs)])
    base = {method: of_raced_seeds(measured, method) for method in RACERS}
    rows.append([*_row(measured, ["4", "2"], base), *[NOTHING] * 4])
    theirs = [f"published, {name}" for name in ("FedAvg", "FedAtt", "FedED", "FedED / FedAvg")]
    return table(["B", "E", *(TITLES[method] for method in RACERS), "FedED / FedAvg", *theirs], rows)


def _row(measured: Measured, head: Sequence[str], cells: dict[str, Rounds]) -> list[str]:
    ratio = _ratio(measured, cells[DISTILLED], cells["fedavg"])
    return [*head, *(str(cells[method]) for method in RACERS), str(ratio or NOTHING)]


def _published_rounds(size: int, epochs: int) -> list[str]:
    found = published.ROUNDS[size, epochs]
    ours, theirs = found["feded"], found["fedavg"]
    cells = [_number(inf if rounds is None else rounds) for rounds in found.values()]
    return [*cells, NOTHING if ours is None or theirs is None else f"{ours / theirs:.2f}"]


# What the teacher knew.


def teacher_tables(measured: Measured) -> str:
    """Of every FedED that was measured, with its picture."""
    parts = []
    for method in FEDED:
        if measured.figure_names(f"{RACED_ON}-{method}"):
            parts += [f"{TITLES[method]}:", teacher_table(measured, method), pictures(f"teacher-{method}")]
    return "\n\n".join(parts)


def teacher_table(measured: Measured, method: str) -> str:
    """The figures of some rounds, and the F1 of the central model on the test part after them."""
    study = f"{RACED_ON}-{method}"
    by_figure = {name: dict(measured.figure(study, name)) for name in _FIGURES}
    tested = dict(measured.curve(study))
    last = max(tested)
    rounds = [number for number in (*(n for n in _SHOWN_ROUNDS if n < last), last) if number in tested]
    rows = [
        [str(number), *(_percent(found.get(number)) for found in by_figure.values()), _percent(tested[number])]
        for number in rounds
    ]
    return table(["round", *_FIGURES.values(), "test part, F1"], rows)


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f}"


# Plots.


def pictures(*names: str) -> str:
    """Markdown of plots beside the page."""
    return "\n".join(f"![{name}]({name}.svg)" for name in names)


def plots(measured: Measured) -> dict[str, Plot]:
    """Those for which there are runs."""
    return {**curve_plots(measured), **teacher_plots(measured), **race_plot(measured)}


def curve_plots(measured: Measured) -> dict[str, Plot]:
    """F1 on the test part by round, a picture a corpus."""
    found = {}
    for corpus in CORPORA:
        series: dict[str, Curve] = {
            TITLES[method]: curve
            for method in _DRAWN
            if measured.has(study := f"{corpus}-{method}") and (curve := measured.curve(study))
        }
        if series and corpus == RACED_ON and measured.target:
            series["target"] = [(number, measured.target) for number, _ in max(series.values(), key=len)]
        if series:
            found[f"curves-{corpus}"] = learning_curves(series, Labels(f"{TITLES[corpus]}, test part", "round", "F1"))
    return found


def teacher_plots(measured: Measured) -> dict[str, Plot]:
    """What the ensemble and the central model knew of the public set, by round."""
    found = {}
    for method in FEDED:
        if measured.figure_names(study := f"{RACED_ON}-{method}"):
            series: dict[str, Curve] = {title: measured.figure(study, name) for name, title in _PLOTTED.items()}
            labels = Labels(f"{TITLES[method]}: the public set of {TITLES[RACED_ON]}", "round", "right, or alike")
            found[f"teacher-{method}"] = learning_curves({n: curve for n, curve in series.items() if curve}, labels)
    return found


def race_plot(measured: Measured) -> dict[str, Plot]:
    """Figure 2; a point that was not reached or not measured is left out."""
    if not figure2(measured):
        return {}
    cells = _parallel(measured)
    series: dict[str, Curve] = {
        TITLES[method]: [
            (round(fraction * SITES[RACED_ON]), median(found.values))
            for fraction, by_method in cells.items()
            if (found := by_method[method]).values and median(found.values) < inf
        ]
        for method in RACERS
    }
    labels = Labels(
        f"Rounds to an F1 of {100 * measured.target:.1f} on {TITLES[RACED_ON]}", "sites asked in a round", "rounds"
    )
    return {"figure2": learning_curves({name: curve for name, curve in series.items() if curve}, labels)}
