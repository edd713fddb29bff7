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
    "checked_by_site",
    "code_of",
    "recipients",
    "safe_code",
]

SiteId = str

_CODE = re.compile(r"[A-Za-z-]{1,40}")
_MOST_NAMED = 10  # absent sites that an error lists


class Absence(Enum):
    """Why a site has no answer that counts."""

    LATE = "late"  # not before the deadline
    FAILED = "failed"  # it tried and failed, or its answer cannot be used
    REFUSED = "refused"  # it refused: not accepted, forged request, wrong version


@dataclass(frozen=True)
class Traffic:
    """The cost of one exchange with one site, counted where messages pass."""

    down: int = 0  # bytes to the site
    up: int = 0  # bytes from it
    seconds: float = 0.0  # from question to answer
    worked: float = 0.0  # of these, how long the site says it worked

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
    """The sites of a study, which can be asked to do steps."""

    @property
    def sites(self) -> Sequence[SiteId]:
        """Return every site of the study."""

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """Send at once to all (or to some); yield each reply as it arrives, so that they are never all in memory.

        The message is fixed when `ask` returns. Consume all replies before the next `ask`: an engine may do a site's
        work only when its reply is consumed.
        """


def recipients(to: Sequence[SiteId] | None, sites: Sequence[SiteId]) -> tuple[SiteId, ...]:
    """Return the sites to ask, all by default; raise if one is not in the study or is named twice."""
    asked = tuple(sites if to is None else to)
    unknown = sorted(set(asked).difference(sites))
    if unknown:
        raise FederationError(f"{unknown[0]} is not a site of this study")
    if len(set(asked)) < len(asked):
        raise FederationError("a site is named twice; each can be asked once")
    return asked


@dataclass(frozen=True)
class Quorum:
    """How many sites must answer for an exchange to count."""

    minimum: int = 1

    def __post_init__(self) -> None:
        if self.minimum < 1:
            raise FederationError(f"a quorum of {self.minimum} sites is not possible; it must be at least 1")

    def present(self, replies: Iterable[Reply]) -> Iterator[tuple[SiteId, Message]]:
        """Yield the answers; raise a `FederationError` at the end if they are too few."""
        answered = 0
        absent: list[Reply] = []
        for reply in replies:
            if reply.message is None:
                absent.append(reply)
                continue
            answered += 1
            yield reply.site, reply.message
        if answered < self.minimum:
            asked = answered + len(absent)
            raise FederationError(
                f"{answered} of {asked} sites answered; the study needs at least {self.minimum}{_named(absent)}"
            )


def checked(replies: Iterable[Reply], check: Callable[[Message], None]) -> Replies:
    """Yield the replies; one that `check` refuses with a `MessageError` becomes an absence with its code."""
    for reply in replies:
        yield reply if reply.message is None else _checked(reply, reply.message, check)


def checked_by_site(replies: Iterable[Reply], check: Callable[[SiteId, Message], None]) -> Replies:
    """Do the same as `checked`, for a check that depends on the site."""
    for reply in replies:
        yield from checked([reply], partial(check, reply.site))


def code_of(error: Exception) -> str:
    """Return what a site may send about an error: the code of a `MessageError`, the class name of any other."""
    return error.code if isinstance(error, MessageError) else type(error).__name__


def safe_code(code: object) -> str:
    """Return a received code if it has the form of a code, otherwise `unknown`; text from a site never passes."""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "unknown"


def _checked(reply: Reply, message: Message, check: Callable[[Message], None]) -> Reply:
    try:
        check(message)
    except MessageError as error:
        return replace(reply, message=None, absence=Absence.FAILED, code=error.code)
    return reply


def _named(absent: Sequence[Reply]) -> str:
    reasons = [f"{r.site} {r.absence.value if r.absence else ''} {r.code}".rstrip() for r in absent[:_MOST_NAMED]]
    if len(absent) > _MOST_NAMED:
        reasons.append(f"and {len(absent) - _MOST_NAMED:,} more")
    return f" ({'; '.join(reasons)})" if reasons else ""
