"""`wardround data`: check, convert, count and split corpora, show who annotates what, write the built-in ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wardround.cli.options import FORMAT_HELP, Format, FormatOptions, chosen_format, listed, refuse_existing
from wardround.corpora.brat import Brat
from wardround.corpora.check import WHOLE
from wardround.corpora.check import check as check_corpus
from wardround.corpora.corpus_files import open_for_writing
from wardround.corpora.corpus_format import Problem
from wardround.corpora.formats import lossless_format, writable_format
from wardround.corpora.splits import MANIFEST, Manifest, find_splits, split_documents, verify
from wardround.corpora.stats import Counts, Tally, count
from wardround.corpora.synthetic import CLINICAL_TYPES, clinical_hospitals
from wardround.corpora.tag_set_table import TagSetTable
from wardround.errors import UsageError
from wardround.reports.plain_text import neutralise
from wardround.reports.tables import Table as ReportTable

__all__ = ["app"]

app = typer.Typer(help="Check, convert, count and split corpora; see who annotates what.", no_args_is_help=True)

_MOST_ACROSS = 12  # sites beside one another; of more, each has a row
NewFolder = Annotated[Path, typer.Argument(help="The folder to write; must be new or empty.")]
Source = Annotated[Path, typer.Argument(help="A file, a folder, or a folder that holds train, dev and test.")]


@app.command()
def check(
    path: Source,
    format: Format,
    option: FormatOptions = None,
    types: Annotated[str | None, typer.Option(help="The types to expect, comma-separated.")] = None,
) -> None:
    """Report every problem in a corpus; exit with 1 if there is an error."""
    report = check_corpus(path, chosen_format(format, option), types=listed(types))
    for problem in report.problems:
        typer.echo(_line(problem, path))
    _show_counts(report.counts)
    typer.echo(f"{_number(report.errors, 'error')}, {_number(report.warnings, 'warning')}")
    if report.errors:
        raise typer.Exit(1)


@app.command()
def convert(
    source: Source,
    target: Annotated[Path, typer.Argument(help="The file or folder to write; must be new.")],
    source_format: Annotated[str, typer.Option("--from", help=FORMAT_HELP)],
    target_format: Annotated[str, typer.Option("--to", help=FORMAT_HELP)],
    from_option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE")] = None,
    to_option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE")] = None,
) -> None:
    """Write a corpus in another format, read it again, and say what the new format could not hold."""
    reader = chosen_format(source_format, from_option)
    again = chosen_format(target_format, to_option)
    writable_format(again)
    refuse_existing(target)
    for name, place in _splits(source).items():
        destination = target if name == WHOLE else target / (name + again.ending)
        tally = Tally()
        again.write(tally.watch(reader.read(place)), destination)
        typer.echo(f"{destination.name}: {_number(tally.counts.documents, 'document')}")
        written = count(again.read(destination)) if tally.counts.documents else Counts()
        for loss in _losses(tally.counts, written):
            typer.echo(f"{destination.name}: the format {target_format} does not hold {loss}")


@app.command()
def stats(path: Source, format: Format, option: FormatOptions = None) -> None:
    """Count documents, entities and relations by split and by type."""
    reader = chosen_format(format, option)
    _show_counts({name: count(reader.read(place)) for name, place in _splits(path).items()})


@app.command()
def split(
    path: Source,
    out: NewFolder,
    format: Format,
    option: FormatOptions = None,
    dev: Annotated[float, typer.Option(min=0, max=1, help="The fraction for development.")] = 0.1,
    test: Annotated[float, typer.Option(min=0, max=1, help="The fraction for the test.")] = 0.1,
    seed: Annotated[int, typer.Option(help="The same seed splits the same texts in the same way.")] = 0,
) -> None:
    """Split a corpus into train, dev and test, and write split.json, which reveals later changes."""
    if dev + test >= 1:
        raise UsageError(f"--dev {dev} and --test {test} leave nothing for training")
    if find_splits(path):
        raise UsageError(f"{path.name} is split already; name one of its parts to split that")
    reader = chosen_format(format, option)
    refuse_existing(out)
    fractions = {"train": 1 - dev - test, "dev": dev, "test": test}
    parts = split_documents(reader.read(path), {name: part for name, part in fractions.items() if part}, seed)
    manifest = Manifest.of(parts)
    again = reader if reader.can_write else lossless_format()
    for part, documents in parts.items():
        again.write(documents, out / (part + again.ending))
    manifest.write(out / MANIFEST)
    verify(manifest, {part: again.read(place) for part, place in find_splits(out).items()})
    typer.echo(_sizes(parts))


@app.command()
def tagsets(
    study: Annotated[Path, typer.Argument(help="A study file.", exists=True, dir_okay=False)],
    out: Annotated[Path | None, typer.Option(help="A JSON file to write; must be new.", dir_okay=False)] = None,
) -> None:
    """Show which site of a study annotates which types, where they overlap, and which only one site has."""
    # Here, for the other commands about corpora load no model.
    from wardround.studies.study_file import read_study
    from wardround.studies.study_notes import tag_sets_of

    if out is not None:
        refuse_existing(out)
    described = read_study(study)
    found = tag_sets_of(described)
    Console().print(_table_of_tag_sets(found).to_rich())
    typer.echo("In training notes, or · where the type is not annotated; then in test notes, where it is scored.")
    for sentence in found.sentences():
        typer.echo(neutralise(sentence))
    if out is not None:
        with open_for_writing(out) as stream:
            json.dump({"study": described.study.name, **found.as_json()}, stream, indent=2, ensure_ascii=False)
            stream.write("\n")


@app.command()
def hospitals(
    out: NewFolder,
    seed: Annotated[int, typer.Option(help="The same seed writes the same notes.")] = 0,
    complete: Annotated[
        bool, typer.Option("--complete", help="Annotate all types everywhere, as no hospital does.")
    ] = False,
) -> None:
    """Write the built-in hospitals as brat folders OUT/<hospital>/train, dev and test; their notes are about nobody."""
    refuse_existing(out)
    for site in clinical_hospitals(seed):
        source, types = (site.complete, CLINICAL_TYPES) if complete else (site, site.types)
        parts = {"train": source.train, "dev": source.dev, "test": source.test}
        for part, documents in parts.items():
            Brat().write(documents, out / site.name / part)
        typer.echo(f"{site.name}: {_sizes(parts)}; {', '.join(types)}")


def _table_of_tag_sets(found: TagSetTable) -> ReportTable:
    table = ReportTable("Mentions by type and site", ("type", *found.sites), found.rows())
    return table.transpose("site") if len(found.sites) > _MOST_ACROSS else table


def _sizes(parts: Mapping[str, Sized]) -> str:
    return ", ".join(f"{part} {len(documents):,}" for part, documents in parts.items())


def _splits(path: Path) -> dict[str, Path]:
    return find_splits(path) or {WHOLE: path}


def _losses(before: Counts, after: Counts) -> Iterator[str]:
    for what in ("entities", "discontinuous", "relations", "concepts", "attributes", "notes", "sentences", "words"):
        lost = _total(before, what) - _total(after, what)
        if lost > 0:
            yield f"{lost:,} {'discontinuous entities' if what == 'discontinuous' else what}"


def _total(counts: Counts, what: str) -> int:
    found = getattr(counts, what)
    return found if isinstance(found, int) else sum(found.values())


def _line(problem: Problem, root: Path) -> str:
    """`file:line: severity: message`, the file as it lies below `root`."""
    path = problem.path
    place = "" if path is None else path.name
    if path is not None and path != root and path.is_relative_to(root):
        place = path.relative_to(root).as_posix()
    line = "" if problem.line is None else f":{problem.line}"
    return neutralise(f"{place}{line}: {problem.severity.value}: {problem.message}")


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _show_counts(counts: Mapping[str, Counts]) -> None:
    console = Console()
    console.print(_table_of_splits(counts))
    for what in ("entities", "relations"):
        if any(getattr(found, what) for found in counts.values()):
            console.print(_table_of_types(counts, what))


def _table_of_splits(counts: Mapping[str, Counts]) -> Table:
    table = _table("", counts)
    found = list(counts.values())
    table.add_row("documents", *(f"{one.documents:,}" for one in found))
    table.add_row("sentences", *(f"{one.sentences:,}" if one.with_sentences else "–" for one in found))
    table.add_row("words", *(f"{one.words:,}" if one.with_words else "–" for one in found))
    for what in ("entities", "discontinuous", "relations"):
        table.add_row(what, *(f"{_total(one, what):,}" for one in found))
    table.add_row("characters a document", *(f"{one.mean_length:,.1f}" for one in found))
    return table


def _table_of_types(counts: Mapping[str, Counts], what: str) -> Table:
    table = _table(f"{what} by type", counts)
    for kind in sorted({kind for found in counts.values() for kind in getattr(found, what)}):
        table.add_row(Text(kind), *(f"{getattr(found, what)[kind]:,}" for found in counts.values()))
    return table


def _table(title: str, splits: Iterable[str]) -> Table:
    table = Table(title)
    for name in splits:
        table.add_column(name, justify="right")
    return table
