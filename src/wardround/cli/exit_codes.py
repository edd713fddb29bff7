"""The exit codes of every command."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """How a command ended; docs/cli.md has the same table."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        """Create a code with its meaning for the documentation."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    SUCCESS = 0, "The command did what it was asked."
    FINDINGS = 1, "The command ran to its end and found errors: in a corpus, a ledger or a run of a sweep."
    REFUSED = 2, "The command cannot run: wrong arguments, or an error that Wardround explains in one line."
    UNEXPECTED = 3, "An unexpected error; the message names its class and place and quotes no note."
    INTERRUPTED = 130, "Ctrl-C stopped the command; the same command resumes a run."
    TERMINATED = 143, "SIGTERM stopped the command; the same command resumes a run."
