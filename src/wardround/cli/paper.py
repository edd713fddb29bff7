"""`wardround paper`: show or measure the tables and figures of the papers; works in a checkout only."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from wardround.cli.options import Device
from wardround.cli.printing import Json, printed
from wardround.errors import UsageError
from wardround.settings import did_you_mean

__all__ = ["command"]

_CHECKOUT = Path(__file__).resolve().parents[3]


def command(
    paper: Annotated[str, typer.Argument(help="fedner, tagsets, fedhe, feded, transfer; or overview.")] = "",
    what: Annotated[str, typer.Argument(help="A table or figure: table2, figure3; all by default.")] = "",
    measure: Annotated[bool, typer.Option("--measure", help="Run the missing studies first.")] = False,
    sites: Annotated[Path | None, typer.Option(help="The folder of the sites; default: runs/PAPER/sites.")] = None,
    data: Annotated[Path | None, typer.Option(help="The corpora, needed if there are no sites yet.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the runs; default: runs/PAPER/work.")] = None,
    processes: Annotated[int, typer.Option(help="Runs in parallel, each on one core.", min=1)] = 1,
    device: Device = "auto",
    minutes: Annotated[float, typer.Option(help="Stop after this many minutes; 0 means never.", min=0.0)] = 0.0,
    seeds: Annotated[str, typer.Option(help="With --measure: comma-separated; default: those of each study.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --measure: only list the runs.")] = False,
    add: Annotated[list[Path] | None, typer.Option(help="A results file that was measured elsewhere.")] = None,
    json: Json = False,
) -> None:
    """Show the papers' tables, measured and published, and write them into their pages; or measure them again."""
    papers, reproduce = _import_papers()
    if json:
        _print_json(papers, paper, writes=measure or bool(add))
        return
    if paper == "overview":
        papers.main()
        typer.echo(f"page    {papers.PAGE}")
        return
    if not paper:
        _list(papers, papers.PAPERS.values())
        return
    described = _named(papers.PAPERS, paper, "paper")
    items = {item.name: item for item in described.items}
    if what or (measure and not add):  # refuse an unknown name before anything is written
        _named(items, what, f"table or figure of {paper}")
    if measure and add:
        raise UsageError("--measure makes runs and --add adds existing ones: give one of them")
    if add:
        reproduce.add(described, add)
    elif measure:
        work = Path("runs") / paper
        request = reproduce.Request(
            (sites or work / "sites").resolve(),
            (out or work / "work").resolve(),
            None if data is None else data.resolve(),
            processes,
            device,
            minutes,
            seeds,
            dry_run,
        )
        reproduce.measure_again(described, items[what], request)
    else:
        reproduce.rebuild(described)
    if dry_run:
        return
    if what:
        typer.echo(f"{reproduce.shown(described, items[what]) or 'not measured'}\n")
    else:
        _list(papers, [described])
    typer.echo(f"page    {described.folder / 'README.md'}")


def _import_papers() -> tuple[Any, Any]:
    """Import `papers.overview` and `papers.reproduce`, which are in the checkout and not in the installed package."""
    if not (_CHECKOUT / "papers" / "overview.py").is_file():
        raise UsageError(
            "the papers are not part of an installed wardround: run this in a checkout, after `make env`, as "
            ".venv/bin/wardround paper"
        )
    if str(_CHECKOUT) not in sys.path:
        sys.path.insert(0, str(_CHECKOUT))
    return import_module("papers.overview"), import_module("papers.reproduce")


def _named(known: dict[str, Any], name: str, what: str) -> Any:
    """Return what has this name; raise a `UsageError` that lists the known names."""
    if name not in known:
        raise UsageError(f"{name!r} is no {what}{did_you_mean(name, known)}; there are {', '.join(known)}")
    return known[name]


def _list(papers: Any, described: Iterable[Any]) -> None:
    """Print the tables and figures of papers, and whether they are measured."""
    for paper in described:
        typer.echo(f"{paper.name}: {paper.title}")
        for item in paper.items:
            typer.echo(f"  {item.name:11} {item.title:45} {papers.state(paper, item)}")


def _print_json(papers: Any, name: str, *, writes: bool) -> None:
    """Print which tables and figures are measured, of one paper or of all, as one JSON object; no page is written."""
    if writes:
        raise UsageError("--json prints what is measured; leave out --measure and --add")
    known = papers.PAPERS
    chosen = known.values() if name in ("", "overview") else [_named(known, name, "paper")]
    with printed(True) as result:
        for paper in chosen:
            items = {item.name: {"title": item.title, "state": papers.state(paper, item)} for item in paper.items}
            result.values(**{paper.name: {"title": paper.title, "items": items}})
