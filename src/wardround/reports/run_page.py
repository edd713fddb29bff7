"""One run explained on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from wardround.reports.attendance import attendance_section
from wardround.reports.cost_tables import COORDINATOR, bytes_by_step, bytes_table, phase_seconds, phase_table
from wardround.reports.error_counts import errors_section
from wardround.reports.leakage_tables import leakage_tables
from wardround.reports.page import Drawing, Section, write_page
from wardround.reports.plain_text import size_text
from wardround.reports.plots import Labels, bar_chart, stacked_bars
from wardround.reports.privacy_words import privacy_section
from wardround.reports.round_sections import rounds_section
from wardround.reports.run_record import RunRecord
from wardround.reports.score_tables import interval_text
from wardround.reports.study_scores import ScoredSite, study_tables, type_table
from wardround.reports.tables import Cell, Figures, Table

__all__ = ["run_sections", "write_run_page"]

_MOST_SECTIONS = 40  # sites with a part of their own; of more there is a row each
_MOST_BARS = 7  # sites beside one another in the chart by type
_MOST_ROWS = 12  # sites with a bar of their own in the chart of seconds
_SHORTEST_PHASE = 0.005  # of all seconds; shorter ones are not drawn
_INTERVALS = "Whiskers are 95% bootstrap intervals over notes."


def write_run_page(path: Path, record: RunRecord) -> None:
    """One self-contained page."""
    write_page(path, record.title, run_sections(record))


def run_sections(record: RunRecord) -> list[Section]:
    """Everything that the run's folder tells, in the order of a reader's questions."""
    history = record.history
    sections = [_glance(record)]
    if record.sites:
        sections += [_scores(record), *_each_site(record)]
    if record.errors is not None:
        sections.append(errors_section(record.errors))
    sections.append(rounds_section(history, record.reading))
    if history.rounds:
        sections += [attendance_section(history, record.names), *_costs(record)]
    return [*sections, privacy_section(record.privacy, history.rounds), *_examples(record), *_made_with(record)]


def _glance(record: RunRecord) -> Section:
    facts = (*record.facts, *_figures(record))
    state = "" if record.sites else "The run has not finished: what is below is what happened so far."
    return Section("At a glance", state, tables=(Table("The run", ("what", "which"), facts), *record.more))


def _figures(record: RunRecord) -> Iterable[tuple[str, Cell]]:
    history = record.history
    unit = "epochs" if history.epochs else "rounds"
    yield unit, f"{len(history.epochs or history.rounds):,}" + _kept(record, unit)
    if record.mean_f1 is not None:
        over = f", mean of {len(record.sites)} sites" if len(record.sites) > 1 else ""
        shown = Figures(f"{record.mean_f1:.3f}{over}", {"": record.mean_f1})
        yield f"{record.reading} micro-F1 on {record.scored_on} notes", shown
    if record.up is not None and record.down is not None:
        said = f"{size_text(record.up)} up, {size_text(record.down)} down, of everything that was asked"
        yield "bytes", Figures(said, {"": f"{record.up} up, {record.down} down"})
    if history.started is not None and history.ended is not None:
        yield "when", f"{_moment(history.started)} to {_moment(history.ended)} UTC"


def _kept(record: RunRecord, unit: str) -> str:
    return f"; the model is that of {unit.removesuffix('s')} {record.best:,}" if record.best else ""


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def _scores(record: RunRecord) -> Section:
    few = len(record.sites) <= _MOST_SECTIONS
    shown = (*_by_site(record), *_by_type(record)) if few else ()
    return Section("Scores", tables=study_tables(record.sites), drawings=shown)


def _by_site(record: RunRecord) -> Iterable[Drawing]:
    reading = record.reading
    bars = bar_chart(
        {f"{reading} F1": {name: site.interval for name, site in record.sites.items()}},
        Labels(f"{reading.capitalize()} F1", "", f"{reading} micro-F1"),
    )
    told = ", ".join(f"{name} {interval_text(site.interval)}" for name, site in record.sites.items())
    yield Drawing.of(bars, "f1-by-site", f"Test scores by site. {_INTERVALS}", told=f"{reading} micro-F1: {told}.")


def _by_type(record: RunRecord) -> Iterable[Drawing]:
    shown = {name: dict(site.type_intervals) for name, site in record.sites.items()}
    kinds = {kind for site in shown.values() for kind in site}
    if len(shown) <= _MOST_BARS and len(kinds) > 1:  # of one type, the chart by site has said it
        plot = bar_chart(shown, Labels("F1 by type", "", f"{record.reading} F1"))
        told = "; ".join(
            f"{name}: " + ", ".join(f"{kind} {found.estimate:.3f}" for kind, found in site.items())
            for name, site in shown.items()
        )
        yield Drawing.of(plot, "f1-by-type", f"Test scores by type. {_INTERVALS}", told=f"F1 by type. {told}.")


def _each_site(record: RunRecord) -> Iterable[Section]:
    if len(record.sites) <= _MOST_SECTIONS:
        yield from (_site(name, site, record) for name, site in record.sites.items())


def _site(name: str, site: ScoredSite, record: RunRecord) -> Section:
    prose = f"{record.reading.capitalize()} micro-F1 {interval_text(site.interval)} on {site.documents:,} notes."
    leaking = () if site.leakage is None else leakage_tables(site.leakage)
    return Section(f"Site {name}" if len(record.sites) > 1 else "By type", prose, tables=(type_table(site), *leaking))


def _costs(record: RunRecord) -> Iterable[Section]:
    history, costs, names = record.history, record.history.costs, record.names
    if not costs:
        yield Section("What passed the door", tables=(_bytes_of_rounds(record),))
        return
    plot = stacked_bars(bytes_by_step(costs), Labels("Megabytes by exchange", "MB", ""))
    summed = {step: size_text(sum(c.up + c.down for c in sites.values())) for step, sites in costs.items()}
    told = ", ".join(f"{step} {size}" for step, size in summed.items())
    drawing = Drawing.of(plot, "bytes-by-exchange", "Of all sites, up and down.", told=f"Bytes by exchange: {told}.")
    yield Section("What passed the door", tables=(bytes_table(costs, names),), drawings=(drawing,))
    yield Section("Where the time went", tables=(phase_table(history, names),), drawings=(_time(record),))


def _time(record: RunRecord) -> Drawing:
    spent = phase_seconds(record.history)
    whole = sum(sum(sites.values()) for sites in spent.values())
    drawn = spent if len(record.names) <= _MOST_ROWS else {phase: _joined(sites) for phase, sites in spent.items()}
    large = {phase: parts for phase, parts in drawn.items() if sum(parts.values()) > _SHORTEST_PHASE * whole}
    plot = stacked_bars(large, Labels("Seconds by phase", "seconds", ""))
    told = ", ".join(f"{phase} {sum(sites.values()):.1f} s" for phase, sites in spent.items())
    caption = "Seconds of sites are added, also of those that worked side by side."
    return Drawing.of(plot, "seconds-by-phase", caption, told=f"Seconds by phase: {told}.")


def _joined(sites: Mapping[str, float]) -> dict[str, float]:
    own = sites.get(COORDINATOR, 0.0)
    return {"all sites": sum(sites.values()) - own, COORDINATOR: own}


def _bytes_of_rounds(record: RunRecord) -> Table:
    rounds = record.history.rounds
    up, down = sum(r.up for r in rounds), sum(r.down for r in rounds)
    rows = (("up, from the sites", up, up // len(rounds)), ("down, to the sites", down, down // len(rounds)))
    note = "This run did not note its bytes by exchange and site."
    return Table("Bytes of the rounds", ("way", "all rounds", "a round"), rows, note=note)


def _examples(record: RunRecord) -> Iterable[Section]:
    if record.excerpts:
        prose = (
            "Notes that are nobody's: of the built-in hospitals, which never existed, or of the study's public set. "
            "No note of a site is shown, here or anywhere. Framed: found and annotated; dashed: missed; dotted: found "
            "and not annotated."
        )
        yield Section("Example predictions", prose, excerpts=record.excerpts)
    elif record.no_excerpts:
        yield Section("Example predictions", record.no_excerpts)


def _made_with(record: RunRecord) -> Iterable[Section]:
    history = record.history
    rows = [("seed", str(record.seed))] if record.seed is not None else []
    rows += [(name, version) for name, version in history.versions.items()]
    tables = [Table("Seed and versions", ("what", "which"), tuple(rows))] if rows else []
    if history.training:
        settings = tuple((name, str(value)) for name, value in history.training.items())
        tables.append(Table("Settings of the training", ("setting", "value"), settings))
    yield Section("Made with", tables=tuple(tables), listing=record.study)
