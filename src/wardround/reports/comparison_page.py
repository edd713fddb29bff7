"""The comparison of several runs: scores, significance of differences to the first run, and costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

from wardround.errors import UsageError
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.significance import Difference, Measure, paired_difference, sign_flip_p_value
from wardround.parsing import parse_toml
from wardround.reports.cost_tables import phase_seconds
from wardround.reports.page import Chart, Section
from wardround.reports.plots import Curve, Labels, bar_chart, learning_curves
from wardround.reports.run_record import RunRecord
from wardround.reports.tables import Cell, Row, Table, score_cell

__all__ = ["comparison_sections"]

_Named: TypeAlias = dict[str, RunRecord]
_MEASURE = Measure()
_MOST_BARS = 40  # sites that can be distinguished in a chart
_MOST_NAMED = 5  # sites in a sentence
_PAIRED = (
    "Intervals and p-values over notes are from a paired bootstrap: both runs are scored on the same resamples of the "
    "same test notes. The permutation test over sites flips signs at random and counts how often the mean is as far "
    "from zero. p-values are two-sided, for the hypothesis of no difference, and not corrected for the number of "
    "comparisons."
)


def comparison_sections(runs: Sequence[RunRecord]) -> list[Section]:
    """Return the sections of the comparison; every run is compared with the first."""
    for record in runs:
        if not record.sites:
            raise UsageError(f"{record.name} has not finished; only runs with scores can be compared")
    modes = {record.mode for record in runs}
    if len(modes) > 1:
        raise UsageError(f"runs of different tasks cannot be compared: they are scored by {', '.join(sorted(modes))}")
    named: _Named = {}  # under distinct names
    for record in runs:
        name, number = record.name, 2
        while name in named:
            name, number = f"{record.name} ({number})", number + 1
        named[name] = record
    return [
        Section("Scores", tables=(_runs_table(named), _sites_table(named)), charts=tuple(_bars(named))),
        Section(
            "Differences",
            f"Each run minus the first, {next(iter(named))}.\n\n{_PAIRED}",
            tables=tuple(_difference_tables(named)),
        ),
        Section("Rounds", charts=tuple(_curves(named))),
        Section("Costs", tables=(_cost_table(named),)),
        Section("Different settings", tables=(_settings_table(named),)),
    ]


def _runs_table(runs: _Named) -> Table:
    rows, common = list[Row](), _common(runs)
    for name, record in runs.items():
        facts = dict(record.facts)
        best = f"{'epoch' if record.history.epochs else 'round'} {record.best:,}" if record.best else ""
        algorithm = facts.get("algorithm", facts.get("what", "")).partition(":")[0]
        f1 = [site.interval.estimate for at, site in record.sites.items() if at in common or not common]
        rows.append((name, algorithm, facts.get("privacy", ""), str(record.seed), best, sum(f1) / len(f1)))
    mode = next(iter(runs.values())).mode
    columns = ("run", "algorithm", "privacy", "seed", "model from", f"mean {mode} F1")
    note = f"The mean is over {_sites_in_words(runs)}; every site has the same weight."
    return Table("The runs", columns, tuple(rows), note=note)


def _sites_table(runs: _Named) -> Table:
    names, rows = _all_sites(runs), list[Row]()
    for site in names:
        found = [record.sites[site].interval if site in record.sites else None for record in runs.values()]
        cells = [score_cell(None, None) if i is None else score_cell(i.estimate, (i.low, i.high)) for i in found]
        rows.append((site, *cells))
    mode = next(iter(runs.values())).mode
    note = "In brackets: 95% bootstrap intervals over a site's test notes."
    if len(_common(runs)) < len(names):
        note += " –: the run does not have this site."
    return Table(f"{mode.capitalize()} micro-F1 by site", ("site", *runs), tuple(rows), note=note)


def _all_sites(runs: _Named) -> list[str]:
    return list(dict.fromkeys(site for record in runs.values() for site in record.sites))


def _common(runs: _Named) -> list[str]:
    """Return the sites that every run has; means over others are not comparable."""
    return [site for site in _all_sites(runs) if all(site in record.sites for record in runs.values())]


def _sites_in_words(runs: _Named) -> str:
    """Return which sites a mean is over."""
    every, common = _all_sites(runs), _common(runs)
    if len(common) == len(every):
        return "sites"
    if all(len(record.sites) == 1 for record in runs.values()):
        return "the only site of each run"
    if not common:
        return "the sites of each run, because no site is in all runs"
    left = [site for site in every if site not in common]
    return f"the sites that all runs have ({len(common):,} of {len(every):,}, without {_list_names(left)})"


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _bars(runs: _Named) -> Iterator[Chart]:
    mode = next(iter(runs.values())).mode
    shown = {name: {site: found.interval for site, found in record.sites.items()} for name, record in runs.items()}
    if len(_all_sites(runs)) > _MOST_BARS:
        return
    plot = bar_chart(shown, Labels(f"{mode.capitalize()} F1 by site", "", f"{mode} micro-F1"))
    alt = "; ".join(
        f"{name}: " + ", ".join(f"{s} {i.estimate:.3f}" for s, i in sites.items()) for name, sites in shown.items()
    )
    caption = "Error bars are 95% bootstrap intervals over each site's test notes."
    yield Chart.from_plot(plot, "f1-by-site-and-run", caption, alt=f"F1 by site and run. {alt}.")


def _difference_tables(runs: _Named) -> Iterator[Table]:
    (first, base), *others = runs.items()
    for name, record in others:
        pairs = _pairs(base, record)
        rows: list[Row] = []
        for site, own in pairs:
            found = _paired_difference(base.notes.get(site, ()), record.notes.get(own, ()))
            if found is not None:
                rows.append((site, *_difference_cells(found)))
                continue
            gap = record.sites[own].interval.estimate - base.sites[site].interval.estimate
            why = "no test: the counts per note are missing, or are of different notes"
            rows.append((site, gap, None, None, None, why))
        totals = list(_total_rows(base, record)) if len(rows) > 1 else []
        paired = {site for pair in pairs for site in pair}
        left = [site for site in dict.fromkeys([*base.sites, *record.sites]) if site not in paired]
        note = f"Not shown, because only one of the two runs has them: {_list_names(left)}." if left else ""
        columns = ("site", "difference", "95% from", "to", "p", "method")
        yield Table(f"{name} minus {first}", columns, tuple(rows), totals=tuple(totals), note=note)


def _pairs(base: RunRecord, record: RunRecord) -> list[tuple[str, str]]:
    """Return the names of each site in both runs; if each run has a single site, its name may differ."""
    if len(base.sites) == len(record.sites) == 1:
        return [(next(iter(base.sites)), next(iter(record.sites)))]
    return [(site, site) for site in base.sites if site in record.sites]


def _paired_difference(base: Sequence[TypedCounts], other: Sequence[TypedCounts]) -> Difference | None:
    if not base or not other:
        return None
    try:
        return paired_difference(other, base, _MEASURE)
    except UsageError:  # they were scored on different notes
        return None


def _total_rows(base: RunRecord, record: RunRecord) -> Iterator[Row]:
    pairs = _pairs(base, record)
    gaps = [record.sites[own].interval.estimate - base.sites[site].interval.estimate for site, own in pairs]
    method = f"paired permutation of {len(gaps)} sites"
    yield "mean of sites", sum(gaps) / len(gaps), None, None, sign_flip_p_value(gaps), method
    notes = [(base.notes.get(site, ()), record.notes.get(own, ())) for site, own in pairs]
    if all(left and right for left, right in notes):
        first = [note for left, _ in notes for note in left]
        pooled = _paired_difference(first, [note for _, right in notes for note in right])
        if pooled is not None:
            yield ("all notes, pooled", *_difference_cells(pooled))


def _difference_cells(found: Difference) -> tuple[Cell, ...]:
    return found.estimate, found.low, found.high, found.p_value, "paired bootstrap of notes"


def _curves(runs: _Named) -> Iterator[Chart]:
    common = _common(runs)
    # Empty, which means all, if every run has the same sites or no site is in all runs.
    among = frozenset(common if len(common) < len(_all_sites(runs)) else ())
    known: dict[str, Curve] = {}
    by_bytes: dict[str, Curve] = {}
    for name, record in runs.items():
        history = record.history
        means = [(scoring.round, scoring.mean) for scoring in history.scorings]
        if among:
            found = [(s.round, [f1 for site, f1 in s.f1.items() if site in among]) for s in history.scorings]
            means = [(number, sum(f1) / len(f1)) for number, f1 in found if f1]
        if curve := means or [(epoch.epoch, epoch.dev_f1) for epoch in history.epochs]:
            known[name] = curve
        sent = dict(zip((r.number for r in history.rounds), accumulate(r.up for r in history.rounds), strict=True))
        if points := [(sent[number] / 1e6, mean) for number, mean in means if number in sent]:
            by_bytes[name] = points
    if known:
        plot = learning_curves(known, Labels("Development F1", "round or epoch", "mean of sites"))
        alt = ", ".join(f"{name} {curve[-1][1]:.3f}" for name, curve in known.items())
        caption = f"Micro-F1 on development notes, mean over {_sites_in_words(runs)}."
        yield Chart.from_plot(plot, "development-f1-by-run", caption, alt=f"{caption} Last: {alt}.")
    if by_bytes:
        labels = Labels("Development F1 by communication", "MB up, all sites", "mean of sites")
        plot = learning_curves(by_bytes, labels, x_kind="amounts")
        yield Chart.from_plot(plot, "development-f1-by-bytes", "The same scores by the bytes that the sites had sent.")


def _cost_table(runs: _Named) -> Table:
    rows: list[Row] = []
    for name, record in runs.items():
        history, seconds = record.history, phase_seconds(record.history)
        count = len(history.rounds or history.epochs)
        trained = sum(seconds.get("train", {}).values()) or sum(epoch.seconds for epoch in history.epochs)
        rows.append((name, count, record.up, record.down, trained, sum(sum(s.values()) for s in seconds.values())))
    columns = ("run", "rounds or epochs", "bytes up", "bytes down", "seconds of training", "seconds of all phases")
    return Table("Cost of each run", columns, tuple(rows))


def _settings_table(runs: _Named) -> Table:
    """Return the settings that differ between the study files."""
    lines: dict[str, dict[str, str]] = {}
    for name, record in runs.items():
        lines[name] = dict(line for at, found in parse_toml(record.study).items() for line in _flatten(at, found))
        lines[name] |= {f"training {key}": str(value) for key, value in record.history.training.items()}
    keys = list(dict.fromkeys(key for found in lines.values() for key in found))
    different = [key for key in keys if len({found.get(key) for found in lines.values()}) > 1]
    rows = tuple((key, *(found.get(key, "–") for found in lines.values())) for key in different)
    note = "" if rows else "The study files are identical."
    return Table("Settings that differ", ("setting", *runs), rows, note=note)


def _flatten(section: str, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each setting with its section, as in a study file."""
    for key, value in found.items():
        if isinstance(value, dict):
            yield from _flatten(f"{section}.{key}", value)
        else:
            yield f"[{section}] {key}", _value_text(value)


def _value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
