"""A study of many small hospitals: peak memory, and seconds a site asked; request and answer as JSON.

One site is open at a time, so that at every size each question opens its site, as it does where a study has more sites
than are kept open: otherwise the smallest study would be spared what the largest pays.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from echo import EchoWorker, question

from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import Quorum
from wardround.federation.request_handler import RequestHandler
from wardround.federation.site_runtime import PublicSet
from wardround.secure_aggregation.plain import PlainUpdates
from wardround.studies.aggregation_setup import payload_spec_of, server_of
from wardround.studies.assemble import common_task, coordinator_of
from wardround.studies.site_setup import open_here
from wardround.studies.study_file import Study, parse_study

STYLES = ("harbour", "hillside", "riverside", "lakeside")
SENTENCES_A_SITE = 2  # of a mini-batch, at every size
LEAST_ASKED = 100  # questions to a site at least, so that the smallest size is no accident
NETWORK = {"word_dimension": 20, "word_buckets": 1024, "character_width": 20, "word_cnn": 20, "lstm": 20}
FLOATS = 100_000  # of the site that does little


def main() -> None:
    """Run the study that is asked for."""
    request = json.load(sys.stdin)
    torch.set_num_threads(1)
    sites = request["sites"]
    rounds = max(1, LEAST_ASKED // sites)
    with TemporaryDirectory() as scratch:
        run = {"little": do_little, "fedner": do_fedner}[request["work"]]
        run(1, 1, Path(scratch) / "warm-up")  # what is made once in a process is not a site's
        started = time.perf_counter()
        asked = run(sites, rounds, Path(scratch) / "study")
        seconds = time.perf_counter() - started
    print(json.dumps({"sites": sites, "peak_mb": peak_megabytes(), "milliseconds_a_site": 1e3 * seconds / asked}))


def do_little(sites: int, rounds: int, folder: Path) -> int:
    """Sites that give back what they are sent, and their mean; how many were asked."""
    federation = _federation([f"site-{number}" for number in range(sites)], lambda name: RequestHandler(EchoWorker()))
    aggregator = PlainUpdates()
    for number in range(1, rounds + 1):
        answers = Quorum().present(federation.ask("echo", question(number, FLOATS)))
        aggregator.open(aggregator.combine(message for _, message in answers))
    return rounds * sites


def do_fedner(sites: int, rounds: int, folder: Path) -> int:
    """A small FedNER; each site is asked once for its size, then once a round; how many were asked."""
    study = make_study(sites, rounds)
    device = torch.device("cpu")
    federation = _federation(list(study.sites), lambda name: open_here(study, name, folder / name, device=device))
    aggregator = server_of(study, payload_spec_of(study, common_task(study), PublicSet()))
    for record in coordinator_of(study).rounds(federation, aggregator, Quorum(sites)):
        assert not record.absent
    federation.close()
    return sites * (rounds + 1)


def make_study(sites: int, rounds: int) -> Study:
    """A small network over small hospitals."""
    lines = ["[study]", 'name = "many"', "[algorithm]", f"rounds = {rounds}"]
    lines += ["[training]", f"batch_size = {SENTENCES_A_SITE * sites}"]
    lines += ["[model]", *(f"{name} = {size}" for name, size in NETWORK.items())]
    for number in range(sites):
        lines += [f"[sites.site-{number}]", f'built_in = "{STYLES[number % len(STYLES)]}-{number:04d}"']
    return parse_study("\n".join(lines))


def peak_megabytes() -> float:
    """Largest resident memory of this program; `getrusage` would count the parent's, from before the program began."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def _federation(names: list[str], open_site: Callable[[str], RequestHandler]) -> InProcessFederation:
    return InProcessFederation(names, open_site, open_at_once=1)


if __name__ == "__main__":
    main()
