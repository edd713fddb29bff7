"""FedNER (Ge et al. 2020), Algorithm 1.

In each round every site computes the gradients of one mini-batch, steps its private half, and sends the gradients of
the shared half. Their mean, weighted by the sites' sizes, steps the shared half at the coordinator. Where communication
is expensive, sites train `local_steps` mini-batches per round; the shared half is then averaged as in federated
averaging.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from wardround.algorithms import fedavg
from wardround.algorithms.algorithm import Algorithm, NoisySteps, SharedLayers, SiteStep
from wardround.errors import MessageError, TrainingError
from wardround.federation.aggregation import SparseRows
from wardround.federation.coordinator import Coordinator, RoundContext, RoundsConfig, RoundSum
from wardround.federation.message import Array, Message, Value
from wardround.federation.site_runtime import Site, rates_in
from wardround.training.loop import compute_gradients
from wardround.training.optimizer import ParameterOptimizer, clip_gradients
from wardround.training.training_config import RoundTrainingConfig

__all__ = ["ALGORITHM", "FedNer", "FedNerConfig", "batch_share", "gradient", "train_share"]


@dataclass(frozen=True)
class FedNerConfig(RoundsConfig):
    """The settings of Algorithm 1."""

    local_steps: int = 1  # mini-batches per round; the paper has 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local_steps < 1:
            raise TrainingError(f"local_steps is {self.local_steps}; it must be above zero")

    def constant_settings(self) -> dict[str, Value]:
        """Return the settings of a request that are the same in every round."""
        return {"steps": self.local_steps}

    def passes(self, examples: Sequence[int], batch_size: int) -> float:
        """Return the passes over the notes: all sites together draw `batch_size` sentences for a step."""
        return self.rounds * self.local_steps * batch_size / sum(examples)


class FedNer(Coordinator):
    """The server of Algorithm 1; it holds θ_s and its optimizer."""

    config: FedNerConfig

    def __init__(
        self,
        shared: Mapping[str, Array],
        config: FedNerConfig,
        training: RoundTrainingConfig,
        *,
        seed: int = 0,
        output: Sequence[str] = (),
    ) -> None:
        super().__init__(shared, config, training, seed=seed, output=output)
        if not shared:
            raise TrainingError("no layer of the model is shared; there is nothing to train together")
        self.stepper = ParameterOptimizer(self.shared, self.output)

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Ask every site for its gradient (Eq. 2), or for local training if `local_steps` is above 1."""
        settings = self.settings()
        if not self.uniform_weights:
            settings["sizes"] = dict(self.sizes)
        if self.config.local_steps == 1:
            return context.gather("gradient", settings)
        return context.gather("train_share", {**settings, **self.config.constant_settings()})

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """Update θ_s ← θ_s − α ∂L/∂θ_s; `mean` is overwritten."""
        if self.config.local_steps > 1:
            fedavg.add(self.shared, mean)
            return
        for name, parameter in self.shared.items():
            parameter.grad = torch.from_numpy(mean[name])  # clipping writes into it
        clip_gradients(self.shared.values(), self.training.clip)
        self.stepper.step(self.training.rates(self.number + 1, self.config.rounds))

    def optimizer_state(self) -> dict[str, Tensor]:
        """Return Adam's moments."""
        return self.stepper.state()

    def load_optimizer_state(self, memory: Mapping[str, Tensor]) -> None:
        """Restore Adam's moments."""
        self.stepper.load(memory)


def gradient(site: Site, message: Message) -> Message:
    """Run PlatformUpdate of Algorithm 1: select N_i, step θ_p, return ∂L/∂θ_s.

    Under differential privacy N_i is a random sample, and the gradient of each unit in it is clipped; no layer is
    private. The mean over the sites is then a sum of gradients with noise, of which Adam does not mind the scale.
    """
    number = message.value("round", int)
    site.check_policy({"steps": 1})  # a study with several steps per round never sends a single mini-batch's gradient
    site.begin_round(number)
    if site.unit_privacy is not None:
        site.receive(message)
        answer = site.announce(site.noisy_sum(site.unit_privacy), weight=1.0, values={})
        site.round = number
        return answer
    share = batch_share(site, message, fewest=site.fewest_sentences)
    rates, largest = rates_in(message), message.value("clip", float)
    site.receive(message)
    with site.randomness(number), _sparse_tables(site):
        batch = site.next_batch(share, fewest=site.fewest_sentences)
        loss = compute_gradients(site.model, lambda: site.task.batch_loss(batch))
    clip_gradients(site.private.values(), largest)
    update = {name: _gradient_of(parameter) for name, parameter in site.shared.items()}
    answer = site.announce(update, weight=float(len(site.notes.train)), values={"loss": loss})
    site.private_optimizer.step(rates)  # last, so that a refusal above leaves the private half unchanged
    site.round = number
    return answer


@contextmanager
def _sparse_tables(site: Site) -> Iterator[None]:
    """Have shared embeddings return gradients for the rows that were looked up, not for the whole table."""
    owners = (site.model.get_submodule(name.rpartition(".")[0]) for name in site.shared)
    tables = [module for module in owners if isinstance(module, nn.Embedding)]
    for table in tables:
        table.sparse = True
    try:
        yield
    finally:
        for table in tables:
            table.sparse = False


def _gradient_of(parameter: Tensor) -> Array | SparseRows:
    """Return the gradient of a parameter; zero if the loss does not depend on it."""
    found = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    if not found.is_sparse:
        return found.cpu().numpy()
    rows = found.coalesce()
    return SparseRows(rows.indices()[0].cpu().numpy(), rows.values().cpu().numpy(), len(parameter))


def batch_share(site: Site, message: Message, *, fewest: int = 1) -> int:
    """Return |N_i| = |S_i| / Σ|S_j| · N, rounded, but at least `fewest` sentences.

    The site adds up the announced sizes |S_j| itself. Its own size must be right, and none may change between rounds.
    """
    announced, batch_size = message.value("sizes", dict), message.value("batch_size", int)
    sizes = {name: size for name, size in announced.items() if isinstance(size, int) and size > 0}
    if sizes != announced or sizes.get(site.name) != len(site.notes.train) or batch_size < 1:
        raise MessageError("sizes", "the announced sizes of the sites are not numbers, or this site's is wrong")
    if site.request_policy is not None and site.request_policy.names and not sizes.keys() <= site.request_policy.names:
        raise MessageError("sizes", "a size is announced for a name that is not a site of the study")
    site.history.check_sizes(sizes)
    return max(fewest, round(len(site.notes.train) / sum(sizes.values()) * batch_size))


def train_share(site: Site, message: Message) -> Message:
    """Train `local_steps` mini-batches of N_i sentences each and send the change of the shared half."""
    share = batch_share(site, message)
    return fedavg.train(site, replace(message, values={**message.values, "batch_size": share, "keep_moments": True}))


ALGORITHM = Algorithm(
    name="fedner",
    description="FedNER: sites send the gradient of the shared half after every mini-batch.",
    config=FedNerConfig(),
    training=RoundTrainingConfig(),
    server=FedNer,
    steps={
        "gradient": SiteStep(
            gradient, "computes the gradient of one mini-batch of your notes and sends that of the shared layers"
        ),
        "train_share": SiteStep(
            train_share, "trains on some mini-batches of your notes and sends the change of the shared layers"
        ),
    },
    shared_layers=SharedLayers.CONFIGURED,
    sends="updates",
    sent_to_sites="Other sites receive the updated shared layers, and the number of sentences each site trains on.",
    comparable_updates=True,
    constant_settings=FedNerConfig.constant_settings,
    noisy_steps=lambda config: NoisySteps(1, shared=True) if config.local_steps == 1 else None,
)
