"""A process that ends with the one that started it, also where that one was killed and could tell nobody.

Whoever starts processes holds one end of a pipe, they hold the other: it closes when the holder is gone, however it
went.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Self

__all__ = ["Lifeline", "end_with_parent"]

_VARIABLE = "WARDROUND_LIFELINE"
_STATUS = 75  # of a process that was left alone: it may be tried again


class Lifeline:
    """The holder's end; use it as a context, and give `descriptor` and `environment` to those it starts."""

    def __init__(self) -> None:
        self.descriptor, self._held = os.pipe()

    @property
    def environment(self) -> dict[str, str]:
        """By which a process finds its end."""
        return {_VARIABLE: str(self.descriptor)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._held)
        os.close(self.descriptor)


def end_with_parent() -> None:
    """Let this process end, whatever it does, as soon as the holder is gone; without a holder, nothing changes."""
    descriptor = os.environ.pop(_VARIABLE, "")
    if descriptor:
        threading.Thread(target=_wait, args=(int(descriptor),), daemon=True).start()


def _wait(descriptor: int) -> None:
    os.read(descriptor, 1)  # nobody ever writes: it returns when the other end is closed
    os._exit(_STATUS)
