"""Cells and tables of a paper's page, and the figures of several seeds that they show."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, ClassVar, NamedTuple

from wardround.sweeps.figures import bootstrap_interval

__all__ = [
    "NOTHING",
    "Bar",
    "Spread",
    "Studies",
    "bars_table",
    "bootstrap_interval",
    "claims_table",
    "fill",
    "listed",
    "percent",
    "pictures",
    "points",
    "table",
    "with_interval",
    "with_range",
]

NOTHING = "–"  # not measured


# Tables.


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; empty without rows."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else ""


def pictures(*names: str) -> str:
    """Return Markdown that shows the plots with these names, which lie beside the page."""
    return "\n".join(f"![{name}]({name}.svg)" for name in names)


def fill(page: str, name: str, content: str) -> str:
    """Return the page with `content` between the markers of that name."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if begin not in page or end not in page:
        sys.exit(f"the page has no markers {begin} and {end}")
    before, after = page.split(begin)[0], page.split(end)[1]
    return f"{before}{begin}\n{content}\n{end}{after}" if content else f"{before}{begin}\n{end}{after}"


@dataclass(frozen=True)
class Bar:
    """A target of the measurement, and whether it was reached."""

    target: str
    measured: str
    met: bool | None  # None: not measured, or with too few seeds

    def __str__(self) -> str:
        return f"{self.verdict}: {self.target}; {self.measured}"

    @property
    def verdict(self) -> str:
        """`met`, `missed`, `not measured` or `open`."""
        return {True: "met", False: "missed", None: "not measured" if self.measured == NOTHING else "open"}[self.met]


def bars_table(bars: Sequence[Bar]) -> str:
    """Return one row per target."""
    return table(["target", "measured", ""], [[bar.target, bar.measured, bar.verdict] for bar in bars])


def claims_table(claims: Sequence[tuple[str, str, str]]) -> str:
    """Return one row per claim of the paper: the claim, where it is measured, and the result."""
    rows = [[claim, place, result or "not measured"] for claim, place, result in claims]
    return table(["the paper says", "measured in", "here"], rows)


# Cells.


def with_range(values: Sequence[float], *, digits: int = 1) -> str:
    """Return the mean, and the lowest and highest value if there are several."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{mean(values):.{digits}f} ({min(values):.{digits}f} – {max(values):.{digits}f})"


def listed(figures: Mapping[str, float], *, digits: int = 1, sign: bool = False) -> str:
    """Return names and figures in one line: `FedNER 79.3, pooled 78.0`."""
    return ", ".join(f"{name} {figure:{'+' if sign else ''}.{digits}f}" for name, figure in figures.items())


class Spread(NamedTuple):
    """A mean over seeds and the 95% interval of its bootstrap; None with one seed."""

    mean: float
    interval: tuple[float, float] | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Draw seeds with replacement."""
        ends = None
        if len(values) > 1:
            ends = bootstrap_interval(lambda picks: mean(values[pick] for pick in picks), len(values))
        return cls(mean(values), ends, len(values))


def percent(share: float | None) -> str:
    """Return a share in percent with one digit."""
    return NOTHING if share is None else f"{100 * share:.1f}"


def with_interval(spread: Spread | None) -> str:
    """Return a mean and its interval in percent."""
    if spread is None or spread.interval is None:
        return percent(None if spread is None else spread.mean)
    low, high = spread.interval
    return f"{percent(spread.mean)} ({percent(low)} – {percent(high)})"


def points(spread: Spread | None) -> str:
    """Return a difference and its interval in percentage points."""
    if spread is None:
        return NOTHING
    ends = "" if spread.interval is None else " ({:+.1f} to {:+.1f})".format(*(100 * end for end in spread.interval))
    return f"{100 * spread.mean:+.1f}{ends}"


# Summaries.


class Studies:
    """A paper's summary (`expected.json`).

    `studies` maps each study to the list of its seeds and to lists of the same length with the figures of each seed.
    """

    variations: ClassVar[Mapping[str, Any]] = {}  # the studies of the paper
    keeps_choices: ClassVar[bool] = False  # whether the summary repeats chosen.json

    def __init__(self, expected: Mapping[str, Any]) -> None:
        self.expected = expected
        self.studies: Mapping[str, Any] = expected.get("studies", {})

    def seeds(self, *names: str) -> list[int]:
        """Return the seeds that all of these studies have."""
        found = [set(self.studies[name]["seed"]) if name in self.studies else set() for name in names]
        return sorted(set.intersection(*found)) if found else []

    def has(self, *names: str) -> bool:
        """Return whether these studies have a seed in common."""
        return bool(self.seeds(*names))

    def known(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return the entries, title to study, whose study was measured."""
        return {title: name for title, name in names.items() if self.has(name)}

    def seed_counts(self, names: Mapping[str, str]) -> list[int]:
        """Return the number of seeds of each of these studies."""
        return [len(self.studies[name]["seed"]) for name in names.values()]

    def missing(self, tables: Sequence[str]) -> list[str]:
        """Return a phrase for each table of which studies are missing."""
        found = []
        for name in tables:
            studies = [study for study, variation in self.variations.items() if name in variation.tables]
            missing = [study for study in studies if study not in self.studies]
            if missing:
                found.append(f"all of {name}" if missing == studies else f"of {name} {', '.join(missing)}")
        return found

    @classmethod
    def gathered(
        cls,
        known: Mapping[str, Any],
        head: Mapping[str, Any],
        runs: Sequence[Mapping[str, Any]],
        chosen: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return the summary of the runs of one measurement."""
        return {**head, **({"chosen": chosen} if cls.keeps_choices else {}), "studies": cls.condense(runs, head)}

    @classmethod
    def condense(cls, runs: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> dict[str, Any]:
        """Return the studies of a summary from finished runs; tuning runs (`--tune`) are left out."""
        studies = {}
        for name, variation in cls.variations.items():
            mine = [run for run in runs if run["variation"] == name and not run["tuned"] and cls.counts(run, variation)]
            mine.sort(key=lambda run: int(run["seed"]))
            assert len({run.get("learning_rate") for run in mine}) <= 1, f"{name} was run with several rates"
            if mine and (kept := cls.summary_of(variation, mine, head)):
                studies[name] = kept
        return studies

    @classmethod
    def counts(cls, run: Mapping[str, Any], variation: Any) -> bool:
        """Return whether a run is part of the summary."""
        return True

    @classmethod
    def summary_of(cls, variation: Any, runs: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> dict[str, Any]:
        """Return the figures to keep of one study; empty to leave it out."""
        raise NotImplementedError
