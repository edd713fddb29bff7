"""A party of a networked study that cheats: `python -m tests.attacks.malicious_party ROLE KIT TWIST`.

A coordinator with the twist `sums` changes the sums that it has harbour open in round 2, and has the sum of round 3
opened again and again; what harbour answered goes to `attack.json` in its run folder. A site sends another seed than
its own in round 2 (`seed`), or lies about the size of its update in round 1 and gives noise from round 4 on (`noise`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from wardround.federation.engines.flare.flare_federation import FlareFederation
from wardround.federation.federation import Replies
from wardround.federation.message import Message
from wardround.provisioning.kits import read_kit
from wardround.secure_aggregation.client import SecureAggregationClient
from wardround.secure_aggregation.submission import Submission
from wardround.secure_aggregation.transcript import Contribution, contribute, sealed_digest
from wardround.studies import networked, site_agent, worker

VICTIM = "harbour"
TRIED = range(8)  # coefficients of the key


def main(role: str, place: str, twist: str) -> int:
    if role == "worker":
        twist_site(twist)
        worker.main([place])
        return 0
    kit = read_kit(Path(place))
    if role == "coordinator":
        twist_coordinator(kit.path / "run" / "attack.json")
        return networked.run_coordinator(kit)
    own = (sys.executable, "-m", "tests.attacks.malicious_party", "worker")
    site_agent.worker_command = lambda spec: (*own, str(spec), twist)  # type: ignore[assignment]
    return site_agent.take_part(kit)


def twist_coordinator(out: Path) -> None:
    from tests.attacks.key_recovery import tampered

    honest = FlareFederation.ask
    seen: dict[str, list[str]] = {}

    def ask(self: FlareFederation, step: str, message: Message, *, to: Sequence[str] | None = None) -> Replies:
        def said(asked: str, question: Message) -> str:
            (reply,) = honest(self, asked, question, to=[VICTIM])
            return "taken" if reply.message is not None else reply.code

        number = message.values.get("round")
        if step == "open_sum" and number == 2:
            seen["changed"] = [said("open_sum", tampered(message, place, sign)) for place in TRIED for sign in (1, -1)]
        if step == "open_sum" and number == 3:
            seen["again"] = [said("open_sum", message)]
            for _ in range(5):
                said("restore", Message({"round": 2}))
                seen["again"].append(said("open_sum", message))
        if seen:
            out.write_text(json.dumps(seen), encoding="utf-8")
        return honest(self, step, message, to=to)

    FlareFederation.ask = ask  # type: ignore[method-assign]


def twist_site(twist: str) -> None:
    announce, seal, unmask = Submission.announce, SecureAggregationClient.seal, Submission.unmask

    def lying(self: Submission, *arguments: Any, **named: Any) -> Message:
        answer = announce(self, *arguments, **named)
        if "largest_by_group" not in answer.values:
            return answer
        largest = dict.fromkeys(answer.value("largest_by_group", dict), 1e9)
        return replace(answer, values={**answer.values, "largest_by_group": largest})

    def noisy(self: SecureAggregationClient, update: Any, **named: Any) -> Any:
        given, exchange = seal(self, update, **named), named["exchange"]
        if exchange.round < 4:
            return given
        slots = np.random.default_rng().integers(0, 2**32, len(given.message.arrays["slots"]), np.uint64)
        spoiled = Message(given.message.values, {"slots": slots.astype(np.uint32)})
        before = Contribution.from_message(given.message)
        commitment = {"commitment": before.commitment} if hasattr(before, "commitment") else {}
        signed = contribute(self._identity, exchange, sealed_digest(spoiled), **commitment)
        message = Message(spoiled.values, spoiled.arrays, signed.to_blobs())
        return replace(given, message=message, digest=signed.digest)

    def another(self: Submission, message: Message) -> Message:
        answer = unmask(self, message)
        return Message({}, {}, {"seed": bytes(32)}) if message.value("round", int) == 2 else answer

    if twist == "noise":
        Submission.announce = lying  # type: ignore[method-assign]
        SecureAggregationClient.seal = noisy  # type: ignore[method-assign]
    else:
        Submission.unmask = another  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
