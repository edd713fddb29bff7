from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import OpenPage
from tests.cli.running import Run, exit_code, train
from tests.studies.distilled_studies import distilled, write_notes
from tests.studies.protected_studies import shielded
from tests.studies.tiny_studies import run as run_study
from tests.studies.tiny_studies import tiny
from wardround.corpora.jsonl import Jsonl
from wardround.studies.run_folder import RunFolder

if TYPE_CHECKING:
    from playwright.sync_api import Page

NARROW, WIDE = 390, 1280
KEYS = {"confusion", "muc", "all", "types", "strict", "exact", "partial", "ent_type"}
MARKER = "Her aunt Quillwort keeps zebrafinches at Larkmoor."


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs: of synthetic sites, under seals and masks, and by distillation on a public set."""
    folder = tmp_path_factory.mktemp("runs")
    run_study(tiny(algorithm={"rounds": 6, "participation": 0.5}), folder / "synthetic")
    sealed = shielded(folder / "notes", "sealed+masked", algorithm={"rounds": 4})
    run_study(sealed, folder / "sealed")
    run_study(shielded(folder / "notes", "plain", algorithm={"rounds": 4}), folder / "plain")
    write_notes(folder / "pairs")
    run_study(distilled(folder / "pairs"), folder / "distilled")
    return folder


@pytest.fixture(scope="module")
def reports(runs: Path) -> Path:
    """The report of each, and of two of them side by side."""
    for name in ("synthetic", "sealed", "plain", "distilled"):
        assert not exit_code("report", runs / name, "--out", runs / "reports" / name, "--examples", "2")
    both = runs / "reports" / "comparison"
    assert not exit_code("report", runs / "plain", runs / "sealed", "--out", both)
    return runs / "reports"


def test_one_run_as_page_tables_and_charts(run: Run, runs: Path) -> None:
    ran = run("report", runs / "synthetic")
    assert ran.code == 0
    out = runs / "synthetic" / "report"
    assert {path.name for path in out.iterdir()} == {"charts", "report.html", "report.md", "tables"}
    assert f"page    {out / 'report.html'}" in ran.out
    drawn = {path.stem for path in (out / "charts").iterdir()}
    assert {"f1-by-site", "development-f1", "participation", "bytes-by-exchange", "seconds-by-phase"} <= drawn
    assert {path.suffix for path in (out / "charts").iterdir()} == {".png", ".svg"}
    assert "## Privacy" in (out / "report.md").read_text()


def test_tables_hold_the_numbers_of_the_folder(runs: Path, reports: Path) -> None:
    tables = reports / "plain" / "tables"
    scores = json.loads((runs / "plain" / "scores.json").read_text())
    with (tables / "scores-scores-on-each-site-s-test-notes.csv").open() as stream:
        rows = {row["site"]: row for row in csv.DictReader(stream)}
    for name, site in scores["sites"].items():
        assert float(rows[name]["strict F1"]) == site["strict"]["f1"]
        assert int(rows[name]["notes"]) == site["documents"]
    with (tables / "communication-bytes-by-exchange-direction-and-site.csv").open() as stream:
        totals = {row["direction"]: int(row["all"]) for row in csv.DictReader(stream) if row["exchange"] == "all"}
    assert totals == {way: scores["traffic"][way] for way in ("up", "down")}


def test_several_runs_are_compared(reports: Path) -> None:
    text = (reports / "comparison" / "report.md").read_text()
    assert "**sealed minus plain**" in text
    assert "paired bootstrap of notes" in text
    assert "| \\[privacy\\] mechanism | plain | sealed+masked |" in text


def test_a_training_at_one_site(run: Run, site: Path, tmp_path: Path) -> None:
    assert not exit_code(*train(site, tmp_path / "run"))
    assert run("report", tmp_path / "run").code == 0
    text = (tmp_path / "run" / "report" / "report.md").read_text()
    assert "This was training at one site. Nothing left it." in text
    assert "nothing says that the notes of this training are synthetic" in text
    assert "aspirin" not in text


def test_the_errors_of_a_training_are_in_a_new_report(run: Run, site: Path, tmp_path: Path) -> None:
    assert not exit_code(*train(site, tmp_path / "run"))
    first = (tmp_path / "run" / "report.html").read_text()
    assert run("report", tmp_path / "run").code == 0
    again = (tmp_path / "run" / "report" / "report.html").read_text()
    parts = [re.search(r">Errors</h2>(.*?)</section>", page, re.DOTALL) for page in (first, again)]
    assert all(parts) and len({part[1] for part in parts if part}) == 1
    kept = (tmp_path / "run" / "error-counts.json").read_text()
    assert set(re.findall(r'"(.*?)"', kept)) <= {
        *KEYS,
        *json.loads((tmp_path / "run" / "scores.json").read_text())["types"],
    }


def test_a_transfer_says_what_it_began_from(run: Run, site: Path, tmp_path: Path) -> None:
    assert not exit_code(*train(site, tmp_path / "source"))
    words = ("--data", site, "--format", "brat", "--training-option", "epochs=1", "--device", "cpu")
    assert not exit_code("transfer", tmp_path / "source", *words, "--out", tmp_path / "target", "--up-to", "words")
    assert run("report", tmp_path / "target").code == 0
    assert "**Began from another model, up to words**" in (tmp_path / "target" / "report" / "report.md").read_text()


def test_no_word_of_a_note_is_outside_its_site(run: Run, tmp_path: Path) -> None:
    study = shielded(tmp_path / "notes", "plain", algorithm={"rounds": 2})
    for path in (tmp_path / "notes").rglob("*.jsonl"):
        marked = [replace(note, text=f"{note.text} {MARKER}") for note in Jsonl().read(path)]
        path.unlink()
        Jsonl().write(marked, path)
    run_study(study, tmp_path / "run")
    assert run("report", tmp_path / "run").code == 0
    inside = [path for path in (tmp_path / "notes").rglob("*.jsonl") if b"Quillwort" in path.read_bytes()]
    assert len(inside) == 9  # it is there to be found
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file() and path.relative_to(tmp_path / "run").parts[0] != "sites":
            found = path.read_bytes().lower()
            assert not any(word in found for word in (b"quillwort", b"zebrafinch", b"larkmoor")), path.name


def test_mistakes_are_one_line_and_name_no_path(run: Run, runs: Path, tmp_path: Path) -> None:
    remedy = "name the --out of a `wardround run` or `wardround train`"
    for words, said in (
        ((tmp_path / "nowhere",), f"nowhere is no folder; {remedy}"),
        ((runs,), f"{runs.name} is not a run folder: it contains neither events.jsonl nor scores.json; {remedy}"),
        ((runs / "plain", runs / "sealed"), "a comparison belongs to no single run: name its folder with --out"),
    ):
        ran = run("report", *words)
        assert ran.code == 2
        assert ran.err == f"wardround: {said}\n"


# In a browser.


def table(page: Page, caption: str) -> list[list[str]]:
    """The cells of the table that has this caption, without its head."""
    script = """caption => {
      const found = [...document.querySelectorAll('table')].filter(t => t.caption.textContent === caption);
      return [...found[0].querySelectorAll('tbody tr, tfoot tr')].map(r => [...r.cells].map(c => c.textContent));
    }"""
    rows: list[list[str]] = page.evaluate(script, caption)
    return rows


def opened(browser_page: OpenPage, path: Path, width: int) -> Page:
    page = browser_page(width)
    page.goto(path.as_uri())
    return page


def whole(events: list[dict[str, Any]], way: int) -> int:
    return sum(row[way] for e in events for sites in e.get("exchanges", {}).values() for row in sites.values())


@pytest.mark.parametrize("name", ["synthetic", "sealed", "plain", "distilled"])
def test_the_numbers_on_the_page_are_those_in_the_folder(
    name: str, runs: Path, reports: Path, browser_page: OpenPage
) -> None:
    page = opened(browser_page, reports / name / "report.html", WIDE)
    scores = json.loads((runs / name / "scores.json").read_text())
    events = list(RunFolder(runs / name).events())
    reading = "relations" if name == "distilled" else "strict"
    by_site = {row[0]: row for row in table(page, "Scores on each site's test notes")}
    for site, said in scores["sites"].items():
        low, high = said[reading]["interval"]
        assert by_site[site][1] == str(said["documents"])
        assert by_site[site][4:6] == [f"{said[reading]['f1']:.3f}", f"{low:.3f}–{high:.3f}"]
    up, down = table(page, "Bytes by exchange, direction and site")[-2:]
    assert (up[-1], down[-1]) == (f"{whole(events, 1):,}", f"{whole(events, 0):,}")
    assert (whole(events, 1), whole(events, 0)) == (scores["traffic"]["up"], scores["traffic"]["down"])
    scored = [event for event in events if event["event"] == "scored"]
    rounds = table(page, f"Development {reading} micro-F1 by round and site")
    assert [(row[0], row[-1]) for row in rounds] == [(str(e["round"]), f"{e['mean_f1']:.3f}") for e in scored]
    asked = [row[1] for row in table(page, f"Participation of each site in {scores['rounds']} rounds")]
    played = [e["exchanges"] for e in events if e["event"] == "round"]
    steps = [{site for step, sites in found.items() if step != "describe" for site in sites} for found in played]
    assert asked == [str(sum(site in drawn for drawn in steps)) for site in scores["sites"]]


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("name", ["synthetic", "sealed", "distilled", "comparison"])
def test_pages_fit_phones_and_desktops(
    name: str, width: int, reports: Path, browser_page: OpenPage, screenshots: Callable[[str], Path]
) -> None:
    page = opened(browser_page, reports / name / "report.html", width)
    assert page.evaluate("document.documentElement.scrollWidth") == width  # tables scroll, the page does not
    sizes = page.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth, i.alt.length])")
    assert sizes and all(complete and wide and told for complete, wide, told in sizes)
    page.screenshot(path=screenshots(f"report-{name}-{width}"), full_page=True)


def test_the_comparison_on_the_page(reports: Path, browser_page: OpenPage) -> None:
    page = opened(browser_page, reports / "comparison" / "report.html", WIDE)
    with (reports / "comparison" / "tables" / "differences-sealed-minus-plain.csv").open() as stream:
        written = [row["difference"] for row in csv.DictReader(stream)]
    assert [row[1] for row in table(page, "sealed minus plain")] == [f"{float(found):.3f}" for found in written]
    assert len(written) == 3 + 2  # sites, their mean, and all notes


def test_a_page_can_be_printed(reports: Path, browser_page: OpenPage) -> None:
    page = opened(browser_page, reports / "synthetic" / "report.html", WIDE)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_examples_are_of_synthetic_or_public_notes(reports: Path, browser_page: OpenPage) -> None:
    page = opened(browser_page, reports / "synthetic" / "report.html", WIDE)
    assert page.locator(".excerpt").count() == 2
    assert "which never existed" in page.locator(".excerpt small").first.inner_text()
    text = (reports / "plain" / "report.html").read_text()
    assert "notes of a site are never shown" in text
    assert "aspirin" not in text
