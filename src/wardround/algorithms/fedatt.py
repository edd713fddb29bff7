"""FedAtt (Ji et al. 2019): the more a site's layer changed, the higher its weight in the mean.

Attention is a softmax over the sites of ‖w_l − w_l^k‖ for each layer l. A round has two exchanges: sites train and send
these norms, then each sends its update multiplied by its own attention, so the coordinator never needs a single site's
update. The norms still reveal more about each site than a sum does, so the algorithm runs only under mechanism plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from wardround.algorithms.algorithm import Algorithm, SharedLayers, SiteStep
from wardround.algorithms.fedavg import LOCAL_TRAINING, FedAvg, FedAvgConfig, add, local_update
from wardround.errors import MessageError
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, Value
from wardround.federation.site_runtime import Site

__all__ = ["ALGORITHM", "FedAtt", "FedAttConfig", "attention", "give_attended", "train_and_hold"]


@dataclass(frozen=True)
class FedAttConfig(FedAvgConfig):
    """The settings of federated averaging; `server_rate` is the paper's ε."""


class FedAtt(FedAvg):
    """The server of Algorithm 1 of the paper."""

    config: FedAttConfig
    uniform_weights = True  # sites multiply their updates by their attention

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Ask for the norms, then for the updates, each multiplied by its attention α_k^l."""
        layers = len(self.shared)
        norms = {
            site: message.arrays["norms"]
            for site, message in context.answers(
                "train_and_hold", context.question(self.local_settings()), check=lambda m: _check_norms(m, layers)
            )
        }
        attended = attention(norms)
        context.sites = list(norms)
        gathered = context.gather("give_attended", {"attention": {s: row.tolist() for s, row in attended.items()}})
        # If a site drops out between the exchanges, its attention is missing; the others' is scaled to sum to one.
        total = sum((attended[site] for site in gathered.sites), start=np.zeros(layers))
        return replace(gathered, values={"factors": (len(gathered.sites) / total).tolist()})

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """Update w_l ← w_l − ε Σ α_k^l (w_l − w_l^k)."""
        factors = values.get("factors")
        if not isinstance(factors, list) or len(factors) != len(self.shared):
            raise MessageError("value", "expected one factor per layer")
        scaled = {}
        for name, factor in zip(self.shared, factors, strict=True):
            if not isinstance(factor, float) or not 0 < factor < np.inf:
                raise MessageError("value", "a factor must be a number above zero")
            scaled[name] = np.asarray(mean[name] * np.float32(factor))
        add(self.shared, scaled, rate=self.config.server_rate)


def attention(norms: Mapping[SiteId, Array]) -> dict[SiteId, Array]:
    """Return a softmax over the sites, layer by layer."""
    table = np.stack([np.asarray(row, np.float64) for row in norms.values()])
    powers = np.exp(table - table.max(axis=0))
    return dict(zip(norms, powers / powers.sum(axis=0), strict=True))


def train_and_hold(site: Site, message: Message) -> Message:
    """Train locally, hold the update back, and send the norm of each layer's change."""
    with site.all_or_nothing():
        update, loss = local_update(site, message)
        site.algorithm_state = {name: torch.from_numpy(array) for name, array in update.items()}
        norms = np.array([float(update.norm()) for update in site.algorithm_state.values()], np.float32)
    return Message({"loss": loss}, {"norms": norms})


def give_attended(site: Site, message: Message) -> Message:
    """Send the update that was held back, each layer multiplied by this site's attention."""
    rows = message.value("attention", dict)
    row = rows.get(site.name)
    if message.value("round", int) != site.round or not site.algorithm_state:
        raise MessageError("round", "this site holds no update for the round")
    if (
        not isinstance(row, list)
        or len(row) != len(site.algorithm_state)
        or not all(isinstance(share, float) and 0 <= share <= 1 for share in row)
    ):
        raise MessageError("value", "attention must be one share per layer")
    shares = dict(zip(site.shared, row, strict=True))  # a state file does not keep the order of `held`
    update = {name: tensor.cpu().numpy() * np.float32(shares[name]) for name, tensor in site.algorithm_state.items()}
    answer = site.announce(update, weight=1.0, values={})
    site.algorithm_state = {}
    return answer


def _check_norms(answer: Message, layers: int) -> None:
    norms = answer.arrays.get("norms")
    if norms is None or norms.shape != (layers,) or norms.dtype != np.float32 or not np.isfinite(norms).all():
        raise MessageError("shapes", "expected one finite norm per layer")


ALGORITHM = Algorithm(
    name="fedatt",
    description="Federated averaging with more weight on the sites whose layers changed most.",
    config=FedAttConfig(),
    training=LOCAL_TRAINING,
    server=FedAtt,
    steps={
        "train_and_hold": SiteStep(
            train_and_hold, "trains on some mini-batches of your notes and sends one number for each shared layer"
        ),
        "give_attended": SiteStep(give_attended, "sends the weighted change of the shared layers"),
    },
    shared_layers=SharedLayers.CONFIGURED,
    sends="updates",
    sent_to_sites=(
        "Other sites receive the updated shared layers and, for each site and shared layer, a weight: the more the "
        "site's update changed the layer, the larger."
    ),
    needs_single_updates=True,
    constant_settings=FedAttConfig.constant_settings,
)
