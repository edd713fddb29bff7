from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.reports.pages import a_score, assert_self_contained, cells, charts
from tests.reports.run_records import EVENTS, SITES, Scored, a_round, a_run, scored

from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.leakage import LeakageScore, TypeLeakage
from wardround.evaluation.significance import Interval
from wardround.privacy.differential_privacy import DifferentiallyPrivate, DifferentialPrivacy
from wardround.privacy.mechanism_table import MECHANISMS
from wardround.reports.history import History
from wardround.reports.marked_notes import Excerpt
from wardround.reports.page import Section
from wardround.reports.round_sections import rounds_section
from wardround.reports.run_page import privacy_section, run_sections, write_run_page
from wardround.reports.run_record import LedgerHead, PrivacyFacts, RunRecord, Sends
from wardround.reports.tables import Table
from wardround.reports.training_page import ErrorCounts
from wardround.text.document import Document


def written(tmp_path: Path, record: RunRecord) -> str:
    path = tmp_path / "run" / "report.html"
    write_run_page(path, record)
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    return assert_self_contained(path)


@pytest.fixture
def page(tmp_path: Path) -> str:
    return written(tmp_path, a_run(up=6_000_020, down=1_500_010))


def headings(page: str) -> list[str]:
    return re.findall(r"<h2[^>]*>(.*?)</h2>", page)


def test_the_parts_of_the_page(page: str) -> None:
    assert headings(page) == [
        *("Overview", "Scores", "Site harbour", "Site hillside", "Rounds", "Participation"),
        *("Communication", "Time", "Privacy", "Made with"),
    ]
    assert "<h1>Study tiny</h1>" in page


def test_overview_of_the_run(page: str) -> None:
    assert cells(page, "algorithm") == [["fedavg: averages"]]
    assert cells(page, "rounds") == [["3; the model is that of round 2"]]
    assert cells(page, "strict micro-F1 on test notes") == [["0.625, mean of 2 sites"]]
    assert cells(page, "bytes") == [["6.0 MB up, 1.5 MB down, for all requests"]]
    assert cells(page, "time") == [["2023-11-14 22:13:20 to 2023-11-14 22:14:20 UTC"]]


def test_the_run_at_a_glance_in_a_csv() -> None:
    lines = run_sections(a_run(up=6_000_020, down=1_500_010))[0].tables[0].to_csv().splitlines()
    assert "strict micro-F1 on test notes,0.625" in lines
    assert 'bytes,"6000020 up, 1500010 down"' in lines


def test_scores_of_each_site(page: str) -> None:
    assert cells(page, "hillside")[0] == ["1,000", "1.000", "0.333", "0.500", "0.250–0.750", "0.500"]
    assert cells(page, "mean") == [["1,005", "0.875", "0.542", "0.625", "", "0.694"]]
    assert "Strict micro-F1 0.500 (95% interval 0.250–0.750) on 1,000 notes." in page
    assert cells(page, "Drug")[0] == ["0.750", "0.750", "0.750", "0.250–0.750", "0.889", "4"]


def test_bytes_and_seconds(page: str) -> None:
    assert cells(page, "train")[:2] == [
        ["up", "5,000,000", "1,000,000", "6,000,000"],
        ["down", "750,000", "750,000", "1,500,000"],
    ]
    assert cells(page, "train")[2] == ["4.500", "1.500", "0.000", "6.000"]


def test_charts_have_text_alternatives_and_names(page: str) -> None:
    told = re.findall(r'<img [^>]*alt="([^"]*)"', page)
    assert len(told) == len(charts(page)) == 6
    assert told[0].startswith("strict micro-F1: harbour 0.750 (95% interval 0.250–0.750)")
    assert "Seconds by phase: train 6.0 s, send 2.0 s" in told[-1]


def test_versions_seed_and_study_file(page: str) -> None:
    assert cells(page, "seed") == [["7"]]
    assert cells(page, "python") == [["3.11.7"]]
    assert '<pre class="listing" tabindex="0">[study]\nname = &quot;&lt;tiny&gt;&quot;\nseed = 7\n</pre>' in page


def test_names_are_escaped(tmp_path: Path) -> None:
    page = written(tmp_path, replace(a_run(sites={"<i>ward": scored(1, 1, 1)}), title="<b>Study"))
    assert "<h1>&lt;b&gt;Study</h1>" in page
    assert cells(page, "&lt;i&gt;ward")
    assert "<i>" not in page
    assert "<tiny>" not in page


def test_a_run_that_has_not_finished(tmp_path: Path) -> None:
    page = written(tmp_path, a_run(sites={}, events=EVENTS[:3]))
    assert "The run has not finished" in page
    assert "Scores" not in headings(page)
    assert "Rounds" in headings(page)


def test_an_unfinished_run_uses_the_matching_mode_of_its_task(tmp_path: Path) -> None:
    page = written(tmp_path, a_run(sites={}, events=EVENTS[:4], task_mode="strict"))
    assert "Strict micro-F1 on each site&#x27;s development notes" in page
    assert "main micro-F1" not in page.lower()


def test_a_run_without_any_event(tmp_path: Path) -> None:
    page = written(tmp_path, a_run(events=[]))
    assert headings(page)[-3:] == ["Rounds", "Privacy", "Made with"]


def test_a_run_of_an_older_version_has_its_bytes(tmp_path: Path) -> None:
    old = [{name: value for name, value in a_round(n).items() if name != "exchanges"} for n in (1, 2)]
    page = written(tmp_path, a_run(events=old))
    assert cells(page, "up, from the sites") == [["4,000,000", "2,000,000"]]
    assert cells(page, "down, to the sites") == [["1,000,000", "500,000"]]
    assert "Time" not in headings(page)


def test_many_sites_have_a_row_each_and_share_a_column(tmp_path: Path) -> None:
    names = [f"h{number:02}" for number in range(41)]
    record = a_run(sites=dict.fromkeys(names, scored(3, 1, 1)), events=[a_round(1, asked=names)])
    page = written(tmp_path, record)
    assert not [heading for heading in headings(page) if heading.startswith("Site ")]
    assert cells(page, "h40")[0][0] == "5"
    assert cells(page, "train")[0] == ["up", "1,999,980", "1,999,980"]  # each an equal share, without the rest


def test_a_page_of_relations(tmp_path: Path) -> None:
    counts = {"relations": TypedCounts({"causes": SpanCounts(3, 1, 1), "with": SpanCounts(0, 0, 2)})}
    page = written(tmp_path, a_run(sites={"harbour": Scored(counts, 5, Interval(0.6, 0.25, 0.75))}))
    assert "Relations micro-F1 0.600 (95% interval 0.250–0.750) on 5 notes." in page
    assert cells(page, "causes") == [["0.750", "0.750", "0.750", "", "4"]]
    assert "Relations micro-F1 on each site&#x27;s development notes." in page
    assert "strict" not in page.lower()


def test_a_training_at_one_site(tmp_path: Path) -> None:
    epoch = {"event": "epoch", "epoch": 1, "loss": 2.0, "dev_f1": 0.25, "best": True, "seconds": 1.5}
    events: list[dict[str, Any]] = [{"event": "started", "training": {"seed": 5, "epochs": 1}}, epoch]
    alone: Any = {"run": scored(3, 1, 1)}
    page = written(tmp_path, a_run("run", sites=alone, events=events, privacy=PrivacyFacts(None, "alone"), study=""))
    assert headings(page) == ["Overview", "Scores", "By type", "Epochs", "Privacy", "Made with"]
    assert cells(page, "epochs") == [["1; the model is that of epoch 2"], ["1"]]
    assert "This was training at one site. Nothing left it." in page


def test_leakage_is_shown_for_all_sites_and_each_site(tmp_path: Path) -> None:
    leakage = LeakageScore(by_type={"NAME": TypeLeakage(7, 4, 2, 3)}, exposed_notes=3)
    page = written(tmp_path, a_run(sites={name: replace(site, leakage=leakage) for name, site in SITES.items()}))
    # The sum of both, then each by itself.
    assert cells(page, "NAME") == [["14", "8", "4", "2", "0.571", "6"], *[["7", "4", "2", "1", "0.571", "3"]] * 2]


def test_examples_or_the_reason_why_there_are_none(tmp_path: Path) -> None:
    note = Document("n", "no <note>")
    page = written(tmp_path, a_run(excerpts=(Excerpt("A note of nobody", note, note),)))
    assert "no &lt;note&gt;" in page
    assert "No note of a site is shown in any report." in page
    section = run_sections(a_run(no_excerpts="None: no."))[-2]
    assert (section.heading, section.text) == ("Example predictions", "None: no.")


def test_errors_come_before_the_rounds(tmp_path: Path) -> None:
    page = written(tmp_path, a_run(sites={"ward": scored(3, 1, 1)}, errors=ErrorCounts.of(a_score(found=2))))
    assert headings(page)[2:5] == ["By type", "Errors", "Rounds"]
    assert ["0", "2", "2"] in cells(page, "Drug")  # taken for an effect, for a drug, for nothing


def test_a_chart_by_type_needs_several_types() -> None:
    half = Interval(0.5, 0.25, 0.75)
    two = replace(scored(3, 1, 1), type_intervals={"Drug": half, "ADE": half})
    for site, names in ((two, ["f1-by-site", "f1-by-type"]), (scored(3, 1, 1), ["f1-by-site"])):
        assert [chart.name for chart in run_sections(a_run(sites={"ward": site}))[1].charts] == names


def table(section: Section, title: str) -> Table:
    (found,) = [table for table in section.tables if table.title == title]
    return found


def readers(mechanism: str, sends: Sends = "updates") -> list[object]:
    section = privacy_section(PrivacyFacts(MECHANISMS[mechanism], sends), ())
    return [row[-1] for row in table(section, "Who could read what").rows]


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        # One update, the sum here, the sum elsewhere, with one site, with all, figures, a note.
        ("plain", ["yes", "yes", "yes", "yes", "yes", "yes", "no"]),
        ("masked", ["no", "yes", "yes", "no", "yes", "yes", "no"]),
        ("sealed", ["no", "no", "yes", "yes", "yes", "yes", "no"]),
        ("sealed+masked", ["no", "no", "yes", "no", "yes", "yes", "no"]),
    ],
)
def test_who_could_read_what(mechanism: str, expected: list[str]) -> None:
    assert readers(mechanism) == expected


def test_sites_open_the_mean_of_predictions_for_the_coordinator() -> None:
    assert readers("sealed", "predictions")[1] == "yes"
    assert readers("sealed", "updates")[1] == "no"


@pytest.mark.parametrize("sends", get_args(Sends))
def test_every_kind_of_sent_data_has_a_sentence(sends: Sends) -> None:
    section = privacy_section(PrivacyFacts(None if sends == "alone" else MECHANISMS["plain"], sends), ())
    assert section.text
    shared = sends in ("updates", "predictions")
    assert ("Mechanism: plain." in section.text) == ("Privacy budget: none" in section.text) == shared


def test_minimum_sites_encryption_and_shared_layers_are_named() -> None:
    facts = PrivacyFacts(MECHANISMS["sealed"], "updates", 2, 8, "BFV, packing compact", shared=("words", "word_cnn"))
    prose = privacy_section(facts, ()).text
    assert "Every sum was over at least 2 sites, and every update over at least 8 examples." in prose
    assert "Encryption: BFV, packing compact." in prose
    assert "Shared layers: words, word_cnn. All other layers stayed at their site." in prose


def test_differential_privacy_is_stated_with_what_was_spent() -> None:
    settings = DifferentialPrivacy(epsilon=8.0, delta=0.0005)
    facts = PrivacyFacts(DifferentiallyPrivate(MECHANISMS["masked"], settings), "updates", 3, 16, shared=("all",))
    history = History.of([a_round(n) | {"figures": {"epsilon": 1.5 * n}} for n in (1, 2)])
    prose = privacy_section(facts, history.rounds).text
    assert "The sites sent updates of the shared layers with noise, and counts." in prose
    assert "Every sum was over at least 3 sites, every update over a random sample." in prose
    assert "Privacy budget: (ε, δ) = (8, 0.0005) for each sentence of a site's training notes." in prose
    assert "Spent until the last round, at the site that spent most: ε = 3.00." in prose
    assert "All other layers" not in prose and "No noise" not in prose and "losses" not in prose
    charts = rounds_section(
        History.of([a_round(n) | {"figures": {"epsilon": 1.5 * n}} for n in (1, 2)]), "strict"
    ).charts
    assert any("ε rises from 1.50 in round 1 to 3.00 in the last." in chart.to_html() for chart in charts)


def test_numbers_that_were_clipped() -> None:
    rounds = History.of([a_round(number) | {"clipped": count} for number, count in enumerate((0, 5, 2), 1)]).rounds
    found = table(privacy_section(PrivacyFacts(MECHANISMS["sealed"], "updates"), rounds), "Clipped numbers in updates")
    assert found.rows == ((7, 2, 3, 5),)
    assert found.note == "The bounds were learned in the first round and kept."
    fixed = privacy_section(PrivacyFacts(MECHANISMS["sealed"], "updates", clips={"words": 0.05}), rounds)
    assert table(fixed, "Clipped numbers in updates").note == "Bounds by layer group: words 0.05."


def test_heads_of_present_ledgers_are_shown() -> None:
    heads = (LedgerHead("harbour", 3, 400, "a" * 64), LedgerHead("hillside", 0, 0, ""))
    section = privacy_section(PrivacyFacts(MECHANISMS["plain"], "updates", ledgers=heads), ())
    assert table(section, "Ledgers of what left each site").rows == (
        ("harbour", 3, 400, "a" * 64),
        ("hillside", 0, 0, "broken chain"),
    )
    assert "this folder contains none" not in section.text


def test_missing_ledgers_are_explained() -> None:
    assert (
        "In a networked study each site keeps its own"
        in privacy_section(PrivacyFacts(MECHANISMS["plain"], "updates"), ()).text
    )
    assert "Ledgers" not in privacy_section(PrivacyFacts(None, "alone"), ()).text


def test_every_mechanism_has_words() -> None:
    said = {privacy_section(PrivacyFacts(mechanism, "updates"), ()).text for mechanism in MECHANISMS.values()}
    assert len(said) == len(MECHANISMS)
