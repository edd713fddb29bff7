"""Hardening of every process that handles notes or keys: no core dumps, and no access to its memory."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

__all__ = ["forbid_core_dumps"]

_SET_DUMPABLE = 4  # PR_SET_DUMPABLE


def forbid_core_dumps() -> None:
    """Prevent core dumps of this process and, on Linux, access to its memory by other processes of the same user.

    Child processes inherit the limit of zero. Linux applies it to core files, but not to cores that are piped into a
    program such as systemd-coredump; a process that is not dumpable writes neither. `exec` makes a process dumpable
    again, so each entry point calls this function.

    The folder `/proc/PID` of a process that is not dumpable belongs to root. The process can still open its own
    `/proc/self/fd/N`, but not those of its parent, so descriptors that processes share must be inherited.
    """
    if resource is not None:
        with suppress(ValueError, OSError):  # the system may forbid it; then the limit stays
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # a C library without prctl
            ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
