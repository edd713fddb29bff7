"""A site that does nothing: it gives back what it was sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wardround.federation.ledger import Ledger
from wardround.federation.message import Message
from wardround.federation.request_handler import RequestHandler

__all__ = ["EchoWorker", "open_recorded_echo", "question"]


class EchoWorker:
    """Answers any step with the arrays of its question."""

    def answer(self, step: str, message: Message) -> Message:
        """The same arrays."""
        return Message({"weight": 1.0}, message.arrays)

    def close(self) -> None:
        """Nothing to keep."""


def open_recorded_echo(folder: Path) -> RequestHandler:
    """The door as it is among hospitals, with its ledger in `folder`."""
    ledger = Ledger(folder / "ledger.jsonl")

    def send(answer: Message, step: str, round_number: int) -> bytes:
        return ledger.record(answer, study="echo", step=step, round_number=round_number, mechanism="plain")

    return RequestHandler(EchoWorker(), send)


def question(number: int, floats: int) -> Message:
    """What is sent there and back in a round."""
    return Message({"round": number}, {"update/w": np.ones(floats, np.float32)})
