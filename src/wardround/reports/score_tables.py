"""Tables of scores: of one model, of each site of a study, and of what a de-identification leaves readable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from wardround.evaluation.counts import MacroScores, SpanCounts, TagSetScores, TypedCounts, ratio
from wardround.evaluation.entity_scores import Confusion, CorpusScore
from wardround.evaluation.leakage import HidingScore, LeakageScore, TypeLeakage
from wardround.evaluation.muc import MATCHING_MODES, MucCounts, MucScore
from wardround.evaluation.significance import Interval
from wardround.reports.tables import Figures, Row, Table, interval_cell

__all__ = [
    "ScoredSite",
    "confusion_table",
    "counts_table",
    "hiding_table",
    "interval_text",
    "leakage_tables",
    "main_note",
    "muc_table",
    "score_table",
    "score_tables",
    "site_leakage_tables",
    "study_table",
    "study_tables",
    "tag_set_table",
    "type_table",
]

_OF_DEV = "(dev): the site has no test notes; its scores are of the development notes that its training was tuned on"
_MOST_COLUMNS = 12  # sites with a column each; with more, each has a row
_MARK = "●"  # beside the score of a type that the site annotates itself


def interval_text(interval: Interval) -> str:
    """Return `0.812 (95% interval 0.790–0.833)`."""
    return f"{interval.estimate:.3f} ({interval.level:.0%} interval {interval.low:.3f}–{interval.high:.3f})"


def main_note(mode: str, f1: Interval, documents: int) -> str:
    """Return the note below a score table: the F1 that compares models, with its interval."""
    return f"{mode.capitalize()} micro-F1 {interval_text(f1)}; documents: {documents:,}."


# One model.


def score_tables(counts: Mapping[str, TypedCounts], *, title: str = "Scores", note: str = "") -> tuple[Table, ...]:
    """Return the scores of any task by type: strict and relaxed in one table, other matching modes in one each."""
    left, tables = dict(counts), list[Table]()
    if {"strict", "relaxed"} <= counts.keys():
        entities = CorpusScore(strict=left.pop("strict"), relaxed=left.pop("relaxed"))
        tables.append(score_table(entities, title=title))
    tables += [counts_table(typed, title=f"{title}: {mode}") for mode, typed in left.items()]
    return (replace(tables[0], note=note), *tables[1:])


def score_table(score: CorpusScore, *, title: str = "Entities", micro_f1: Interval | None = None) -> Table:
    """Return strict and relaxed scores by type, micro and macro; the note has the interval of the strict micro-F1."""

    def row(name: str, strict: SpanCounts | MacroScores, relaxed: SpanCounts | MacroScores, gold: int) -> Row:
        return (name, *_scores(strict), *_scores(relaxed), gold)

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
    """Return the scores of one matching mode by type, micro and macro, e.g. of relations."""
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
    """Return the five MUC categories in each matching mode, over all types and then by type."""

    def row(name: str, mode: str, counts: MucCounts) -> Row:
        categories = (counts.correct, counts.incorrect, counts.partial, counts.missed, counts.spurious)
        return (name, mode, *categories, counts.precision, counts.recall, counts.f1)

    scores = [("all types", muc.overall), *muc.by_type.items()]
    return Table(
        title,
        ("type", "matching mode", "correct", "incorrect", "partial", "missed", "spurious", "P", "R", "F1"),
        tuple(row(name, mode, getattr(found, mode)) for name, found in scores for mode in MATCHING_MODES),
    )


def confusion_table(confusion: Confusion, *, title: str = "Confused types") -> Table:
    """Return counts of gold types (rows) by predicted types (columns)."""
    # The last cell stays empty: what is neither gold nor predicted cannot be counted.
    counts = confusion.rows()
    rows = [*(list[int | None](row) for row in counts[:-1]), [*counts[-1][:-1], None]]
    return Table(
        title,
        ("gold, predicted", *confusion.types, "missed"),
        tuple((name, *row) for name, row in zip((*confusion.types, "spurious"), rows, strict=True)),
    )


def _scores(counts: SpanCounts | MacroScores) -> tuple[float, float, float]:
    return counts.precision, counts.recall, counts.f1


# The sites of a study.


class ScoredSite(Protocol):
    """The test scores of one site."""

    @property
    def counts(self) -> Mapping[str, TypedCounts]:
        """Return the counts by matching mode of the task, the main one first, and by type."""

    @property
    def documents(self) -> int:
        """Return the number of scored notes."""

    @property
    def interval(self) -> Interval:
        """Return the micro-F1 of the main matching mode with its interval."""

    @property
    def type_intervals(self) -> Mapping[str, Interval]:
        """Return the F1 of each type in the main matching mode with its interval, if known."""

    @property
    def tag_set(self) -> TagSetScores | None:
        """Return the main scores with the types that the site annotates, or None if the study names no types."""

    @property
    def leakage(self) -> LeakageScore | None:
        """Return what identifies people and would stay readable, or None if the task is another."""

    @property
    def scored_on(self) -> str:
        """Return `test`, or `dev` if the site has no test notes."""


def study_tables(sites: Mapping[str, ScoredSite]) -> tuple[Table, ...]:
    """Return the scores by site; also by type and site if sites annotate different types, and leakage if counted."""
    tables = [study_table(sites)]
    tag_sets = {name: site.tag_set for name, site in sites.items() if site.tag_set is not None}
    distinct = {frozenset(types) for tag_set in tag_sets.values() for types in (tag_set.annotated, tag_set.scored)}
    if len(tag_sets) == len(sites) and len(distinct) > 1:
        mode = next(iter(next(iter(sites.values())).counts))
        tables.append(tag_set_table(tag_sets, title=f"{mode.capitalize()} F1 by type and site"))
    leakage = {name: site.leakage for name, site in sites.items() if site.leakage is not None}
    return (*tables, *site_leakage_tables(leakage))


def study_table(sites: Mapping[str, ScoredSite], *, title: str = "Scores on each site's test notes") -> Table:
    """Return one row per site and the mean over sites."""
    main, *others = next(iter(sites.values())).counts
    figures = {}
    for name, site in sites.items():
        first, *rest = (typed.micro for typed in site.counts.values())
        figures[name] = [*_scores(first), *(counts.f1 for counts in rest)]
    mean = [sum(values) / len(sites) for values in zip(*figures.values(), strict=True)]
    rows: tuple[Row, ...] = tuple(
        (_with_part(name, site), site.documents, *figures[name][:3], _interval_cell(site.interval), *figures[name][3:])
        for name, site in sites.items()
    )
    of_dev = any(site.scored_on != "test" for site in sites.values())
    return Table(
        title,
        ("site", "notes", "P", "R", f"{main} F1", "95% interval", *(f"{mode} F1" for mode in others)),
        rows,
        totals=(("mean", sum(site.documents for site in sites.values()), *mean[:3], "", *mean[3:]),),
        note=_OF_DEV if of_dev else "",
    )


def _with_part(name: str, site: ScoredSite) -> str:
    """Return the name of a site, marked if its scores come from development notes."""
    return name if site.scored_on == "test" else f"{name} ({site.scored_on})"


def type_table(site: ScoredSite) -> Table:
    """Return the scores of one site by type, micro and macro."""
    (mode, typed), *others = site.counts.items()
    rows: tuple[Row, ...] = tuple(
        (
            kind,
            *(counts.precision, counts.recall, counts.f1),
            _interval_cell(site.type_intervals.get(kind)),
            *(found[kind].f1 if kind in found else None for _, found in others),
            counts.gold,
        )
        for kind, counts in typed.items()
    )
    gold = typed.micro.gold
    totals: tuple[Row, ...] = (
        ("micro", *_scores(typed.micro), _interval_cell(site.interval), *(f.micro.f1 for _, f in others), gold),
        ("macro", *typed.macro, "", *(f.macro.f1 for _, f in others), gold),
    )
    columns = ("type", "P", "R", f"{mode} F1", "95% interval", *(f"{name} F1" for name, _ in others), "gold")
    return Table("By type", columns, rows, totals=totals)


def tag_set_table(sites: Mapping[str, TagSetScores], *, title: str = "F1 by type and site") -> Table:
    """Return F1 by type and site, and the means over all types, those a site annotates, and the others."""

    def marked(site: TagSetScores, kind: str) -> Figures:
        found = _score_or_dash(site.f1(kind)) if kind in site.scored else Figures("", {"": None})
        own = kind in site.annotated
        text = f"{found.text} {_MARK}" if own else found.text
        return Figures(text, {**found.parts, "annotated": "yes" if own else "no"})

    types = dict.fromkeys(kind for site in sites.values() for kind in (*site.annotated, *site.scored))
    macro = [site.macro() for site in sites.values()]
    table = Table(
        title,
        ("type", *sites),
        tuple((kind, *(marked(site, kind) for site in sites.values())) for kind in types),
        totals=(
            ("macro, all", *(_score_or_dash(means["all"]) for means in macro)),
            (f"macro, annotated {_MARK}", *(_score_or_dash(means["annotated"]) for means in macro)),
            ("macro, not annotated", *(_score_or_dash(means["not_annotated"]) for means in macro)),
        ),
        note=(
            f"{_MARK} the site annotates the type in its training notes; empty: its test notes are not annotated "
            "with the type; –: the type occurs neither in them nor among the predictions."
        ),
    )
    return table.transpose("site") if len(sites) > _MOST_COLUMNS else table


def _score_or_dash(score: float | None) -> Figures:
    return Figures("–" if score is None else f"{score:.3f}", {"": score})


def _interval_cell(interval: Interval | None) -> Figures:
    return interval_cell(None if interval is None else (interval.low, interval.high))


# De-identification.


def hiding_table(score: HidingScore, *, title: str = "De-identification") -> Table:
    """Return how much of the identifying text was hidden, in words and characters, and how many notes leak."""
    return Table(
        title,
        ("unit", "P", "R", "F1", "missed", "to hide"),
        tuple(
            (name, *_scores(counts), counts.fn, counts.gold)
            for name, counts in (("words", score.words), ("characters", score.characters))
        ),
        note=f"{score.leaking_notes:,} of {score.notes:,} notes have at least one missed word ({score.leakage:.1%}).",
    )


def leakage_tables(score: LeakageScore, *, title: str = "Leakage") -> tuple[Table, Table]:
    """Return the leakage of one model: words and characters of any type, then mentions by type."""
    hiding = hiding_table(score.hiding, title=f"{title}: words and characters")
    return hiding, _type_leakage_table(score, title=title)


def site_leakage_tables(sites: Mapping[str, LeakageScore], *, title: str = "Leakage") -> tuple[Table, ...]:
    """Return the leakage by site with the sum, then that sum by type; nothing without sites."""
    if not sites:
        return ()

    def row(name: str, score: LeakageScore) -> Row:
        hiding, share = score.hiding, ratio(score.exposed_notes, score.hiding.notes)
        recall = (score.mentions.recall, hiding.words.recall, hiding.words.precision, hiding.characters.recall)
        return (name, hiding.notes, score.exposed_notes, share, *recall)

    total = sum(sites.values(), LeakageScore())
    table = Table(
        f"{title} on each site's test notes",
        ("site", "notes", "leaking", "share", "mentions hidden", "words R", "words P", "chars R"),
        tuple(row(name, score) for name, score in sites.items()),
        totals=(row("all", total),),
        note="A note leaks if at least one mention is not completely hidden.",
    )
    return table, _type_leakage_table(total, title=f"{title}, all sites")


def _type_leakage_table(score: LeakageScore, *, title: str) -> Table:
    def row(name: str, found: TypeLeakage) -> Row:
        missed = found.mentions - found.hidden - found.hidden_in_part
        return (name, found.mentions, found.hidden, found.hidden_in_part, missed, found.recall, found.leaking_notes)

    notes = score.hiding.notes
    share = ratio(score.exposed_notes, notes)
    return Table(
        f"{title}: mentions by type",
        ("type", "mentions", "hidden", "in part", "missed", "recall", "leaking notes"),
        tuple(row(kind, found) for kind, found in score.by_type.items()),
        totals=(row("all", score.mentions),),
        note=(
            "A mention is hidden if all its letters and digits are, under any type. "
            f"{score.exposed_notes:,} of {notes:,} notes leak a mention ({share:.1%})."
        ),
    )
