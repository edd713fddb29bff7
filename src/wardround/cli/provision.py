"""`wardround provision`: all kits of a networked study at once, and what the other commands about kits share."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from wardround.errors import StudyError, UsageError
from wardround.federation.flare.kit_files import KitPlan

__all__ = ["Days", "Host", "Port", "StudyFile", "command", "flare_needed", "planned"]

StudyFile = Annotated[Path, typer.Argument(help="The study, a TOML file.", exists=True, dir_okay=False)]
Host = Annotated[str, typer.Option(help="Where sites reach the coordinator: a host name or an IPv4 address.")]
Port = Annotated[int, typer.Option(help="The one port that the coordinator opens.")]
Days = Annotated[int, typer.Option(help="For how long certificates are valid.")]


def command(
    study: StudyFile,
    out: Annotated[Path, typer.Option(help="The folder to write; must be new or empty.", file_okay=False)],
    host: Host,
    port: Port = 8002,
    days: Days = 365,
) -> None:
    """Make all kits of a study at once, for a rehearsal.

    Every private key is made on this machine. Among hospitals use `wardround coordinator open` and `wardround site
    request` instead: there each site makes its own key, and none travels.
    """
    with flare_needed():
        from wardround.federation.flare.kits import provision
    content = study.read_bytes()
    made = provision(planned(content, study.name, host=host, port=port, days=days), content, out)
    for name in made:
        typer.echo(f"{out.resolve().name}/{name}")


@contextmanager
def flare_needed() -> Iterator[None]:
    """Around the import of the networked engine: where FLARE is not installed, say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "nvflare":
            raise UsageError("a networked study needs NVIDIA FLARE: install wardround[flare]") from None
        raise


def planned(content: bytes, file: str, *, host: str, port: int, days: int) -> KitPlan:
    """The plan for a study file: its name and its sites, and where its coordinator will be."""
    try:
        study = tomllib.loads(content.decode())
    except ValueError:
        raise StudyError(f"{file}: is no TOML file") from None
    about, sites = study.get("study"), study.get("sites")
    if not isinstance(about, dict) or not isinstance(about.get("name"), str):
        raise StudyError(f'{file}: [study] has no name; add name = "..."')
    if not isinstance(sites, dict):
        raise StudyError(f"{file}: names no site; add a table [sites.NAME] for each")
    return KitPlan(about["name"], host, port, tuple(sites), days)
