"""Sites without notes for the tests of the runner: their gradients are zero, their scores are told to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wardround.federation.federation import Absence, Replies, Reply, SiteId, Traffic
from wardround.federation.message import Message, Value
from wardround.federation.worker_process import round_of
from wardround.secure_aggregation.plain import PlainUpdates

DOWN, UP, SECONDS = 10, 20, 0.5  # of every exchange
OF = 10  # entities at each site
Fault = Callable[[SiteId, str, int], str]


def nobody_fails(site: SiteId, step: str, number: int) -> str:
    return ""


class ToyFederation:
    """Every question is on record; `found` says how many entities a site finds after a round, `fault` who fails."""

    def __init__(
        self, sites: Sequence[SiteId], *, found: Mapping[int, int] | None = None, fault: Fault = nobody_fails
    ) -> None:
        self.sites = tuple(sites)
        self._found, self._fault = found or {}, fault
        self.asked: list[tuple[str, int, tuple[SiteId, ...]]] = []

    def steps(self) -> list[tuple[str, int]]:
        """What was asked, of whomever."""
        return [(step, number) for step, number, _ in self.asked]

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        """As an engine does."""
        sites = self.sites if to is None else tuple(to)
        self.asked.append((step, round_of(message), sites))
        for site in sites:
            code = self._fault(site, step, round_of(message))
            if code:
                yield Reply(site, None, Traffic(DOWN, 0, SECONDS), Absence.FAILED, code)
            else:
                yield Reply(site, self._answer(step, message), Traffic(DOWN, UP, SECONDS))

    def _answer(self, step: str, message: Message) -> Message:
        number = round_of(message)
        if step == "describe":
            return Message({"examples": 4, "documents": 2})
        if step == "gradient":
            zeros = {name: array * 0 for name, array in message.group("shared").items()}
            sealed = PlainUpdates().seal(zeros, weight=4.0)
            return Message({**sealed.values, "loss": 1.0 / number}, sealed.arrays, sealed.blobs)
        if step in ("score", "finish"):
            found = self._found.get(number, 0)
            counts: Value = {"Drug": [found, 0, OF - found]}
            shown: dict[str, Value] = {"interval": [0.25, 0.75], "type_intervals": {"Drug": [0.25, 0.75]}}
            return Message({"documents": 2, "strict": counts, "relaxed": counts, **shown})
        return Message()
