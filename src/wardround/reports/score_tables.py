"""The tables made of scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wardround.evaluation.counts import MacroScores, SpanCounts, TagSetScores, TypedCounts
from wardround.evaluation.entity_scores import Confusion, CorpusScore
from wardround.evaluation.leakage import HidingScore
from wardround.evaluation.muc import MATCHING_MODES, MucCounts, MucScore
from wardround.evaluation.significance import Interval
from wardround.reports.tables import Figures, Row, Table

__all__ = [
    "confusion_table",
    "counts_table",
    "hiding_table",
    "interval_text",
    "main_note",
    "muc_table",
    "score_table",
    "score_tables",
    "tag_set_table",
]

_MOST_ACROSS = 12  # sites beside one another; of more, each has a row
_MARK = "●"  # beside a score of a type that the site annotates itself


def score_tables(counts: Mapping[str, TypedCounts], *, title: str = "Scores", note: str = "") -> tuple[Table, ...]:
    """The scores of any task by type: of entities strict and relaxed side by side, else a table a reading."""
    left, tables = dict(counts), list[Table]()
    if {"strict", "relaxed"} <= counts.keys():
        entities = CorpusScore(strict=left.pop("strict"), relaxed=left.pop("relaxed"))
        tables.append(score_table(entities, title=title))
    tables += [counts_table(typed, title=f"{title}: {reading}") for reading, typed in left.items()]
    return (replace(tables[0], note=note), *tables[1:])


def main_note(reading: str, f1: Interval, documents: int) -> str:
    """What stands below the scores: where the F1 by which models are compared may lie."""
    return f"{reading.capitalize()} micro-F1 {interval_text(f1)}; documents: {documents:,}."


def score_table(score: CorpusScore, *, title: str = "Entities", micro_f1: Interval | None = None) -> Table:
    """Strict and relaxed scores by type, micro and macro; `micro_f1` is the interval of the strict micro-F1."""

    def row(name: str, strict: SpanCounts | MacroScores, relaxed: SpanCounts | MacroScores, support: int) -> Row:
        return (name, *_scores(strict), *_scores(relaxed), support)

    strict, relaxed = score.strict, score.relaxed
    return Table(
        title,
        ("type", "strict P", "strict R", "strict F1", "relaxed P", "relaxed R", "relaxed F1", "gold"),
        tuple(row(type_, counts, relaxed[type_], counts.gold) for type_, counts in strict.items()),
        totals=(
            row("micro", strict.micro, relaxed.micro, strict.micro.gold),
            row("macro", strict.macro, relaxed.macro, strict.micro.gold),
        ),
        note="" if micro_f1 is None else main_note("strict", micro_f1, score.documents),
    )


def counts_table(counts: TypedCounts, *, title: str = "Relations") -> Table:
    """One kind of score by type, micro and macro: of relations, for example."""
    support = counts.micro.gold
    return Table(
        title,
        ("type", "P", "R", "F1", "predicted", "support"),
        tuple((type_, *_scores(c), c.predicted, c.gold) for type_, c in counts.items()),
        totals=(
            ("micro", *_scores(counts.micro), counts.micro.predicted, support),
            ("macro", *_scores(counts.macro), counts.micro.predicted, support),
        ),
    )


def muc_table(muc: MucScore, *, title: str = "Entities, MUC categories") -> Table:
    """The five categories under each reading, over all types and then by type."""

    def row(name: str, reading: str, counts: MucCounts) -> Row:
        categories = (counts.correct, counts.incorrect, counts.partial, counts.missed, counts.spurious)
        return (name, reading, *categories, counts.precision, counts.recall, counts.f1)

    tables = [("all types", muc.overall), *muc.by_type.items()]
    return Table(
        title,
        ("type", "reading", "correct", "incorrect", "partial", "missed", "spurious", "P", "R", "F1"),
        tuple(row(name, reading, getattr(found, reading)) for name, found in tables for reading in MATCHING_MODES),
    )


def tag_set_table(sites: Mapping[str, TagSetScores], *, title: str = "F1 by type and site") -> Table:
    """Types down, sites across, and below them the means over types, by whether a site annotates them itself."""
    types = dict.fromkeys(kind for site in sites.values() for kind in (*site.annotated, *site.scored))
    macro = [site.macro() for site in sites.values()]
    table = Table(
        title,
        ("type", *sites),
        tuple((kind, *(_marked(site, kind) for site in sites.values())) for kind in types),
        totals=(
            ("macro, all", *(_or_dash(means["all"]) for means in macro)),
            (f"macro, annotated {_MARK}", *(_or_dash(means["annotated"]) for means in macro)),
            ("macro, not annotated", *(_or_dash(means["not_annotated"]) for means in macro)),
        ),
        note=(
            f"{_MARK} the site annotates the type in its training notes; empty: its test notes are not annotated "
            "with it; –: it occurs neither in them nor among the predictions."
        ),
    )
    return table.transpose("site") if len(sites) > _MOST_ACROSS else table


def _marked(site: TagSetScores, kind: str) -> Figures:
    found = _or_dash(site.f1(kind)) if kind in site.scored else Figures("", {"": None})
    own = kind in site.annotated
    return Figures(f"{found.text} {_MARK}" if own else found.text, {**found.parts, "annotated": "yes" if own else "no"})


def _or_dash(score: float | None) -> Figures:
    return Figures("–" if score is None else f"{score:.3f}", {"": score})


def confusion_table(confusion: Confusion, *, title: str = "Confused types") -> Table:
    """Gold types down, predicted types across."""
    names = (*confusion.types, "spurious")
    return Table(
        title,
        ("gold, predicted", *confusion.types, "missed"),
        tuple((name, *row) for name, row in zip(names, _without_corner(confusion.rows()), strict=True)),
    )


def hiding_table(score: HidingScore, *, title: str = "De-identification") -> Table:
    """What was hidden of what had to be, in words and characters, and how many notes leak."""
    return Table(
        title,
        ("unit", "P", "R", "F1", "missed", "to hide"),
        tuple(
            (name, *_scores(counts), counts.fn, counts.gold)
            for name, counts in (("words", score.words), ("characters", score.characters))
        ),
        note=f"{score.leaking_notes:,} of {score.notes:,} notes have at least one word missed ({score.leakage:.1%}).",
    )


def interval_text(interval: Interval) -> str:
    """`0.812 (95% interval 0.790–0.833)`."""
    return f"{interval.estimate:.3f} ({interval.level:.0%} interval {interval.low:.3f}–{interval.high:.3f})"


def _scores(counts: SpanCounts | MacroScores) -> tuple[float, float, float]:
    return counts.precision, counts.recall, counts.f1


def _without_corner(rows: list[list[int]]) -> list[list[int | None]]:
    # What is neither in gold nor predicted cannot be counted.
    return [*(list[int | None](row) for row in rows[:-1]), [*rows[-1][:-1], None]]
