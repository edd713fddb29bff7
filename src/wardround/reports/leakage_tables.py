"""The tables of what a de-identification leaves readable: by type, and by site."""

from __future__ import annotations

from collections.abc import Mapping

from wardround.evaluation.counts import ratio
from wardround.evaluation.leakage import LeakageScore, TypeLeakage
from wardround.reports.score_tables import hiding_table
from wardround.reports.tables import Row, Table

__all__ = ["leakage_tables", "site_leakage_tables"]

_HIDDEN = "A mention is hidden where all of its letters and digits are, under whatever type."


def leakage_tables(score: LeakageScore, *, title: str = "Leakage") -> tuple[Table, Table]:
    """Of one model: words and characters, whatever their type, then mentions by type."""
    return hiding_table(score.hiding, title=f"{title}: words and characters"), _types_table(score, title=title)


def site_leakage_tables(sites: Mapping[str, LeakageScore], *, title: str = "Leakage") -> tuple[Table, ...]:
    """A row a site and their sum, then that sum by type; nothing where no site counts what leaks."""
    if not sites:
        return ()
    whole = sum(sites.values(), LeakageScore())
    table = Table(
        f"{title} on each site's test notes",
        ("site", "notes", "leaking", "share", "mentions hidden", "words R", "words P", "chars R"),
        tuple(_site_row(name, score) for name, score in sites.items()),
        totals=(_site_row("all", whole),),
        note="A note leaks where at least one mention is not hidden whole.",
    )
    return table, _types_table(whole, title=f"{title}, all sites")


def _site_row(name: str, score: LeakageScore) -> Row:
    hiding, notes = score.hiding, score.hiding.notes
    share, words = ratio(score.exposed_notes, notes), hiding.words
    found = (score.mentions.recall, words.recall, words.precision, hiding.characters.recall)
    return (name, notes, score.exposed_notes, share, *found)


def _types_table(score: LeakageScore, *, title: str) -> Table:
    notes = score.hiding.notes
    share = ratio(score.exposed_notes, notes)
    return Table(
        f"{title}: mentions by type",
        ("type", "mentions", "hidden", "in part", "missed", "recall", "leaking notes"),
        tuple(_type_row(kind, found) for kind, found in score.by_type.items()),
        totals=(_type_row("all", score.mentions),),
        note=f"{_HIDDEN} {score.exposed_notes:,} of {notes:,} notes leak a mention ({share:.1%}).",
    )


def _type_row(name: str, found: TypeLeakage) -> Row:
    missed = found.mentions - found.hidden - found.hidden_in_part
    return (name, found.mentions, found.hidden, found.hidden_in_part, missed, found.recall, found.leaking_notes)
