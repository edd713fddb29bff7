"""A study of many small hospitals: peak memory, and time per request to a site.

One site is open at a time, so that at every size each request opens its site, as in a study with more sites than are
kept open. Otherwise the smallest study would avoid a cost that the largest pays.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from echo import EchoWorker, question
from json_script import answer, peak_megabytes

from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import Quorum
from wardround.federation.site_runtime import PublicSet
from wardround.federation.worker_process import RequestHandler
from wardround.secure_aggregation.plain import PlainUpdates
from wardround.studies.aggregation_setup import payload_of, server_of
from wardround.studies.assemble import common_task, coordinator_of
from wardround.studies.site_setup import open_here
from wardround.studies.study_file import Study, parse_study

STYLES = ("harbour", "hillside", "riverside", "lakeside")
SENTENCES_PER_SITE = 2  # of a mini-batch, at every size
NETWORK = {"word_dimension": 20, "word_buckets": 1024, "character_width": 20, "word_cnn": 20, "lstm": 20}
FLOATS = 100_000  # of an idle site


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Run idle sites or a small FedNER study, with at least `requests` requests in total."""
    torch.set_num_threads(1)
    sites = request["sites"]
    rounds = max(1, request["requests"] // sites)
    run = {"idle": run_idle, "fedner": run_fedner}[request["work"]]
    with TemporaryDirectory() as scratch:
        run(1, 1, Path(scratch) / "warm-up")  # costs that arise once per process are not a site's
        started = time.perf_counter()
        requests = run(sites, rounds, Path(scratch) / "study")
        seconds = time.perf_counter() - started
    return {"sites": sites, "peak_mb": peak_megabytes(), "milliseconds_a_site": 1e3 * seconds / requests}


def run_idle(sites: int, rounds: int, folder: Path) -> int:
    """Average the answers of sites that return what they receive; return the number of requests."""
    names = [f"site-{number}" for number in range(sites)]
    federation = InProcessFederation(names, lambda name: RequestHandler(EchoWorker()), open_at_once=1)
    updates = PlainUpdates()
    for number in range(1, rounds + 1):
        answers = Quorum().present(federation.ask("echo", question(number, FLOATS)))
        running = updates.sum()
        for _, message in answers:
            running.add(message)
        running.total()
    return rounds * sites


def run_fedner(sites: int, rounds: int, folder: Path) -> int:
    """Run a small FedNER study and return the number of requests: one for each site's size, then one per round."""
    study = make_study(sites, rounds)
    device = torch.device("cpu")
    federation = InProcessFederation(
        tuple(study.sites), lambda name: open_here(study, name, folder / name, device=device), open_at_once=1
    )
    aggregator = server_of(study, payload_of(study, common_task(study), PublicSet()))
    for record in coordinator_of(study).rounds(federation, aggregator, Quorum(sites)):
        assert not record.absent
    federation.close()
    return sites * (rounds + 1)


def make_study(sites: int, rounds: int) -> Study:
    """Return a study of a small network at small hospitals."""
    lines = ["[study]", 'name = "many"', "[algorithm]", f"rounds = {rounds}"]
    lines += ["[training]", f"batch_size = {SENTENCES_PER_SITE * sites}"]
    lines += ["[model]", *(f"{name} = {size}" for name, size in NETWORK.items())]
    for number in range(sites):
        lines += [f"[sites.site-{number}]", f'built_in = "{STYLES[number % len(STYLES)]}-{number:04d}"']
    return parse_study("\n".join(lines))


if __name__ == "__main__":
    answer(measure)
