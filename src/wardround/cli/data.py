"""`wardround data`: check, convert, count and split corpora, show who annotates what, write the built-in ones."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import asdict
from json import dump
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wardround.cli.exit_codes import ExitCode
from wardround.cli.options import (
    FORMAT_HELP,
    Format,
    FormatOptions,
    SkipFaulty,
    StudyFile,
    chosen_format,
    listed,
    refuse_existing,
    show_skipped,
    skipped_faults,
)
from wardround.cli.printing import Json, Result, printed, tables_as_csv
from wardround.corpora.brat import Brat
from wardround.corpora.check import WHOLE
from wardround.corpora.check import check as check_corpus
from wardround.corpora.conversion import Misfits, convert_corpus, split_corpus
from wardround.corpora.corpus_files import open_for_writing
from wardround.corpora.corpus_format import Problem
from wardround.corpora.formats import writable_format
from wardround.corpora.skipped_faults import sink_of
from wardround.corpora.splits import find_splits
from wardround.corpora.stats import Counts, count
from wardround.corpora.synthetic import CLINICAL_TYPES, clinical_hospitals
from wardround.reports.corpus_tables import corpus_tables
from wardround.reports.tables import Table as ReportTable
from wardround.text.plain_text import neutralise

__all__ = ["app"]

app = typer.Typer(help="Check, convert, count and split corpora; see who annotates what.", no_args_is_help=True)

_MISFITS = (
    "What happens to entities, relations and documents that the new format cannot hold: refuse stops at the first, "
    "drop leaves them out and counts them."
)
_MOST_COLUMNS = 12  # with more sites, each site has a row instead of a column
NewFolder = Annotated[Path, typer.Argument(help="The folder to write; must be new or empty.")]
Source = Annotated[Path, typer.Argument(help="A file, a folder, or a folder that holds train, dev and test.")]


@app.command()
def check(
    path: Source,
    format: Format,
    option: FormatOptions = None,
    types: Annotated[str | None, typer.Option(help="The types to expect, comma-separated.")] = None,
    json: Json = False,
) -> None:
    """Report every problem in a corpus; exit with 1 if there is an error."""
    report = check_corpus(path, chosen_format(format, option, path), types=listed(types))
    with printed(json) as result:
        result.declare("problems")
        for problem in report.problems:
            place = _place(problem, path)
            found = {"file": place, "line": problem.line}
            found |= {"severity": problem.severity.value, "message": problem.message}
            result.item(_line(problem, place), problems=found)
        _show_counts(report.counts, result)
        line = f"{_number(report.errors, 'error')}, {_number(report.warnings, 'warning')}"
        result.line(line, errors=report.errors, warnings=report.warnings)
        if report.errors:
            raise typer.Exit(ExitCode.FINDINGS)


@app.command()
def convert(
    source: Source,
    target: Annotated[Path, typer.Argument(help="The file or folder to write; must be new.")],
    source_format: Annotated[str, typer.Option("--from", help=FORMAT_HELP)],
    target_format: Annotated[str, typer.Option("--to", help=FORMAT_HELP)],
    from_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the source's format.")
    ] = None,
    to_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the target's format.")
    ] = None,
    skip_faulty: SkipFaulty = False,
    misfits: Annotated[Misfits, typer.Option(help=_MISFITS)] = Misfits.REFUSE,
    json: Json = False,
) -> None:
    """Write a corpus in another format, read it again, and say what the new format could not hold."""
    reader, faults = chosen_format(source_format, from_option, source), skipped_faults(skip_faulty)
    writer = writable_format(chosen_format(target_format, to_option))
    refuse_existing(target)
    with printed(json) as result:
        result.declare("parts")
        parts = convert_corpus(
            source, target, reader=reader, writer=writer, drop=misfits is Misfits.DROP, problems=sink_of(faults)
        )
        for part in parts:
            lines = [f"{part.path.name}: {_number(part.documents, 'document')}"]
            for kind, lost in part.losses.items():
                what = "discontinuous entities" if kind == "discontinuous" else kind
                lines.append(f"{part.path.name}: the format {target_format} does not hold {lost:,} {what}")
            for kind, dropped in part.dropped.items():
                lines.append(f"{part.path.name}: dropped {dropped:,} {kind} that do not fit the format {target_format}")
            result.item("\n".join(lines), parts=asdict(part))
        show_skipped(faults, result)


@app.command()
def stats(
    path: Source,
    format: Format,
    option: FormatOptions = None,
    skip_faulty: SkipFaulty = False,
    json: Json = False,
) -> None:
    """Count documents, entities and relations by split and by type."""
    reader, faults = chosen_format(format, option, path), skipped_faults(skip_faulty)
    parts = find_splits(path) or {WHOLE: path}
    counts = {name: count(reader.read(part, problems=sink_of(faults))) for name, part in parts.items()}
    with printed(json) as result:
        show_skipped(faults, result)
        _show_counts(counts, result)


@app.command()
def split(
    path: Source,
    out: NewFolder,
    format: Format,
    option: FormatOptions = None,
    skip_faulty: SkipFaulty = False,
    dev: Annotated[float, typer.Option(min=0, max=1, help="The fraction for development.")] = 0.1,
    test: Annotated[float, typer.Option(min=0, max=1, help="The fraction for the test.")] = 0.1,
    seed: Annotated[int, typer.Option(help="The same seed splits the same texts in the same way.")] = 0,
    json: Json = False,
) -> None:
    """Split a corpus into train, dev and test, and write split.json, which reveals later changes."""
    reader, faults = chosen_format(format, option, path), skipped_faults(skip_faulty)
    refuse_existing(out)
    parts = split_corpus(path, out, reader, dev=dev, test=test, seed=seed, problems=sink_of(faults))
    with printed(json) as result:
        show_skipped(faults, result)
        result.line(_sizes(parts), folder=out, documents={name: len(part) for name, part in parts.items()})


@app.command()
def tagsets(
    study: StudyFile,
    out: Annotated[Path | None, typer.Option(help="A JSON file to write; must be new.", dir_okay=False)] = None,
    json: Json = False,
) -> None:
    """Show which site of a study annotates which types, where they overlap, and which only one site has."""
    # Imported here, because the other commands about corpora load no model.
    from wardround.studies.study_file import read_study
    from wardround.studies.study_notes import tag_sets_of

    if out is not None:
        refuse_existing(out)
    described = read_study(study)
    found = tag_sets_of(described)
    table = ReportTable("Mentions by type and site", ("type", *found.sites), found.rows())
    values = found.as_json()
    with printed(json) as result:
        shown = table.transpose("site") if len(found.sites) > _MOST_COLUMNS else table
        result.table("types", shown, values["types"])
        result.line("In training notes, or · where the type is not annotated; then in test notes, where it is scored.")
        for sentence in found.sentences():
            result.line(neutralise(sentence))
        result.values(study=described.study.name, **values)
    if out is not None:
        with open_for_writing(out) as stream:
            dump({"study": described.study.name, **values}, stream, indent=2, ensure_ascii=False)
            stream.write("\n")


@app.command()
def hospitals(
    out: NewFolder,
    seed: Annotated[int, typer.Option(help="The same seed writes the same notes.")] = 0,
    complete: Annotated[
        bool, typer.Option("--complete", help="Annotate all types in every hospital, as in no real one.")
    ] = False,
    json: Json = False,
) -> None:
    """Write the built-in hospitals, whose patients are invented, as brat folders OUT/<hospital>/train, dev and test."""
    refuse_existing(out)
    with printed(json) as result:
        for site in clinical_hospitals(seed):
            source, types = (site.complete, CLINICAL_TYPES) if complete else (site, site.types)
            parts = {"train": source.train, "dev": source.dev, "test": source.test}
            for part, documents in parts.items():
                Brat().write(documents, out / site.name / part)
            written = {"documents": {name: len(part) for name, part in parts.items()}, "types": types}
            result.line(f"{site.name}: {_sizes(parts)}; {', '.join(types)}")
            result.values(**{site.name: written})


def _sizes(parts: Mapping[str, Sized]) -> str:
    return ", ".join(f"{part} {len(documents):,}" for part, documents in parts.items())


def _place(problem: Problem, root: Path) -> str:
    """Return the path of the problem's file relative to `root`."""
    path = problem.path
    if path is not None and path != root and path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return "" if path is None else path.name


def _line(problem: Problem, place: str) -> str:
    """Return `file:line: severity: message`."""
    line = "" if problem.line is None else f":{problem.line}"
    return neutralise(f"{place}{line}: {problem.severity.value}: {problem.message}")


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _show_counts(counts: Mapping[str, Counts], result: Result) -> None:
    """Print a table of the counts of each split, and a table by type for entities and for relations."""
    result.values(counts={name: _as_json(one) for name, one in counts.items()})
    if result.as_json:
        return
    if tables_as_csv.get():
        result.show(*corpus_tables(counts))
        return
    console, found = Console(), list(counts.values())

    def titled(title: str) -> Table:
        table = Table(title)
        for name in counts:
            table.add_column(name, justify="right")
        return table

    table = titled("")
    table.add_row("documents", *(f"{one.documents:,}" for one in found))
    table.add_row("sentences", *(f"{one.sentences:,}" if one.with_sentences else "–" for one in found))
    table.add_row("words", *(f"{one.words:,}" if one.with_words else "–" for one in found))
    for what in ("entities", "discontinuous", "relations"):
        table.add_row(what, *(f"{one.total(what):,}" for one in found))
    table.add_row("characters a document", *(f"{one.mean_length:,.1f}" for one in found))
    console.print(table)
    for what, types in (("entities", [one.entities for one in found]), ("relations", [one.relations for one in found])):
        if any(types):
            table = titled(f"{what} by type")
            for kind in sorted({kind for by_type in types for kind in by_type}):
                table.add_row(Text(kind), *(f"{by_type[kind]:,}" for by_type in types))
            console.print(table)


def _as_json(counts: Counts) -> dict[str, Any]:
    """Return the counts; null for the sentences and words of documents that come without them."""
    found = {**asdict(counts), "mean_length": counts.mean_length}
    found["sentences"] = counts.sentences if counts.with_sentences else None
    found["words"] = counts.words if counts.with_words else None
    return found
