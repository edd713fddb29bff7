"""FedAtt (Ji et al. 2019): the further a site's layer went, the more the mean attends to it.

Attention is a softmax over the sites of ‖w_l − w_l^k‖ of each layer l. A round has two exchanges: sites train and tell
these norms, then each gives its update times its own attention; so the coordinator never needs a single site's update.
The norms still tell more of each than a sum does: a study whose updates are protected refuses this algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from wardround.algorithms.fedavg import FedAvg, FedAvgConfig, add, local_update
from wardround.errors import MessageError
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, Value
from wardround.federation.site_runtime import Site, Step

__all__ = ["STEPS", "FedAtt", "FedAttConfig", "attention", "give_attended", "train_and_hold"]


@dataclass(frozen=True)
class FedAttConfig(FedAvgConfig):
    """The settings of federated averaging; `server_rate` is the paper's ε."""


class FedAtt(FedAvg):
    """The server of Algorithm 1 of the paper."""

    config: FedAttConfig
    uniform_weights = True  # each update comes times its attention

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Norms first, then the updates, each times its attention α_k^l."""
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
        # Of the sum, a site that went away in between takes its part with it: the rest is brought to one again.
        given = sum((attended[site] for site in gathered.sites), start=np.zeros(layers))
        return replace(gathered, values={"factors": (len(gathered.sites) / given).tolist()})

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """w_l ← w_l − ε Σ α_k^l (w_l − w_l^k)."""
        factors = values.get("factors")
        if not isinstance(factors, list) or len(factors) != len(self.shared):
            raise MessageError("value", "a factor a layer is expected")
        whole = {n: np.asarray(mean[n] * np.float32(_factor(f))) for n, f in zip(self.shared, factors, strict=True)}
        add(self.shared, whole, rate=self.config.server_rate)


def attention(norms: Mapping[SiteId, Array]) -> dict[SiteId, Array]:
    """A softmax over the sites, layer by layer."""
    table = np.stack([np.asarray(row, np.float64) for row in norms.values()])
    powers = np.exp(table - table.max(axis=0))
    return dict(zip(norms, powers / powers.sum(axis=0), strict=True))


def train_and_hold(site: Site, message: Message) -> Message:
    """Train for a while, hold the update back, and tell how far each layer went."""
    with site.all_or_nothing():
        update, loss = local_update(site, message)
        site.held = {name: torch.from_numpy(array) for name, array in update.items()}
        norms = np.array([float(update.norm()) for update in site.held.values()], np.float32)
    return Message({"loss": loss}, {"norms": norms})


def give_attended(site: Site, message: Message) -> Message:
    """Give the update that was held, each layer times this site's attention to it."""
    rows = message.value("attention", dict)
    row = rows.get(site.name)
    if message.value("round", int) != site.round or not site.held:
        raise MessageError("round", "this site holds no update of the round")
    if not isinstance(row, list) or len(row) != len(site.held) or not all(_is_share(share) for share in row):
        raise MessageError("value", "attention is a share a layer")
    shares = dict(zip(site.shared, row, strict=True))  # held may have been on disk, which keeps no order
    update = {name: tensor.cpu().numpy() * np.float32(shares[name]) for name, tensor in site.held.items()}
    answer = site.give(update, weight=1.0, values={})
    site.held = {}
    return answer


def _factor(value: Value) -> float:
    if not isinstance(value, float) or not 0 < value < np.inf:
        raise MessageError("value", "a factor is a number above zero")
    return value


def _is_share(share: object) -> bool:
    return isinstance(share, float) and 0 <= share <= 1


def _check_norms(answer: Message, layers: int) -> None:
    norms = answer.arrays.get("norms")
    if norms is None or norms.shape != (layers,) or norms.dtype != np.float32 or not np.isfinite(norms).all():
        raise MessageError("shapes", "a finite norm a layer is expected")


STEPS: dict[str, Step] = {"train_and_hold": train_and_hold, "give_attended": give_attended}
