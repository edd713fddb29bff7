"""Studies whose updates are protected, small enough to run in a test, on one machine or among sites that last."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.algorithms.wards import Meddle, honest
from tests.models.tiny import notes
from tests.studies.tiny_studies import CPU, learnable

from wardround.corpora.jsonl import Jsonl
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import SiteId
from wardround.federation.message import Message
from wardround.federation.site_runtime import Site
from wardround.federation.worker_process import RequestHandler
from wardround.studies.party_keys import InMemoryKeys, PartyKeys
from wardround.studies.run_folder import RunFolder
from wardround.studies.site_setup import open_site
from wardround.studies.study_file import Study, digest_of, key_scheme
from wardround.studies.study_notes import load_notes

MECHANISMS: Mapping[str, dict[str, Any]] = {
    "masked": {"mechanism": "masked"},
    "sealed": {"mechanism": "sealed"},
    "compact": {"mechanism": "sealed", "packing": "compact", "error_feedback": True},
    "sealed+masked": {"mechanism": "sealed+masked"},
    "ckks": {"mechanism": "sealed", "scheme": "ckks"},
}
SEALED, MASKED = ("sealed", "compact", "sealed+masked", "ckks"), ("masked", "sealed+masked")
SITES = ("east", "west", "north")


def shielded(folder: Path, protection: str, **sections: Mapping[str, Any] | None) -> Study:
    """The study that learns something, with a third site and its updates protected; `plain` is one of the words."""
    for part, size in (("train", 12), ("dev", 4), ("test", 5)):
        Jsonl().write(notes(size, seed=20 + size), folder / "north" / f"{part}.jsonl")
    north = {"data": str(folder / "north"), "format": "jsonl", "types": ["Drug"], "scheme": "BIO"}
    # Small batches touch few numbers, so that Adam makes little of what rounding takes from a gradient near zero.
    privacy = {
        "minimum_sites": 3,
        "smallest_batch": 1,
        **MECHANISMS.get(protection, {}),
        **(sections.pop("privacy", None) or {}),
    }
    sites = {"north": north, **(sections.pop("sites", None) or {})}
    return learnable(folder, sites=sites, privacy=privacy, **sections)


def protection_of(study: Study) -> PartyKeys:
    """Both ends of a study on one machine."""
    if not study.privacy.protection.seals:
        return PartyKeys()
    rehearsal = InMemoryKeys.new(key_scheme(study))
    return PartyKeys(secrets=rehearsal, parameters=partial(rehearsal.parameters, digest_of(study)))


class Lasting(InProcessFederation):
    """Sites that write what must last before they answer, as among hospitals, and somebody on the way to them."""

    def __init__(self, study: Study, path: Path) -> None:
        self.meddle: Meddle = honest
        self.protection = protection_of(study)
        self.opened: dict[SiteId, Site] = {}
        self._study, self._path = study, path
        super().__init__(tuple(study.sites), lambda name: RequestHandler(_Way(self, name)))

    def open(self, name: SiteId) -> Site:
        """The site, from its disk; again after `restart`."""
        if name not in self.opened:
            folder = RunFolder(self._path).site(name)
            found = load_notes(name, self._study.sites[name], seed=self._study.study.seed)
            self.opened[name] = open_site(
                self._study, name, found, folder=folder, device=CPU, durable=True, party_keys=self.protection
            )
        return self.opened[name]

    def restart(self, name: SiteId) -> None:
        """The site's process dies; what comes after it has fresh keys."""
        self.opened.pop(name, None)
        self.protection._identities.pop(name, None)


class _Way:
    def __init__(self, federation: Lasting, name: SiteId) -> None:
        self._federation, self._name = federation, name

    def answer(self, step: str, message: Message) -> Message:
        federation, name = self._federation, self._name
        return federation.meddle(name, step, message, lambda question: federation.open(name).answer(step, question))

    def close(self) -> None: ...


def copies(federation: Lasting) -> set[bytes]:
    """The shared halves of all sites, each that differs once."""
    found = set()
    for name in federation.sites:
        replica = federation.open(name).replica
        assert replica is not None
        found.add(replica.shared_bytes())
    return found
