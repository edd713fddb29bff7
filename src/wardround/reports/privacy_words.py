"""Privacy of a run in words and figures: how updates were protected, who could read what, what was clipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wardround.reports.history import RoundRecord
from wardround.reports.page import Section
from wardround.reports.run_record import Given, PrivacyFacts
from wardround.reports.tables import Row, Table

__all__ = ["privacy_section"]

_MECHANISMS = {
    "plain": "Updates were readable to the coordinator, each by itself; nothing but the channel protected them.",
    "masked": "Each update bore masks that cancel in the sum: the coordinator could read the sum of a round, and no "
    "update alone.",
    "sealed": "Updates were encrypted before they left: the coordinator added them without reading any, and only sites "
    "could open the sum. Every site has the key: one that worked together with the coordinator could read another's.",
    "sealed+masked": "Updates were masked and encrypted before they left: the coordinator added them without reading "
    "any, only sites could open the sum, and nobody could read one update alone, not even the coordinator together "
    "with one site.",
}
_GIVEN: Mapping[Given, str] = {
    "updates": "What left a site were updates of the shared layers, counts and losses. No note, word or private layer "
    "left one.",
    "predictions": "What left a site were predictions on the public set, counts and losses. No note and no parameter "
    "left one; in this page, read predictions for updates.",
    "nothing": "Each site trained alone: counts and losses left it, and no update.",
    "notes": "All notes lay in one place: this is what a study is compared with, not one among hospitals.",
    "alone": "A training at one site: nothing left it.",
}
# Who could read what under plain, masked, sealed and sealed+masked.
_READERS: tuple[tuple[str, str, tuple[str, str, str, str]], ...] = (
    ("the coordinator", "one site's update", ("yes", "no", "no", "no")),
    ("the coordinator", "the sum of a round, and the shared model", ("yes", "yes", "no", "no")),
    ("the other sites", "the sum of a round, and the shared model", ("yes", "yes", "yes", "yes")),
    ("coordinator and one site together", "another site's update", ("yes", "no", "yes", "no")),
    ("coordinator and all other sites together", "a site's update", ("yes", "yes", "yes", "yes")),
    ("the coordinator", "sizes, losses, counts, seconds and codes of a site", ("yes", "yes", "yes", "yes")),
    ("anybody but the site", "a note, or a word of one", ("no", "no", "no", "no")),
)
_SUM_AT_COORDINATOR = 1  # the row of it
_ORDER = ("plain", "masked", "sealed", "sealed+masked")


def privacy_section(facts: PrivacyFacts, rounds: Sequence[RoundRecord]) -> Section:
    """Words first, then the tables that bear them out."""
    shared = facts.given in ("updates", "predictions")
    words = [_GIVEN[facts.given]]
    if shared:
        words = [f"AgreedMechanism: {facts.mechanism}. {_MECHANISMS[facts.mechanism]}", *words, *_limits(facts)]
    words += [*_budget(shared), *_ledger_words(facts)]
    tables = (*(_readers(facts) if shared else ()), *_clipped(facts, rounds), *_ledgers(facts))
    return Section("Privacy", "\n\n".join(words), tables=tables)


def _limits(facts: PrivacyFacts) -> Iterable[str]:
    least = "one site" if facts.minimum_sites == 1 else f"{facts.minimum_sites} sites"
    fewest = "one example" if facts.smallest_batch == 1 else f"{facts.smallest_batch} examples"
    yield f"A sum was of {least} at least, and an update of {fewest} at least."
    if facts.carrier:
        yield f"Sealed by {facts.carrier}."
    if facts.shared:
        yield f"Shared layers: {', '.join(facts.shared)}. All others never left their site."


def _budget(shared: bool) -> Iterable[str]:
    if shared:
        yield "Budget spent: none is kept. No noise was added, so that differential privacy promises nothing here."


def _readers(facts: PrivacyFacts) -> Iterable[Table]:
    place = _ORDER.index(facts.mechanism)
    rows = [(who, what, answers[place]) for who, what, answers in _READERS]
    if facts.given == "predictions" and facts.mechanism.startswith("sealed"):
        # The mean teaches the central model, which is the coordinator's: sites open it for the coordinator.
        rows[_SUM_AT_COORDINATOR] = (*rows[_SUM_AT_COORDINATOR][:2], "yes")
    note = "What may be learned from what can be read is in docs/threat-model.md."
    yield Table("Who could read what", ("who", "what", "could read it"), tuple(rows), note=note)


def _clipped(facts: PrivacyFacts, rounds: Sequence[RoundRecord]) -> Iterable[Table]:
    counted = [record.clipped for record in rounds if record.clipped is not None]
    if counted:
        row: Row = (sum(counted), sum(1 for count in counted if count), len(counted), max(counted))
        fixed = ", ".join(f"{group} {clip:g}" for group, clip in facts.clips.items())
        note = f"Clips by layer group: {fixed}." if fixed else "Clips were learned in the first round, and stayed."
        columns = ("all", "rounds with some", "of rounds", "most in one")
        yield Table("Numbers of updates that were clipped", columns, (row,), note=note)


def _ledger_words(facts: PrivacyFacts) -> Iterable[str]:
    if facts.given != "alone" and not facts.ledgers:
        yield (
            "Ledgers: none lies in this folder. Among hospitals each site keeps its own and tells nobody; "
            "wardround ledger verify prints its head there. On one machine wardround run --ledgers writes them."
        )


def _ledgers(facts: PrivacyFacts) -> Iterable[Table]:
    rows = tuple((led.site, led.entries, led.bytes_out, led.head or "does not hold together") for led in facts.ledgers)
    if rows:
        columns = ("site", "messages that left", "bytes", "head (SHA-256 of the last line)")
        note = "wardround ledger verify --head HEAD holds a head that was noted against the file."
        yield Table("Ledgers of what left each site", columns, rows, note=note)
