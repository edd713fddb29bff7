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
from wardround.secure_aggregation.codecs import BfvCodec, CkksCodec, Codec, PlaintextCodec
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.mechanisms import MECHANISMS
from wardround.secure_aggregation.packing import SlotLayout

__all__ = ["AgreedMechanism"]


@dataclass(frozen=True)
class AgreedMechanism:
    """How the updates of one study are protected, and which arrays they consist of."""

    study: str  # its digest
    name: str  # of the mechanism
    shapes: Mapping[str, tuple[int, ...]]  # of the shared parameters
    groups: Mapping[str, str]  # the layer group of each parameter
    sites: tuple[SiteId, ...]  # of the study
    minimum: int  # fewest sites in a sum
    scheme: Literal["bfv", "ckks"] = "bfv"
    packing: Literal["standard", "compact"] = "standard"
    clips: Mapping[str, float] = field(default_factory=dict)  # by layer group; a missing one is learned
    mean_comes_back: bool = False  # sites that opened the mean send it to the coordinator

    @property
    def is_sealed(self) -> bool:
        """Return whether updates are encrypted, so that only sites can open their sum."""
        return MECHANISMS[self.name].seals

    @property
    def is_masked(self) -> bool:
        """Return whether pairwise masks hide an update also from those that open the sum."""
        return MECHANISMS[self.name].masks

    @property
    def needs_every_participant(self) -> bool:
        """Return whether each update has a mask of its site's own, whose seed is sent once, for a complete sum.

        If means come back, a coordinator could otherwise have two sums opened that differ in one site.
        """
        return self.is_masked or self.mean_comes_back

    @property
    def reader(self) -> Reader:
        """Return who reads the mean."""
        return Reader.SITE if self.is_sealed else Reader.COORDINATOR

    @property
    def key_scheme(self) -> str:
        """Return what a sealing key must be made for; empty if nothing is sealed."""
        if not self.is_sealed:
            return ""
        return "ckks" if self.scheme == "ckks" else f"bfv-{self.packing}"

    @cached_property
    def codec(self) -> Codec:
        """Return how slots are encoded, added and opened."""
        if not self.is_sealed:
            return PlaintextCodec()
        return CkksCodec() if self.scheme == "ckks" else BfvCodec(BfvParameters(self.packing))

    @cached_property
    def layer_groups(self) -> tuple[str, ...]:
        """Return the layer groups without repeats, in the order of the layers."""
        return tuple(dict.fromkeys(self.groups[name] for name in self.shapes))

    def clip_of(self, exchange: Exchange) -> dict[str, float]:
        """Return the clip of each parameter in an exchange."""
        if exchange.clips.keys() != set(self.layer_groups):
            raise MessageError("clip", "the exchange names other layer groups than the study's model has")
        return {name: exchange.clips[self.groups[name]] for name in self.shapes}

    def layout(self, exchange: Exchange) -> SlotLayout:
        """Return where each number of an update lies in the slots of an exchange."""
        return self.codec.layout(self.shapes, self.clip_of(exchange))
