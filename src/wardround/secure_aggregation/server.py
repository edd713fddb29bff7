"""The coordinator's end of secure aggregation: it adds protected updates and never holds a secret.

The sites train and announce their updates; then it is known who takes part. Each site submits its update, protected for
exactly these sites under a fresh nonce, and the coordinator adds the submissions. With masks, and where the mean comes
back to the coordinator, a sum that lacks one of these sites is noise: the exchange is repeated with the remaining
sites. Sites send the seeds of their own masks only after all of them have submitted, and never submit the same update
again afterwards. So no two sums that contain the same update can be opened and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING

from wardround.errors import FederationError, MessageError, SpoiledSumError, WithheldSeedError
from wardround.federation.aggregation import OpenSum, Reader, RoundSum, SealedSum, capped_weights, check_weight
from wardround.federation.federation import SiteId, checked_by_site
from wardround.federation.message import Array, Message, Value
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Certifier, PublicKeys, check_public_keys
from wardround.secure_aggregation.keys.material import PublicParameters
from wardround.secure_aggregation.masks import remove_self_masks
from wardround.secure_aggregation.mechanisms import AgreedMechanism
from wardround.secure_aggregation.transcript import (
    Contribution,
    Transcript,
    check_contribution,
    check_seed,
    sealed_digest,
)

if TYPE_CHECKING:
    from wardround.federation.coordinator import RoundContext

__all__ = ["ExchangeSum", "SecureAggregationServer"]

_MARGIN = 2.0  # a learned clip is this many times the largest accepted number
_FAR = 8.0  # a site's largest number is accepted up to this many times the median
_SMALLEST_CLIP = 1e-6  # for layers that no site changed
_LARGEST_NUMBER = 1e9  # in a sensible update; under a larger clip all other updates would round to zero


@dataclass(frozen=True)
class _Announcement:
    """What a site announced about the update that it holds."""

    weight: float
    public_keys: bytes
    largest_by_group: Mapping[str, float]  # the largest number by layer group, while clips are learned


class SecureAggregationServer:
    """The coordinator's end of a mechanism.

    `parameters` returns the epoch and the id of the sealing key, if there is one. Among hospitals a `certifier` checks
    the public keys of the sites; on one machine they are not certified.
    """

    def __init__(
        self,
        mechanism: AgreedMechanism,
        *,
        parameters: Callable[[], PublicParameters] | None = None,
        certifier: Certifier | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.reader = mechanism.reader
        self._parameters, self._certifier = parameters, certifier

    def aggregate(self, context: RoundContext, step: str, values: Mapping[str, Value]) -> RoundSum:
        """Run the phases of one aggregation; if a sum must be complete, repeat *submit* until it is."""
        announced = self._announce(context, step, values)
        clips = self._learn_clips(context.coordinator.clips, announced)
        while True:
            context.sites = list(announced)
            weights = {site: announcement.weight for site, announcement in announced.items()}
            exchange = self.exchange(
                round_number=context.coordinator.number + 1,
                step=step,
                weights=capped_weights(weights, context.coordinator.largest_share),
                clips=clips,
            )
            public_keys = {site: announcement.public_keys for site, announcement in announced.items()}
            total, clipped = self._submit(context, exchange, public_keys)
            submitted = tuple(context.present)
            if not self.mechanism.needs_every_participant or len(submitted) == len(announced):
                break
            announced = {site: announcement for site, announcement in announced.items() if site in submitted}
        context.clipped += clipped
        seeds = self._unmask(context, exchange, total) if self.mechanism.needs_every_participant else {}
        return self._open(context, total, seeds, submitted)

    def exchange(
        self, *, round_number: int, step: str, weights: Mapping[SiteId, float], clips: Mapping[str, float]
    ) -> Exchange:
        """Return a new exchange, with a fresh nonce and under the newest key."""
        epoch, key = 0, ""
        if self._parameters is not None:
            try:
                found = self._parameters()
            except MessageError as error:  # the round may be tried again
                raise FederationError(f"the current sealing key is not known ({error.code})") from None
            if found.scheme != self.mechanism.key_scheme:
                raise FederationError(
                    f"the sealing key is for {found.scheme}, the study needs {self.mechanism.key_scheme}; issue another"
                )
            epoch, key = found.epoch, found.id
        return Exchange(self.mechanism.study, round_number, step, Exchange.new_nonce(), weights, clips, epoch, key)

    def total(self, exchange: Exchange, public_keys: Mapping[SiteId, bytes]) -> ExchangeSum:
        """Return the empty sum of an exchange."""
        return ExchangeSum(self.mechanism, exchange, public_keys, self._certifier)

    def _announce(self, context: RoundContext, step: str, values: Mapping[str, Value]) -> dict[SiteId, _Announcement]:
        """Ask the sites to train and to hold their updates."""
        learning = not context.coordinator.clips
        if learning and set(self.mechanism.layer_groups) > self.mechanism.clips.keys():
            values = {**values, "learn_clips": True}

        def check(site: SiteId, answer: Message) -> None:
            """Refuse an invalid announcement now; later it would prevent the other sites from submitting."""
            check_weight(answer.value("weight", float))
            context.coordinator.check_weight(site, answer.value("weight", float))
            if "public_keys" not in answer.blobs:
                raise MessageError("value-missing", "a site that holds an update sends its public keys")
            check_public_keys(PublicKeys.from_bytes(answer.blobs["public_keys"]), site, self._certifier)
            _largest_by_group(answer)

        replies = checked_by_site(context.ask(step, context.question(values), to=context.sites), check)
        return {
            site: _Announcement(
                answer.value("weight", float),
                answer.blobs["public_keys"],
                _largest_by_group(answer) if learning else {},
            )
            for site, answer in context.usable(replies)
        }

    def _learn_clips(self, known: dict[str, float], announced: Mapping[SiteId, _Announcement]) -> dict[str, float]:
        """Return the clips by layer group; a clip that the study does not set is twice the largest number of any site.

        Numbers above eight times the median count as eight times the median, and the median is the lower of the two
        middle numbers. So a minority of sites cannot raise a clip above sixteen times the number of another site.
        Learned clips are kept until an update rounds to zero under them.
        """
        for group in self.mechanism.layer_groups:
            if group in self.mechanism.clips:
                known[group] = self.mechanism.clips[group]
            elif group not in known:
                largest = [
                    number
                    for announcement in announced.values()
                    if (number := announcement.largest_by_group.get(group, 0.0)) > 0
                ]
                accepted = min(max(largest), _FAR * median_low(largest)) if largest else 0.0
                known[group] = max(_MARGIN * accepted, _SMALLEST_CLIP)
        return known

    def _submit(
        self, context: RoundContext, exchange: Exchange, public_keys: Mapping[SiteId, bytes]
    ) -> tuple[ExchangeSum, int]:
        """Add the submissions of the sites; return the sum and the number of clipped numbers."""
        total = self.total(exchange, public_keys)
        sent_keys = public_keys if self.mechanism.is_masked else {}
        question = Message(
            {"round": exchange.round, "exchange": exchange.to_values()},
            {},
            {f"public_keys/{site}": keys for site, keys in sent_keys.items()},
        )

        def add(site: SiteId, answer: Message) -> None:
            if answer.value("clipped", int) < 0 or answer.value("vanished", int) < 0:
                raise MessageError(
                    "value", "the counts of clipped numbers and of vanished layer groups are not negative"
                )
            total.add(site, answer)

        clipped = 0
        replies = context.ask("submit", question, to=context.sites)
        with context.cost.phase("combine"):
            for site, answer in context.usable(checked_by_site(replies, add)):
                clipped += answer.value("clipped", int)
                if answer.value("vanished", int):
                    context.vanished[site] = answer.value("vanished", int)
        return total, clipped

    def _unmask(self, context: RoundContext, exchange: Exchange, total: ExchangeSum) -> dict[SiteId, bytes]:
        """Return the seeds of the sites' own masks; if one is missing or wrong, the sum can never be opened."""
        question = Message({"round": exchange.round, "nonce": exchange.nonce})
        wrong: list[SiteId] = []

        def check(site: SiteId, answer: Message) -> None:
            try:
                total.check_seed(site, answer.blobs.get("seed", b""))
            except MessageError:
                wrong.append(site)
                raise

        replies = checked_by_site(context.ask("unmask", question, to=context.sites), check)
        seeds = {site: answer.blobs["seed"] for site, answer in context.answered(replies)}
        if wrong:
            raise SpoiledSumError(
                f"{wrong[0]} sent another seed than it had committed to; the round's sum cannot be opened",
                sites=context.sites,
                culprit=wrong[0],
            )
        missing = sorted(set(context.sites).difference(seeds))
        if missing:
            said = f"{missing[0]} left after it had submitted; the round's sum cannot be opened"
            raise WithheldSeedError(said, sites=missing)
        return seeds

    def _open(
        self,
        context: RoundContext,
        total: ExchangeSum,
        seeds: Mapping[SiteId, bytes],
        sites: tuple[SiteId, ...],
    ) -> RoundSum:
        """Return the mean, or the sum for the sites to open."""
        try:
            if self.reader is Reader.COORDINATOR:
                with context.cost.phase("open"):
                    return OpenSum(sites, total.mean(seeds))
            with context.cost.phase("combine"):  # waits for the processes that add
                return SealedSum(sites, total.message(seeds))
        except MessageError as error:  # one of the sites caused it; the next attempts of the round show which one
            raise SpoiledSumError(f"the round's sum cannot be used ({error.code})", sites=sites) from None


class ExchangeSum:
    """The running sum of one exchange, with the signed contribution of each site in it."""

    def __init__(
        self,
        mechanism: AgreedMechanism,
        exchange: Exchange,
        announced_keys: Mapping[SiteId, bytes],
        certifier: Certifier | None,
    ) -> None:
        self._mechanism, self._exchange, self._certifier = mechanism, exchange, certifier
        self._announced_keys = announced_keys
        self._layout = mechanism.layout(exchange)
        self._sum = mechanism.codec.sum(self._layout.slots)
        self._public_keys: dict[SiteId, PublicKeys] = {}
        self._contributions: dict[SiteId, Contribution] = {}

    def add(self, site: SiteId, sealed: Message) -> None:
        """Add an update that a site signed for this exchange; raise a `MessageError` if it does not match."""
        keys = PublicKeys.from_bytes(self._announced_keys[site])
        check_public_keys(keys, site, self._certifier)
        contribution = Contribution.from_message(sealed)
        if sealed.value("exchange", str) != self._exchange.digest():
            raise MessageError("exchange", "was sealed for another study, round, epoch, key, clip or cohort")
        if site in self._public_keys:
            raise MessageError("contribution", "this site has submitted before")
        if contribution.site != site or contribution.digest != sealed_digest(sealed):
            raise MessageError("altered", "is not what the site signed")
        if len(contribution.tag) != len(self._mechanism.codec.moduli):
            raise MessageError("contribution", "has a tag of another scheme")
        if bool(contribution.commitment) != self._mechanism.needs_every_participant:
            raise MessageError("contribution", "must commit to a seed if sites have masks of their own, and only then")
        check_contribution(contribution, self._exchange, keys)
        self._sum.add(sealed.arrays)
        self._public_keys[site] = keys
        self._contributions[site] = contribution

    def check_seed(self, site: SiteId, seed: bytes) -> None:
        """Raise a `MessageError` for a seed that the site did not commit to."""
        check_seed(self._contributions[site], self._exchange, seed)

    def message(self, seeds: Mapping[SiteId, bytes]) -> Message:
        """Return the sum, the signed list of the contributions in it, and the seeds, for the sites to open."""
        transcript = Transcript(self._exchange, self._public_keys, tuple(self._contributions.values()))
        blobs = transcript.to_blobs() | {f"seed/{site}": seed for site, seed in seeds.items()}
        values: dict[str, Value] = {"round": self._exchange.round, "exchange": self._exchange.to_values()}
        return Message(values, self._sum.total(), blobs)

    def mean(self, seeds: Mapping[SiteId, bytes]) -> dict[str, Array]:
        """Return the mean of a complete sum that is masked and not encrypted."""
        codec = self._mechanism.codec
        slots = codec.open(self._sum.total(), self._layout.slots, b"")
        remove_self_masks(slots, self._exchange, seeds, codec.ring)
        return self._layout.unpack(slots, share=1.0, sites=len(self._contributions))


def _largest_by_group(answer: Message) -> dict[str, float]:
    found = answer.values.get("largest_by_group", {})
    if not isinstance(found, dict):
        raise MessageError("value", "largest_by_group holds a number for each layer group")
    largest = {group: size for group, size in found.items() if isinstance(size, float) and 0 <= size <= _LARGEST_NUMBER}
    if largest.keys() != found.keys():
        raise MessageError("value", f"largest_by_group holds numbers from zero to {_LARGEST_NUMBER:g}")
    return largest
