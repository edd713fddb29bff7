"""Exchanges with sites that do nothing, in processes of their own, over mutual TLS; request and answer as JSON.

usage: flare_exchange.py                     the whole rehearsal, the request on standard input
       flare_exchange.py coordinator KIT     its parts, started by the rehearsal
       flare_exchange.py site KIT
       flare_exchange.py worker KIT
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from echo import open_recorded_echo, question

from wardround.federation.worker_process import serve_worker

try:
    from wardround.federation.engines.flare.coordinator_session import serve
    from wardround.federation.engines.flare.flare_federation import FlareFederation
    from wardround.federation.engines.flare.site_session import attend
    from wardround.provisioning.kits import Kit, KitPlan, provision, read_kit
    from wardround.secure_aggregation.signatures import Signatures, open_signatures
except ModuleNotFoundError as missing:  # the extra `flare` is not installed
    print(json.dumps({"missing": str(missing.name)}))
    sys.exit()

STUDY = b'[study]\nname = "exchange"\n'
SECONDS_TO_MEET, DEADLINE = 60.0, 60.0


def main() -> int:
    """The part this process was started for."""
    if len(sys.argv) == 1:
        return rehearse()
    role, folder = sys.argv[1], Path(sys.argv[2])
    if role == "worker":
        serve_worker(lambda: open_recorded_echo(folder / "ledger"))
        return 0
    kit = read_kit(folder)
    if role == "coordinator":
        return serve(kit.party, measure, signatures=signatures_of(kit), deadline=DEADLINE)
    command = [sys.executable, __file__, "worker", str(folder)]
    return attend(kit.party, command, signatures=signatures_of(kit), accepted=lambda: True)


def rehearse() -> int:
    """Make kits, start everybody, give out the coordinator's answer; nobody is left behind."""
    request = sys.stdin.read()
    names = tuple(f"site-{number}" for number in range(json.loads(request)["sites"]))
    with TemporaryDirectory() as scratch, ExitStack() as started:
        plan = KitPlan("exchange", "localhost", free_port(), names, days=2)
        kits = provision(plan, STUDY, Path(scratch) / "kits")
        coordinator = start(started, "coordinator", kits["coordinator"])
        for name in names:
            start(started, "site", kits[name])
        answer, _ = coordinator.communicate(request, timeout=10 * DEADLINE)
        print(answer.strip())
        return coordinator.returncode


def start(started: ExitStack, role: str, kit: Path) -> subprocess.Popen[str]:
    """A party in a process of its own, killed when the rehearsal is over, however it ends."""
    process = subprocess.Popen(
        [sys.executable, __file__, role, str(kit)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    started.enter_context(process)
    started.callback(process.kill)
    return process


def measure(federation: FlareFederation, terminal: TextIO) -> None:
    """Time the exchanges of each size."""
    request = json.load(sys.stdin)
    federation.wait_for(request["sites"], SECONDS_TO_MEET)
    seconds = [
        [exchange(federation, number, floats) for number in range(1, request["rounds"] + 1)]
        for floats in request["floats"]
    ]
    print(json.dumps({"seconds": seconds}), file=terminal, flush=True)


def exchange(federation: FlareFederation, number: int, floats: int) -> float:
    """Seconds until every site's answer is here and decoded."""
    started = time.perf_counter()
    for reply in federation.ask("echo", question(number, floats)):
        assert reply.message is not None and reply.message.arrays["update/w"].size == floats, reply.code
    return time.perf_counter() - started


def signatures_of(kit: Kit) -> Signatures:
    """The signatures of the kit's holder."""
    return open_signatures(key=kit.key, certificate=kit.certificate, root=kit.root)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
