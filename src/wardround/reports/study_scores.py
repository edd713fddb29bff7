"""The scores of a study: a row a site, and each site by type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from wardround.evaluation.counts import TagSetScores, TypedCounts
from wardround.evaluation.leakage import LeakageScore
from wardround.evaluation.significance import Interval
from wardround.reports.leakage_tables import site_leakage_tables
from wardround.reports.score_tables import tag_set_table
from wardround.reports.tables import Figures, Row, Table, interval_cell

__all__ = ["ScoredSite", "study_table", "study_tables", "type_table"]


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
    def type_intervals(self) -> Mapping[str, Interval]:
        """Of the F1 of types under the main reading, as far as they are known."""

    @property
    def tag_set(self) -> TagSetScores | None:
        """The main reading, with the types that the site annotates told from the others; None where it names none."""

    @property
    def leakage(self) -> LeakageScore | None:
        """What would stay readable of what identifies people; None where nobody looks for that."""


def study_tables(sites: Mapping[str, ScoredSite]) -> tuple[Table, ...]:
    """A row a site; where sites annotate different types, each type at each site; what leaks, where that is counted."""
    leaking = {name: site.leakage for name, site in sites.items() if site.leakage is not None}
    return (*_scored_tables(sites), *site_leakage_tables(leaking))


def _scored_tables(sites: Mapping[str, ScoredSite]) -> tuple[Table, ...]:
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
            _ends(site.interval),
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


def type_table(site: ScoredSite) -> Table:
    """A site's scores by type, micro and macro."""
    main, *others = site.counts.items()
    reading, typed = main
    rows: tuple[Row, ...] = tuple(
        (
            kind,
            *(counted.precision, counted.recall, counted.f1),
            _ends(site.type_intervals.get(kind)),
            *(found[kind].f1 if kind in found else None for _, found in others),
            counted.gold,
        )
        for kind, counted in typed.items()
    )
    micro, macro, gold = typed.micro, typed.macro, typed.micro.gold
    readings = [found for _, found in others]
    totals: tuple[Row, ...] = (
        ("micro", micro.precision, micro.recall, micro.f1, _ends(site.interval), *(f.micro.f1 for f in readings), gold),
        ("macro", *macro, "", *(f.macro.f1 for f in readings), gold),
    )
    columns = ("type", "P", "R", f"{reading} F1", "95% interval", *(f"{name} F1" for name, _ in others), "gold")
    return Table("By type", columns, rows, totals=totals)


def _ends(interval: Interval | None) -> Figures:
    return interval_cell(None if interval is None else (interval.low, interval.high))


def _figures(counts: Mapping[str, TypedCounts]) -> list[float]:
    """P, R and F1 under the main reading, then the F1 under each of the others."""
    main, *others = (typed.micro for typed in counts.values())
    return [main.precision, main.recall, main.f1, *(counted.f1 for counted in others)]
