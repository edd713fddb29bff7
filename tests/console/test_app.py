from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("starlette", reason="the console needs wardround[console]")
pytest.importorskip("uvicorn", reason="the console needs wardround[console]")

from starlette.testclient import TestClient
from tests.console.records import MARKER, finished, round_of, scored, started, write_kit, write_run
from tests.processes import free_port
from tests.studies.tiny_studies import learnable
from tests.studies.tiny_studies import run as run_study

from wardround.console import app
from wardround.console.access import Access, Certificate, listen
from wardround.console.app import console_app
from wardround.console.events import RunSummary, event_message, filter_event, filter_ledger_entry, summarise
from wardround.console.runs import Runs, WatchedRun
from wardround.corpora.jsonl import Jsonl
from wardround.errors import UsageError
from wardround.reports.event_file import read_after
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_reading import write_own_report
from wardround.studies.watched_runs import CoordinatorRuns, SiteRuns

TOKEN = "t" * 32


def client(runs: Runs, access: Access | None = None, **options: Any) -> TestClient:
    return TestClient(
        console_app(runs, access or Access()), base_url="http://localhost", follow_redirects=False, **options
    )


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    done = write_run(folder / "spring" / "done", started(), round_of(1), scored(1), finished(1))
    (done / "report.html").write_text("<h1>The report</h1>")
    (done / "secret.key").write_text("key")
    write_run(folder / "going on", started(), round_of(1), round_of(2))
    return folder


def test_a_run_of_a_sweep_is_listed_by_its_row(runs: Path) -> None:
    (runs / "spring" / "done" / "summary.json").write_text('{"cell": "two, FedAvg"}')
    inside = client(CoordinatorRuns(runs))
    (row,) = [run["row"] for run in inside.get("/list").json()["runs"] if run["key"] == "spring/done"]
    assert row.startswith("two, FedAvg, seed ")
    assert f"spring/done · {row}" in inside.get("/run/spring/done").text


def test_the_list_shows_the_progress_of_each_run(runs: Path) -> None:
    found = client(CoordinatorRuns(runs)).get("/list").json()["runs"]
    assert [(run["key"], run["summary"]["state"], run["summary"]["number"]) for run in found] == [
        ("going on", "running", 2),
        ("spring/done", "finished", 1),
    ]
    assert found[0]["address"] == "going%20on"
    assert [run["report"] for run in found] == [False, True]
    assert [run["row"] for run in found] == ["", ""]
    assert found[1]["summary"]["f1"] == pytest.approx((0.51 + 0.25 + 0.75) / 3)


def test_a_run_has_a_page(runs: Path) -> None:
    page = client(CoordinatorRuns(runs)).get("/run/spring/done")
    assert page.status_code == 200
    assert "adverse-effects" in page.text
    assert "masks hide each update in it" in page.text
    assert 'data-sites="harbour hillside lakeside"' in page.text


def test_no_page_contains_a_path(runs: Path) -> None:
    inside = client(CoordinatorRuns(runs))
    for address in ("/", "/list", "/run/spring/done", "/facts/spring/done"):
        text = inside.get(address).text
        assert str(runs.parent) not in text
        assert "lantern-street" not in text


def test_the_report_is_served_and_cannot_run_anything(runs: Path) -> None:
    report = client(CoordinatorRuns(runs)).get("/report/spring/done")
    assert report.text == "<h1>The report</h1>"
    assert report.headers["content-type"].startswith("text/html")
    assert report.headers["content-security-policy"].startswith("default-src 'none'")
    assert "sandbox" in report.headers["content-security-policy"]


def test_a_run_without_a_report(runs: Path) -> None:
    report = client(CoordinatorRuns(runs)).get("/report/going%20on")
    assert report.status_code == 404
    assert "the run has no report yet" in report.text


@pytest.mark.parametrize(
    "key",
    [
        "../done",
        "..%2f..%2fsecret.key",
        "spring/done/secret.key",
        "spring/done/report.html",
        "spring%2f..%2fspring%2fdone",
        "spring//done",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "%2e",
        "",
        "spring",
        "spring/done%00",
    ],
)
@pytest.mark.parametrize("kind", ["report", "run", "facts", "events"])
def test_unknown_runs_are_not_found(runs: Path, kind: str, key: str) -> None:
    inside = client(CoordinatorRuns(runs))
    assert inside.get(f"/{kind}/{key}").status_code == 404


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "../templates/run.html"])
def test_only_files_of_the_static_folder_are_served(runs: Path, name: str) -> None:
    assert client(CoordinatorRuns(runs)).get(f"/static/{name}").status_code == 404


def test_a_report_that_is_a_link_is_not_served(runs: Path) -> None:
    report = runs / "spring" / "done" / "report.html"
    report.unlink()
    report.symlink_to(runs / "spring" / "done" / "secret.key")
    assert client(CoordinatorRuns(runs)).get("/report/spring/done").status_code == 404


def test_names_are_escaped(tmp_path: Path) -> None:
    write_run(tmp_path / "<script>alert(1)<", started(), study='[study]\nname = "<b>bold</b>"\n')
    inside = client(CoordinatorRuns(tmp_path))
    (run,) = inside.get("/list").json()["runs"]
    page = inside.get(f"/run/{run['address']}").text
    assert "<script>alert" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page


def test_an_unexpected_error_shows_only_its_class(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: CoordinatorRuns) -> list[Any]:
        raise RuntimeError(MARKER)

    monkeypatch.setattr(CoordinatorRuns, "all", broken)
    answer = client(CoordinatorRuns(runs), raise_server_exceptions=False).get("/list")
    assert answer.status_code == 500
    assert "RuntimeError" in answer.text
    assert "Quillfeather" not in answer.text


def test_one_unreadable_run_does_not_break_the_list(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(runs / "endless", started(), study="[study]\n[algorithm]\nrounds = inf\n[federation]\ndeadline = inf\n")
    write_run(runs / os.fsdecode(b"caf\xe9"), started())
    write_run(runs / "locked", started())
    opened = Path.open

    def refuse(path: Path, *words: Any, **options: Any) -> Any:
        if path.parent.name == "locked" and path.suffix == ".jsonl":
            raise PermissionError(path)
        return opened(path, *words, **options)

    monkeypatch.setattr(Path, "open", refuse)
    inside = client(CoordinatorRuns(runs))
    found = {run["key"]: run for run in inside.get("/list").json()["runs"]}
    assert {key: run["summary"]["state"] for key, run in found.items()} == {
        "caf\ufffd": "running",
        "endless": "running",
        "going on": "running",
        "locked": "unreadable",
        "spring/done": "finished",
    }
    assert found["endless"]["patience"] == 600.0
    assert found["caf\ufffd"]["address"] == "caf%EF%BF%BD"
    assert inside.get("/run/caf%EF%BF%BD").status_code == 200
    page = inside.get("/run/locked")
    assert page.status_code == 403
    assert "the console may not read events.jsonl of this run; give its user access" in page.text


def test_a_run_whose_row_cannot_be_made_is_listed_by_its_name(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run: WatchedRun) -> RunSummary:
        if run.key == "going on":
            raise RuntimeError(MARKER)
        return summarise(run)

    monkeypatch.setattr(app, "summarise", broken)
    found = client(CoordinatorRuns(runs)).get("/list").json()["runs"]
    assert [(run["key"], run["name"], run["summary"]["state"]) for run in found] == [
        ("spring/done", "adverse-effects", "finished"),
        ("going on", "", "unreadable"),
    ]


def test_a_site_sees_its_ledger_and_no_report(tmp_path: Path) -> None:
    write_kit(tmp_path / "kit", messages=3)
    inside = client(SiteRuns(tmp_path))
    (run,) = inside.get("/list").json()["runs"]
    assert run["key"] == "kit/site"
    assert (run["site"]["name"], run["site"]["entries"], run["site"]["accepted"]) == ("harbour", 3, True)
    assert inside.get("/report/kit/site").status_code == 404
    page = inside.get("/run/kit/site").text
    assert "Sent messages by step" in page
    assert "lantern-street" not in page


def login(inside: TestClient, token: str) -> Any:
    return inside.post("/login", data={"token": token})


def test_logging_in(runs: Path) -> None:
    inside = client(CoordinatorRuns(runs), Access(token=TOKEN))
    assert inside.get("/", headers={"accept": "text/html"}).headers["location"] == "/login"
    wrong = login(inside, "t" * 31)
    assert wrong.status_code == 403
    assert "Wrong token." in wrong.text
    assert "set-cookie" not in wrong.headers
    right = login(inside, TOKEN)
    assert (right.status_code, right.headers["location"]) == (303, "/")
    assert inside.get("/list").status_code == 200


def test_the_cookie_is_restricted_to_this_site(runs: Path) -> None:
    tls = Certificate(Path("chain.pem"), Path("key.pem"))
    access = Access("192.168.0.7", 443, tls, TOKEN)
    inside = TestClient(console_app(CoordinatorRuns(runs), access), base_url="https://h", follow_redirects=False)
    parts = {part.strip().lower() for part in login(inside, TOKEN).headers["set-cookie"].split(";")[1:]}
    assert parts == {"httponly", "secure", "samesite=strict", "path=/"}


def test_a_login_that_is_too_long_is_refused(runs: Path) -> None:
    inside = client(CoordinatorRuns(runs), Access(token=TOKEN))
    assert login(inside, TOKEN + " " * 2_000).status_code == 403


def test_no_login_without_a_token(runs: Path) -> None:
    assert client(CoordinatorRuns(runs)).get("/login").headers["location"] == "/"


def everything_shown(runs: Runs) -> str:
    """Every page, every answer and every message of a console."""
    inside = client(runs)
    shown = [inside.get(address).text for address in ("/", "/list")]
    for run in runs.all():
        pages = [inside.get(f"/{kind}/{quote(run.key)}") for kind in ("run", "facts", "report")]
        shown += [page.text for page in pages]
        shown.append(event_message(read_after(run.record), filter_event if run.site is None else filter_ledger_entry))
    return "\n".join(shown)


def test_no_page_contains_a_sentence_of_a_note(tmp_path: Path) -> None:
    study = learnable(tmp_path / "notes", study={"description": "A study of two wards"})
    planted = 0
    for path in (tmp_path / "notes").rglob("*.jsonl"):
        notes = [replace(note, text=f"{note.text} {MARKER}.") for note in Jsonl().read(path)]
        Jsonl().write(notes, path)
        planted += len(notes)
    assert planted == 2 * (12 + 4 + 5)
    run_study(study, tmp_path / "runs" / "a")
    write_own_report(RunFolder(tmp_path / "runs" / "a"))
    for runs in (CoordinatorRuns(tmp_path / "runs"), SiteRuns(tmp_path / "runs" / "a" / "sites")):
        shown = everything_shown(runs)
        assert '"event":"' in shown
        for word in MARKER.split():
            assert len(word) < 5 or word not in shown, word


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_listens_on_one_address_only(host: str) -> None:
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    port = free_port()
    with listen(Access(host, port)) as listening:
        assert listening.getsockname()[:2] == (host, port)


def test_a_port_in_use_is_refused_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"127\.0\.0\.1:{port} \(Address already in use\); choose another"):
            listen(Access(port=port))
