"""Every site on its own: what a study is measured against. Nothing is shared; the loss is all that is told."""

from __future__ import annotations

from wardround.algorithms.fedavg import FedAvg, FedAvgConfig, local_update
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.message import Message
from wardround.federation.site_runtime import Site, Step

__all__ = ["STEPS", "Single", "train_alone"]


class Single(FedAvg):
    """Keeps the rounds, and nothing else."""

    config: FedAvgConfig

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Every site trains, and there is nothing to gather."""
        for _ in context.answers("train_alone", Message({**self.local_settings(), "round": self.number + 1})):
            pass
        return None


def train_alone(site: Site, message: Message) -> Message:
    """Train for a while, give nothing but the loss."""
    with site.all_or_nothing():
        return Message({"loss": local_update(site, message)[1]})


STEPS: dict[str, Step] = {"train_alone": train_alone}
