"""Rounds of our in-process engine with idle sites."""

from __future__ import annotations

import time
from typing import Any

from echo import EchoWorker, question
from json_script import answer

from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.worker_process import RequestHandler


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of every round, for each size."""
    names = [f"site-{number}" for number in range(request["sites"])]
    federation = InProcessFederation(names, lambda name: RequestHandler(EchoWorker()))
    seconds = [
        [one_round(federation, number, floats) for number in range(1, request["rounds"] + 1)]
        for floats in request["floats"]
    ]
    return {"seconds": seconds}


def one_round(federation: InProcessFederation, number: int, floats: int) -> float:
    """Send an array to every site and back; return the seconds."""
    started = time.perf_counter()
    for reply in federation.ask("echo", question(number, floats)):
        assert reply.message is not None and reply.message.arrays["update/w"].size == floats
    return time.perf_counter() - started


if __name__ == "__main__":
    answer(measure)
