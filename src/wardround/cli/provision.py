"""`wardround provision`: create all kits of a networked study at once; options of all commands about kits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from wardround.cli.printing import Json, Result, printed
from wardround.errors import UsageError
from wardround.text.plain_text import neutralise

__all__ = [
    "Approval",
    "Days",
    "Host",
    "KeyFolder",
    "KeyringOption",
    "KeysAddress",
    "KitFolder",
    "PassphraseFile",
    "Port",
    "Public",
    "RequestFolder",
    "SiteName",
    "StudyFile",
    "Vectors",
    "command",
    "make_kit",
    "make_request",
    "require_flare",
    "show_status",
]

StudyFile = Annotated[Path, typer.Argument(help="The study, a TOML file.", exists=True, dir_okay=False)]
Host = Annotated[str, typer.Option(help="Host name or IPv4 address at which sites reach the coordinator.")]
Port = Annotated[int, typer.Option(help="The port that the coordinator listens on.")]
KitFolder = Annotated[Path, typer.Argument(help="The participant's kit.", exists=True, file_okay=False)]
Vectors = Annotated[
    Path | None, typer.Option(help="The word vectors that the study names.", exists=True, dir_okay=False)
]
Public = Annotated[Path | None, typer.Option(help="The public set that the study names.", exists=True)]
KeysAddress = Annotated[
    str, typer.Option("--keys", metavar="HOST:PORT", help="Address of the key service, if there is one.")
]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(help="A file with the vault's passphrase, readable only by you.", exists=True, dir_okay=False),
]
KeyringOption = Annotated[
    bool, typer.Option("--keyring", help="Keep a new vault's key in the operating system's keyring.")
]
SiteName = Annotated[str, typer.Argument(help="The site's name in the study.")]
KeyFolder = Annotated[Path, typer.Option(help="The folder for the private key, which stays here.", file_okay=False)]
RequestFolder = Annotated[Path, typer.Argument(help="The folder of the request.", exists=True, file_okay=False)]
Approval = Annotated[Path, typer.Argument(help="The approval that the coordinator sent.", exists=True, dir_okay=False)]
Days = Annotated[int, typer.Option(help="Days that certificates are valid.")]


def command(
    study: StudyFile,
    out: Annotated[Path, typer.Option(help="The folder to write; must be new or empty.", file_okay=False)],
    host: Host,
    port: Port = 8002,
    days: Days = 365,
    keys: KeysAddress = "",
    json: Json = False,
) -> None:
    """Create all kits of a study at once, for a rehearsal.

    Every private key is created on this machine. Among hospitals use `wardround coordinator open` and `wardround site
    request` instead: each site then creates its own key, and no key is sent.
    """
    with require_flare():
        from wardround.provisioning.kits import provision
        from wardround.studies.networked import plan_kits
    made = provision(*plan_kits(study, host=host, port=port, days=days, keys=keys), out)
    with printed(json) as result:
        for name in made:
            result.item(f"{out.resolve().name}/{name}", kits=out / name)


@contextmanager
def require_flare() -> Iterator[None]:
    """Raise a `UsageError` that says what to install if an import inside needs FLARE or cryptography and fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("nvflare", "cryptography"):
            raise UsageError("a networked study needs NVIDIA FLARE: install wardround[flare]") from None
        raise


def make_request(name: str, out: Path, *, json: bool) -> None:
    """Create a private key and a certificate request in `out`, and print what to do with them."""
    with require_flare():
        from wardround.provisioning import kits
    made = kits.request(name, out)
    key = made.with_suffix(".key")
    with printed(json) as result:
        result.line(f"{out.resolve().name}/{made.name}: send it to the coordinator", request=out / made.name)
        result.line(f"{out.resolve().name}/{key.name}: the private key; never send it", key=out / key.name)


def make_kit(folder: Path, approval: Path, *, json: bool) -> None:
    """Create the kit for the request in `folder`, and print the fingerprint to compare."""
    with require_flare():
        from wardround.provisioning import kits
    kit = kits.read_kit(kits.complete(folder, approval))
    holder = "the key service" if kit.role == "keys" else kit.name
    with printed(json) as result:
        line = f"{folder.resolve().name}/{kit.path.name}: the kit of {holder} in the study {kit.plan.study}"
        result.line(line, kit=kit.path, study=kit.plan.study)
        coordinator = f"{kit.plan.host}:{kit.plan.port}"
        line = f"It trusts {coordinator} until {kit.expires:%Y-%m-%d}."
        result.line(line, coordinator=coordinator, expires=kit.expires.isoformat())
        line = "Compare this fingerprint with the coordinator by another channel than the approval:"
        result.line(f"{line}\n{kit.fingerprint}", fingerprint=kit.fingerprint)


def show_status(status: Mapping[str, Any], result: Result) -> None:
    """Print what a party is doing, one fact on each line."""
    for name, value in status.items():
        result.line(neutralise(f"{name:<15} {value}"), **{name.replace(" ", "_"): value})
