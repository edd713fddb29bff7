"""FedProx (Li et al. 2020): federated averaging with a proximal term that keeps sites near the shared half."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.algorithms.algorithm import Algorithm, SharedLayers, SiteStep
from wardround.algorithms.fedavg import LOCAL_TRAINING, FedAvg, FedAvgConfig, local_update
from wardround.errors import MessageError, TrainingError
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.message import Message, Value
from wardround.federation.site_runtime import Site

__all__ = ["ALGORITHM", "FedProx", "FedProxConfig", "train_near"]


@dataclass(frozen=True)
class FedProxConfig(FedAvgConfig):
    """The settings of federated averaging and the strength of the proximal term."""

    proximal: float = 0.01  # μ

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.proximal > 0:
            raise TrainingError(f"proximal is {self.proximal}; it must be above zero (fedavg has none)")

    def constant_settings(self) -> dict[str, Value]:
        """Return the settings of a request that are the same in every round."""
        return {**super().constant_settings(), "proximal": self.proximal}


class FedProx(FedAvg):
    """The server of Algorithm 2 of the paper."""

    config: FedProxConfig

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Have every site train on h_k(w; w_t) = F_k(w) + μ/2 ‖w − w_t‖²."""
        return context.gather("train_near", self.local_settings())


def train_near(site: Site, message: Message) -> Message:
    """Train locally with the gradient μ (w − w_t) of the proximal term added; send the change of the shared half."""
    strength = message.value("proximal", float)
    if not strength > 0:
        raise MessageError("value", "the strength of the proximal term must be above zero")
    with site.all_or_nothing():
        update, loss = local_update(site, message, proximal=strength)
        return site.announce(update, weight=float(len(site.notes.train)), values={"loss": loss})


ALGORITHM = Algorithm(
    name="fedprox",
    description="Federated averaging with a proximal term that keeps sites near the shared half.",
    config=FedProxConfig(),
    training=LOCAL_TRAINING,
    server=FedProx,
    steps={
        "train_near": SiteStep(
            train_near, "trains on some mini-batches of your notes and sends the change of the shared layers"
        )
    },
    shared_layers=SharedLayers.CONFIGURED,
    sends="updates",
    sent_to_sites="Other sites receive only the updated shared layers.",
    comparable_updates=True,
    constant_settings=FedProxConfig.constant_settings,
)
