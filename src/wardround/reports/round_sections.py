"""The sections of a run's page about its rounds: learning curves, and which sites took part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan

from wardround.evaluation.counts import TypedCounts
from wardround.reports.history import History, RoundRecord, Scoring
from wardround.reports.page import Chart, Section
from wardround.reports.plots import Curve, Labels, State, learning_curves, participation_map
from wardround.reports.tables import Row, Table, score_cell
from wardround.text.palette import FAILED, LATE, NOT_ASKED, REFUSED, TOOK_PART

__all__ = ["participation_section", "rounds_section", "site_states"]

_MOST_CURVES = 10  # sites with a curve each; with more, their mean is drawn
_MOST_BANDS = 4  # intervals that can be distinguished in one chart
_MOST_SITE_COLUMNS = 8  # in the table by round
_MOST_ROUND_COLUMNS = 120  # of the participation map; with more rounds, a column is several rounds
_STATES = (
    State("not asked", NOT_ASKED, "·"),
    State("took part", TOOK_PART, ""),
    State("late", LATE, "L"),
    State("failed", FAILED, "F"),
    State("refused", REFUSED, "R"),
)
_STATE_NUMBERS = {state.name: number for number, state in enumerate(_STATES)}
# Figures of algorithms that train a central model from the predictions of the sites.
_PUBLIC_SET_FIGURES = {
    "teacher_accuracy": "teacher correct",
    "student_before": "student correct, before",
    "student_accuracy": "student correct, after",
    "agreement": "student agrees with teacher",
}


def rounds_section(history: History, mode: str) -> Section:
    """Return the learning curves of a study by round, or of training at one site by epoch."""
    if history.epochs:
        rows = tuple(
            (str(e.epoch), None if isnan(e.loss) else e.loss, e.dev_f1, "yes" if e.best else "", e.seconds)
            for e in history.epochs
        )
        table = Table("Epochs", ("epoch", "loss", "development F1", "best so far", "seconds"), rows)
        return Section("Epochs", tables=(table,), charts=tuple(_epoch_charts(history, mode)))
    lines = [f"The run was interrupted and resumed {history.resumed} times."] if history.resumed else []
    lines += [f"Round {number} failed: {reason}." for number, reason in history.failed[:5]]
    charts = (
        *_site_chart(history.scorings, mode),
        *_type_chart(history.scorings, mode),
        *_loss_chart(history.rounds),
        *_budget_chart(history.rounds),
        *_public_set_charts(history.rounds),
    )
    tables = (*_site_table(history.scorings, mode), *_type_table(history.scorings, mode))
    return Section("Rounds", "\n\n".join(lines), tables=tables, charts=charts)


def _site_chart(scorings: Sequence[Scoring], mode: str) -> Iterator[Chart]:
    names = list(dict.fromkeys(name for scoring in scorings for name in scoring.f1))
    if not names:
        return
    series: dict[str, Curve] = {
        name: [(scoring.round, scoring.f1[name]) for scoring in scorings if name in scoring.f1] for name in names
    }
    if len(names) > _MOST_CURVES:
        series = {"mean": [(scoring.round, scoring.mean) for scoring in scorings]}
    bands = {
        name: [(scoring.round, *scoring.intervals[name]) for scoring in scorings if name in scoring.intervals]
        for name in (names if len(names) <= _MOST_BANDS else ())
    }
    plot = learning_curves(series, Labels("Development F1", "round", f"{mode} micro-F1"), bands=bands)
    shaded = "; shaded: 95% bootstrap intervals over notes" if any(bands.values()) else ""
    caption = f"{mode.capitalize()} micro-F1 on each site's development notes{shaded}."
    yield Chart.from_plot(plot, "development-f1", caption, alt=f"{caption} Last: {_last(series)}.")


def _type_chart(scorings: Sequence[Scoring], mode: str) -> Iterator[Chart]:
    pooled, types = _pooled_counts(scorings)
    series: dict[str, Curve] = {
        kind: [(number, counts[kind].f1) for number, counts in pooled.items() if kind in counts] for kind in types
    }
    if len(types) > 1:
        plot = learning_curves(series, Labels("Development F1 by type", "round", f"{mode} F1"))
        caption = "F1 from the added counts of all sites."
        alt = f"F1 by type and round. Last: {_last(series)}."
        yield Chart.from_plot(plot, "development-f1-by-type", caption, alt=alt)


def _loss_chart(rounds: Sequence[RoundRecord]) -> Iterator[Chart]:
    points = [(float(record.number), record.loss) for record in rounds if not isnan(record.loss)]
    if points:
        plot = learning_curves({"loss": points}, Labels("Training loss", "round", "mean per example"))
        caption = "Mean over the sites that answered, weighted by their sizes."
        alt = f"Training loss from {points[0][1]:.3f} in round {points[0][0]:.0f} to {points[-1][1]:.3f} in the last."
        yield Chart.from_plot(plot, "training-loss", caption, alt=alt)


def _budget_chart(rounds: Sequence[RoundRecord]) -> Iterator[Chart]:
    points = [(float(record.number), record.figures["epsilon"]) for record in rounds if "epsilon" in record.figures]
    if points:
        plot = learning_curves({"ε": points}, Labels("Privacy spent", "round", "ε"))
        caption = "ε of everything that left a site so far, at the site that spent most."
        alt = f"ε rises from {points[0][1]:.2f} in round {points[0][0]:.0f} to {points[-1][1]:.2f} in the last."
        yield Chart.from_plot(plot, "privacy-spent", caption, alt=alt)


def _public_set_charts(rounds: Sequence[RoundRecord]) -> Iterator[Chart]:
    """Draw how well the sites' ensemble and the central model do on the public set, one chart per output layer."""
    known = [record for record in rounds if record.figures]
    for head in dict.fromkeys(name.rpartition("/")[0] for record in known for name in record.figures):
        prefix = f"{head}/" if head else ""
        series: dict[str, Curve] = {}
        for name, label in _PUBLIC_SET_FIGURES.items():
            points = [(r.number, r.figures[prefix + name]) for r in known if prefix + name in r.figures]
            if points:
                series[label] = points
        if series:
            title = f"Teacher and student: {head}" if head else "Teacher and student"
            plot = learning_curves(series, Labels(title, "round", "share of the public set"))
            caption = "The teacher is the ensemble of the sites, the student the central model."
            yield Chart.from_plot(plot, title, caption, alt=f"{title} by round. Last: {_last(series)}.")


def _site_table(scorings: Sequence[Scoring], mode: str) -> Iterator[Table]:
    names = list(dict.fromkeys(name for scoring in scorings for name in scoring.f1))
    if not names:
        return
    shown = names if len(names) <= _MOST_SITE_COLUMNS else []
    rows: tuple[Row, ...] = tuple(
        (str(s.round), *(score_cell(s.f1.get(name), s.intervals.get(name)) for name in shown), s.mean) for s in scorings
    )
    note = "In brackets: 95% bootstrap intervals over a site's notes." if any(s.intervals for s in scorings) else ""
    title = f"Development {mode} micro-F1 by round and site"
    yield Table(title, ("round", *shown, "mean of sites"), rows, note=note)


def _type_table(scorings: Sequence[Scoring], mode: str) -> Iterator[Table]:
    pooled, types = _pooled_counts(scorings)
    if types:
        rows: tuple[Row, ...] = tuple(
            (str(number), *(counts[kind].f1 if kind in counts else None for kind in types))
            for number, counts in pooled.items()
        )
        yield Table(f"Development {mode} F1 by round and type, all sites", ("round", *types), rows)


def _pooled_counts(scorings: Sequence[Scoring]) -> tuple[dict[int, TypedCounts], list[str]]:
    """Return the counts of all sites by round, and the types in them."""
    pooled = {scoring.round: scoring.pooled for scoring in scorings if scoring.counts}
    return pooled, list(dict.fromkeys(kind for counts in pooled.values() for kind in counts))


def _epoch_charts(history: History, mode: str) -> Iterator[Chart]:
    f1: dict[str, Curve] = {"F1": [(e.epoch, e.dev_f1) for e in history.epochs]}
    loss: dict[str, Curve] = {"loss": [(e.epoch, e.loss) for e in history.epochs if not isnan(e.loss)]}
    plot = learning_curves(f1, Labels("Development F1", "epoch", f"{mode} micro-F1"))
    caption = f"{mode.capitalize()} micro-F1 on the development notes after each epoch."
    yield Chart.from_plot(plot, "development-f1", caption, alt=f"{caption} Last: {_last(f1)}.")
    if loss["loss"]:
        plot = learning_curves(loss, Labels("Training loss", "epoch", "mean per example"))
        caption = "Mean loss per training example in each epoch."
        yield Chart.from_plot(plot, "training-loss", caption, alt=f"{caption} Last: {_last(loss)}.")


def _last(series: Mapping[str, Curve]) -> str:
    return ", ".join(f"{name} {curve[-1][1]:.3f}" for name, curve in series.items() if curve)


# Which sites took part.


def participation_section(history: History, sites: Sequence[str]) -> Section:
    """Return the map and table of participation; only the absences if the run did not record whom it asked."""
    rounds = history.rounds
    if not any(record.asked for record in rounds):
        text = "This run did not record which sites a round asked. It recorded the sites that did not contribute."
        return Section("Participation", text, tables=(_absence_table(rounds),))
    states = [site_states(record, sites) for record in rounds]
    tables = [_participation_table(states, sites)]
    if any(record.absent for record in rounds):
        tables.append(_absence_table(rounds))
    if any(record.used for record in rounds):
        tables.append(_used_table(rounds, sites))
    if any(record.votes for record in rounds):
        tables.append(_votes_table(rounds))
    return Section("Participation", tables=tuple(tables), charts=(_participation_chart(states, sites),))


def site_states(record: RoundRecord, sites: Sequence[str]) -> dict[str, str]:
    """Return the state of each site in a round; a site that missed any exchange of the round did not take part."""
    absent = {absence.site: absence.kind for absence in record.absent}
    asked = record.asked
    return {site: absent.get(site, "took part" if site in asked else "not asked") for site in sites}


def _participation_chart(states: Sequence[Mapping[str, str]], sites: Sequence[str]) -> Chart:
    def worst(column: Iterable[str]) -> int:
        return max(_STATE_NUMBERS.get(state, _STATE_NUMBERS["failed"]) for state in column)

    width = -(-len(states) // _MOST_ROUND_COLUMNS)
    cells = {
        site: [worst(states_[site] for states_ in states[at : at + width]) for at in range(0, len(states), width)]
        for site in sites
    }
    plot = participation_map(cells, _STATES, Labels("Participation by round", "round", ""), width=width)
    caption = "One row per site, one column per round."
    if width > 1:
        caption = f"One row per site, one column per {width} rounds; a column shows the worst state in these rounds."
    counts = Counter(state for states_ in states for state in states_.values())
    alt = ", ".join(f"{state} {times:,} times" for state, times in counts.items())
    return Chart.from_plot(plot, "participation", caption, alt=f"Sites by round: {alt}.")


def _participation_table(states: Sequence[Mapping[str, str]], sites: Sequence[str]) -> Table:
    rows: list[Row] = []
    for site in sites:
        counts = Counter(states_[site] for states_ in states)
        rows.append((site, len(states) - counts["not asked"], *(counts[state.name] for state in _STATES[1:])))
    columns = ("site", "rounds asked", *(state.name for state in _STATES[1:]))
    title = "Participation of each site"
    return Table(f"{title} in {len(states):,} rounds", columns, tuple(rows), file=title)


def _used_table(rounds: Sequence[RoundRecord], sites: Sequence[str]) -> Table:
    """Return how much of each site's updates a robust rule used; a site far below the others may be malicious."""
    rows: list[Row] = []
    for site in sites:
        shares = [record.used[site] for record in rounds if site in record.used]
        if shares:
            rows.append((site, len(shares), sum(shares) / len(shares), min(shares), max(shares)))
    columns = ("site", "rounds", "mean share used", "lowest", "highest")
    note = (
        "Robust aggregation leaves out, or scales down, updates that are far from the others. A site whose share is "
        "far below the others' may be malicious, or its notes may differ from theirs."
    )
    return Table("Share of each site's updates that was used", columns, tuple(rows), note=note)


def _votes_table(rounds: Sequence[RoundRecord]) -> Table:
    """Return the rounds in which some site found the step harmful."""
    rows: list[Row] = []
    for record in rounds:
        if record.votes.get("harmful") or record.rejected:
            harmful, cast = (int(record.votes.get(name, 0)) for name in ("harmful", "cast"))
            rows.append((str(record.number), harmful, cast, "rejected" if record.rejected else "taken", record.notice))
    taken = sum(not record.rejected for record in rounds)
    note = f"The sites voted on {len(rounds):,} steps, of which {taken:,} were taken."
    columns = ("round", "votes that it is harmful", "votes", "step", "what followed")
    return Table("Steps that sites found harmful", columns, tuple(rows) or (("none", 0, 0, "", ""),), note=note)


def _absence_table(rounds: Sequence[RoundRecord]) -> Table:
    counts = Counter((absence.site, absence.kind, absence.code) for record in rounds for absence in record.absent)
    rows: tuple[Row, ...] = tuple((*absence, times) for absence, times in sorted(counts.items()))
    return Table("Absences", ("site", "absence", "code", "times"), rows or (("none", "", "", 0),))
