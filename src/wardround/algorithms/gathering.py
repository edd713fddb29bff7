"""How a round is gathered under a mechanism that seals updates for one another, at the coordinator.

The sites train and hold their updates; only then is it known who gives. Each seals its update for these sites alone,
under a nonce never used before, and the coordinator adds what comes. Under masks, and wherever the mean comes back to
the coordinator, a sum that lacks one of them is noise: the exchange is repeated among those that are left. Sites reveal
what keeps the sum shut only once all of them have given, and after that never give the same update again; so no two
sums of one update can be opened, and none be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median_low
from typing import TYPE_CHECKING

import numpy as np

from wardround.errors import FederationError, MessageError, SpoiledSumError
from wardround.federation.federation import SiteId, each_checked
from wardround.federation.message import Array, Message, Value
from wardround.privacy.aggregator import CohortAggregator, Exchange, Place, Total, capped_weights, check_weight

if TYPE_CHECKING:
    from wardround.algorithms.coordinator import Coordinator, Turn

__all__ = ["Gathered", "agreed_mean", "check_opened", "gather_among", "with_values"]

_MARGIN = 2.0  # of a learned clip over the largest number that is believed
_FAR = 8.0  # times the median of the sites' largest numbers, above which one is not believed
_SMALLEST_CLIP = 1e-6  # of layers that no site moved
_ROUNDING = 1e-4  # by which two sites may open the same sum differently: those of ckks are only near
_FLOAT = np.dtype(np.float32)
_LARGEST_EXTENT = 1e9  # of an update that makes sense; a clip made for more would leave nothing of the others'


@dataclass(frozen=True)
class Gathered:
    """The updates of a round in one sum: where only sites can open it, the message to them; else their mean."""

    sites: tuple[SiteId, ...]  # whose updates are in it
    mean: Mapping[str, Array] | None = None
    sealed: Message | None = None
    values: Mapping[str, Value] = field(default_factory=dict)  # what `step` needs beside the mean; no secret


@dataclass(frozen=True)
class _Ready:
    """A site that holds an update."""

    weight: float
    card: bytes
    extents: Mapping[str, float]  # largest number by layer group, while clips are learned


def gather_among(turn: Turn, aggregator: CohortAggregator, step: str, values: Mapping[str, Value]) -> Gathered:
    """Train, then give, among those that trained; where a sum must be whole, until all that were asked have given."""
    ready = _ready(turn, aggregator, step, values)
    clips = _clips(turn, aggregator, ready)
    while True:
        turn.sites = list(ready)
        exchange = aggregator.exchange(
            round_number=turn.coordinator.number + 1,
            step=step,
            weights=capped_weights({site: held.weight for site, held in ready.items()}, turn.coordinator.largest_share),
            clips=clips,
        )
        total, clipped = _given(turn, aggregator, exchange, {site: held.card for site, held in ready.items()})
        given = tuple(turn.present)
        if not aggregator.opens_once or len(given) == len(ready):
            break
        ready = {site: held for site, held in ready.items() if site in given}
    turn.clipped += clipped
    seeds = _revealed(turn, exchange, total) if aggregator.opens_once else {}
    try:
        if aggregator.opens_at is Place.COORDINATOR:
            with turn.account.phase("open"):
                return Gathered(given, mean=total.mean(seeds))
        with turn.account.phase("combine"):  # what is left of adding: its processes are waited for
            return Gathered(given, sealed=total.message(seeds))
    except MessageError as error:  # one of the sites did it; the next tries of the round find out which
        raise SpoiledSumError(f"the round's sum cannot be used ({error.code})", sites=given) from None


def check_opened(answer: Message, *, like: Mapping[str, Array]) -> None:
    """Refuse what cannot be the opened mean of arrays named and shaped `like` these."""
    mean = answer.group("mean")
    if {name: (a.dtype, a.shape) for name, a in mean.items()} != {n: (_FLOAT, a.shape) for n, a in like.items()}:
        raise MessageError("shapes", "a mean has other names or shapes than expected")
    if not all(np.isfinite(array).all() for array in mean.values()):
        raise MessageError("not-a-number", "a mean holds NaN or infinity")


def agreed_mean(means: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """What most sites opened; they opened the same sum, so that the others, up to rounding, must say the same."""
    for mean in means:
        alike = [other for other in means if all(np.allclose(other[n], a, atol=_ROUNDING) for n, a in mean.items())]
        if 2 * len(alike) > len(means):
            return dict(mean)
    raise FederationError("the sites do not agree on what they opened")


def with_values(message: Message, values: Mapping[str, Value]) -> Message:
    """The same message, saying more."""
    return replace(message, values={**message.values, **values})


def _ready(turn: Turn, aggregator: CohortAggregator, step: str, values: Mapping[str, Value]) -> dict[SiteId, _Ready]:
    learning = not turn.coordinator.clips
    if learning and set(aggregator.groups) > aggregator.clips.keys():
        values = {**values, "learn_clips": True}
    replies = turn.ask(step, turn.question(values), to=turn.sites)
    return {
        site: _Ready(answer.value("weight", float), answer.blobs["card"], _extents(answer) if learning else {})
        for site, answer in turn.usable(each_checked(replies, partial(_check_ready, turn.coordinator, aggregator)))
    }


def _check_ready(coordinator: Coordinator, aggregator: CohortAggregator, site: SiteId, answer: Message) -> None:
    """Before anybody gives: what is wrong with one site would keep the others from giving."""
    check_weight(answer.value("weight", float))
    coordinator.check_weight(site, answer.value("weight", float))
    if "card" not in answer.blobs:
        raise MessageError("value-missing", "a site that holds an update shows its card")
    aggregator.check_card(site, answer.blobs["card"])
    _extents(answer)


def _extents(answer: Message) -> dict[str, float]:
    found = answer.values.get("extents", {})
    if not isinstance(found, dict):
        raise MessageError("value", "extents are numbers by layer group")
    extents = {group: size for group, size in found.items() if isinstance(size, float) and 0 <= size <= _LARGEST_EXTENT}
    if extents.keys() != found.keys():
        raise MessageError("value", f"extents are numbers from zero to {_LARGEST_EXTENT:g}")
    return extents


def _clips(turn: Turn, aggregator: CohortAggregator, ready: Mapping[SiteId, _Ready]) -> dict[str, float]:
    """The study's clips, or, where it leaves them open, twice the largest number that a site says its update has.

    Of numbers beyond eight times the median, those eight times count, and the lower of two middle ones is the median:
    a minority of sites cannot raise a clip beyond sixteen times what another site has. Learned clips are kept until an
    update rounds to zero under them.
    """
    known = turn.coordinator.clips
    for group in aggregator.groups:
        if group in aggregator.clips:
            known[group] = aggregator.clips[group]
        elif group not in known:
            extents = [extent for held in ready.values() if (extent := held.extents.get(group, 0.0)) > 0]
            believed = min(max(extents), _FAR * median_low(extents)) if extents else 0.0
            known[group] = max(_MARGIN * believed, _SMALLEST_CLIP)
    return known


def _given(
    turn: Turn, aggregator: CohortAggregator, exchange: Exchange, cards: Mapping[SiteId, bytes]
) -> tuple[Total, int]:
    """The running sum of what the sites give, and how many of its numbers were clipped."""
    total = aggregator.total(exchange, cards)
    shown = cards if aggregator.is_masked else {}
    question = Message(
        {"round": exchange.round, "exchange": exchange.to_values()},
        {},
        {f"card/{site}": card for site, card in shown.items()},
    )
    clipped = 0
    replies = turn.ask("give", question, to=turn.sites)
    with turn.account.phase("combine"):
        for site, answer in turn.usable(each_checked(replies, partial(_add, total))):
            clipped += answer.value("clipped", int)
            if answer.value("vanished", int):
                turn.vanished[site] = answer.value("vanished", int)
    return total, clipped


def _add(total: Total, site: SiteId, answer: Message) -> None:
    """Into the sum; what cannot be added is refused."""
    if answer.value("clipped", int) < 0 or answer.value("vanished", int) < 0:
        raise MessageError("value", "numbers that were clipped, and layer groups that vanished, are counted")
    total.add(site, answer)


def _revealed(turn: Turn, exchange: Exchange, total: Total) -> dict[SiteId, bytes]:
    """The seeds of the sites' own masks; where one is missing or wrong, the sum stays shut for ever."""
    question = Message({"round": exchange.round, "nonce": exchange.nonce})
    wrong: list[SiteId] = []

    def check(site: SiteId, answer: Message) -> None:
        try:
            total.check_seed(site, answer.blobs.get("seed", b""))
        except MessageError:
            wrong.append(site)
            raise

    replies = each_checked(turn.ask("reveal", question, to=turn.sites), check)
    seeds = {site: answer.blobs["seed"] for site, answer in turn.answered(replies)}
    if wrong:
        raise SpoiledSumError(
            f"{wrong[0]} revealed another seed than it had committed to; the round's sum cannot be opened",
            sites=turn.sites,
            culprit=wrong[0],
        )
    gone = sorted(set(turn.sites).difference(seeds))
    if gone:
        raise FederationError(f"{gone[0]} went away after it had given; the round's sum cannot be opened")
    return seeds
