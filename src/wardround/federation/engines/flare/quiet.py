"""Keep FLARE's prints and logs off the terminal, and end a process cleanly on signals."""

from __future__ import annotations

import logging
import os
import signal
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType
from typing import TextIO

__all__ = ["DONE", "FAULT", "LOG_FOLDER", "REFUSED", "Interruption", "redirect_output"]

LOG_FOLDER = "logs"
# Exit codes; a supervisor restarts a process that ended with any other code than DONE or REFUSED.
DONE, FAULT, REFUSED = 0, 1, 2
_LARGEST_LOG = 5_000_000  # bytes
_OLD_LOGS = 3


def redirect_output(kit: Path) -> TextIO:
    """Redirect everything printed or logged to `logs` in the kit; return the terminal, to print on."""
    folder = kit / LOG_FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    terminal = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    _redirect(folder / "output.log")
    handler = RotatingFileHandler(folder / "engine.log", maxBytes=_LARGEST_LOG, backupCount=_OLD_LOGS)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    return terminal


class Interruption:
    """Handle SIGINT and SIGTERM: `code` is 0 before a signal and the exit code afterwards."""

    def __init__(self, *, raises: bool = False) -> None:
        self.code = 0
        self._raises = raises
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._interrupted)

    def _interrupted(self, number: int, _: FrameType | None) -> None:
        self.code = 128 + number
        if self._raises:
            raise KeyboardInterrupt


def _redirect(path: Path) -> None:
    """Redirect standard output and error, also of native code, to a file; append to an existing file if it is short."""
    if path.exists() and path.stat().st_size > _LARGEST_LOG:
        path.unlink()
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
