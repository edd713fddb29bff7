"""A site that does no work: it returns the arrays it receives."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wardround.federation.ledger import Ledger
from wardround.federation.message import Message
from wardround.federation.worker_process import RequestHandler

__all__ = ["EchoWorker", "open_recorded_echo", "question"]


class EchoWorker:
    """Answers any step with the arrays of the request."""

    def answer(self, step: str, message: Message) -> Message:
        """Return the same arrays."""
        return Message({"weight": 1.0}, message.arrays)

    def close(self) -> None:
        """Close nothing: there is no state."""


def open_recorded_echo(folder: Path) -> RequestHandler:
    """Return the request handler of a networked site, with its ledger in `folder`."""
    ledger = Ledger(folder / "ledger.jsonl")

    def send(answer: Message, step: str, round_number: int) -> bytes:
        return ledger.record(answer, study="echo", step=step, round_number=round_number, mechanism="plain")

    return RequestHandler(EchoWorker(), send)


def question(number: int, floats: int) -> Message:
    """Return the message that goes to a site and back in one round."""
    return Message({"round": number}, {"update/w": np.ones(floats, np.float32)})
