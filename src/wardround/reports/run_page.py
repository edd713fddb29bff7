"""The page of one run: scores, rounds, participation, costs, privacy, examples, and what it was made with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from wardround.reports.cost_tables import COORDINATOR, bytes_table, megabytes_by_step, phase_seconds, phase_table
from wardround.reports.history import RoundRecord
from wardround.reports.page import Chart, Section, write_page
from wardround.reports.plots import Labels, bar_chart, stacked_bars
from wardround.reports.round_sections import participation_section, rounds_section
from wardround.reports.run_record import MechanismDeclaration, PrivacyFacts, RunRecord, Sends
from wardround.reports.score_tables import interval_text, leakage_tables, study_tables, type_table
from wardround.reports.tables import Cell, Figures, Row, Table
from wardround.reports.training_page import errors_section
from wardround.text.plain_text import size_text

__all__ = ["privacy_section", "run_sections", "scores_section", "write_run_page"]

_MOST_SECTIONS = 40  # sites with a section each; with more, each has only a row
_MOST_BARS = 7  # sites in the chart by type
_MOST_ROWS = 12  # sites with a bar each in the chart of seconds
_SHORTEST_PHASE = 0.005  # as a share of all seconds; shorter ones are not drawn
_INTERVALS = "Error bars are 95% bootstrap intervals over notes."


def write_run_page(path: Path, record: RunRecord) -> None:
    """Write one self-contained page."""
    write_page(path, record.title, run_sections(record))


def run_sections(record: RunRecord) -> list[Section]:
    """Return the sections of a run's page, in the order of a reader's questions."""
    history = record.history
    sections = [_overview(record)]
    if record.sites:
        sections += [scores_section(record), *_site_sections(record)]
    if record.errors is not None:
        sections.append(errors_section(record.errors))
    sections.append(rounds_section(history, record.mode))
    if history.rounds:
        sections += [participation_section(history, record.names), *_costs(record)]
    sections += [privacy_section(record.privacy, history.rounds), *([record.leakage] if record.leakage else [])]
    return [*sections, *_examples(record), _made_with(record)]


def _overview(record: RunRecord) -> Section:
    history = record.history
    unit = "epochs" if history.epochs else "rounds"
    best = f"; the model is that of {unit.removesuffix('s')} {record.best:,}" if record.best else ""
    facts: list[tuple[str, Cell]] = [*record.facts, (unit, f"{len(history.epochs or history.rounds):,}{best}")]
    if record.mean_f1 is not None:
        over = f", mean of {len(record.sites)} sites" if len(record.sites) > 1 else ""
        score = Figures(f"{record.mean_f1:.3f}{over}", {"": record.mean_f1})
        facts.append((f"{record.mode} micro-F1 on {record.scored_on} notes", score))
    if record.up is not None and record.down is not None:
        text = f"{size_text(record.up)} up, {size_text(record.down)} down, for all requests"
        facts.append(("bytes", Figures(text, {"": f"{record.up} up, {record.down} down"})))
    if history.started is not None and history.ended is not None:
        start, end = (datetime.fromtimestamp(seconds, UTC) for seconds in (history.started, history.ended))
        facts.append(("time", f"{start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC"))
    text = "" if record.sites else "The run has not finished; this page shows its state so far."
    return Section("Overview", text, tables=(Table("The run", ("item", "value"), tuple(facts)), *record.more))


def scores_section(record: RunRecord) -> Section:
    """Return the section with the scores of all sites."""
    if len(record.sites) > _MOST_SECTIONS:
        return Section("Scores", tables=study_tables(record.sites))
    mode = record.mode
    plot = bar_chart(
        {f"{mode} F1": {name: site.interval for name, site in record.sites.items()}},
        Labels(f"{mode.capitalize()} F1", "", f"{mode} micro-F1"),
    )
    alt = ", ".join(f"{name} {interval_text(site.interval)}" for name, site in record.sites.items())
    caption = f"Test scores by site. {_INTERVALS}"
    charts = [Chart.from_plot(plot, "f1-by-site", caption, alt=f"{mode} micro-F1: {alt}.")]
    by_type = {name: dict(site.type_intervals) for name, site in record.sites.items()}
    types = {kind for site in by_type.values() for kind in site}
    if len(by_type) <= _MOST_BARS and len(types) > 1:  # for one type the chart by site is enough
        plot = bar_chart(by_type, Labels("F1 by type", "", f"{mode} F1"))
        alt = "; ".join(
            f"{name}: " + ", ".join(f"{kind} {found.estimate:.3f}" for kind, found in site.items())
            for name, site in by_type.items()
        )
        caption = f"Test scores by type. {_INTERVALS}"
        charts.append(Chart.from_plot(plot, "f1-by-type", caption, alt=f"F1 by type. {alt}."))
    return Section("Scores", tables=study_tables(record.sites), charts=tuple(charts))


def _site_sections(record: RunRecord) -> Iterator[Section]:
    if len(record.sites) > _MOST_SECTIONS:
        return
    for name, site in record.sites.items():
        text = f"{record.mode.capitalize()} micro-F1 {interval_text(site.interval)} on {site.documents:,} notes."
        leakage = () if site.leakage is None else leakage_tables(site.leakage)
        heading = f"Site {name}" if len(record.sites) > 1 else "By type"
        yield Section(heading, text, tables=(type_table(site), *leakage))


def _costs(record: RunRecord) -> Iterator[Section]:
    history, costs, names = record.history, record.history.costs, record.names
    if not costs:
        rounds = history.rounds
        up, down = sum(r.up for r in rounds), sum(r.down for r in rounds)
        rows = (("up, from the sites", up, up // len(rounds)), ("down, to the sites", down, down // len(rounds)))
        note = "This run did not record its bytes by exchange and site."
        table = Table("Bytes of the rounds", ("direction", "all rounds", "per round"), rows, note=note)
        yield Section("Communication", tables=(table,))
        return
    plot = stacked_bars(megabytes_by_step(costs), Labels("Megabytes by exchange", "MB", ""))
    sizes = {step: size_text(sum(c.up + c.down for c in sites.values())) for step, sites in costs.items()}
    alt = ", ".join(f"{step} {size}" for step, size in sizes.items())
    caption = "Sum over all sites, up and down."
    chart = Chart.from_plot(plot, "bytes-by-exchange", caption, alt=f"Bytes by exchange: {alt}.")
    yield Section("Communication", tables=(bytes_table(costs, names),), charts=(chart,))
    spent = phase_seconds(history)
    total = sum(sum(sites.values()) for sites in spent.values())
    bars = spent
    if len(names) > _MOST_ROWS:
        bars = {}
        for phase, sites in spent.items():
            own = sites.get(COORDINATOR, 0.0)
            bars[phase] = {"all sites": sum(sites.values()) - own, COORDINATOR: own}
    drawn = {phase: parts for phase, parts in bars.items() if sum(parts.values()) > _SHORTEST_PHASE * total}
    plot = stacked_bars(drawn, Labels("Seconds by phase", "seconds", ""))
    alt = ", ".join(f"{phase} {sum(sites.values()):.1f} s" for phase, sites in spent.items())
    caption = "Seconds of the sites are added, even if they worked in parallel."
    chart = Chart.from_plot(plot, "seconds-by-phase", caption, alt=f"Seconds by phase: {alt}.")
    yield Section("Time", tables=(phase_table(history, names),), charts=(chart,))


def _examples(record: RunRecord) -> Iterator[Section]:
    if record.excerpts:
        text = (
            "These notes describe no real person: they come from the built-in hospitals, which do not exist, or from "
            "the study's public set. No note of a site is shown in any report. Solid frame: annotated and found; "
            "dashed: missed; dotted: found but not annotated."
        )
        yield Section("Example predictions", text, excerpts=record.excerpts)
    elif record.no_excerpts:
        yield Section("Example predictions", record.no_excerpts)


def _made_with(record: RunRecord) -> Section:
    history = record.history
    rows = [("seed", str(record.seed))] if record.seed is not None else []
    rows += [(name, version) for name, version in history.versions.items()]
    tables = [Table("Seed and versions", ("item", "value"), tuple(rows))] if rows else []
    if history.training:
        settings = tuple((name, str(value)) for name, value in history.training.items())
        tables.append(Table("Training settings", ("setting", "value"), settings))
    return Section("Made with", tables=tuple(tables), listing=record.study)


# Privacy.


_SENDS: dict[Sends, str] = {
    "updates": "The sites sent updates of the shared layers{figures}. No note, no word of a note and no "
    "private layer left a site.",
    "predictions": "The sites sent predictions on the public set{figures}. No note and no parameter left a "
    "site. On this page, read “predictions” for “updates”.",
    "nothing": "Each site trained alone and sent counts and losses, but no update.",
    "notes": "All notes were in one place. Such a run is a baseline for comparison; hospitals cannot run it together.",
    "alone": "This was training at one site. Nothing left it.",
}


def privacy_section(facts: PrivacyFacts, rounds: Sequence[RoundRecord]) -> Section:
    """Return how updates were protected and who could read what, in words and tables."""
    mechanism, tables = facts.mechanism, list[Table]()
    noisy = mechanism is not None and mechanism.adds_noise
    lines = [_SENDS[facts.sends].format(figures=" with noise, and counts" if noisy else ", counts and losses")]
    if mechanism is not None and facts.sends in ("updates", "predictions"):
        sites = "one site" if facts.minimum_sites == 1 else f"{facts.minimum_sites} sites"
        examples = "one example" if facts.smallest_batch == 1 else f"{facts.smallest_batch} examples"
        each = ", every update over a random sample" if noisy else f", and every update over at least {examples}"
        lines.insert(0, f"Mechanism: {mechanism.name}. {mechanism.report}")
        lines.append(f"Every sum was over at least {sites}{each}.")
        if facts.encryption:
            lines.append(f"Encryption: {facts.encryption}.")
        if facts.shared:
            rest = "" if facts.shared == ("all",) else " All other layers stayed at their site."
            lines.append(f"Shared layers: {', '.join(facts.shared)}.{rest}")
        lines.append(f"Privacy budget: {mechanism.budget}")
        if spent := [record.figures["epsilon"] for record in rounds if "epsilon" in record.figures]:
            lines.append(f"Spent until the last round, at the site that spent most: ε = {max(spent):.2f}.")
        tables.append(_readers_table(mechanism, facts.sends))
    if facts.sends != "alone" and not facts.ledgers:
        lines.append(
            "Ledgers: this folder contains none. In a networked study each site keeps its own ledger and sends it to "
            "nobody; wardround ledger verify prints its head there. On one machine, wardround run --ledgers writes "
            "them."
        )
    clipped = [record.clipped for record in rounds if record.clipped is not None]
    if clipped:
        row: Row = (sum(clipped), sum(1 for count in clipped if count), len(clipped), max(clipped))
        clips = ", ".join(f"{group} {clip:g}" for group, clip in facts.clips.items())
        note = f"Bounds by layer group: {clips}." if clips else "The bounds were learned in the first round and kept."
        columns = ("in all rounds", "rounds with clipping", "rounds", "most in one round")
        tables.append(Table("Clipped numbers in updates", columns, (row,), note=note))
    if facts.ledgers:
        tables.append(
            Table(
                "Ledgers of what left each site",
                ("site", "messages sent", "bytes", "head (SHA-256 of the last line)"),
                tuple((led.site, led.entries, led.bytes_out, led.head or "broken chain") for led in facts.ledgers),
                note="wardround ledger verify --head HEAD checks a ledger against a head that was noted earlier.",
            )
        )
    return Section("Privacy", "\n\n".join(lines), tables=tuple(tables))


def _readers_table(mechanism: MechanismDeclaration, sends: Sends) -> Table:
    # Predictions train a central model, which the coordinator has: sites open their mean for the coordinator.
    reads_sum = mechanism.coordinator_reads_sum or sends == "predictions"
    answers = (
        ("the coordinator", "one site's update", mechanism.coordinator_reads_update),
        ("the coordinator", "the sum of a round, and the shared model", reads_sum),
        ("the other sites", "the sum of a round, and the shared model", True),
        (
            "the coordinator together with one site",
            "another site's update",
            mechanism.coordinator_and_one_site_read_update,
        ),
        ("the coordinator together with all other sites", "a site's update", True),
        ("the coordinator", "sizes, losses, counts, seconds and codes of a site", True),
        ("anyone except the site", "a note, or a word of one", False),
    )
    rows = tuple((who, what, "yes" if answer else "no") for who, what, answer in answers)
    note = "docs/threat-model.md explains what can be inferred from readable data."
    return Table("Who could read what", ("who", "what", "could read it"), rows, note=note)
