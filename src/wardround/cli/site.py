"""`wardround site`: take part in a networked study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.provision import flare_needed

__all__ = ["app"]

app = typer.Typer(help="Take part in a networked study.", no_args_is_help=True)


@app.command()
def request(
    name: Annotated[str, typer.Argument(help="The site's name in the study.")],
    out: Annotated[Path, typer.Option(help="The folder for the key, which stays here.", file_okay=False)],
) -> None:
    """Make a private key and the request that the coordinator approves."""
    with flare_needed():
        from wardround.federation.flare import kits
    made = kits.request(name, out)
    typer.echo(f"{out.resolve().name}/{made.name}: send it to the coordinator")
    typer.echo(f"{out.resolve().name}/{made.with_suffix('.key').name}: the private key; never send it")


@app.command()
def complete(
    folder: Annotated[Path, typer.Argument(help="The folder of the request.", exists=True, file_okay=False)],
    approval: Annotated[Path, typer.Argument(help="The file that came back.", exists=True, dir_okay=False)],
) -> None:
    """Join the key and the approval into a kit."""
    with flare_needed():
        from wardround.federation.flare import kits
    kit = kits.read_kit(kits.complete(folder, approval))
    typer.echo(f"{folder.resolve().name}/{kit.path.name}: the kit of {kit.name} in the study {kit.plan.study}")
    typer.echo(f"It trusts {kit.plan.host}:{kit.plan.port} until {kit.expires:%Y-%m-%d}.")
    typer.echo(f"Compare this fingerprint with the coordinator, by another way than the approval:\n{kit.fingerprint}")
