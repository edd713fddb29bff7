"""A table and a page of scores by site and method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.evaluation.entity_scores import CorpusScore
from wardround.evaluation.significance import Interval
from wardround.reports.page import Chart, Section, write_page
from wardround.reports.plots import Labels, bar_chart
from wardround.reports.score_tables import interval_text, score_table
from wardround.reports.tables import Table

__all__ = ["SiteScores", "sites_table", "write_sites_page"]


@dataclass(frozen=True)
class SiteScores:
    """The scores of one site with several methods."""

    name: str
    style: str
    types: tuple[str, ...]
    sentences: int
    scores: Mapping[str, CorpusScore]  # by method
    strict_f1: Mapping[str, Interval]  # by method


def sites_table(sites: Sequence[SiteScores]) -> Table:
    """Return the strict micro-F1 of each method, one row per site."""
    methods = list(sites[0].scores)
    means = tuple(sum(site.scores[method].strict.micro.f1 for site in sites) / len(sites) for method in methods)
    return Table(
        "Strict F1 on the test notes, by site",
        ("site", "writes", "sentences", *methods),
        tuple(
            (site.name, site.style, site.sentences, *(site.scores[m].strict.micro.f1 for m in methods))
            for site in sites
        ),
        totals=(("mean", "", sum(site.sentences for site in sites), *means),),
    )


def write_sites_page(path: Path, title: str, prose: str, sites: Sequence[SiteScores]) -> None:
    """Write one self-contained page: a bar chart, the table, and every site's scores by type."""
    methods = list(sites[0].scores)
    bars = bar_chart(
        {method: {site.name: site.strict_f1[method] for site in sites} for method in methods},
        Labels("Strict F1 by site", "", "strict micro-F1"),
    )
    caption = "Bars are strict micro-F1 on each site's own types; error bars are 95% bootstrap intervals over notes."
    sections = [Section("By site", prose, tables=(sites_table(sites),), charts=(Chart(bars.to_svg(), caption),))]
    for site in sites:
        f1 = "; ".join(f"{method} {interval_text(interval)}" for method, interval in site.strict_f1.items())
        tables = tuple(
            score_table(score, title=method[:1].upper() + method[1:]) for method, score in site.scores.items()
        )
        text = f"Annotates {', '.join(site.types)} in {site.sentences:,} training sentences. Strict micro-F1: {f1}."
        sections.append(Section(f"{site.name.capitalize()} ({site.style})", text, tables=tables))
    write_page(path, title, sections)
