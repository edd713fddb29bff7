"""The one protocol of a sum that grows as updates arrive, whatever is added: arrays of a message, or ciphertexts."""

from __future__ import annotations

from typing import Protocol, TypeVar

__all__ = ["RunningSum"]

Item = TypeVar("Item")


class RunningSum(Protocol[Item]):
    """A sum in constant memory, however many sites there are."""

    def add(self, item: Item, /) -> None:
        """Add one site's part; one that is refused with a `MessageError` leaves the sum as it was."""

    def total(self) -> Item:
        """Return the sum so far; adding may continue."""
