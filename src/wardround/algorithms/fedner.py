"""FedNER (Ge et al. 2020), Algorithm 1.

In each round every site computes the gradients of one mini-batch, steps its private half, and gives the gradients of
the shared half; their mean, weighted by the sites' sizes, steps the shared half at the coordinator. Over slow links
`local_steps` mini-batches lie between two exchanges: then the shared half is averaged as `fedavg` does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from wardround.algorithms import fedavg
from wardround.errors import MessageError, TrainingError
from wardround.federation.aggregation import Rows
from wardround.federation.coordinator import Coordinator, RoundContext, RoundsConfig, RoundSum
from wardround.federation.message import Array, Message, Value
from wardround.federation.site_runtime import Site, Step, rates_in
from wardround.training.loop import compute_gradients
from wardround.training.optimizer import ParameterOptimizer, clip_gradients
from wardround.training.training_config import RoundTrainingConfig

__all__ = ["STEPS", "FedNer", "FedNerConfig", "batch_share", "gradient", "train_share"]


@dataclass(frozen=True)
class FedNerConfig(RoundsConfig):
    """The settings of Algorithm 1."""

    local_steps: int = 1  # mini-batches between two exchanges; 1 is the paper's

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local_steps < 1:
            raise TrainingError(f"local_steps is {self.local_steps}; it must be above zero")

    def constant_settings(self) -> dict[str, Value]:
        """How far a site goes between two exchanges."""
        return {"steps": self.local_steps}


class FedNer(Coordinator):
    """The server of Algorithm 1: it holds θ_s and its optimizer."""

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
        """The gradients of Eq. 2."""
        settings: dict[str, Value] = {**self.settings(), "sizes": dict(self.sizes)}
        if self.config.local_steps == 1:
            return context.gather("gradient", settings)
        return context.gather("train_share", {**settings, **self.config.constant_settings()})

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """θ_s ← θ_s − α ∂L/∂θ_s; the mean gradient is used up."""
        if self.config.local_steps > 1:
            fedavg.add(self.shared, mean)
            return
        for name, parameter in self.shared.items():
            parameter.grad = torch.from_numpy(mean[name])  # clipping writes into it
        clip_gradients(self.shared.values(), self.training.clip)
        self.stepper.step(self.training.rates(self.number + 1, self.config.rounds))

    def optimizer_state(self) -> dict[str, Tensor]:
        """Adam's moments."""
        return self.stepper.state()

    def load_optimizer_state(self, memory: Mapping[str, Tensor]) -> None:
        """Adam's moments."""
        self.stepper.load(memory)


def gradient(site: Site, message: Message) -> Message:
    """PlatformUpdate of Algorithm 1: select N_i, step θ_p, return ∂L/∂θ_s."""
    number = message.value("round", int)
    site.check_policy({"steps": 1})  # of a study with more between two exchanges, no single mini-batch is given
    site.check_round(number)
    share = batch_share(site, message, fewest=site.fewest_sentences)
    rates, largest = rates_in(message), message.value("clip", float)
    site.receive(message)
    with site.randomness(number), _sparse_tables(site):
        batch = site.next_batch(share, fewest=site.fewest_sentences)
        loss = compute_gradients(site.model, lambda: site.task.batch_loss(batch))
    clip_gradients(site.private.values(), largest)
    update = {name: _gradient_of(parameter) for name, parameter in site.shared.items()}
    answer = site.give(update, weight=float(len(site.notes.train)), values={"loss": loss})
    site.private_optimizer.step(rates)  # last: where anything is refused, the private half is as it was
    site.round = number
    return answer


@contextmanager
def _sparse_tables(site: Site) -> Iterator[None]:
    """Let shared embeddings give the gradients of the rows they were asked for, and not of the whole table."""
    tables = [
        module
        for name, module in site.model.named_modules()
        if isinstance(module, nn.Embedding) and f"{name}.weight" in site.shared
    ]
    for table in tables:
        table.sparse = True
    try:
        yield
    finally:
        for table in tables:
            table.sparse = False


def _gradient_of(parameter: Tensor) -> Array | Rows:
    """Zero where the loss did not touch it."""
    found = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    if not found.is_sparse:
        return found.cpu().numpy()
    rows = found.coalesce()
    return Rows(rows.indices()[0].cpu().numpy(), rows.values().cpu().numpy(), len(parameter))


def batch_share(site: Site, message: Message, *, fewest: int = 1) -> int:
    """|N_i| = |S_i| / Σ|S_j| · N, rounded, and `fewest` sentences at least.

    The site adds up the announced sizes |S_j| itself. Its own must be right, and none may change between two rounds.
    """
    announced, batch_size = message.value("sizes", dict), message.value("batch_size", int)
    sizes = {name: size for name, size in announced.items() if isinstance(size, int) and size > 0}
    if sizes != announced or sizes.get(site.name) != len(site.notes.train) or batch_size < 1:
        raise MessageError("sizes", "the announced sizes of the sites are not numbers, or this site's is wrong")
    if site.terms is not None and site.terms.names and not sizes.keys() <= site.terms.names:
        raise MessageError("sizes", "a size is announced of what is no site of the study")
    site.history.check_sizes(sizes)
    return max(fewest, round(len(site.notes.train) / sum(sizes.values()) * batch_size))


def train_share(site: Site, message: Message) -> Message:
    """`local_steps` mini-batches of N_i sentences each."""
    share = batch_share(site, message)
    return fedavg.train(site, replace(message, values={**message.values, "batch_size": share, "keep_moments": True}))


STEPS: dict[str, Step] = {"gradient": gradient, "train_share": train_share}
