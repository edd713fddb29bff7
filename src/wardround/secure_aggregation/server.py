"""Protected updates at the coordinator: checked, added, and handed on or opened. No secret is ever here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from wardround.errors import FederationError, MessageError
from wardround.federation.aggregation import RoundSum
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, Value
from wardround.secure_aggregation import masks
from wardround.secure_aggregation.agreed_mechanism import AgreedMechanism
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Certifier, PublicKeys, check_public_keys
from wardround.secure_aggregation.keys.material import PublicParameters
from wardround.secure_aggregation.round_sum import secure_aggregate
from wardround.secure_aggregation.transcript import (
    Contribution,
    Transcript,
    check_contribution,
    check_seed,
    sealed_digest,
)

if TYPE_CHECKING:
    from wardround.federation.coordinator import RoundContext

__all__ = ["SecureAggregationServer"]


class SecureAggregationServer:
    """The coordinator's end of a mechanism; `parameters` tells the sealing key's epoch and id, and nothing else of it.

    Among hospitals a certifier checks the public_keys with which sites sign; on one machine nobody vouches for them.
    """

    def __init__(
        self,
        mechanism: AgreedMechanism,
        *,
        parameters: Callable[[], PublicParameters] | None = None,
        certifier: Certifier | None = None,
    ) -> None:
        assert mechanism.is_sealed == (parameters is not None), "what is sealed is sealed under a key"
        self.mechanism = mechanism
        self.reader = mechanism.reader
        self.is_masked, self.needs_every_participant = mechanism.is_masked, mechanism.needs_every_participant
        self.groups, self.clips = mechanism.layer_groups, mechanism.clips
        self._parameters, self._certifier = parameters, certifier

    def aggregate(self, context: RoundContext, step: str, values: Mapping[str, Value]) -> RoundSum:
        """Run all phases of one aggregation; see `secure_aggregate`."""
        return secure_aggregate(context, self, step, values)

    def exchange(
        self, *, round_number: int, step: str, weights: Mapping[SiteId, float], clips: Mapping[str, float]
    ) -> Exchange:
        """Under a fresh nonce and the newest key."""
        epoch, key = self._key()
        nonce = Exchange.new_nonce()
        return Exchange(self.mechanism.study, round_number, step, nonce, weights, clips, epoch, key)

    def check_public_keys(self, site: SiteId, keys: bytes) -> None:
        """Made out to the site, and vouched for where the study has certificates."""
        check_public_keys(PublicKeys.from_bytes(keys), site, self._certifier)

    def total(self, exchange: Exchange, public_keys: Mapping[SiteId, bytes]) -> ExchangeSum:
        """The sum of an exchange, before anybody gave."""
        return ExchangeSum(self.mechanism, exchange, public_keys, self._certifier)

    def _key(self) -> tuple[int, str]:
        if self._parameters is None:
            return 0, ""
        try:
            found = self._parameters()
        except MessageError as error:  # the round may be tried again
            raise FederationError(f"nobody tells which sealing key is in force ({error.code})") from None
        if found.scheme != self.mechanism.key_scheme:
            raise FederationError(
                f"the sealing key is for {found.scheme}, the study wants {self.mechanism.key_scheme}; issue another"
            )
        return found.epoch, found.id


class ExchangeSum:
    """The running sum of one exchange, and the signed slot of each site in it."""

    def __init__(
        self,
        mechanism: AgreedMechanism,
        exchange: Exchange,
        public_keys: Mapping[SiteId, bytes],
        certifier: Certifier | None,
    ) -> None:
        self._mechanism, self._exchange, self._certifier = mechanism, exchange, certifier
        self._shown = public_keys
        self._layout = mechanism.layout(exchange)
        self._sum = mechanism.carrier.sum(self._layout.slots)
        self._public_keys: dict[SiteId, PublicKeys] = {}
        self._contributions: dict[SiteId, Contribution] = {}

    def add(self, site: SiteId, sealed: Message) -> None:
        """Add what the site signed for this exchange, whole and unaltered."""
        keys = PublicKeys.from_bytes(self._shown[site])
        check_public_keys(keys, site, self._certifier)
        contribution = Contribution.from_message(sealed)
        if sealed.value("exchange", str) != self._exchange.digest():
            raise MessageError("exchange", "was sealed for another study, round, epoch, key, clip or cohort")
        if site in self._public_keys:
            raise MessageError("contribution", "this site has given before")
        if contribution.site != site or contribution.digest != sealed_digest(sealed):
            raise MessageError("altered", "is not what the site signed")
        if len(contribution.tag) != len(self._mechanism.carrier.moduli):
            raise MessageError("contribution", "has a tag of another scheme")
        if bool(contribution.commitment) != self._mechanism.needs_every_participant:
            raise MessageError("contribution", "must commit to a seed where sites mask, and nowhere else")
        check_contribution(contribution, self._exchange, keys)
        self._sum.add(sealed.arrays)
        self._public_keys[site] = keys
        self._contributions[site] = contribution

    def check_seed(self, site: SiteId, seed: bytes) -> None:
        """Refuse a seed that the site did not commit to."""
        check_seed(self._contributions[site], self._exchange, seed)

    def message(self, seeds: Mapping[SiteId, bytes]) -> Message:
        """The sum, the signed list of what is in it, and what the sites revealed."""
        transcript = Transcript(self._exchange, self._public_keys, tuple(self._contributions.values()))
        blobs = transcript.to_blobs() | {f"seed/{site}": seed for site, seed in seeds.items()}
        values: dict[str, Value] = {"round": self._exchange.round, "exchange": self._exchange.to_values()}
        return Message(values, self._sum.total(), blobs)

    def mean(self, seeds: Mapping[SiteId, bytes]) -> dict[str, Array]:
        """The mean of masked updates, of which none is missing."""
        assert not self._mechanism.is_sealed, "what is sealed opens at the sites"
        slots = self._mechanism.carrier.open(self._sum.total(), self._layout.slots, b"")
        remove_self_masks(slots, self._exchange, seeds, self._mechanism.slots.modulus)
        return self._layout.unpack(slots, share=1.0, sites=len(self._contributions))


def remove_self_masks(slots: Array, exchange: Exchange, seeds: Mapping[SiteId, bytes], modulus: int) -> None:
    """Take the sites' own masks off a sum, in place; those between them have cancelled."""
    if seeds.keys() != exchange.weights.keys():
        raise MessageError("seed", "of each site of the exchange a seed is needed")
    for site in exchange.weights:
        masks.subtract(
            slots, masks.own(seeds[site], context=exchange.context, slots=len(slots), modulus=modulus), modulus
        )
