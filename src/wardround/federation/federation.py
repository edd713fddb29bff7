"""The first door: `ask` a step of sites, consume the replies as they arrive.

A site that does not answer is a value, not an exception: the study's quorum decides whether a round goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from wardround.errors import FederationError
from wardround.federation.message import Message

__all__ = ["Absence", "Federation", "Quorum", "Replies", "Reply", "SiteId", "Traffic"]

SiteId = str


class Absence(Enum):
    """Why a site gave no answer."""

    LATE = "late"  # not before the deadline
    FAILED = "failed"  # it tried and could not
    REFUSED = "refused"  # it would not: not accepted, forged request, wrong version


@dataclass(frozen=True)
class Traffic:
    """What one exchange with one site cost, counted at the door."""

    down: int = 0  # bytes to the site
    up: int = 0  # bytes from it
    seconds: float = 0.0  # from asking to answer

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.down + other.down, self.up + other.up, self.seconds + other.seconds)


@dataclass(frozen=True)
class Reply:
    """One site's answer, or its absence with a code; never text from the site."""

    site: SiteId
    message: Message | None
    traffic: Traffic
    absence: Absence | None = None
    code: str = ""


Replies = Iterator[Reply]


class Federation(Protocol):
    """Sites that can be asked."""

    @property
    def sites(self) -> Sequence[SiteId]:
        """Everybody in the study."""

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """Send at once to all (or to some); yield each reply as it arrives, so that they are never all in memory."""


@dataclass(frozen=True)
class Quorum:
    """How many sites must answer for an exchange to count."""

    least: int = 1

    def present(self, replies: Iterable[Reply]) -> Iterator[tuple[SiteId, Message]]:
        """The answers; once they are all in, an error where they are too few."""
        answered = 0
        absent: list[str] = []
        for reply in replies:
            if reply.message is None:
                absent.append(f"{reply.site} {reply.absence.value if reply.absence else 'absent'} {reply.code}".strip())
                continue
            answered += 1
            yield reply.site, reply.message
        if answered < self.least:
            said = f" ({'; '.join(absent)})" if absent else ""
            raise FederationError(f"{answered} sites answered where the study wants at least {self.least}{said}")
