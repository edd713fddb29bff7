"""Rounds of our in-process engine with sites that do nothing; request and answer as JSON."""

from __future__ import annotations

import json
import sys
import time

from echo import EchoWorker, question

from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.request_handler import RequestHandler


def main() -> None:
    """Time the rounds of each size."""
    request = json.load(sys.stdin)
    names = [f"site-{number}" for number in range(request["sites"])]
    federation = InProcessFederation(names, lambda name: RequestHandler(EchoWorker()))
    seconds = [
        [_round(federation, number, floats) for number in range(1, request["rounds"] + 1)]
        for floats in request["floats"]
    ]
    print(json.dumps({"seconds": seconds}))


def _round(federation: InProcessFederation, number: int, floats: int) -> float:
    started = time.perf_counter()
    for reply in federation.ask("echo", question(number, floats)):
        assert reply.message is not None and reply.message.arrays["update/w"].size == floats
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
