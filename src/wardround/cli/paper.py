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
    measure: Annotated[bool, typer.Option("--measure", help="Run what is missing of its studies first.")] = False,
    sites: Annotated[Path | None, typer.Option(help="The sites of the paper; runs/PAPER/sites by default.")] = None,
    data: Annotated[Path | None, typer.Option(help="The corpora, where the sites are still to be made.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the runs are; runs/PAPER/work by default.")] = None,
    processes: Annotated[int, typer.Option(help="Runs at once, each on one core.", min=1)] = 1,
    device: Device = "auto",
    minutes: Annotated[float, typer.Option(help="Stop after so many; 0 is never.", min=0.0)] = 0.0,
    seeds: Annotated[str, typer.Option(help="With --measure, parted by commas; the measurement's own.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --measure, list the runs.")] = False,
    add: Annotated[list[Path] | None, typer.Option(help="Results that were measured elsewhere.")] = None,
) -> None:
    """Show the papers' tables measured beside published, and write them into their pages; or measure them again."""
    papers, again = _modules()
    if paper == _OVERVIEW:
        papers.main()
        typer.echo(f"page    {papers.PAGE}")
        return
    if not paper:
        _list(papers, papers.PAPERS.values())
        return
    described = _named(papers.PAPERS, paper, "paper")
    if what:
        _item(described, what)  # which refuses a name that nobody knows, before anything is written
    if measure and add:
        raise UsageError("--measure makes runs and --add takes runs that were made: give one of them")
    if add:
        again.add(described, add)
    elif measure:
        work = Path("runs") / paper
        places = (path.resolve() for path in (sites or work / "sites", out or work / "work"))
        corpora = None if data is None else data.resolve()
        asked = again.Asked(*places, corpora, processes, device, minutes, seeds, dry_run)
        again.measure_again(described, _item(described, what), asked)
    else:
        again.rebuild(described)
    if not dry_run:
        _show(papers, again, described, what)


def _modules() -> tuple[Any, Any]:
    """The papers' own, which lie beside the product."""
    if not (_CHECKOUT / "papers" / "overview.py").is_file():
        raise UsageError(
            "the papers are not part of an installed wardround: call it from a checkout, after `make env` as "
            ".venv/bin/wardround paper"
        )
    if str(_CHECKOUT) not in sys.path:
        sys.path.insert(0, str(_CHECKOUT))
    return import_module("papers.overview"), import_module("papers.again")


def _named(known: dict[str, Any], name: str, what: str) -> Any:
    if name not in known:
        raise UsageError(f"{name!r} is no {what}{did_you_mean(name, known)}; there are {', '.join(known)}")
    return known[name]


def _item(paper: Any, name: str) -> Any:
    return _named({item.name: item for item in paper.items}, name, f"table or figure of {paper.name}")


def _show(papers: Any, again: Any, paper: Any, what: str) -> None:
    """The table as its page has it now; without a name, what there is."""
    if what:
        typer.echo(f"{again.shown(paper, _item(paper, what)) or 'not measured'}\n")
    else:
        _list(papers, [paper])
    typer.echo(f"page    {paper.folder / 'README.md'}")


def _list(papers: Any, described: Any) -> None:
    for paper in described:
        typer.echo(f"{paper.name}: {paper.title}")
        for item in paper.items:
            typer.echo(f"  {item.name:11} {item.title:45} {papers.state(paper, item)}")
