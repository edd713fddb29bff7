"""Exchanges over mutual TLS with idle sites, each in a process of its own.

usage: flare_exchange.py                     the whole exchange, with the request on standard input
       flare_exchange.py coordinator KIT     one party, started by the whole exchange
       flare_exchange.py site KIT
       flare_exchange.py worker KIT
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from echo import open_recorded_echo, question
from json_script import answer, free_port

from wardround.federation.engines.flare.coordinator_session import run_coordinator_session
from wardround.federation.engines.flare.flare_federation import FlareFederation
from wardround.federation.engines.flare.site_session import run_site_session
from wardround.federation.worker_process import serve_worker
from wardround.provisioning.kits import Kit, KitPlan, provision, read_kit
from wardround.secure_aggregation.identities import Signatures, open_signatures

STUDY = b'[study]\nname = "exchange"\n'
SECONDS_TO_CONNECT, DEADLINE = 60.0, 60.0


def main() -> int:
    """Run the party named on the command line."""
    role, folder = sys.argv[1], Path(sys.argv[2])
    if role == "worker":
        serve_worker(lambda: open_recorded_echo(folder / "ledger"))
        return 0
    kit = read_kit(folder)
    if role == "coordinator":
        return run_coordinator_session(kit.party, time_exchanges, signatures=signatures_of(kit), deadline=DEADLINE)
    command = [sys.executable, __file__, "worker", str(folder)]
    return run_site_session(kit.party, command, signatures=signatures_of(kit), accepted=lambda: True)


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Make the kits, start all parties, and return the coordinator's answer; no process is left behind."""
    names = tuple(f"site-{number}" for number in range(request["sites"]))
    with TemporaryDirectory() as scratch, ExitStack() as started:
        plan = KitPlan("exchange", "localhost", free_port(), names, days=2)
        kits = provision(plan, STUDY, Path(scratch) / "kits")
        coordinator = start(started, "coordinator", kits["coordinator"])
        for name in names:
            start(started, "site", kits[name])
        printed, _ = coordinator.communicate(json.dumps(request), timeout=10 * DEADLINE)
        if coordinator.returncode:
            raise SystemExit(f"the coordinator failed with exit status {coordinator.returncode}")
        return dict(json.loads(printed))


def start(started: ExitStack, role: str, kit: Path) -> subprocess.Popen[str]:
    """Start one party in a process of its own; it is killed when the exchange ends or fails."""
    process = subprocess.Popen(
        [sys.executable, __file__, role, str(kit)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    started.enter_context(process)
    started.callback(process.kill)
    return process


def time_exchanges(federation: FlareFederation, terminal: TextIO) -> None:
    """Print the seconds of every exchange, for each size."""
    request = json.load(sys.stdin)
    federation.wait_for(request["sites"], SECONDS_TO_CONNECT)
    seconds = [
        [exchange(federation, number, floats) for number in range(1, request["rounds"] + 1)]
        for floats in request["floats"]
    ]
    print(json.dumps({"seconds": seconds}), file=terminal, flush=True)


def exchange(federation: FlareFederation, number: int, floats: int) -> float:
    """Return the seconds until every site's answer is received and decoded."""
    started = time.perf_counter()
    for reply in federation.ask("echo", question(number, floats)):
        assert reply.message is not None and reply.message.arrays["update/w"].size == floats, reply.code
    return time.perf_counter() - started


def signatures_of(kit: Kit) -> Signatures:
    """Return the signatures of the kit's owner."""
    return open_signatures(key=kit.key, certificate=kit.certificate, root=kit.root)


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 1 else answer(measure))
