"""Several runs beside one another: scores, differences to the first and whether they may be chance, costs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from wardround.errors import UsageError
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.significance import Difference, Measure, paired_difference, sign_flip_p_value
from wardround.parsing import parse_toml
from wardround.reports.cost_tables import phase_seconds
from wardround.reports.history import Scoring
from wardround.reports.page import Drawing, Section
from wardround.reports.plots import Curve, Labels, bar_chart, learning_curves
from wardround.reports.run_record import RunRecord
from wardround.reports.tables import Cell, Figures, Row, Table, score_cell

__all__ = ["comparison_sections"]

_Named: TypeAlias = dict[str, RunRecord]
_MEASURE = Measure()
_MOST_BARS = 40  # sites that can be told apart in a chart
_MOST_NAMED = 5  # sites in a sentence
_PAIRED = (
    "Intervals and p-values by note are from a paired bootstrap: both runs are scored on the same draws of the same "
    "test notes. A permutation test of sites asks how often signs at random would give a mean as far from zero. p is "
    "two-sided, for no difference, and not corrected for the number of comparisons."
)


def comparison_sections(runs: Sequence[RunRecord]) -> list[Section]:
    """All that can be said of several runs; the first is what the others are held to."""
    _check(runs)
    named = _named(runs)
    return [
        Section("Scores", tables=(_scores(named), _sites(named)), drawings=tuple(_bars(named))),
        Section("Differences", _how(named), tables=tuple(_differences(named))),
        Section("Rounds", drawings=tuple(_curves(named))),
        Section("Costs", tables=(_costs(named),)),
        Section("What differs", tables=(_settings(named),)),
    ]


def _check(runs: Sequence[RunRecord]) -> None:
    for record in runs:
        if not record.sites:
            raise UsageError(f"{record.name} has not finished; a comparison is of scores")
    readings = {record.reading for record in runs}
    if len(readings) > 1:
        raise UsageError(f"runs of different tasks cannot be compared: scored by {', '.join(sorted(readings))}")


def _named(runs: Sequence[RunRecord]) -> _Named:
    """Each run under a name of its own."""
    named: _Named = {}
    for record in runs:
        name, number = record.name, 2
        while name in named:
            name, number = f"{record.name} ({number})", number + 1
        named[name] = record
    return named


def _scores(runs: _Named) -> Table:
    rows, common = list[Row](), _common(runs)
    for name, record in runs.items():
        facts = dict(record.facts)
        best = f"{'epoch' if record.history.epochs else 'round'} {record.best:,}" if record.best else ""
        algorithm = facts.get("algorithm", facts.get("what", "")).partition(":")[0]
        rows.append((name, algorithm, facts.get("privacy", ""), str(record.seed), best, _mean(record, common)))
    reading = next(iter(runs.values())).reading
    columns = ("run", "algorithm", "privacy", "seed", "model of", f"mean {reading} F1")
    return Table("The runs", columns, tuple(rows), note=f"The mean is over {_over(runs)}; every site counts once.")


def _mean(record: RunRecord, common: Collection[str]) -> float:
    found = [site.interval.estimate for name, site in record.sites.items() if name in common or not common]
    return sum(found) / len(found)


def _sites(runs: _Named) -> Table:
    names = _all_sites(runs)
    rows: list[Row] = [(site, *(_with_interval(record, site) for record in runs.values())) for site in names]
    reading = next(iter(runs.values())).reading
    note = "In brackets 95% bootstrap intervals over a site's test notes."
    if len(_common(runs)) < len(names):
        note += " –: the run has no such site."
    return Table(f"{reading.capitalize()} micro-F1 by site", ("site", *runs), tuple(rows), note=note)


def _with_interval(record: RunRecord, site: str) -> Figures:
    if site not in record.sites:
        return score_cell(None, None)
    found = record.sites[site].interval
    return score_cell(found.estimate, (found.low, found.high))


def _all_sites(runs: _Named) -> list[str]:
    return list(dict.fromkeys(site for record in runs.values() for site in record.sites))


def _common(runs: _Named) -> list[str]:
    """The sites that every run has, which alone make means comparable."""
    return [site for site in _all_sites(runs) if all(site in record.sites for record in runs.values())]


def _over(runs: _Named) -> str:
    """Which sites a mean is taken over, in words."""
    everybody, common = _all_sites(runs), _common(runs)
    if len(common) == len(everybody):
        return "sites"
    if all(len(record.sites) == 1 for record in runs.values()):
        return "each run's one site"
    if not common:
        return "each run's own sites, none of which is in all runs"
    left = [site for site in everybody if site not in common]
    return f"the sites that all runs have ({len(common):,} of {len(everybody):,}, without {_listed(left)})"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _bars(runs: _Named) -> Iterable[Drawing]:
    reading = next(iter(runs.values())).reading
    shown = {name: {site: found.interval for site, found in record.sites.items()} for name, record in runs.items()}
    if len(_all_sites(runs)) > _MOST_BARS:
        return
    plot = bar_chart(shown, Labels(f"{reading.capitalize()} F1 by site", "", f"{reading} micro-F1"))
    told = "; ".join(
        f"{name}: " + ", ".join(f"{s} {i.estimate:.3f}" for s, i in sites.items()) for name, sites in shown.items()
    )
    caption = "Whiskers are 95% bootstrap intervals over each site's test notes."
    yield Drawing.of(plot, "f1-by-site-and-run", caption, told=f"F1 by site and run. {told}.")


def _how(runs: _Named) -> str:
    first = next(iter(runs))
    return f"Each run less the first, {first}.\n\n{_PAIRED}"


def _differences(runs: _Named) -> Iterable[Table]:
    (_, base), *others = runs.items()
    for name, record in others:
        rows = [_row(base, record, site, own) for site, own in _pairs(base, record)]
        totals = list(_totals(base, record)) if len(rows) > 1 else []
        columns = ("site", "difference", "95% from", "to", "p", "by")
        title, note = f"{name} less {next(iter(runs))}", _unpaired(base, record)
        yield Table(title, columns, tuple(rows), totals=tuple(totals), note=note)


def _unpaired(base: RunRecord, record: RunRecord) -> str:
    """Which sites have no difference, because one of the two runs has none of the name."""
    paired = {name for pair in _pairs(base, record) for name in pair}
    left = [site for site in dict.fromkeys([*base.sites, *record.sites]) if site not in paired]
    return f"In one of the two runs alone, and not here: {_listed(left)}." if left else ""


def _pairs(base: RunRecord, record: RunRecord) -> list[tuple[str, str]]:
    """The name of each site in either run; where both have one, that is meant, whatever it is called."""
    if len(base.sites) == len(record.sites) == 1:
        return [(next(iter(base.sites)), next(iter(record.sites)))]
    return [(site, site) for site in base.sites if site in record.sites]


def _row(base: RunRecord, record: RunRecord, site: str, own: str) -> Row:
    found = _paired(base.notes.get(site, ()), record.notes.get(own, ()))
    if found is not None:
        return (site, *_cells(found))
    plain = record.sites[own].interval.estimate - base.sites[site].interval.estimate
    return (site, plain, None, None, None, "no test: the counts of each note are not here, or of other notes")


def _paired(base: Sequence[TypedCounts], other: Sequence[TypedCounts]) -> Difference | None:
    if not base or not other:
        return None
    try:
        return paired_difference(other, base, _MEASURE)
    except UsageError:  # they were scored on other notes
        return None


def _pooled(base: RunRecord, record: RunRecord) -> Difference | None:
    pairs = _pairs(base, record)
    notes = [(base.notes.get(site, ()), record.notes.get(own, ())) for site, own in pairs]
    if not all(left and right for left, right in notes):
        return None
    first = [note for left, _ in notes for note in left]
    return _paired(first, [note for _, right in notes for note in right])


def _totals(base: RunRecord, record: RunRecord) -> Iterable[Row]:
    gaps = [
        record.sites[own].interval.estimate - base.sites[site].interval.estimate for site, own in _pairs(base, record)
    ]
    how = f"paired permutation of {len(gaps)} sites"
    yield "mean of sites", sum(gaps) / len(gaps), None, None, sign_flip_p_value(gaps), how
    pooled = _pooled(base, record)
    if pooled is not None:
        yield ("all notes, pooled", *_cells(pooled))


def _cells(found: Difference) -> tuple[Cell, ...]:
    return found.estimate, found.low, found.high, found.p_value, "paired bootstrap of notes"


def _curves(runs: _Named) -> Iterable[Drawing]:
    among = _compared(runs)
    rounds = {name: _by_round(record, among) for name, record in runs.items()}
    known = {name: curve for name, curve in rounds.items() if curve}
    if known:
        plot = learning_curves(known, Labels("Development F1", "round or epoch", "mean of sites"))
        told = ", ".join(f"{name} {curve[-1][1]:.3f}" for name, curve in known.items())
        caption = f"Micro-F1 on development notes, mean over {_over(runs)}."
        yield Drawing.of(plot, "development-f1-by-run", caption, told=f"{caption} Last: {told}.")
    spent = {name: _by_bytes(record, among) for name, record in runs.items()}
    paid = {name: curve for name, curve in spent.items() if curve}
    if paid:
        labels = Labels("Development F1 by what it cost", "MB up, all sites", "mean of sites")
        plot = learning_curves(paid, labels, x_kind="amounts")
        yield Drawing.of(plot, "development-f1-by-bytes", "The same scores over the bytes that sites had sent.")


def _compared(runs: _Named) -> frozenset[str]:
    """The sites that curves are of; nobody in particular where all runs have the same, or none is in all."""
    common = _common(runs)
    return frozenset(common if len(common) < len(_all_sites(runs)) else ())


def _by_round(record: RunRecord, among: Collection[str]) -> Curve:
    history = record.history
    return _means(history.scorings, among) or [(e.epoch, e.dev_f1) for e in history.epochs]


def _means(scorings: Sequence[Scoring], among: Collection[str]) -> list[tuple[int, float]]:
    if not among:
        return [(s.round, s.mean) for s in scorings]
    found = [(s.round, [f1 for site, f1 in s.f1.items() if site in among]) for s in scorings]
    return [(number, sum(f1) / len(f1)) for number, f1 in found if f1]


def _by_bytes(record: RunRecord, among: Collection[str]) -> Curve:
    up, passed = 0, dict[int, int]()
    for finished in record.history.rounds:
        up += finished.up
        passed[finished.number] = up
    return [(passed[number] / 1e6, mean) for number, mean in _means(record.history.scorings, among) if number in passed]


def _costs(runs: _Named) -> Table:
    rows: list[Row] = []
    for name, record in runs.items():
        history, seconds = record.history, phase_seconds(record.history)
        count = len(history.rounds or history.epochs)
        trained = sum(seconds.get("train", {}).values()) or sum(epoch.seconds for epoch in history.epochs)
        rows.append((name, count, record.up, record.down, trained, sum(sum(s.values()) for s in seconds.values())))
    columns = ("run", "rounds or epochs", "bytes up", "bytes down", "seconds of training", "seconds of all phases")
    return Table("What each run cost", columns, tuple(rows))


def _settings(runs: _Named) -> Table:
    """The lines of the study files that are not the same in all."""
    lines = {name: dict(_lines(record)) for name, record in runs.items()}
    keys = list(dict.fromkeys(key for found in lines.values() for key in found))
    different = [key for key in keys if len({found.get(key) for found in lines.values()}) > 1]
    rows = tuple((key, *(found.get(key, "–") for found in lines.values())) for key in different)
    note = "" if rows else "The study files are alike."
    return Table("Settings that differ", ("setting", *runs), rows, note=note)


def _lines(record: RunRecord) -> Iterable[tuple[str, str]]:
    for section, found in parse_toml(record.study).items():
        yield from _flat(section, found)
    yield from ((f"training {key}", str(value)) for key, value in record.history.training.items())


def _flat(section: str, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each setting below its section, as a study file has it."""
    for key, value in found.items():
        if isinstance(value, dict):
            yield from _flat(f"{section}.{key}", value)
        else:
            yield f"[{section}] {key}", _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
