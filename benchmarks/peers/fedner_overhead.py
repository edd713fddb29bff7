"""FedNER's rounds through the product and through a hand-written loop, in turns; request and answer as JSON.

Both take the same models, batches and dropout seeds, and step the same Adam. The loop has no codec, no
checks and no weights in float64: the shared half is copied into each site's model, gradients are added in place.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import Quorum
from wardround.federation.request_handler import RequestHandler
from wardround.federation.site_runtime import PublicSet, Site
from wardround.studies.aggregation_setup import payload_spec_of, server_of
from wardround.studies.assemble import common_task, coordinator_of
from wardround.studies.site_setup import load_notes, open_here, open_site
from wardround.studies.study_file import Study, parse_study
from wardround.tasks.ner import batch_loss

HOSPITALS = ("harbour", "hillside", "riverside", "lakeside")
CPU = torch.device("cpu")


class Product:
    """A study as one machine runs it, a round at a time, without scoring."""

    def __init__(self, study: Study, folder: Path) -> None:
        def open_named(name: str) -> RequestHandler:
            return open_here(study, name, folder / name, device=CPU)

        self._federation = InProcessFederation(tuple(study.sites), open_named)
        self._coordinator = coordinator_of(study)
        aggregator = server_of(study, payload_spec_of(study, common_task(study), PublicSet()))
        self._rounds = self._coordinator.rounds(self._federation, aggregator, Quorum())

    def round(self) -> None:
        """The next one."""
        assert not next(self._rounds).absent

    def shared(self) -> dict[str, Tensor]:
        """The shared half as it is now."""
        return self._coordinator.shared


class HandWritten:
    """Algorithm 1 as one writes it without an engine."""

    def __init__(self, study: Study, folder: Path) -> None:
        self._training, self._rounds = study.training, study.algorithm.config.rounds
        self._sites = [_opened(study, name, folder / name) for name in study.sites]
        self._total = sum(len(site.notes.train) for site in self._sites)
        self._optimizers = [torch.optim.Adam(site.private.values(), lr=0.0, fused=True) for site in self._sites]
        self._shared = {name: tensor.clone() for name, tensor in coordinator_of(study).shared.items()}
        self._optimizer = torch.optim.Adam(self._shared.values(), lr=0.0, fused=True)
        self._number = 0

    def round(self) -> None:
        """The next one."""
        self._number += 1
        for tensor in self._shared.values():
            tensor.grad = None
        for site, optimizer in zip(self._sites, self._optimizers, strict=True):
            self._backward(site)
            self._add(site, len(site.notes.train) / self._total)
            self._step(site.private, optimizer)
        self._step(self._shared, self._optimizer)

    def shared(self) -> dict[str, Tensor]:
        """The shared half as it is now."""
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
                total.grad = parameter.grad.mul_(weight)  # the next site's backward pass makes itself a new one
            else:
                total.grad.add_(parameter.grad, alpha=weight)

    def _step(self, parameters: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
        torch.nn.utils.clip_grad_norm_(parameters.values(), self._training.clip)
        optimizer.param_groups[0]["lr"] = self._training.rates(self._number, self._rounds).base
        optimizer.step()


def main() -> None:
    """Time the rounds of both."""
    request = json.load(sys.stdin)
    torch.set_num_threads(1)
    study = make_study(request["warm_up"] + request["rounds"])
    with TemporaryDirectory() as scratch:
        product, loop = Product(study, Path(scratch) / "a"), HandWritten(study, Path(scratch) / "b")
        seconds = [_pair(product, loop, first=number % 2) for number in range(study.algorithm.config.rounds)]
        shared = loop.shared()
        apart = max(float((tensor - shared[name]).abs().max()) for name, tensor in product.shared().items())
        megabytes = sum(tensor.nbytes for tensor in shared.values()) / 1e6
    print(json.dumps({"seconds": seconds[request["warm_up"] :], "apart": apart, "megabytes": megabytes}))


def make_study(rounds: int) -> Study:
    """The built-in hospitals, FedNER's network and training as they are by default."""
    sites = "\n".join(f'[sites.{name}]\nbuilt_in = "{name}"' for name in HOSPITALS)
    study = parse_study(f'[study]\nname = "overhead"\n[algorithm]\nrounds = {rounds}\n{sites}\n')
    assert study.training.output_learning_rate == study.training.weight_decay == 0, "the loop has one rate, no decay"
    return study


def _opened(study: Study, name: str, folder: Path) -> Site:
    notes = load_notes(name, study.sites[name], seed=study.study.seed)
    return open_site(study, name, notes, folder=folder, device=CPU)


def _pair(product: Product, loop: HandWritten, *, first: int) -> tuple[float, float]:
    """Seconds of the same round in each; who goes first alternates, for the first warms the batch's words."""
    seconds = {}
    for one in (product, loop)[:: 1 if first else -1]:
        started = time.perf_counter()
        one.round()
        seconds[type(one)] = time.perf_counter() - started
    return seconds[Product], seconds[HandWritten]


if __name__ == "__main__":
    main()
