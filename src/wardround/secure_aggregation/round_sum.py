"""How a round is gathered under a mechanism that seals updates for one another, at the coordinator.

The sites train and hold their updates; only then is it known who gives. Each seals its update for these sites alone,
under a nonce never used before, and the coordinator adds what comes. Under masks, and wherever the mean comes back to
the coordinator, a sum that lacks one of them is noise: the exchange is repeated among those that are left. Sites reveal
what keeps the sum shut only once all of them have given, and after that never give the same update again; so no two
sums of one update can be opened, and none be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median_low
from typing import TYPE_CHECKING

from wardround.errors import FederationError, MessageError, SpoiledSumError
from wardround.federation.aggregation import Reader, RoundSum, capped_weights, check_weight
from wardround.federation.federation import SiteId, each_checked
from wardround.federation.message import Message, Value
from wardround.secure_aggregation.exchange import Exchange

if TYPE_CHECKING:
    from wardround.federation.coordinator import Coordinator, RoundContext
    from wardround.secure_aggregation.server import ExchangeSum, SecureAggregationServer

__all__ = ["secure_aggregate"]

_MARGIN = 2.0  # of a learned clip over the largest number that is believed
_FAR = 8.0  # times the median of the sites' largest numbers, above which one is not believed
_SMALLEST_CLIP = 1e-6  # of layers that no site moved
_LARGEST_EXTENT = 1e9  # of an update that makes sense; a clip made for more would leave nothing of the others'


@dataclass(frozen=True)
class _Ready:
    """A site that holds an update."""

    weight: float
    public_keys: bytes
    largest_by_group: Mapping[str, float]  # largest number by layer group, while clips are learned


def secure_aggregate(
    context: RoundContext, aggregator: SecureAggregationServer, step: str, values: Mapping[str, Value]
) -> RoundSum:
    """Train, then give, among those that trained; where a sum must be whole, until all that were asked have given."""
    ready = _ready(context, aggregator, step, values)
    clips = _clips(context, aggregator, ready)
    while True:
        context.sites = list(ready)
        exchange = aggregator.exchange(
            round_number=context.coordinator.number + 1,
            step=step,
            weights=capped_weights(
                {site: held.weight for site, held in ready.items()}, context.coordinator.largest_share
            ),
            clips=clips,
        )
        total, clipped = _given(context, aggregator, exchange, {site: held.public_keys for site, held in ready.items()})
        given = tuple(context.present)
        if not aggregator.needs_every_participant or len(given) == len(ready):
            break
        ready = {site: held for site, held in ready.items() if site in given}
    context.clipped += clipped
    seeds = _revealed(context, exchange, total) if aggregator.needs_every_participant else {}
    try:
        if aggregator.reader is Reader.COORDINATOR:
            with context.account.phase("open"):
                return RoundSum(given, mean=total.mean(seeds))
        with context.account.phase("combine"):  # what is left of adding: its processes are waited for
            return RoundSum(given, sealed=total.message(seeds))
    except MessageError as error:  # one of the sites did it; the next tries of the round find out which
        raise SpoiledSumError(f"the round's sum cannot be used ({error.code})", sites=given) from None


def _ready(
    context: RoundContext, aggregator: SecureAggregationServer, step: str, values: Mapping[str, Value]
) -> dict[SiteId, _Ready]:
    learning = not context.coordinator.clips
    if learning and set(aggregator.groups) > aggregator.clips.keys():
        values = {**values, "learn_clips": True}
    replies = context.ask(step, context.question(values), to=context.sites)
    return {
        site: _Ready(
            answer.value("weight", float), answer.blobs["public_keys"], _largest_by_group(answer) if learning else {}
        )
        for site, answer in context.usable(
            each_checked(replies, partial(_check_ready, context.coordinator, aggregator))
        )
    }


def _check_ready(coordinator: Coordinator, aggregator: SecureAggregationServer, site: SiteId, answer: Message) -> None:
    """Before anybody gives: what is wrong with one site would keep the others from giving."""
    check_weight(answer.value("weight", float))
    coordinator.check_weight(site, answer.value("weight", float))
    if "public_keys" not in answer.blobs:
        raise MessageError("value-missing", "a site that holds an update shows its keys")
    aggregator.check_public_keys(site, answer.blobs["public_keys"])
    _largest_by_group(answer)


def _largest_by_group(answer: Message) -> dict[str, float]:
    found = answer.values.get("largest_by_group", {})
    if not isinstance(found, dict):
        raise MessageError("value", "largest_by_group are numbers by layer group")
    largest_by_group = {
        group: size for group, size in found.items() if isinstance(size, float) and 0 <= size <= _LARGEST_EXTENT
    }
    if largest_by_group.keys() != found.keys():
        raise MessageError("value", f"largest_by_group are numbers from zero to {_LARGEST_EXTENT:g}")
    return largest_by_group


def _clips(
    context: RoundContext, aggregator: SecureAggregationServer, ready: Mapping[SiteId, _Ready]
) -> dict[str, float]:
    """The study's clips, or, where it leaves them open, twice the largest number that a site says its update has.

    Of numbers beyond eight times the median, those eight times count, and the lower of two middle ones is the median:
    a minority of sites cannot raise a clip beyond sixteen times what another site has. Learned clips are kept until an
    update rounds to zero under them.
    """
    known = context.coordinator.clips
    for group in aggregator.groups:
        if group in aggregator.clips:
            known[group] = aggregator.clips[group]
        elif group not in known:
            largest_by_group = [
                extent for held in ready.values() if (extent := held.largest_by_group.get(group, 0.0)) > 0
            ]
            believed = min(max(largest_by_group), _FAR * median_low(largest_by_group)) if largest_by_group else 0.0
            known[group] = max(_MARGIN * believed, _SMALLEST_CLIP)
    return known


def _given(
    context: RoundContext, aggregator: SecureAggregationServer, exchange: Exchange, public_keys: Mapping[SiteId, bytes]
) -> tuple[ExchangeSum, int]:
    """The running sum of what the sites give, and how many of its numbers were clipped."""
    total = aggregator.total(exchange, public_keys)
    shown = public_keys if aggregator.is_masked else {}
    question = Message(
        {"round": exchange.round, "exchange": exchange.to_values()},
        {},
        {f"public_keys/{site}": keys for site, keys in shown.items()},
    )
    clipped = 0
    replies = context.ask("submit", question, to=context.sites)
    with context.account.phase("combine"):
        for site, answer in context.usable(each_checked(replies, partial(_add, total))):
            clipped += answer.value("clipped", int)
            if answer.value("vanished", int):
                context.vanished[site] = answer.value("vanished", int)
    return total, clipped


def _add(total: ExchangeSum, site: SiteId, answer: Message) -> None:
    """Into the sum; what cannot be added is refused."""
    if answer.value("clipped", int) < 0 or answer.value("vanished", int) < 0:
        raise MessageError("value", "numbers that were clipped, and layer groups that vanished, are counted")
    total.add(site, answer)


def _revealed(context: RoundContext, exchange: Exchange, total: ExchangeSum) -> dict[SiteId, bytes]:
    """The seeds of the sites' own masks; where one is missing or wrong, the sum stays shut for ever."""
    question = Message({"round": exchange.round, "nonce": exchange.nonce})
    wrong: list[SiteId] = []

    def check(site: SiteId, answer: Message) -> None:
        try:
            total.check_seed(site, answer.blobs.get("seed", b""))
        except MessageError:
            wrong.append(site)
            raise

    replies = each_checked(context.ask("unmask", question, to=context.sites), check)
    seeds = {site: answer.blobs["seed"] for site, answer in context.answered(replies)}
    if wrong:
        raise SpoiledSumError(
            f"{wrong[0]} revealed another seed than it had committed to; the round's sum cannot be opened",
            sites=context.sites,
            culprit=wrong[0],
        )
    gone = sorted(set(context.sites).difference(seeds))
    if gone:
        raise FederationError(f"{gone[0]} went away after it had given; the round's sum cannot be opened")
    return seeds
