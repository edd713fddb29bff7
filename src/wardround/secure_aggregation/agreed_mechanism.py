"""What the two ends of a protected exchange must agree on before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from wardround.errors import MessageError
from wardround.federation.aggregation import Reader
from wardround.federation.federation import SiteId
from wardround.secure_aggregation.bfv import BfvParameters
from wardround.secure_aggregation.codecs import BfvCodec, CkksCodec, Codec, NumberLayout, PlaintextCodec
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.mechanisms import MECHANISMS
from wardround.secure_aggregation.packing import MASKED, Layout, Packing

__all__ = ["AgreedMechanism"]


@dataclass(frozen=True)
class AgreedMechanism:
    """How the updates of one study are protected, and what they look like."""

    study: str  # its digest
    name: str  # of the mechanism
    shapes: Mapping[str, tuple[int, ...]]  # of the shared parameters
    groups: Mapping[str, str]  # the layer group of each
    sites: tuple[SiteId, ...]  # that take part
    minimum: int  # of them in a sum at least
    scheme: Literal["bfv", "ckks"] = "bfv"
    packing: Literal["standard", "compact"] = "standard"
    clips: Mapping[str, float] = field(default_factory=dict)  # by group; of one that is missing it is learned
    mean_comes_back: bool = False  # to the coordinator, from sites that opened it

    @property
    def is_sealed(self) -> bool:
        """Whether updates are encrypted, and only sites can open their sum."""
        return MECHANISMS[self.name].seals

    @property
    def is_masked(self) -> bool:
        """Whether masks between the sites hide an update also from those that open the sum."""
        return MECHANISMS[self.name].masks

    @property
    def needs_every_participant(self) -> bool:
        """Whether an update also bears a mask of its site's own, whose seed is told once: for a sum of all its sites.

        Where means come back, a coordinator could else have two sums opened that differ in one site.
        """
        return self.is_masked or self.mean_comes_back

    @property
    def reader(self) -> Reader:
        """Who reads the mean."""
        return Reader.SITE if self.is_sealed else Reader.COORDINATOR

    @property
    def key_scheme(self) -> str:
        """What a key must be made for; nothing, where nothing is sealed."""
        if not self.is_sealed:
            return ""
        return "ckks" if self.scheme == "ckks" else f"bfv-{self.packing}"

    @cached_property
    def slots(self) -> Packing:
        """How numbers share the slots that are added."""
        if not self.is_sealed:
            return MASKED
        return BfvParameters(self.packing).packing

    @cached_property
    def carrier(self) -> Codec:
        """How they travel."""
        if not self.is_sealed:
            return PlaintextCodec()
        return CkksCodec() if self.scheme == "ckks" else BfvCodec(BfvParameters(self.packing))

    @cached_property
    def layer_groups(self) -> tuple[str, ...]:
        """Each once, in the order of the layers."""
        return tuple(dict.fromkeys(self.groups[name] for name in self.shapes))

    def clip_of(self, exchange: Exchange) -> dict[str, float]:
        """The clip of each parameter in an exchange."""
        if exchange.clips.keys() != set(self.layer_groups):
            raise MessageError("clip", "the exchange names other layer groups than the study's model has")
        return {name: exchange.clips[self.groups[name]] for name in self.shapes}

    def layout(self, exchange: Exchange) -> Layout | NumberLayout:
        """Where each number of an update lies in the slots of an exchange."""
        if self.scheme == "ckks":
            return NumberLayout(self.shapes, self.clip_of(exchange))
        return Layout(self.shapes, self.clip_of(exchange), self.slots)
