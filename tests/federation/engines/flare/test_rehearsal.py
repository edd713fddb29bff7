"""Three sites and a coordinator in separate processes, over mutual TLS: what holds while parts fail."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ALL = {"h1", "h2", "h3"}
MARKER = b"Mrs Marker"
ABSENCE, CODE, VALUES, SUM, DOWN, UP, SECONDS = range(7)


@pytest.fixture(autouse=True)
def everybody_is_there(rehearsal: Any) -> None:
    assert set(rehearsal.head.order(wait=3, seconds=120)) == ALL


def outcomes(replies: dict[str, list[Any]]) -> dict[str, str]:
    """Return the code of absence for each site, or an empty string."""
    assert replies.keys() == ALL
    return {site: reply[CODE] for site, reply in replies.items()}


def everywhere(code: str) -> dict[str, str]:
    return dict.fromkeys(ALL, code)


def engine_of(rehearsal: Any, site: str) -> int:
    """Return the process below a site's supervisor."""
    return int(rehearsal.below(rehearsal.sites[site].process.pid)[1])


def test_an_exchange(rehearsal: Any) -> None:
    replies = rehearsal.head.ask("add", size=3, values={"round": 5})
    for reply in replies.values():
        assert reply[VALUES]["round"] == 5
        assert reply[SUM] == 6.0  # three ones, and one more each
        # Mark and length, the header, three numbers.
        assert reply[DOWN] == 8 + len('{"values":{"round":5},"arrays":[["w","<f4",[3]]],"blobs":[]}') + 12
        assert 0 < reply[SECONDS] < 20
    assert len({reply[VALUES]["pid"] for reply in replies.values()}) == 3
    assert rehearsal.head.ask("add", to=["h2"]).keys() == {"h2"}


def test_an_exchange_of_megabytes(rehearsal: Any) -> None:
    numbers = 4_375_000  # 17.5 MB there and back
    replies = rehearsal.head.ask("add", size=numbers)
    assert outcomes(replies) == everywhere("")
    assert {reply[SUM] for reply in replies.values()} == {2.0 * numbers}
    assert all(min(reply[DOWN], reply[UP]) > 4 * numbers for reply in replies.values())


def test_an_answer_that_was_read_leaves_no_thread(rehearsal: Any) -> None:
    threads = Path(f"/proc/{rehearsal.head.process.pid}/task")
    for _ in range(10):
        assert outcomes(rehearsal.head.ask("add")) == everywhere("")
    before = len(os.listdir(threads))
    for _ in range(40):
        assert outcomes(rehearsal.head.ask("add")) == everywhere("")
    assert len(os.listdir(threads)) - before < 30  # FLARE's pools may still grow; there were 120 answers


def test_errors_cross_as_codes(rehearsal: Any) -> None:
    assert outcomes(rehearsal.head.ask("fail")) == everywhere("ValueError")
    assert outcomes(rehearsal.head.ask("refuse")) == everywhere("shapes")
    assert outcomes(rehearsal.head.ask("talk")) == everywhere("unknown")


def test_invalid_answers_are_absences(rehearsal: Any) -> None:
    assert outcomes(rehearsal.head.ask("garble")) == everywhere("mark")
    assert outcomes(rehearsal.head.ask("cut")) == everywhere("length")
    assert outcomes(rehearsal.head.ask("future")) == everywhere("version")


def test_oversized_messages(rehearsal: Any) -> None:
    """An honest site reports it; a site that sends it anyway is disconnected before it fills the memory."""
    replies = rehearsal.head.ask("grow", values={"bytes": 90_000_000}, to=["h1"])
    assert replies["h1"][:2] == ["failed", "oversized"]
    replies = rehearsal.head.ask("grow", values={"bytes": 60_000_000}, to=["h1"], deadline=60.0)
    assert replies["h1"][:2] == ["failed", "transport"]
    assert replies["h1"][SECONDS] < 50
    assert outcomes(rehearsal.head.ask("add", size=10_000_001)) == everywhere("oversized")
    assert outcomes(rehearsal.head.ask("add")) == everywhere("")


def test_a_deadline_and_a_site_that_is_still_busy(rehearsal: Any) -> None:
    replies = rehearsal.head.ask("sleep", values={"seconds": 8.0}, deadline=1.0)
    assert {(reply[ABSENCE], reply[CODE]) for reply in replies.values()} == {("late", "deadline")}
    assert all(1.0 <= reply[SECONDS] < 4 for reply in replies.values())
    replies = rehearsal.head.ask("add", deadline=1.0)
    assert outcomes(replies) == everywhere("deadline")
    replies = rehearsal.head.ask("add", values={"round": 3}, deadline=60.0)
    assert outcomes(replies) == everywhere("")
    assert {reply[VALUES]["round"] for reply in replies.values()} == {3}


def test_a_site_that_has_not_accepted(rehearsal: Any) -> None:
    closed = rehearsal.kits["h2"] / "closed"
    closed.touch()
    try:
        replies = rehearsal.head.ask("add")
        assert outcomes(replies) == {"h1": "", "h2": "not-accepted", "h3": ""}
        assert replies["h2"][ABSENCE] == "refused"
    finally:
        closed.unlink()
    assert outcomes(rehearsal.head.ask("add")) == everywhere("")


def kill_while_it_sleeps(rehearsal: Any, site: str, pid: int) -> None:
    """Kill a process as soon as the worker of a site is in its next sleep."""
    before = rehearsal.times_asleep(site)

    def watch() -> None:
        if rehearsal.eventually(lambda: rehearsal.times_asleep(site) > before):
            os.kill(pid, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def test_a_killed_worker_is_started_again(rehearsal: Any) -> None:
    pid = rehearsal.head.ask("add")["h1"][VALUES]["pid"]
    kill_while_it_sleeps(rehearsal, "h1", pid)
    assert outcomes(rehearsal.head.ask("sleep", values={"seconds": 4.0})) == {"h1": "worker-died", "h2": "", "h3": ""}
    replies = rehearsal.head.ask("add")
    assert outcomes(replies) == everywhere("")
    assert replies["h1"][VALUES]["pid"] != pid


def test_a_killed_site_is_absent_at_once_and_comes_back(rehearsal: Any) -> None:
    worker = rehearsal.head.ask("add")["h3"][VALUES]["pid"]
    engine = engine_of(rehearsal, "h3")
    kill_while_it_sleeps(rehearsal, "h3", engine)
    started = time.monotonic()
    replies = rehearsal.head.ask("sleep", values={"seconds": 4.0}, deadline=60.0)
    assert time.monotonic() - started < 30
    assert replies["h3"][ABSENCE] == "failed" and replies["h3"][CODE] in ("unreachable", "restarted")
    assert outcomes(replies) | {"h3": ""} == everywhere("")
    assert rehearsal.eventually(lambda: not rehearsal.is_running(worker))
    assert set(rehearsal.head.order(wait=3, seconds=120)) == ALL
    assert outcomes(rehearsal.head.ask("add")) == everywhere("")
    assert engine_of(rehearsal, "h3") != engine


def test_a_hanging_site_does_not_use_up_the_deadline(rehearsal: Any) -> None:
    """As after a cut cable: both ends believe that the connection exists, and nothing arrives."""
    engine = engine_of(rehearsal, "h1")
    os.kill(engine, signal.SIGSTOP)
    try:
        replies = rehearsal.head.ask("add", deadline=120.0)
        assert outcomes(replies) == {"h1": "unreachable", "h2": "", "h3": ""}
        assert replies["h1"][SECONDS] < 100
    finally:
        os.kill(engine, signal.SIGCONT)
    assert set(rehearsal.head.order(wait=3, seconds=120)) == ALL
    assert outcomes(rehearsal.head.ask("add")) == everywhere("")


def test_a_restarted_coordinator_finds_its_sites_again(rehearsal: Any) -> None:
    before = {site: reply[VALUES]["pid"] for site, reply in rehearsal.head.ask("add").items()}
    rehearsal.head.write(ask="sleep", values={"seconds": 1.0})
    time.sleep(0.3)
    os.kill(rehearsal.head.process.pid, signal.SIGKILL)
    time.sleep(1.5)
    rehearsal.coordinate()
    assert set(rehearsal.head.order(wait=3, seconds=120)) == ALL
    replies = rehearsal.head.ask("add")
    assert outcomes(replies) == everywhere("")
    assert {site: reply[VALUES]["pid"] for site, reply in replies.items()} == before


def test_unknown_parties_are_refused(rehearsal: Any, tmp_path: Path) -> None:
    """A kit of another authority, the name of another site, and a site outside the study."""
    foreign = rehearsal.make_kits(tmp_path / "foreign")
    strangers = [
        rehearsal.start("site", foreign["h2"]),
        rehearsal.start("stranger", rehearsal.copy("h1", "masked"), "h2"),
        rehearsal.start("site", rehearsal.kits["h4"]),
    ]
    try:
        pid = rehearsal.head.ask("add")["h2"][VALUES]["pid"]
        log = partial(rehearsal.engine_log, "coordinator")
        assert rehearsal.eventually(lambda: "SSL h4] is created" in log() and "requires identity 'h2'" in log())
        assert rehearsal.eventually((foreign["h2"] / "logs" / "engine.log").exists)
        assert all(stranger.process.poll() is None for stranger in strangers)
        time.sleep(1)
        replies = rehearsal.head.ask("add")
        assert outcomes(replies) == everywhere("")
        assert replies["h2"][VALUES]["pid"] == pid
    finally:
        for stranger in strangers:
            stranger.end()


@pytest.mark.parametrize("foreign", [False, True], ids=["none", "another authority's"])
def test_callers_without_a_certificate_of_the_study_are_refused(rehearsal: Any, tmp_path: Path, foreign: bool) -> None:
    def heard(context: ssl.SSLContext) -> bool:
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(("localhost", rehearsal.port), timeout=60) as raw:
            try:
                with context.wrap_socket(raw, server_hostname="localhost") as stream:
                    stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
                    return bool(stream.recv(9))
            except (ssl.SSLError, ConnectionError):
                return False

    def context_of(kit: Path | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=rehearsal.kits["h1"] / "startup" / "rootCA.pem")
        if kit is not None:
            context.load_cert_chain(kit / "startup" / "client.crt", kit / "startup" / "client.key")
        return context

    assert heard(context_of(rehearsal.kits["h1"]))
    assert not heard(context_of(rehearsal.make_kits(tmp_path / "foreign")["h1"] if foreign else None))
    assert outcomes(rehearsal.head.ask("add")) == everywhere("")


def test_sites_cannot_write_to_one_another_nor_send_objects(rehearsal: Any) -> None:
    rehearsal.sites["h3"].end()
    hostile = rehearsal.start("hostile", rehearsal.kits["h3"])
    try:
        assert "answered" not in hostile.line()
    finally:
        hostile.end()
        rehearsal.sites["h3"] = rehearsal.site("h3")
    log = rehearsal.engine_log("coordinator")
    assert "mine=False" in log and "plain=False" in log
    assert set(rehearsal.head.order(wait=3, seconds=120)) == ALL


def test_only_one_port_is_open(rehearsal: Any) -> None:
    assert rehearsal.listening(rehearsal.head.process.pid) == [rehearsal.port]
    assert [rehearsal.listening(engine_of(rehearsal, site)) for site in sorted(ALL)] == [[], [], []]


def test_a_site_waits_for_its_coordinator_and_ends_when_the_study_is_over(rehearsal: Any) -> None:
    site = rehearsal.start("supervised", "site", rehearsal.make_kits(rehearsal.folder / "nobody", port=1)["h1"])
    try:
        assert rehearsal.eventually(lambda: len(rehearsal.below(site.process.pid)) == 2)
        time.sleep(3)
        processes = rehearsal.below(site.process.pid)
        site.process.terminate()
        assert site.process.wait(60) == 128 + signal.SIGTERM
        assert rehearsal.eventually(lambda: not [pid for pid in processes if rehearsal.is_running(pid)])
        assert site.printed == ["the coordinator localhost:1 cannot be reached (Connection refused); still trying\n"]
    finally:
        site.end()


def test_a_second_coordinator_is_refused(rehearsal: Any) -> None:
    second = rehearsal.start("coordinator", rehearsal.kits["coordinator"])
    assert second.process.wait(60) == 2
    said = f"FederationError: port {rehearsal.port} cannot be listened on"
    assert rehearsal.eventually(lambda: said in "".join(second.printed))


def test_the_study_ends_at_every_site(rehearsal: Any) -> None:
    """A fault restarts the process, the end of the study reaches every site, and no output has the marker."""
    rehearsal.head.write(**{"raise": "fault"})
    assert rehearsal.head.process.wait(60) == 1
    rehearsal.coordinate().write(**{"raise": "refusal"})
    assert rehearsal.head.process.wait(60) == 2
    assert rehearsal.eventually(lambda: "UsageError: no\n" in rehearsal.head.printed)
    rehearsal.coordinate().order(wait=3, seconds=120)
    assert outcomes(rehearsal.head.ask("fail")) == everywhere("ValueError")
    processes = [pid for program in rehearsal.sites.values() for pid in rehearsal.below(program.process.pid)]
    assert len(processes) == 9  # supervisor, engine, worker
    assert rehearsal.head.finish() == 0
    assert [program.process.wait(60) for program in rehearsal.sites.values()] == [0, 0, 0]
    assert rehearsal.eventually(lambda: not [pid for pid in processes if rehearsal.is_running(pid)])
    for site in ALL:
        assert (rehearsal.folder / f"{site}.diary").read_text().splitlines()[-1].startswith("closed")
    files = [path for path in rehearsal.folder.rglob("*") if path.is_file()]
    assert len(files) > 30
    assert not [path.name for path in files if MARKER in path.read_bytes()]
    assert not [line for program in rehearsal.programs for line in program.printed if MARKER.decode() in line]
    # One line for what happens, and nothing else.
    said = ("the coordinator ", "round ", "the study is over")
    for program in rehearsal.sites.values():
        assert program.printed[-1] == "the study is over\n"
        assert not [line for line in program.printed if not line.startswith(said)]
