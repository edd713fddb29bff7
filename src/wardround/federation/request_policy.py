"""The terms of a study: what a site holds each question against, so that it gives no more than was accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wardround.errors import MessageError
from wardround.federation.message import Value

__all__ = ["RequestPolicy"]


@dataclass(frozen=True)
class RequestPolicy:
    """What the study lets a site be asked."""

    rounds: int
    constant_settings: Mapping[str, Value] = field(default_factory=dict)  # what a question that names it must say
    highest: Mapping[str, float] = field(default_factory=dict)  # of rates, which go down over the rounds
    smallest_batch: int = 1  # sentences of an update, where a site has so many
    sites: int = 1  # of the study: of no more is a mean that a site is told
    names: frozenset[str] = frozenset()  # of those sites; empty is not known

    def check(self, values: Mapping[str, Value]) -> None:
        """Refuse a question outside the terms; what it leaves out is for the step to miss."""
        number = values.get("round", 0)
        if isinstance(number, int) and not 0 <= number <= self.rounds:
            raise MessageError("policy", f"the study has {self.rounds} rounds")
        for name, expected in self.constant_settings.items():
            if values.get(name, expected) != expected:
                raise MessageError("policy", f"{name} is not the study's")
        for name, most in self.highest.items():
            rate = values.get(name, most)
            if not isinstance(rate, float) or not 0 <= rate <= most:
                raise MessageError("policy", f"{name} is outside the study's")
