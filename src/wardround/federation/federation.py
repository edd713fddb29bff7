"""The `Federation` protocol: `ask` sites to do a step, and consume the replies as they arrive.

A site that does not answer is a value, not an exception: the study's quorum decides whether a round counts. A site
whose answer cannot be used is absent too, so that it costs the round one site and not all of them:

    usable = checked(federation.ask("train", question), partial(codec.check, like=shared))
    for site, update in quorum.present(usable):
        running.add(update)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Protocol

from wardround.errors import FederationError, MessageError
from wardround.federation.message import Message

__all__ = [
    "Absence",
    "Federation",
    "Quorum",
    "Replies",
    "Reply",
    "SiteId",
    "Traffic",
    "checked",
    "code_of",
    "each_checked",
    "safe_code",
    "those_asked",
]

SiteId = str

_CODE = re.compile(r"[A-Za-z-]{1,40}")
_MOST_NAMED = 10  # absent sites in an error's line


class Absence(Enum):
    """Why a site gave no answer that counts."""

    LATE = "late"  # not before the deadline
    FAILED = "failed"  # it tried and could not, or what it sent cannot be used
    REFUSED = "refused"  # it would not: not accepted, forged request, wrong version


@dataclass(frozen=True)
class Traffic:
    """What one exchange with one site cost, counted at the door."""

    down: int = 0  # bytes to the site
    up: int = 0  # bytes from it
    seconds: float = 0.0  # from asking to answer
    worked: float = 0.0  # of them, those that the site says it worked

    def __add__(self, other: Traffic) -> Traffic:
        seconds, worked = self.seconds + other.seconds, self.worked + other.worked
        return Traffic(self.down + other.down, self.up + other.up, seconds, worked)


@dataclass(frozen=True)
class Reply:
    """One site's answer, or its absence with a code; never text from the site."""

    site: SiteId
    message: Message | None
    traffic: Traffic
    absence: Absence | None = None
    code: str = ""

    def __post_init__(self) -> None:
        assert (self.message is None) == (self.absence is not None), "a reply is a message or an absence"


Replies = Iterator[Reply]


class Federation(Protocol):
    """Sites that can be asked."""

    @property
    def sites(self) -> Sequence[SiteId]:
        """Everybody in the study."""

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """Send at once to all (or to some); yield each reply as it arrives, so that they are never all in memory.

        What is sent is fixed when `ask` returns. Consume the replies to their end before the next `ask`: an engine
        may do a site's work only when its reply is wanted.
        """


def those_asked(to: Sequence[SiteId] | None, sites: Sequence[SiteId]) -> tuple[SiteId, ...]:
    """The sites a question goes to, all of them by default; each must be of the study and is asked once."""
    asked = tuple(sites if to is None else to)
    unknown = sorted(set(asked).difference(sites))
    if unknown:
        raise FederationError(f"{unknown[0]} is no site of this study")
    if len(set(asked)) < len(asked):
        raise FederationError("a site is named twice; each is asked once")
    return asked


@dataclass(frozen=True)
class Quorum:
    """How many sites must answer for an exchange to count."""

    least: int = 1

    def __post_init__(self) -> None:
        if self.least < 1:
            raise FederationError(f"a quorum of {self.least} sites makes no sense; ask for at least 1")

    def present(self, replies: Iterable[Reply]) -> Iterator[tuple[SiteId, Message]]:
        """The answers; once they are all in, an error where they are too few."""
        answered = 0
        absent: list[Reply] = []
        for reply in replies:
            if reply.message is None:
                absent.append(reply)
                continue
            answered += 1
            yield reply.site, reply.message
        if answered < self.least:
            asked = answered + len(absent)
            raise FederationError(
                f"{answered} of {asked} sites answered where the study wants at least {self.least}{_named(absent)}"
            )


def checked(replies: Iterable[Reply], check: Callable[[Message], None]) -> Replies:
    """The replies as they arrive; one that `check` refuses with a `MessageError` becomes an absence with its code."""
    for reply in replies:
        yield reply if reply.message is None else _checked(reply, reply.message, check)


def each_checked(replies: Iterable[Reply], check: Callable[[SiteId, Message], None]) -> Replies:
    """As `checked`, for a check that depends on who answered."""
    for reply in replies:
        yield from checked([reply], partial(check, reply.site))


def code_of(error: Exception) -> str:
    """All of a site's error that may cross the wire: the code of a `MessageError`, the class of any other."""
    return error.code if isinstance(error, MessageError) else type(error).__name__


def safe_code(code: object) -> str:
    """Return a code that came from elsewhere if it has the form of one; text of a site never passes for a code."""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "unknown"


def _checked(reply: Reply, message: Message, check: Callable[[Message], None]) -> Reply:
    try:
        check(message)
    except MessageError as error:
        return replace(reply, message=None, absence=Absence.FAILED, code=error.code)
    return reply


def _named(absent: Sequence[Reply]) -> str:
    said = [f"{r.site} {r.absence.value if r.absence else ''} {r.code}".rstrip() for r in absent[:_MOST_NAMED]]
    if len(absent) > _MOST_NAMED:
        said.append(f"and {len(absent) - _MOST_NAMED:,} more")
    return f" ({'; '.join(said)})" if said else ""
