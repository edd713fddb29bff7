"""The console's pages in a real browser: what they say is what the run folder says, through restarts of either side."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("starlette", reason="the console needs wardround[console]")

from tests.browser import OpenPage
from tests.console.records import (
    MARKER,
    STUDY,
    append,
    asked,
    finished,
    leave,
    round_of,
    scored,
    started,
    write_kit,
    write_run,
)
from tests.processes import Command, eventually, free_port, kill
from tests.studies.tiny_studies import events_of, learnable
from tests.studies.tiny_studies import run as run_study

from wardround.federation.ledger import verify
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_reading import write_own_report
from wardround.studies.study_file import to_toml
from wardround.text.plain_text import size_text

if TYPE_CHECKING:
    from playwright.sync_api import Page

WRITER = Path(__file__).with_name("writer.py")
# What Chromium says of a server that was killed, depending on how far a request had come.
CUT_OFF = "ERR_CONNECTION_|ERR_SOCKET_NOT_CONNECTED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONTENT_LENGTH"
Serve = Callable[..., str]
Shoot = Callable[[str], Path]


def answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", "/list")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a console in a process of its own; its address."""
    with ExitStack() as ends:

        def start(folder: Path, *options: str, port: int | None = None) -> str:
            port = port or free_port()
            command = Command(tmp_path / f"console-{port}", "console", folder, "--port", str(port), *options)
            ends.callback(command.end)
            assert eventually(lambda: answers(port)), command.said
            return f"http://127.0.0.1:{port}"

        yield start


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """One run that goes on with a site that is late, one that is finished and has a report."""
    rounds = [round_of(1), round_of(2), scored(2), round_of(3, absent=[["lakeside", "late", "deadline"]])]
    write_run(tmp_path / "runs" / "autumn", started(), *rounds)
    done = write_run(tmp_path / "runs" / "spring", started(), round_of(1), scored(1), finished(1))
    (done / "report.html").write_text("<!doctype html><html lang=en><title>r</title><h1>Spring's report</h1></html>")
    return tmp_path / "runs"


def wait_for(page: Page, current: int) -> None:
    page.wait_for_selector(f"#run[data-current='{current}']", state="attached")


def cells(page: Page, table: str) -> list[list[str]]:
    rows = page.locator(f"#{table} tbody tr")
    return [rows.nth(place).locator("th, td").all_inner_texts() for place in range(rows.count())]


def fits(page: Page) -> bool:
    """Whether nothing sticks out of the page on its right."""
    width: int = page.evaluate("document.documentElement.scrollWidth")
    return width <= page.viewport_size["width"] if page.viewport_size else False


@pytest.mark.parametrize("width", [390, 1280])
def test_the_list_of_runs(runs: Path, serve: Serve, browser_page: OpenPage, screenshots: Shoot, width: int) -> None:
    page = browser_page(width)
    page.goto(serve(runs))
    page.wait_for_selector("#runs tbody tr")
    found = [[cell for cell in row if not cell.endswith("ago")] for row in cells(page, "runs")]
    protection = ["fedner", "sealed+masked"]
    assert found == [
        ["autumn", "quiet", "3 / 40", "0.507", *protection, "–"],  # (0.52 + 0.25 + 0.75) / 3
        ["spring", "finished", "1 / 40", "0.503", *protection, "report"],
    ]
    assert page.locator("#runs td[data-name='dev F1']").count() == 2
    assert fits(page)
    page.screenshot(path=screenshots(f"console-list-{width}"), full_page=True)
    page.click("#runs a >> text=report")
    assert page.inner_text("h1") == "Spring's report"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_run(runs: Path, serve: Serve, browser_page: OpenPage, screenshots: Shoot, width: int) -> None:
    page = browser_page(width)
    page.goto(f"{serve(runs)}/run/autumn")
    wait_for(page, 3)
    names = ("number", "of", "loss", "f1", "best", "online", "up", "down")
    told = {name: page.inner_text(f"#{name}") for name in names}
    assert told == {
        "number": "3",
        "of": " of 40",
        "loss": "2.667",  # 8 / 3
        "f1": "0.507",
        "best": "0.507",
        "online": "2",
        "up": "8.0 KB",  # 3, 3 and 2 sites, 1,000 bytes each
        "down": "16.0 KB",
    }
    assert cells(page, "sites") == [
        ["lakeside", "late (deadline)", "0.750", "0.750", "–", "1", "2.0 KB", "4.0 KB"],
        ["harbour", "online", "0.520", "0.520", "–", "0", "3.0 KB", "6.0 KB"],
        ["hillside", "online", "0.250", "0.250", "–", "0", "3.0 KB", "6.0 KB"],
    ]
    assert page.is_hidden("#final-tile")
    assert page.locator("#warnings li").all_inner_texts() == ["lakeside is late (deadline)"]
    assert "masks hide each update in it. A round needs 2 sites." in page.inner_text(".protection")
    log = [line[len("hh:mm:ss") :] for line in page.locator("#log li").all_inner_texts()]
    assert log[0] == "round 3: loss 2.667, 2 answered, absent lakeside (deadline)"
    assert log[-1] == "started with 3 sites"
    assert page.locator("#loss-chart polyline").get_attribute("points").count(",") == 3
    assert fits(page)
    page.screenshot(path=screenshots(f"console-run-{width}"), full_page=True)


def test_new_events_appear_by_themselves(runs: Path, serve: Serve, browser_page: OpenPage) -> None:
    page = browser_page(1280)
    page.goto(f"{serve(runs)}/run/autumn")
    wait_for(page, 3)
    append(runs / "autumn", round_of(4), {"event": "round_failed", "round": 5, "reason": "1 of 3 sites answered"})
    page.wait_for_selector("#warnings >> text=Round 5 failed: 1 of 3 sites answered")
    assert page.inner_text("#up") == "11.0 KB"
    assert page.inner_text("#number") == "4"
    append(runs / "autumn", round_of(5) | {"rejected": True, "notice": "harbour causes it"})
    page.wait_for_selector("#warnings >> text=Round 5 was rejected: harbour causes it")
    (runs / "autumn" / "report.html").write_text("x")
    append(runs / "autumn", round_of(5), finished(5))
    page.wait_for_selector("#state.finished")
    page.wait_for_selector("#report a", state="visible")


def test_a_finished_run_shows_its_test_scores(runs: Path, serve: Serve, browser_page: OpenPage) -> None:
    page = browser_page(1280)
    page.goto(f"{serve(runs)}/run/spring")
    page.wait_for_selector("#state.finished")
    wait_for(page, 1)
    assert (page.inner_text("#final-name"), page.inner_text("#final")) == ("mean test F1", "0.700")  # 0.8, 0.6, 0.7
    assert (page.inner_text("#f1-name"), page.inner_text("#f1")) == ("mean dev F1", "0.503")
    assert (page.inner_text("#online-name"), page.inner_text("#online")) == ("sites", "3")
    assert page.locator("#log li").first.inner_text().endswith("finished after 1 rounds, best round 1")
    assert page.is_hidden("#left-tile")
    assert {row[0]: row[4] for row in cells(page, "sites")} == {
        "harbour": "0.800",
        "hillside": "0.600",
        "lakeside": "0.700",
    }


def test_a_finished_training_at_one_site_shows_its_scores(tmp_path: Path, serve: Serve, browser_page: OpenPage) -> None:
    epoch = {"time": 9.0, "event": "epoch", "epoch": 7, "loss": 0.5, "dev_f1": 0.625, "best": True}
    end = {"time": 10.0, "event": "finished", "strict_f1": 0.5, "relaxed_f1": 0.75}
    write_run(tmp_path / "runs" / "a", {"time": 1.0, "event": "started", "examples": 3}, epoch, end, study="")
    page = browser_page(390)
    page.goto(f"{serve(tmp_path / 'runs')}/run/a")
    wait_for(page, 7)
    assert (page.inner_text("#final-name"), page.inner_text("#final")) == ("final F1", "0.500")


def test_bytes_outside_of_rounds_are_added(tmp_path: Path, serve: Serve, browser_page: OpenPage) -> None:
    lost = asked(2, down=900_000, up=900_000)  # of a round that is done again
    failed = asked(1, down=100, up=10) | {"event": "round_failed", "round": 2, "reason": "1 of 3 sites answered"}
    events = [started(), round_of(1), asked(1, down=5_000, up=500), failed, round_of(2), lost, started(1), round_of(2)]
    write_run(tmp_path / "runs" / "a", *events)
    page = browser_page(1280)
    page.goto(f"{serve(tmp_path / 'runs')}/run/a")
    wait_for(page, 2)
    assert page.inner_text("#up") == "7.0 KB"  # 2 rounds of 3,000; of two sites 500 and 10
    assert page.inner_text("#down") == "22.2 KB"  # 2 of 6,000; 5,000 and 100
    assert {row[0]: row[6:] for row in cells(page, "sites")} == {
        "harbour": ["2.5 KB", "9.1 KB"],
        "hillside": ["2.0 KB", "4.0 KB"],
        "lakeside": ["2.5 KB", "9.1 KB"],
    }


def test_missing_fields_do_not_stop_the_page(runs: Path, serve: Serve, browser_page: OpenPage) -> None:
    bare = [{"event": kind, "round": 4} for kind in ("round", "scored", "asked", "absent", "diverged", "gathered")]
    append(runs / "autumn", *bare, {"event": "round"}, {"event": "finished"}, started(4), round_of(5))
    page = browser_page(1280)
    page.goto(f"{serve(runs)}/run/autumn")
    wait_for(page, 5)
    assert page.inner_text("#up") == "11.0 KB"  # 3, 3, 2, none and 3 sites
    assert page.is_hidden("#warnings-section") or "could not be shown" not in page.inner_text("#warnings")


def test_a_line_that_cannot_be_shown_does_not_affect_others(runs: Path, serve: Serve, browser_page: OpenPage) -> None:
    page = browser_page(1280)
    page.goto(f"{serve(runs)}/run/autumn")
    wait_for(page, 3)
    found = page.evaluate(
        """async () => {
          const { applyEach, lostText } = await import("/static/stream.js");
          const taken = [];
          const take = (event) => { if (event === 2) throw new TypeError("no"); taken.push(event); };
          return [applyEach([1, 2, 3], take), taken, lostText(1)];
        }"""
    )
    assert found == [1, [1, 3], "1 line of the record could not be shown"]


def test_every_curve_has_a_dash_pattern_of_its_own(tmp_path: Path, serve: Serve, browser_page: OpenPage) -> None:
    sites = {f"hospital-{number}": 0.05 + number / 12 for number in range(10)}
    scorings = [scored(n) | {"f1": {name: f1 + n / 100 for name, f1 in sites.items()}} for n in (1, 2)]
    study = STUDY.partition("[sites")[0] + "".join(f"[sites.{name}]\n" for name in sites)
    write_run(tmp_path / "runs" / "a", started(), round_of(1), scorings[0], round_of(2), scorings[1], study=study)
    page = browser_page(1280)
    page.goto(f"{serve(tmp_path / 'runs')}/run/a")
    wait_for(page, 2)
    pattern = "lines => lines.map((line) => getComputedStyle(line).strokeDasharray)"
    drawn = page.eval_on_selector_all("#f1-chart polyline", pattern)
    assert len(set(drawn)) == len(drawn) == 10
    assert page.eval_on_selector_all("#f1-chart .legend line", pattern) == drawn


@pytest.mark.parametrize("width", [390, 1280])
def test_text_in_charts_keeps_its_size(runs: Path, serve: Serve, browser_page: OpenPage, width: int) -> None:
    page = browser_page(width)
    page.goto(f"{serve(runs)}/run/autumn")
    wait_for(page, 3)
    scale = "charts => charts.map((chart) => chart.getBoundingClientRect().width / chart.viewBox.baseVal.width)"
    found = page.eval_on_selector_all("figure:not([hidden]) > svg", scale)
    assert found == pytest.approx([1.0] * 3, abs=0.05)  # F1, loss and bytes


def test_no_text_reaches_a_page(runs: Path, serve: Serve, browser_page: OpenPage) -> None:
    append(runs / "autumn", {"event": "round", "note": MARKER, "round": 9, "absent": [["harbour", "late", MARKER]]})
    append(runs / "autumn", {"event": MARKER}, round_of(10) | {"figures": {MARKER: 0.5}, "text": MARKER})
    page = browser_page(1280)
    heard: list[str] = []
    page.on("response", lambda answer: None if "/events/" in answer.url else heard.append(answer.text()))
    page.goto(f"{serve(runs)}/run/autumn")
    wait_for(page, 10)
    assert "Quillfeather" not in page.content() + "".join(heard)


def write(folder: Path, first: int, last: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, WRITER, folder, str(first), str(last)])


def rounds_in_log(page: Page) -> list[int]:
    lines = page.locator("#log li").all_inner_texts()
    return [int(found[1]) for line in reversed(lines) if (found := re.search(r"round (\d+):", line))]


def test_an_open_page_survives_a_restart_of_the_coordinator(
    tmp_path: Path, serve: Serve, browser_page: OpenPage
) -> None:
    folder = write_run(tmp_path / "runs" / "a")
    page = browser_page(1280)
    page.goto(f"{serve(tmp_path / 'runs')}/run/a")
    first = write(folder, 1, 7)
    try:
        wait_for(page, 7)
        kill(first.pid)  # in the middle of a line
        first.wait()
        second = write(folder, 6, 12)  # from the last checkpoint: rounds 6 and 7 are done again
        wait_for(page, 12)
        second.wait()
        page.wait_for_selector("#state.finished")
        assert rounds_in_log(page) == [1, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 10, 11, 12]
        assert page.inner_text("#up") == "36.0 KB"  # twelve rounds count, of 3,000 bytes each
        assert page.inner_text("#line") == "live"
    finally:
        kill(first.pid)


def test_an_open_page_survives_a_restart_of_the_console(tmp_path: Path, serve: Serve, browser_page: OpenPage) -> None:
    folder = write_run(tmp_path / "runs" / "a", started(), round_of(1), round_of(2))
    port = free_port()
    console = Command(tmp_path / "said", "console", tmp_path / "runs", "--port", str(port))
    page = browser_page(1280, allowed=CUT_OFF)
    try:
        assert eventually(lambda: answers(port)), console.said
        page.goto(f"http://127.0.0.1:{port}/run/a")
        wait_for(page, 2)
    finally:
        console.end()
    page.wait_for_selector("#line.lost")
    append(folder, round_of(3), round_of(4))  # while nobody looks
    serve(tmp_path / "runs", port=port)
    wait_for(page, 4)
    assert page.inner_text("#line") == "live"
    append(folder, round_of(5))
    wait_for(page, 5)
    assert rounds_in_log(page) == [1, 2, 3, 4, 5]
    assert page.inner_text("#up") == "15.0 KB"


def test_another_run_in_the_same_folder_resets_the_page(runs: Path, serve: Serve, browser_page: OpenPage) -> None:
    page = browser_page(1280)
    page.goto(f"{serve(runs)}/run/autumn")
    wait_for(page, 3)
    (runs / "autumn" / "events.jsonl").unlink()
    append(runs / "autumn", started() | {"time": 1_790_000_500.0}, round_of(1))
    wait_for(page, 1)
    assert rounds_in_log(page) == [1]
    assert page.inner_text("#up") == "3.0 KB"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_site(tmp_path: Path, serve: Serve, browser_page: OpenPage, screenshots: Shoot, width: int) -> None:
    kit = write_kit(tmp_path / "kits" / "harbour", messages=3)
    address = serve(tmp_path / "kits", "--site")
    page = browser_page(width)
    page.goto(address)
    page.click("text=adverse-effects")
    wait_for(page, 3)
    page.wait_for_selector("#ledger >> text=Intact")
    verdict = verify(kit / "site" / "ledger.jsonl")
    assert page.inner_text("h1").startswith("harbour in adverse-effects")
    assert page.inner_text("#messages") == "3"
    assert page.inner_text("#bytes") == size_text(verdict.bytes_out)
    assert page.inner_text("#ledger") == f"Intact: 3 entries, {verdict.bytes_out:,} bytes sent."
    assert page.inner_text("#head") == verdict.head
    assert page.inner_text("#accepted") == "accepted"
    assert cells(page, "steps")[0][:3] == ["give", "3", size_text(verdict.bytes_out)]
    assert "lantern-street" not in page.content()
    assert fits(page)
    page.screenshot(path=screenshots(f"console-site-{width}"), full_page=True)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_list_of_a_sites_studies(
    tmp_path: Path, serve: Serve, browser_page: OpenPage, screenshots: Shoot, width: int
) -> None:
    for name in ("harbour", "hillside"):
        kit = write_kit(tmp_path / "kits" / name, messages=3)
        (kit / "kit.json").write_text(json.dumps({"name": name}))
    leave(tmp_path / "kits" / "harbour", "finish", 3)
    page = browser_page(width)
    page.goto(serve(tmp_path / "kits", "--site"))
    page.wait_for_selector("#runs tbody tr")
    assert sorted(row[:4] for row in cells(page, "runs")) == [
        ["adverse-effects", "harbour", "finished", "3 / 40"],
        ["adverse-effects", "hillside", "running", "3 / 40"],
    ]
    assert fits(page)
    page.screenshot(path=screenshots(f"console-studies-{width}"), full_page=True)


def test_a_site_is_warned_of_an_altered_ledger(tmp_path: Path, serve: Serve, browser_page: OpenPage) -> None:
    ledger = write_kit(tmp_path / "kit", messages=2) / "site" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"round":1', b'"round":7'))
    page = browser_page(390)
    page.goto(f"{serve(tmp_path / 'kit', '--site')}/run/site")
    page.wait_for_selector("#warnings >> text=ledger.jsonl:2: does not follow the line before it")
    assert page.inner_text("#ledger") == "The chain of the ledger is broken."


def test_logging_in(runs: Path, browser_page: OpenPage, tmp_path: Path, screenshots: Shoot) -> None:
    port = free_port()
    console = guarded(runs, tmp_path / "token", port)
    page = browser_page(390, allowed="403 ")
    try:
        page.goto(f"http://127.0.0.1:{port}/run/autumn")
        page.screenshot(path=screenshots("console-login-390"))
        page.fill("#token", "not the token")
        page.click("button")
        assert page.inner_text(".wrong") == "Wrong token."
        page.fill("#token", (tmp_path / "token").read_text().strip())
        page.click("button")
        page.click("text=autumn")
        wait_for(page, 3)
        assert page.context.cookies()[0]["httpOnly"]
        assert page.context.cookies()[0]["sameSite"] == "Strict"
        page.close()
    finally:
        console.end()


def guarded(runs: Path, token: Path, port: int) -> Command:
    """A console that asks for the token in this file, once it listens."""
    command = Command(token.with_suffix(".said"), "console", runs, "--port", str(port), "--token-file", token)
    assert eventually(lambda: "token" in command.said), command.said
    return command


def test_a_console_with_a_new_token_requires_a_login(tmp_path: Path, runs: Path, browser_page: OpenPage) -> None:
    port = free_port()
    page = browser_page(1280, allowed=f"{CUT_OFF}|401 |ERR_ABORTED")
    first = guarded(runs, tmp_path / "first", port)
    try:
        page.goto(f"http://127.0.0.1:{port}/login")
        page.fill("#token", (tmp_path / "first").read_text().strip())
        page.click("button")
        page.click("text=autumn")
        wait_for(page, 3)
    finally:
        first.end()
    second = guarded(runs, tmp_path / "second", port)
    try:
        page.wait_for_url("**/login")
    finally:
        second.end()


def test_the_numbers_are_those_of_a_real_study(tmp_path: Path, serve: Serve, browser_page: OpenPage) -> None:
    folder = tmp_path / "runs" / "real"
    run_study(learnable(tmp_path / "notes"), folder)
    write_own_report(RunFolder(folder))
    rounds, scorings = events_of(folder, "round"), events_of(folder, "scored")
    page = browser_page(1280)
    page.goto(f"{serve(tmp_path / 'runs')}/run/real")
    page.wait_for_selector("#state.finished")
    wait_for(page, 8)
    scores = json.loads((folder / "scores.json").read_text())
    for way in ("up", "down"):
        assert scores["traffic"][way] > sum(event[way] for event in rounds)
        assert page.inner_text(f"#{way}") == size_text(scores["traffic"][way])
    assert page.inner_text("#loss") == f"{rounds[-1]['loss']:.3f}"
    assert page.inner_text("#f1") == f"{scorings[-1]['mean_f1']:.3f}"
    best = max(scorings, key=lambda event: event["mean_f1"])
    assert page.inner_text("#best") == f"{best['mean_f1']:.3f}"
    assert page.inner_text("#best-at") == f" at {best['round']}"
    f1 = scorings[-1]["f1"]
    assert {row[0]: row[2] for row in cells(page, "sites")} == {site: f"{score:.3f}" for site, score in f1.items()}
    shown = page.content()
    page.click("#report a")
    assert "tiny" in page.inner_text("h1")
    assert not [word for word in notes_words(tmp_path / "notes") if word in shown + page.content()]


def notes_words(folder: Path) -> set[str]:
    """Words of the notes that no page has any other reason to show."""
    texts = [json.loads(line)["text"] for path in folder.rglob("*.jsonl") for line in path.read_text().splitlines()]
    return {word for text in texts for word in re.findall(r"[A-Za-z]{7,}", text)} - {"started"}


@pytest.mark.slow  # two starts of a real study
def test_an_open_page_survives_a_restart_of_a_real_study(tmp_path: Path, serve: Serve, browser_page: OpenPage) -> None:
    study = tmp_path / "study.toml"
    more: dict[str, Any] = {"algorithm": {"rounds": 500}, "evaluation": {"every": 100}}
    study.write_text(to_toml(learnable(tmp_path / "notes", **more, federation={"checkpoint_every": 10})))
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").touch()
    words = ("run", study, "--out", folder, "--device", "cpu")
    page = browser_page(1280)
    page.goto(f"{serve(tmp_path / 'runs')}/run/a")
    first = Command(tmp_path / "first", *words)
    try:
        assert eventually(lambda: len(events_of(folder, "round")) > 25, 120), first.said
    finally:
        first.end()
    before = events_of(folder, "round")[-1]["round"]
    assert before < 500
    second = Command(tmp_path / "second", *words)
    try:
        assert second.wait(120) == 0
    finally:
        second.end()
    wait_for(page, 500)
    page.wait_for_selector("#report a", state="visible")
    rounds = {event["round"]: event for event in events_of(folder, "round")}  # of one done again, the last
    assert sorted(rounds) == list(range(1, 501))
    scores = json.loads((folder / "scores.json").read_text())
    assert page.inner_text("#up") == size_text(scores["traffic"]["up"])
    assert page.inner_text("#loss") == f"{rounds[500]['loss']:.3f}"
