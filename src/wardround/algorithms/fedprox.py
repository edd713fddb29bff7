"""FedProx (Li et al. 2020): federated averaging whose sites are held near the shared half they were given."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.algorithms.fedavg import FedAvg, FedAvgConfig, local_update
from wardround.errors import MessageError, TrainingError
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.message import Message, Value
from wardround.federation.site_runtime import Site, Step

__all__ = ["STEPS", "FedProx", "FedProxConfig", "train_near"]


@dataclass(frozen=True)
class FedProxConfig(FedAvgConfig):
    """The settings of federated averaging, and the strength of the proximal term."""

    proximal: float = 0.01  # μ

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.proximal > 0:
            raise TrainingError(f"proximal is {self.proximal}; it must be above zero (fedavg has none)")

    def constant_settings(self) -> dict[str, Value]:
        """How far a site goes in a round, and how strongly it is held."""
        return {**super().constant_settings(), "proximal": self.proximal}


class FedProx(FedAvg):
    """The server of Algorithm 2 of the paper."""

    config: FedProxConfig

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Every site trains under h_k(w; w_t) = F_k(w) + μ/2 ‖w − w_t‖²."""
        return context.gather("train_near", self.local_settings())


def train_near(site: Site, message: Message) -> Message:
    """Train for a while, pulled back to the given shared half by μ (w − w_t)."""
    strength = message.value("proximal", float)
    if not strength > 0:
        raise MessageError("value", "the proximal term has no strength")
    with site.all_or_nothing():
        update, loss = local_update(site, message, pull=strength)
        return site.give(update, weight=float(len(site.notes.train)), values={"loss": loss})


STEPS: dict[str, Step] = {"train_near": train_near}
