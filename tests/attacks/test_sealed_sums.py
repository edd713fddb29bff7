"""A coordinator that asks sites to open changed sums, or to open one sum repeatedly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.algorithms.protected_hospitals import Hospitals
from tests.algorithms.wards import Go
from tests.attacks.key_recovery import recovered, secret_coefficients, tampered
from tests.secure_aggregation.cohort import secret_of

from wardround.federation.federation import SiteId
from wardround.federation.message import Message
from wardround.secure_aggregation.bfv import Opener

AT_SITES = pytest.mark.parametrize("mechanism", ["sealed", "sealed+masked"])
COEFFICIENTS = range(48)


def said(answer: Any) -> str:
    return "taken" if isinstance(answer, Message) else str(answer)


def sum_of_round(hospitals: Hospitals, number: int) -> Message:
    """Return the request to open the sum of a round; harbour has not received it yet."""
    sums: list[Message] = []

    def keep(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if (site, step) == ("harbour", "open_sum"):
            sums.append(message)
            raise ConnectionError
        return go(message)

    hospitals.meddle = keep
    hospitals.run(number)
    hospitals.meddle = lambda site, step, message, go: go(message)
    return sums[-1]


def put_back(hospitals: Hospitals, number: int) -> None:
    hospitals.ask("restore", Message({"round": number}), to=["harbour"])


@AT_SITES
def test_refusals_of_changed_sums_reveal_nothing_about_the_key(mechanism: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    taken = sum_of_round(hospitals, 1)

    def ask(question: Message) -> str:
        return said(hospitals.ask("open_sum", question, to=["harbour"])["harbour"])

    found, answers = recovered(ask, taken, COEFFICIENTS)
    true = secret_coefficients(secret_of("bfv-standard").secret, len(COEFFICIENTS))
    assert set(true) == {-1, 0, 1}
    right = sum(one == other for one, other in zip(found, true, strict=True))
    assert found != true, f"the coordinator has {right} of {len(true)} coefficients of the key"
    # One refusal for all of them, and after so many the site stops until the key is rotated.
    assert answers == ["sum"] * 32 + ["rotate"] * (len(answers) - 32)


@AT_SITES
def test_no_changed_sum_is_decrypted(mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in is decrypted instead, so a refusal takes as long as a success."""
    hospitals = Hospitals(tmp_path, mechanism)
    taken = sum_of_round(hospitals, 1)
    decrypted: list[str] = []
    once = Opener._decrypted

    def counting(self: Opener, cipher: Any, *, first: bool) -> Any:
        decrypted.append("block")
        return once(self, cipher, first=first)

    monkeypatch.setattr(Opener, "_decrypted", counting)
    monkeypatch.setattr(Opener, "open", lambda *_: pytest.fail("what was changed is decrypted"))
    for question in (
        tampered(taken, 0, 1),
        Message(taken.values, taken.arrays, {}),
        Message(taken.values, {}, taken.blobs),
    ):
        decrypted.clear()
        assert hospitals.ask("open_sum", question, to=["harbour"]) == {"harbour": "sum"}
        refused = len(decrypted)
        assert refused == len(taken.arrays["lengths"])
    monkeypatch.undo()


@AT_SITES
@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "restarted"])
def test_a_sum_is_opened_once_even_if_the_state_of_a_site_is_restored(
    mechanism: str, restarted: bool, tmp_path: Path
) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    taken = sum_of_round(hospitals, 1)
    answers = []
    for _ in range(6):
        put_back(hospitals, 0)
        if restarted:
            hospitals.restart("harbour")
        # The update of the round is not in the state of before; what was given is on record apart.
        answers.append(said(hospitals.ask("open_sum", taken, to=["harbour"])["harbour"]))
    assert answers == ["taken"] + ["replay"] * 5


@AT_SITES
def test_refusals_are_counted_even_if_the_state_of_a_site_is_restored(mechanism: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    taken = sum_of_round(hospitals, 1)
    answers = []
    for place in range(34):
        put_back(hospitals, 0)
        hospitals.restart("harbour")
        answers.append(said(hospitals.ask("open_sum", tampered(taken, place, 1), to=["harbour"])["harbour"]))
    assert answers == ["sum"] * 32 + ["rotate"] * 2
    # Nothing is done under that key any more: not even the honest sum is opened.
    assert hospitals.ask("open_sum", taken, to=["harbour"]) == {"harbour": "rotate"}
