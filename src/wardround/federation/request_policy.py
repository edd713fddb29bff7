"""What a study allows a coordinator to ask; a site checks each request against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wardround.errors import MessageError
from wardround.federation.message import Value

__all__ = ["RequestPolicy"]


@dataclass(frozen=True)
class RequestPolicy:
    """What a site allows a coordinator to ask."""

    rounds: int
    constant_settings: Mapping[str, Value] = field(default_factory=dict)  # values that a request must not change
    highest: Mapping[str, float] = field(default_factory=dict)  # upper bounds of rates, which decrease over the rounds
    smallest_batch: int = 1  # fewest sentences of an update, if the site has so many
    sites: int = 1  # of the study; a mean that a site receives is of at most so many
    names: frozenset[str] = frozenset()  # of these sites; empty if they are not known

    def check(self, values: Mapping[str, Value]) -> None:
        """Raise a `MessageError` for a request outside the policy; missing values are left to the step."""
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
