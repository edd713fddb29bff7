from __future__ import annotations

from collections.abc import Iterator

import pytest

from wardround.errors import FederationError, MessageError, SplitError, TrainingError
from wardround.federation.federation import (
    Absence,
    Quorum,
    Reply,
    Traffic,
    checked,
    checked_by_site,
    code_of,
    safe_code,
)
from wardround.federation.message import Message


def answer(site: str, value: int = 0) -> Reply:
    return Reply(site, Message({"value": value}), Traffic(10, 20, 0.5))


def absent(site: str, absence: Absence = Absence.FAILED, code: str = "") -> Reply:
    return Reply(site, None, Traffic(10, 0, 0.5), absence, code)


def sites_of(quorum: Quorum, *replies: Reply) -> list[str]:
    return [site for site, _ in quorum.present(replies)]


def test_traffic_adds() -> None:
    assert Traffic(1, 2, 0.5) + Traffic(10, 20, 0.25) == Traffic(11, 22, 0.75)
    assert sum([Traffic(1, 2, 3.0)] * 3, Traffic()) == Traffic(3, 6, 9.0)


def test_a_reply_is_a_message_or_an_absence() -> None:
    for message, absence in ((None, None), (Message(), Absence.LATE)):
        with pytest.raises(AssertionError):
            Reply("h1", message, Traffic(), absence)


def test_absences_are_skipped_while_the_quorum_is_met() -> None:
    replies = (answer("h1"), absent("h2", Absence.LATE), answer("h3"), absent("h4", Absence.REFUSED))
    assert sites_of(Quorum(2), *replies) == ["h1", "h3"]
    assert sites_of(Quorum(), *replies) == ["h1", "h3"]


def test_too_few_answers_name_the_absent_and_why() -> None:
    replies = (answer("h1"), absent("h2", Absence.LATE), absent("h3", Absence.FAILED, "TrainingError"))
    with pytest.raises(FederationError) as caught:
        sites_of(Quorum(2), *replies)
    assert str(caught.value) == ("1 of 3 sites answered; the study needs at least 2 (h2 late; h3 failed TrainingError)")


def test_asking_no_site_is_too_few() -> None:
    with pytest.raises(FederationError, match=r"^0 of 0 sites answered; the study needs at least 1$"):
        sites_of(Quorum())


def test_a_thousand_absent_sites_make_a_short_line() -> None:
    with pytest.raises(FederationError) as caught:
        sites_of(Quorum(1), *(absent(f"h{number}", Absence.LATE) for number in range(1000)))
    assert str(caught.value).endswith("h8 late; h9 late; and 990 more)")
    assert len(str(caught.value)) < 300
    with pytest.raises(FederationError) as caught:
        sites_of(Quorum(1), *(absent(f"h{number}", Absence.LATE) for number in range(10)))
    assert str(caught.value).endswith("h8 late; h9 late)")


@pytest.mark.parametrize("least", [0, -1])
def test_a_quorum_of_zero_is_refused(least: int) -> None:
    with pytest.raises(FederationError, match="at least 1"):
        Quorum(least)


def test_the_shortfall_is_known_only_at_the_end_and_answers_pass_one_at_a_time() -> None:
    asked: list[str] = []

    def replies() -> Iterator[Reply]:
        for site in ("h1", "h2"):
            asked.append(site)
            yield answer(site)

    present = Quorum(3).present(checked(replies(), lambda message: None))
    assert asked == []
    assert next(present)[0] == "h1" and asked == ["h1"]
    assert next(present)[0] == "h2" and asked == ["h1", "h2"]
    with pytest.raises(FederationError, match=r"^2 of 2 "):
        next(present)


def refuse_odd(message: Message) -> None:
    if message.value("value", int) % 2:
        raise MessageError("odd", "Mrs Marker")


def test_an_answer_that_cannot_be_used_is_an_absence() -> None:
    given = [answer("h1", 2), answer("h2", 3), absent("h3", Absence.LATE, "x"), Reply("h4", Message(), Traffic(1, 2))]
    seen = list(checked(given, refuse_odd))
    assert seen[0] is given[0] and seen[2] is given[2]
    assert seen[1] == Reply("h2", None, Traffic(10, 20, 0.5), Absence.FAILED, "odd")  # its bytes did pass
    assert seen[3] == Reply("h4", None, Traffic(1, 2), Absence.FAILED, "value-missing")
    assert sites_of(Quorum(1), *seen) == ["h1"]
    with pytest.raises(FederationError) as caught:
        sites_of(Quorum(2), *checked(given, refuse_odd))
    assert "h2 failed odd; h3 late x; h4 failed value-missing" in str(caught.value)
    assert "Marker" not in str(caught.value)


def test_an_error_of_the_check_itself_is_not_an_absence() -> None:
    def broken(message: Message) -> None:
        raise TypeError("our own mistake")

    with pytest.raises(TypeError):
        list(checked([answer("h1")], broken))


def test_a_check_that_depends_on_who_answered() -> None:
    def own_number(site: str, message: Message) -> None:
        if message.value("value", int) != int(site[1:]):
            raise MessageError("another", "Mrs Marker")

    replies = [answer("h1", 1), answer("h2", 1), absent("h3", Absence.LATE, "x"), answer("h4", 4)]
    seen = list(checked_by_site(replies, own_number))
    assert seen[0] is replies[0] and seen[2] is replies[2] and seen[3] is replies[3]
    assert seen[1] == Reply("h2", None, Traffic(10, 20, 0.5), Absence.FAILED, "another")


def test_answers_are_checked_one_at_a_time_by_who_gave_them() -> None:
    asked: list[str] = []

    def given() -> Iterator[Reply]:
        for number in (1, 2):
            asked.append(f"h{number} answers")
            yield answer(f"h{number}", number)

    for reply in checked_by_site(given(), lambda site, message: asked.append(f"{site} is checked")):
        asked.append(f"{reply.site} is used")
    assert asked == [f"h{n} {what}" for n in (1, 2) for what in ("answers", "is checked", "is used")]


@pytest.mark.parametrize("code", ["Mrs Marker", "", "a" * 41, "Ärger", "a1", "x\n", 7, None, ["a"]])
def test_text_is_not_accepted_as_a_code(code: object) -> None:
    assert safe_code(code) == "unknown"
    assert safe_code("not-accepted") == "not-accepted"
    assert safe_code("a" * 40) == "a" * 40


def test_only_the_code_or_class_of_an_error_is_sent() -> None:
    assert code_of(MessageError("shapes", "Mrs Marker")) == "shapes"
    assert code_of(TrainingError("Mrs Marker")) == "TrainingError"
    assert code_of(SplitError("Mrs Marker", path="Marker.txt")) == "SplitError"
    assert code_of(ValueError("Mrs Marker")) == "ValueError"
