"""One study as a table and a page: scores by site, how they came about, what passed between sites and coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from wardround.evaluation.bootstrap import Interval
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.tag_sets import TagSetScores
from wardround.reports.page import Drawing, Section, write_page
from wardround.reports.plots import Labels, bar_chart, learning_curves
from wardround.reports.score_tables import interval_text, score_tables, tag_set_table
from wardround.reports.sizes import size_text
from wardround.reports.tables import Row, Table

__all__ = ["ScoredSite", "study_table", "study_tables", "write_study_page"]

_MOST_CURVES = 10  # sites drawn one by one; of more, their mean


class ScoredSite(Protocol):
    """A site's scores."""

    @property
    def counts(self) -> Mapping[str, TypedCounts]:
        """By reading of the task, the main one first, and by type."""

    @property
    def documents(self) -> int:
        """How many were scored."""

    @property
    def interval(self) -> Interval:
        """Of the micro-F1 under the main reading."""

    @property
    def tag_set(self) -> TagSetScores | None:
        """The main reading, with the types that the site annotates told from the others; None where it names none."""


def study_tables(sites: Mapping[str, ScoredSite]) -> tuple[Table, ...]:
    """A row a site, and, where sites annotate different types, each type at each site."""
    found = {name: site.tag_set for name, site in sites.items()}
    named = {name: tag_set for name, tag_set in found.items() if tag_set is not None}
    sets = {frozenset(types) for tag_set in named.values() for types in (tag_set.annotated, tag_set.scored)}
    if len(named) < len(sites) or len(sets) < 2:
        return (study_table(sites),)
    reading = next(iter(next(iter(sites.values())).counts))
    return study_table(sites), tag_set_table(named, title=f"{reading.capitalize()} F1 by type and site")


def study_table(sites: Mapping[str, ScoredSite], *, title: str = "Scores on each site's test notes") -> Table:
    """A row a site."""
    main, *others = next(iter(sites.values())).counts
    figures = {name: _figures(site.counts) for name, site in sites.items()}
    mean = [sum(values) / len(sites) for values in zip(*figures.values(), strict=True)]
    rows: tuple[Row, ...] = tuple(
        (
            name,
            site.documents,
            *figures[name][:3],
            f"{site.interval.low:.3f}–{site.interval.high:.3f}",
            *figures[name][3:],
        )
        for name, site in sites.items()
    )
    return Table(
        title,
        ("site", "notes", "P", "R", f"{main} F1", "95% interval", *(f"{reading} F1" for reading in others)),
        rows,
        totals=(("mean", sum(site.documents for site in sites.values()), *mean[:3], "", *mean[3:]),),
    )


def _figures(counts: Mapping[str, TypedCounts]) -> list[float]:
    """P, R and F1 under the main reading, then the F1 under each of the others."""
    main, *others = (typed.micro for typed in counts.values())
    return [main.precision, main.recall, main.f1, *(counted.f1 for counted in others)]


def write_study_page(
    path: Path,
    title: str,
    *,
    sites: Mapping[str, ScoredSite],
    events: Iterable[Mapping[str, Any]],
    study: str,
) -> None:
    """One self-contained page; `events` are the run folder's, `study` is the text of its study file."""
    record = list(events)
    rounds = _last_of_each([event for event in record if event["event"] == "round"])
    scored = _last_of_each([event for event in record if event["event"] == "scored"])
    reading = next(iter(next(iter(sites.values())).counts))
    bars = bar_chart(
        {f"{reading} F1": {name: site.interval for name, site in sites.items()}},
        Labels(f"{reading.capitalize()} F1", "", f"{reading} micro-F1"),
    )
    first = Section(
        "Scores",
        tables=study_tables(sites),
        drawings=(Drawing(bars.to_svg(), "Whiskers are 95% bootstrap intervals over each site's notes."),),
    )
    write_page(
        path,
        title,
        [
            first,
            Section("Rounds", drawings=(*_curves(rounds, scored, reading), *_teaching(rounds))),
            Section("What passed the door", tables=(_traffic(rounds), *_clipped(rounds), _absences(rounds))),
            *(_site_section(name, site) for name, site in sites.items()),
            Section("The study file", tables=(_file(study),)),
        ],
    )


def _last_of_each(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of a round that was done again after a crash, the one that counts."""
    return list({event["round"]: event for event in events}.values())


def _curves(
    rounds: Sequence[Mapping[str, Any]], scored: Sequence[Mapping[str, Any]], reading: str
) -> Iterable[Drawing]:
    names = list(dict.fromkeys(name for event in scored for name in event["f1"]))
    if len(names) > _MOST_CURVES:
        series = {"mean": [(event["round"], event["mean_f1"]) for event in scored]}
    else:
        series = {name: [(e["round"], e["f1"][name]) for e in scored if name in e["f1"]] for name in names}
    if series:
        curve = learning_curves(series, Labels("Development F1", "round", f"{reading} micro-F1"))
        yield Drawing(curve.to_svg(), f"{reading.capitalize()} micro-F1 on each site's development notes.")
    if rounds:
        loss = learning_curves(
            {"loss": [(event["round"], event["loss"]) for event in rounds]},
            Labels("Training loss", "round", "mean an example"),
        )
        yield Drawing(loss.to_svg(), "Mean over the sites that answered, weighted by their sizes.")


_SHARES = {
    "teacher_accuracy": "teacher right",
    "student_before": "student right before",
    "student_accuracy": "student right after",
    "agreement": "student as teacher",
}


def _teaching(rounds: Sequence[Mapping[str, Any]]) -> Iterable[Drawing]:
    """How well the ensemble and the central model that learns from it know the public set, head by head."""
    told = [event for event in rounds if event.get("figures")]
    heads = dict.fromkeys(name.rpartition("/")[0] for event in told for name in event["figures"])
    for head in heads:
        prefix = f"{head}/" if head else ""
        series = {
            label: [(e["round"], e["figures"][prefix + name]) for e in told if prefix + name in e["figures"]]
            for name, label in _SHARES.items()
        }
        known = {label: points for label, points in series.items() if points}
        if known:
            title = f"Teacher and student: {head}" if head else "Teacher and student"
            curve = learning_curves(known, Labels(title, "round", "share of the public set"))
            yield Drawing(curve.to_svg(), "The ensemble of the sites; the central model before and after each round.")


def _traffic(rounds: Sequence[Mapping[str, Any]]) -> Table:
    up, down = (sum(event[name] for event in rounds) for name in ("up", "down"))
    count = max(1, len(rounds))
    return Table(
        "Bytes of the rounds",
        ("way", "all rounds", "a round"),
        (
            ("up, from the sites", size_text(up), size_text(up // count)),
            ("down, to the sites", size_text(down), size_text(down // count)),
        ),
    )


def _clipped(rounds: Sequence[Mapping[str, Any]]) -> Iterable[Table]:
    """Where updates were clipped to be protected: how many of their numbers lay outside."""
    counted = [event["clipped"] for event in rounds if "clipped" in event]
    if counted:
        some = sum(1 for count in counted if count)
        row = (sum(counted), some, len(counted), max(counted))
        yield Table("Numbers of updates that were clipped", ("all", "rounds with some", "of rounds", "most"), (row,))


def _absences(rounds: Sequence[Mapping[str, Any]]) -> Table:
    counted: dict[tuple[str, str, str], int] = {}
    for event in rounds:
        for site, absence, code in event["absent"]:
            counted[site, absence, code] = counted.get((site, absence, code), 0) + 1
    rows = tuple((*gone, times) for gone, times in sorted(counted.items()))
    return Table("Absences", ("site", "absence", "code", "rounds"), rows or (("none", "", "", 0),))


def _site_section(name: str, site: ScoredSite) -> Section:
    reading = next(iter(site.counts))
    prose = f"{reading.capitalize()} micro-F1 {interval_text(site.interval)} on {site.documents:,} notes."
    return Section(name.capitalize(), prose, tables=score_tables(site.counts, title="By type"))


def _file(study: str) -> Table:
    return Table("As it ran, with every default", ("line",), tuple((line,) for line in study.splitlines() if line))
