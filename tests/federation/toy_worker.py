"""A worker for tests, run as a program: adds one, sleeps, dies, fails with a text that must not leave.

usage: toy_worker.py [FILE]   FILE gets a line when the worker is opened, falls asleep or is closed
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from wardround.errors import MessageError
from wardround.federation.message import Message, decode, encode
from wardround.federation.worker_process import serve_worker

MARKER = "Mrs Marker of Ward 7"
ODD = {
    "garble": b"no message at all",
    "cut": encode(Message({}, {"w": np.zeros(9)}))[:-1],
    "future": b"WRM9" + encode(Message())[4:],
}


class ToyWorker:
    def __init__(self) -> None:
        self._diary = Path(sys.argv[1]) if len(sys.argv) > 1 else None
        self._note("opened")

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
        message = decode(data)
        print("a print", MARKER)
        if step == "sleep":
            self._note("asleep")
            time.sleep(message.value("seconds", float))
        elif step == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif step == "fail":
            raise ValueError(f"cannot read {MARKER}")
        elif step == "refuse":
            raise MessageError("shapes", MARKER)
        elif step == "talk":
            raise MessageError(MARKER)
        elif step == "interrupt":
            sys.exit(3)
        elif step == "shout":
            os.write(1, b"\x00" * 100)
        elif step in ODD:
            return ODD[step]
        elif step == "grow":
            return encode(Message({}, {"w": np.zeros(message.value("bytes", int), np.int8)}))
        arrays = {name: array + np.ones(1, array.dtype) for name, array in message.arrays.items()}
        return encode(Message({"round": round_number, "pid": os.getpid()}, arrays))

    def close(self) -> None:
        self._note("closed")

    def _note(self, line: str) -> None:
        if self._diary is not None:
            with self._diary.open("a") as stream:
                stream.write(f"{line} {os.getpid()}\n")


if __name__ == "__main__":
    serve_worker(ToyWorker)
