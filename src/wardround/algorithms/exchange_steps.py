"""What a site is asked in an exchange whose updates are sealed for one another, whatever the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from wardround.errors import MessageError
from wardround.federation.message import Message, grouped
from wardround.privacy.aggregator import Place

if TYPE_CHECKING:
    from wardround.algorithms.site import Site

__all__ = ["BEGINNING_STEPS", "GIVING_STEPS", "REPLICA_STEPS", "open_mean"]


def _give(site: Site, message: Message) -> Message:
    assert site.giving is not None
    return site.giving.give(message, name=site.name, round_number=site.round, rounds=site.rounds)


def _reveal(site: Site, message: Message) -> Message:
    assert site.giving is not None
    return site.giving.reveal(message)


def _take(site: Site, message: Message) -> Message:
    """Open the sum of a round and step this site's copy of the shared half."""
    assert site.giving is not None and site.replica is not None
    number = message.value("round", int)
    site.replica.arrays(after=number - 1)  # before anything is opened
    site.replica.step(site.giving.open(message), message.values, number=number)
    site.note_past(site.replica.shared_bytes())
    return Message({"shared": site.giving.giver.fingerprint(site.replica.shared_bytes())})


def open_mean(site: Site, message: Message) -> Message:
    """Open the sum of a round for the coordinator, where a study has its mean be known."""
    if site.giving is None or site.giving.giver.opens_at is not Place.SITE:
        raise MessageError("step", "in this study sites open nothing")
    return Message({}, grouped("mean", site.giving.open(message)))


def _share_copy(site: Site, message: Message) -> Message:
    """This site's copy of the shared half, for one that is behind; locked for the sites of the study."""
    assert site.giving is not None and site.replica is not None
    number = message.value("round", int)
    site.replica.arrays(after=number)
    return Message({}, {}, {"copy": site.giving.giver.lock(site.replica.to_bytes(), purpose=_copy_of(number))})


def _take_copy(site: Site, message: Message) -> Message:
    """Go on from another site's copy of the shared half, where this one's is older or came out differently."""
    assert site.giving is not None and site.replica is not None
    number = message.value("round", int)
    if site.replica.number > number:
        raise MessageError("round", f"this site's shared half is of round {site.replica.number}")
    copy = site.giving.giver.unlock(message.blobs.get("copy", b""), purpose=_copy_of(number))
    with site.all_or_nothing():
        site.replica.take_up(copy)
        site.replica.arrays(after=number)
        site.note_past(site.replica.shared_bytes())
    return Message({"shared": site.giving.giver.fingerprint(site.replica.shared_bytes())})


def _begin(site: Site, message: Message) -> Message:
    """Take what the study begins from, where the seed does not give it."""
    assert site.replica is not None
    site.replica.begin(message.group("shared"))
    return Message()


def _copy_of(number: int) -> str:
    return f"copy/{number}"


GIVING_STEPS: Mapping[str, Callable[[Site, Message], Message]] = {"give": _give, "reveal": _reveal}
REPLICA_STEPS: Mapping[str, Callable[[Site, Message], Message]] = {
    "take": _take,
    "share_copy": _share_copy,
    "take_copy": _take_copy,
}
BEGINNING_STEPS: Mapping[str, Callable[[Site, Message], Message]] = {"begin": _begin}
