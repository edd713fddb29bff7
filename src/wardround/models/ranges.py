"""Checks that the configurations of models share."""

from __future__ import annotations

from wardround.errors import ModelError

__all__ = ["check_choice", "check_share", "check_size"]

_LARGEST = 100_000_000  # a network is built before its weights are read: a card alone could ask for all memory


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """One of a few words."""
    if value not in choices:
        raise ModelError(f"{name} is {value!r}; it can be {', '.join(choices[:-1])} or {choices[-1]}")


def check_size(name: str, value: int, *, least: int) -> None:
    """A whole number, neither too small nor absurd."""
    if value < least:
        raise ModelError(f"{name} is {value}; it must be at least {least}")
    if value > _LARGEST:
        raise ModelError(f"{name} is {value}; it must be at most {_LARGEST:,}")


def check_share(name: str, value: float) -> None:
    """A dropout rate: 1 would leave nothing."""
    if not 0.0 <= value < 1.0:
        raise ModelError(f"{name} is {value}; it is a share, from 0 to below 1")
