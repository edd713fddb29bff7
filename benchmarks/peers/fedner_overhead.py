"""FedNER's rounds in the product and in a hand-written loop; the two alternate.

Both use the same models, batches, dropout seeds and Adam steps. The loop has no codec, no checks and no weights in
float64: it copies the shared half into each site's model and adds the gradients in place.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from json_script import answer
from torch import Tensor

from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import Quorum
from wardround.federation.site_runtime import PublicSet, Site
from wardround.federation.worker_process import RequestHandler
from wardround.studies.aggregation_setup import payload_of, server_of
from wardround.studies.assemble import common_task, coordinator_of
from wardround.studies.site_setup import open_here, open_site
from wardround.studies.study_file import Study, parse_study
from wardround.studies.study_notes import load_notes
from wardround.tasks.ner import batch_loss

HOSPITALS = ("harbour", "hillside", "riverside", "lakeside")
CPU = torch.device("cpu")


class Product:
    """A study in the in-process engine, one round at a time, without scoring."""

    def __init__(self, study: Study, folder: Path) -> None:
        def open_named(name: str) -> RequestHandler:
            return open_here(study, name, folder / name, device=CPU)

        self._federation = InProcessFederation(tuple(study.sites), open_named)
        self._coordinator = coordinator_of(study)
        aggregator = server_of(study, payload_of(study, common_task(study), PublicSet()))
        self._rounds = self._coordinator.rounds(self._federation, aggregator, Quorum())

    def round(self) -> None:
        """Run the next round."""
        assert not next(self._rounds).absent

    def shared(self) -> dict[str, Tensor]:
        """Return the current shared half."""
        return self._coordinator.shared


class HandWritten:
    """Algorithm 1 of the FedNER paper as one writes it without an engine."""

    def __init__(self, study: Study, folder: Path) -> None:
        self._training, self._rounds = study.training, study.algorithm.config.rounds
        self._sites = []
        for name, section in study.sites.items():
            notes = load_notes(name, section, seed=study.study.seed)
            self._sites.append(open_site(study, name, notes, folder=folder / name, device=CPU))
        self._total = sum(len(site.notes.train) for site in self._sites)
        self._optimizers = [torch.optim.Adam(site.private.values(), lr=0.0, fused=True) for site in self._sites]
        self._shared = {name: tensor.clone() for name, tensor in coordinator_of(study).shared.items()}
        self._optimizer = torch.optim.Adam(self._shared.values(), lr=0.0, fused=True)
        self._number = 0

    def round(self) -> None:
        """Run the next round."""
        self._number += 1
        for tensor in self._shared.values():
            tensor.grad = None
        for site, optimizer in zip(self._sites, self._optimizers, strict=True):
            self._backward(site)
            self._add(site, len(site.notes.train) / self._total)
            self._step(site.private, optimizer)
        self._step(self._shared, self._optimizer)

    def shared(self) -> dict[str, Tensor]:
        """Return the current shared half."""
        return self._shared

    def _backward(self, site: Site) -> None:
        fewest = site.fewest_sentences
        share = max(fewest, round(len(site.notes.train) / self._total * self._training.batch_size))
        with torch.no_grad():
            for name, parameter in site.shared.items():
                parameter.copy_(self._shared[name])
        site.model.train()
        site.model.zero_grad(set_to_none=True)
        with site.randomness(self._number):
            batch_loss(site.model, site.next_batch(share, fewest=fewest)).backward()  # type: ignore[no-untyped-call]

    def _add(self, site: Site, weight: float) -> None:
        for name, parameter in site.shared.items():
            assert parameter.grad is not None
            total = self._shared[name]
            if total.grad is None:
                total.grad = parameter.grad.mul_(weight)  # the next backward pass allocates a new gradient
            else:
                total.grad.add_(parameter.grad, alpha=weight)

    def _step(self, parameters: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
        torch.nn.utils.clip_grad_norm_(parameters.values(), self._training.clip)
        optimizer.param_groups[0]["lr"] = self._training.rates(self._number, self._rounds).base
        optimizer.step()


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of each round in both, and how far their shared parameters are apart."""
    torch.set_num_threads(1)
    study = make_study(request["warm_up"] + request["rounds"])
    with TemporaryDirectory() as scratch:
        product, loop = Product(study, Path(scratch) / "a"), HandWritten(study, Path(scratch) / "b")
        seconds = [time_round(product, loop, first=number % 2) for number in range(study.algorithm.config.rounds)]
        shared = loop.shared()
        apart = max(float((tensor - shared[name]).abs().max()) for name, tensor in product.shared().items())
        megabytes = sum(tensor.nbytes for tensor in shared.values()) / 1e6
    return {"seconds": seconds[request["warm_up"] :], "apart": apart, "megabytes": megabytes}


def make_study(rounds: int) -> Study:
    """Return a study of the built-in hospitals with FedNER's default network and training."""
    sites = "\n".join(f'[sites.{name}]\nbuilt_in = "{name}"' for name in HOSPITALS)
    study = parse_study(f'[study]\nname = "overhead"\n[algorithm]\nrounds = {rounds}\n{sites}\n')
    assert study.training.output_learning_rate == study.training.weight_decay == 0, "the loop has one rate, no decay"
    return study


def time_round(product: Product, loop: HandWritten, *, first: int) -> tuple[float, float]:
    """Return the seconds of the same round in each; the order alternates because the first fills the cache of words."""
    seconds = {}
    for one in (product, loop)[:: 1 if first else -1]:
        started = time.perf_counter()
        one.round()
        seconds[type(one)] = time.perf_counter() - started
    return seconds[Product], seconds[HandWritten]


if __name__ == "__main__":
    answer(measure)
