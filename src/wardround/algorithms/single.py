"""Single-site training, the baseline without cooperation: sites share nothing and send only their loss."""

from __future__ import annotations

from dataclasses import replace

from wardround.algorithms import fedavg
from wardround.algorithms.algorithm import SharedLayers, SiteStep
from wardround.algorithms.fedavg import FedAvg, FedAvgConfig, local_update
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.message import Message
from wardround.federation.site_runtime import Site

__all__ = ["ALGORITHM", "Single", "train_alone"]


class Single(FedAvg):
    """A server that counts rounds and aggregates nothing."""

    config: FedAvgConfig

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Have every site train; there is nothing to aggregate."""
        for _ in context.answers("train_alone", Message({**self.local_settings(), "round": self.number + 1})):
            pass
        return None


def train_alone(site: Site, message: Message) -> Message:
    """Train locally and send only the loss."""
    with site.all_or_nothing():
        return Message({"loss": local_update(site, message)[1]})


ALGORITHM = replace(
    fedavg.ALGORITHM,
    name="single",
    description="Every site trains on its own: the baseline without cooperation.",
    server=Single,
    steps={
        "train_alone": SiteStep(
            train_alone, "trains on some mini-batches of your notes and sends nothing but the mean loss"
        )
    },
    shared_layers=SharedLayers.NONE,
    sends="nothing",
    sent_to_sites="Other sites receive nothing.",
    comparable_updates=False,
    noisy_steps=lambda config: None,
)
