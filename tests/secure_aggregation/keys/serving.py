"""A key service with its parties, in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.secure_aggregation.authority import STUDY, Authority, lock

from wardround.errors import MessageError
from wardround.secure_aggregation.keys.key_log import KeyLog, LogLine, read_log
from wardround.secure_aggregation.keys.key_service import KeyRequestHandler, KeyService
from wardround.secure_aggregation.keys.limits import Limits
from wardround.secure_aggregation.keys.party import KeyClient
from wardround.secure_aggregation.keys.peers import PartyFiles
from wardround.secure_aggregation.keys.service_state import Epochs

SITES = ("h1", "h2")
# Which key each party has; those of one number are the same.
NUMBERS = {"keys": 1, "coordinator": 2, "h1": 3, "h2": 4}


def new(_: str) -> bytes:
    """Return a secret whose bytes are easy to find in a place where they must not be."""
    new.count += 1  # type: ignore[attr-defined]
    return b"SECRET-%04d-" % new.count * 8  # type: ignore[attr-defined]


new.count = 0  # type: ignore[attr-defined]


@dataclass
class Served:
    """A key service, its state, and the parties that may ask it."""

    folder: Path
    parties: dict[str, PartyFiles]
    epochs: Epochs
    port: int = 0

    @property
    def log(self) -> list[LogLine]:
        return list(read_log(self.parties["keys"].log))

    @property
    def place(self) -> str:
        return f"localhost:{self.port}"

    def party(self, name: str, number: int, *, study: Authority | None = None, ca: bool = False) -> PartyFiles:
        """Return another party with the same name."""
        folder = self.folder / f"{name}-{number}-{len(list(self.folder.iterdir()))}"
        return (study or Authority()).party(folder, name, number, ca=ca)

    def client(self, files: str | PartyFiles, *, study: str = STUDY, seconds: float = 60.0) -> KeyClient:
        found = self.parties[files] if isinstance(files, str) else files
        return KeyClient("localhost", self.port, files=found, study=study, seconds=seconds)


def prepared(folder: Path) -> Served:
    """Make everything except the service itself."""
    study = Authority()
    parties = {name: study.party(folder / name, name, number) for name, number in NUMBERS.items()}
    return Served(folder, parties, Epochs.create(parties["keys"].epochs, lock(), study=STUDY, scheme="ckks", new=new))


def service(served: Served, port: int = 0, limits: Limits | None = None) -> KeyService:
    files = served.parties["keys"]
    handler = KeyRequestHandler(served.epochs, KeyLog(files.log), study=STUDY, sites=SITES)
    return KeyService(handler, files, host="localhost", port=port, limits=limits)


def code(ask: Callable[[], object]) -> str:
    """Return the code of a refusal; empty if nothing was refused."""
    try:
        ask()
    except MessageError as error:
        assert "SECRET" not in str(error)
        return error.code
    return ""
