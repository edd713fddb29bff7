"""`wardround paper`: the tables and figures of the papers, from a checkout."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from wardround.cli.options import Device
from wardround.errors import UsageError
from wardround.settings import did_you_mean

__all__ = ["command"]

_CHECKOUT = Path(__file__).resolve().parents[3]
_OVERVIEW = "overview"


def command(
    paper: Annotated[str, typer.Argument(help="fedner, tagsets, fedhe, feded, transfer; or overview.")] = "",
    what: Annotated[str, typer.Argument(help="A table or figure: table2, figure3; all by default.")] = "",
    measure: Annotated[bool, typer.Option("--measure", help="Run the missing studies first.")] = False,
    sites: Annotated[Path | None, typer.Option(help="The folder of the sites; default: runs/PAPER/sites.")] = None,
    data: Annotated[Path | None, typer.Option(help="The corpora, needed if there are no sites yet.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the runs; default: runs/PAPER/work.")] = None,
    processes: Annotated[int, typer.Option(help="Runs in parallel, each on one core.", min=1)] = 1,
    device: Device = "auto",
    minutes: Annotated[float, typer.Option(help="Stop after so many minutes; 0: never.", min=0.0)] = 0.0,
    seeds: Annotated[str, typer.Option(help="With --measure: comma-separated; default: those of each study.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --measure: only list the runs.")] = False,
    add: Annotated[list[Path] | None, typer.Option(help="A results file that was measured elsewhere.")] = None,
) -> None:
    """Show the papers' tables, measured beside published, and write them into their pages; or measure them again."""
    papers, reproduce = _modules()
    if paper == _OVERVIEW:
        papers.main()
        typer.echo(f"page    {papers.PAGE}")
        return
    if not paper:
        _list(papers, papers.PAPERS.values())
        return
    described = _named(papers.PAPERS, paper, "paper")
    if what:
        _item(described, what)  # refuse an unknown name before anything is written
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
        reproduce.measure_again(described, _item(described, what), request)
    else:
        reproduce.rebuild(described)
    if dry_run:
        return
    if what:
        typer.echo(f"{reproduce.shown(described, _item(described, what)) or 'not measured'}\n")
    else:
        _list(papers, [described])
    typer.echo(f"page    {described.folder / 'README.md'}")


def _modules() -> tuple[Any, Any]:
    """Import `papers.overview` and `papers.reproduce`, which lie beside the installed package."""
    if not (_CHECKOUT / "papers" / "overview.py").is_file():
        raise UsageError(
            "the papers are not part of an installed wardround: run this in a checkout, after `make env`, as "
            ".venv/bin/wardround paper"
        )
    if str(_CHECKOUT) not in sys.path:
        sys.path.insert(0, str(_CHECKOUT))
    return import_module("papers.overview"), import_module("papers.reproduce")


def _named(known: dict[str, Any], name: str, what: str) -> Any:
    if name not in known:
        raise UsageError(f"{name!r} is no {what}{did_you_mean(name, known)}; there are {', '.join(known)}")
    return known[name]


def _item(paper: Any, name: str) -> Any:
    return _named({item.name: item for item in paper.items}, name, f"table or figure of {paper.name}")


def _list(papers: Any, described: Any) -> None:
    for paper in described:
        typer.echo(f"{paper.name}: {paper.title}")
        for item in paper.items:
            typer.echo(f"  {item.name:11} {item.title:45} {papers.state(paper, item)}")
