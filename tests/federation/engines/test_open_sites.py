from __future__ import annotations

import pytest

from wardround.errors import FederationError, MessageError
from wardround.federation.engines.open_sites import SEPARATOR, OpenSites


class Worker:
    def __init__(self, diary: list[str], site: str, *, fails: bool = False) -> None:
        self._diary, self._site, self._fails = diary, site, fails

    def answer_bytes(self, step: str, round_number: int, data: bytes) -> bytes:
        return f"{self._site} {step} {round_number} ".encode() + data

    def close(self) -> None:
        self._diary.append(f"close {self._site}")
        if self._fails:
            raise OSError("the disk is full")


@pytest.fixture
def diary() -> list[str]:
    return []


def house(diary: list[str], open_at_once: int = 16, *, failing: str = "") -> OpenSites:
    def opened(site: str) -> Worker:
        diary.append(f"open {site}")
        return Worker(diary, site, fails=site == failing)

    return OpenSites(opened, open_at_once=open_at_once)


def test_many_sites_as_one_worker(diary: list[str]) -> None:
    sites = house(diary)
    assert sites.answer_bytes(f"h1{SEPARATOR}train", 3, b"x") == b"h1 train 3 x"
    assert sites.answer_bytes("h2/train", 4, b"y") == b"h2 train 4 y"
    assert sites.answer_bytes("h1/score", 4, b"") == b"h1 score 4 "
    assert diary == ["open h1", "open h2"]


def test_the_step_follows_the_first_separator(diary: list[str]) -> None:
    assert house(diary).answer_bytes("h1/a/b", 0, b"") == b"h1 a/b 0 "


def test_a_step_without_a_site(diary: list[str]) -> None:
    with pytest.raises(MessageError, match=r"^step: the step names no site$"):
        house(diary).answer_bytes("train", 0, b"")
    assert diary == []


def test_the_site_opened_last_is_closed_to_make_room(diary: list[str]) -> None:
    sites = house(diary, 2)
    for name in ("h1", "h2", "h3", "h1", "h2"):
        sites.answer_bytes(f"{name}/train", 0, b"")
    assert diary == ["open h1", "open h2", "close h2", "open h3", "close h3", "open h2"]


def test_an_open_site_needs_no_room(diary: list[str]) -> None:
    sites = house(diary, 1)
    sites.worker("h1")
    sites.make_room("h1")
    assert diary == ["open h1"]
    sites.make_room("h2")
    assert diary == ["open h1", "close h1"]


def test_a_site_that_could_not_be_opened_is_tried_again() -> None:
    tries: list[str] = []

    def opened(site: str) -> Worker:
        tries.append(site)
        if len(tries) == 1:
            raise OSError
        return Worker([], site)

    sites = OpenSites(opened)
    with pytest.raises(OSError):
        sites.worker("h1")
    assert sites.answer_bytes("h1/train", 0, b"") == b"h1 train 0 "


def test_closing_closes_all_sites_even_if_one_fails(diary: list[str]) -> None:
    sites = house(diary, failing="h2")
    for name in ("h1", "h2", "h3"):
        sites.worker(name)
    with pytest.raises(OSError, match="disk is full"):
        sites.close()
    assert sorted(diary[3:]) == ["close h1", "close h2", "close h3"]
    sites.close()
    assert len(diary) == 6
    sites.worker("h1")
    assert diary[-1] == "open h1"


def test_at_least_one_site_must_be_open(diary: list[str]) -> None:
    with pytest.raises(FederationError, match=r"^open_at_once is 0; at least one site must be open to answer$"):
        house(diary, 0)
