"""The parties of a rehearsal, run as programs.

usage: party.py coordinator KIT      asks what it reads, a JSON object a line, and writes what came, an array a line
       party.py site KIT [DIARY]     with the toy worker; refuses everything while the file KIT/closed exists
       party.py stranger KIT NAME    a site that calls itself by a name which is not in its certificate
       party.py hostile KIT          a site that writes to another site and sends the coordinator objects
       party.py supervised ...       one of the two above under the supervisor
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from wardround.errors import MessageError, UsageError
from wardround.federation.engines.flare.cells import open_connection
from wardround.federation.engines.flare.coordinator_session import run_coordinator_session
from wardround.federation.engines.flare.flare_federation import FlareFederation
from wardround.federation.engines.flare.requests import Envelope
from wardround.federation.engines.flare.site_session import run_site_session
from wardround.federation.engines.flare.supervisor import supervise
from wardround.federation.federation import Reply
from wardround.federation.message import Message
from wardround.provisioning.kits import Kit, read_kit
from wardround.secure_aggregation.identities import Signatures, open_signatures

TOY = Path(__file__).resolve().parents[2] / "toy_worker.py"
LARGEST, LARGEST_AT_SITES = 40_000_000, 80_000_000


def told(reply: Reply) -> list[Any]:
    """Site, absence, code, values, sum of what came, bytes down and up, seconds."""
    message = reply.message or Message()
    total = float(sum(float(array.sum()) for array in message.arrays.values()))
    traffic = reply.traffic
    absence = reply.absence.value if reply.absence else ""
    return [reply.site, absence, reply.code, dict(message.values), total, traffic.down, traffic.up, traffic.seconds]


def conduct(federation: FlareFederation, terminal: TextIO) -> None:
    def tell(answer: Any) -> None:
        print(json.dumps(answer), file=terminal, flush=True)

    tell("ready")
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            tell(federation.wait_for(order["wait"], order["seconds"]))
        elif "raise" in order:
            raise UsageError("no") if order["raise"] == "refusal" else ValueError("Mrs Marker of Ward 7")
        else:
            federation.deadline = order.get("deadline", 20.0)
            message = Message(order.get("values", {}), {"w": np.ones(order.get("size", 1), np.float32)})
            tell([told(reply) for reply in federation.ask(order["ask"], message, to=order.get("to"))])


def probe(kit: Kit) -> None:
    """Print the outcomes of messages that no honest site sends, one array per line."""
    line = open_connection(kit.party)
    while not line.is_connected("server"):
        time.sleep(0.05)
    outcomes = []
    for target, topic, payload in (("h2", "ping", b""), ("h2", "request", b"x"), ("server", "ping", {"a": 1})):
        envelope = Envelope(b"WRM1", b"", payload)  # type: ignore[arg-type]
        try:
            line.send(target, topic, envelope, seconds=1.0)
            outcomes.append("answered")
        except MessageError as error:
            outcomes.append(error.code)
    print(json.dumps(outcomes), flush=True)


def signatures_of(kit: Kit) -> Signatures:
    return open_signatures(key=kit.key, certificate=kit.certificate, root=kit.root)


def main() -> int:
    role, arguments = sys.argv[1], sys.argv[2:]
    if role == "supervised":
        return supervise([sys.executable, __file__, *arguments])
    kit = read_kit(Path(arguments[0]))
    if role == "hostile":
        probe(kit)
        return 0
    if role == "stranger":
        kit = replace(kit, name=arguments.pop(1))
    if role == "coordinator":
        kit = replace(kit, plan=replace(kit.plan, sites=kit.plan.sites[:3]))  # the fourth has a kit, but no place
        return run_coordinator_session(
            kit.party, conduct, signatures=signatures_of(kit), deadline=20.0, largest=LARGEST
        )
    command = [sys.executable, str(TOY), *arguments[1:]]
    closed = kit.path / "closed"
    return run_site_session(
        kit.party,
        command,
        signatures=signatures_of(kit),
        accepted=lambda: not closed.exists(),
        largest=LARGEST_AT_SITES,
    )


if __name__ == "__main__":
    sys.exit(main())
