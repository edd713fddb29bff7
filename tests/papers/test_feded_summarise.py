from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.papers.modules import fixture_of, measured_of

from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pair_tsv import PairTsv

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "papers" / "feded"
FIGURES = ("teacher_accuracy", "student_before", "student_accuracy", "agreement", "teacher_f1", "student_f1")
TARGET, LIMIT = 0.6, 4


paper, tables, targets = fixture_of("feded.paper"), fixture_of("feded.tables"), fixture_of("feded.targets")
measured, studies = fixture_of("feded.measured"), fixture_of("feded.studies")


# Runs as `papers.measure` writes them.


def counts(percent: int) -> list[int]:
    """Counts of fifty relations whose precision, recall and F1 are so many percent, twice a whole number."""
    return [percent // 2, 50 - percent // 2, 50 - percent // 2]


def line(number: int, percent: int, types: dict[str, list[int]] | None = None, **told: float) -> dict[str, Any]:
    passed = {"round": number, "loss": 0.5, "answered": 5, "up": 5000, "down": 10**6, "figures": told}
    return {**passed, "f1": percent / 100, "types": types or {"association": counts(percent)}}


def run_of(study: str, seed: int, *percents: int, rate: float = 1e-4, **more: Any) -> dict[str, Any]:
    """A run with the F1 of each round, in percent, of a hundred pairs."""
    told = dict.fromkeys(FIGURES, 0.5) if "feded" in study else {}
    curve = [line(number, percent, **told) for number, percent in enumerate(percents, start=1)]
    own = {"variation": study, "seed": seed, "tuned": "", "learning_rate": rate, "tested": 100, "device": "cpu"}
    return {**own, "rounds": len(curve), "f1": curve[-1]["f1"], "curve": curve, "seconds": 1.0} | more


def raced(study: str, seed: int, *percents: int, **more: Any) -> dict[str, Any]:
    """A run that is over at the target."""
    reached = len(percents) if percents[-1] >= 100 * TARGET else None
    return run_of(study, seed, *percents, target=TARGET, reached=reached, **more)


def weighed(study: str, up: int, *, answered: int = 5) -> dict[str, Any]:
    """A run that counts bytes, the first round of which is not like the others."""
    curve = [
        {"round": n, "loss": 0.5, "answered": answered, "up": up * n // 2, "down": 1, "figures": {}} for n in (1, 2)
    ]
    return {**run_of(study, 0, 0), "rounds": 2, "f1": 0.0, "curve": curve}


def five(study: str, *curves: Sequence[int]) -> list[dict[str, Any]]:
    return [run_of(study, seed, *curve) for seed, curve in enumerate(curves)]


GOOD = [
    *five("gad-fedavg", (40, 50, 60, 62), (40, 52, 54, 60), (50, 60, 64, 66), (40, 40, 50, 58), (40, 50, 62, 64)),
    *five("gad-feded-3", (60, 60, 60, 66), (40, 60, 60, 64), (62, 64, 64, 62), (60, 64, 60, 64), (58, 56, 58, 58)),
]
SMALL = [weighed("weigh-gad-feded-float32", 5 * 7860), weighed("weigh-gad-feded-top-k", 1150, answered=1)]


def found_in(paper: ModuleType, runs: Sequence[dict[str, Any]]) -> Any:
    return measured_of(paper, runs, chosen={"target": TARGET}, settings={"gad_rounds": LIMIT})


# Tables 3 to 6.


def test_table_3_has_medians_over_seeds(paper: ModuleType, tables: ModuleType) -> None:
    lines = tables.score_table(found_in(paper, GOOD), "gad", tables.PUBLISHED["scores"]["gad"]).splitlines()
    assert lines[2].startswith(
        "| FedAvg | 62.0 | 62.0 | 62.0 | 58.0 – 66.0 | 58.0 – 66.0 | 5 | 69.89 | 87.54 | 77.73 |"
    )
    assert lines[3] == "| FedED-3 | 64.0 | 64.0 | 64.0 | 58.0 – 66.0 | 58.0 – 66.0 | 5 | – | – | – |"
    assert len(lines) == 4


def test_a_site_alone_is_the_mean_over_sites_of_a_seed(paper: ModuleType) -> None:
    runs = [run_of(f"gad-single-{site}", seed, 40 + 4 * site) for site in (1, 2, 3) for seed in (0, 1)]
    found = found_in(paper, [*runs, run_of("gad-single-3", 2, 90)])
    assert [scores.f1 for scores in found.alone("gad")] == [pytest.approx(0.48)] * 2
    assert found.alone("euadr") == []


def test_a_run_that_was_cut_off_is_left_out_and_named(paper: ModuleType, measured: ModuleType) -> None:
    runs = [run_of("gad-fedatt", 0, 50, 60), run_of("gad-fedatt", 1, 50, cut_off=True)]
    assert found_in(paper, runs).seeds("gad-fedatt") == [0]
    assert measured.left_out(runs) == ["gad-fedatt, seed 1: 1 rounds"]


def test_runs_of_one_study_must_have_one_rate(paper: ModuleType) -> None:
    runs = [run_of("gad-fedatt", seed, 50, rate=rate) for seed, rate in ((0, 1e-4), (1, 2e-4))]
    with pytest.raises(AssertionError, match="several rates"):
        found_in(paper, runs)


def lost(study: str, seed: int, percent: float, **more: Any) -> dict[str, Any]:
    """A run of which nothing but its last F1 is left."""
    return {**run_of(study, seed, 50), "f1": percent / 100, "curve": [], "only_f1": True, **more}


def test_a_run_whose_curve_is_lost_counts_with_its_f1(paper: ModuleType, tables: ModuleType) -> None:
    runs = [*GOOD[:5], *(lost("gad-feded-3", seed, 70 + seed) for seed in range(5))]
    found = found_in(paper, [*runs, lost("euadr-feded", 0, 80.5)])
    lines = tables.score_table(found, "gad", tables.PUBLISHED["scores"]["gad"]).splitlines()
    assert lines[3].startswith("| FedED-3 | – | – | 72.0 | 70.0 – 74.0 | 70.0 – 74.0 | 5 |")
    assert found.base_ratio("feded-3") is None and set(tables.plots(found)) == {"curves-gad"}
    text = tables.missing_text(found)
    assert text.endswith("Of some runs only the F1 after the last round was kept: gad-feded-3, euadr-feded.")


def test_rounds_come_from_a_race_if_the_curve_is_lost(paper: ModuleType) -> None:
    runs = [*GOOD[:5], *(lost("gad-feded-3", seed, 70) for seed in range(5))]
    raced_at = [raced("race-feded-3-c0.1", seed, *[40] * seed, 60) for seed in range(3)]
    found = found_in(paper, [*runs, *raced_at])
    # FedED-3 takes 1, 2 and 3 rounds, FedAvg on these draws 3, 4 and 2.
    assert found.base_rounds("feded-3").by_seed == {0: 1, 1: 2, 2: 3}
    assert str(found.base_ratio("feded-3")) == "0.67"


def test_table_6_by_hand(paper: ModuleType, tables: ModuleType, targets: ModuleType) -> None:
    def run(method: str, seed: int, common: int, rare: list[int] | None) -> dict[str, Any]:
        types = {"Association": counts(common)} | ({"Bind": rare} if rare else {})
        return {**run_of(f"biored-{method}", seed, 50), "curve": [line(1, 50, types)]}

    runs = [run("public", seed, common, [1, 1, 3]) for seed, common in enumerate((40, 50, 44))]
    runs += [run("fedavg", seed, common, [0, 0, 4]) for seed, common in enumerate((60, 60, 62))]
    found = found_in(paper, runs)
    assert tables.table6(found).splitlines()[2:] == [
        "| Association | 50 | 44.0 | 60.0 |",
        "| Bind | 4 | 33.3 | 0.0 |",
    ]
    assert targets.types_claim(found) == "better than the public set alone, of 2 types of BioRED: FedAvg 1"
    assert found.f1("biored-public")[0] == pytest.approx(2 * 21 / (52 + 54))


# Rounds.


def test_rounds_to_the_target_by_hand(paper: ModuleType, tables: ModuleType) -> None:
    found = found_in(paper, GOOD)
    assert found.rounds_to_target("gad-fedavg") == {0: 3, 1: 4, 2: 2, 3: inf, 4: 3}
    assert found.rounds_to_target("gad-feded-3") == {0: 1, 1: 2, 2: 1, 3: 1, 4: inf}
    lines = tables.rounds_table(found).splitlines()
    assert lines[2] == "| FedAvg | 3 [2, not reached] | 0: 3, 1: 4, 2: 2, 3: not reached, 4: 3 | – |"
    assert lines[3] == "| FedED-3 | 1 [1, not reached] | 0: 1, 1: 2, 2: 1, 3: 1, 4: not reached | 0.33 |"
    assert lines[-1] == "The target is an F1 of 60.0."


@pytest.mark.parametrize(
    ("ours", "theirs", "text"),
    [
        ([3, 3, 9], [6, 6, inf], "0.50"),
        ([1, 1, 1], [inf, inf, 2], "≤ 0.20"),  # FedAvg takes five rounds at least
        ([inf, inf, 1], [inf, inf, inf], "FedED not there"),
    ],
)
def test_ratios_of_targets_that_were_not_reached(measured: ModuleType, ours: Any, theirs: Any, text: str) -> None:
    assert str(measured.ratio_of(ours, theirs, limit=LIMIT)) == text


def test_not_reached_is_not_the_same_as_not_measured(paper: ModuleType, tables: ModuleType) -> None:
    runs = [
        *GOOD,
        raced("race-fedavg-c0.3", 0, 40, 62),
        raced("race-feded-3-c0.3", 0, 60),
        raced("race-fedavg-c0.5", 0, 40, 40, 40, 40),
        raced("race-fedatt-c0.5", 0, 40, 40, cut_off=True),
        raced("race-feded-3-c1.0", 0, 40, 40, 40, 40),
    ]
    lines = tables.figure2(found_in(paper, runs)).splitlines()
    # C = 0.1 is the curve of Table 3 with seed 0, which alone was raced.
    assert lines[2:] == [
        "| 0.1 | 3 | – | 1 | 0.33 |",
        "| 0.3 | 2 | – | 1 | 0.50 |",
        "| 0.5 | not reached | cut off after 2 | – | – |",
        "| 1 | – | – | not reached | – |",
    ]
    assert set(tables.race_plot(found_in(paper, runs))) == {"figure2"}
    assert tables.figure2(found_in(paper, GOOD)) == "" and tables.race_plot(found_in(paper, GOOD)) == {}


def test_table_8_has_the_published_rounds(paper: ModuleType, tables: ModuleType) -> None:
    runs = [*GOOD, raced("race-fedavg-b16-e1", 0, 40, 40, 40, 40), raced("race-feded-3-b16-e1", 0, 40, 60)]
    lines = tables.table8(found_in(paper, runs)).splitlines()
    assert "| 16 | 1 | not reached | – | 2 | ≤ 0.40 | not reached | not reached | 34 | – |" in lines
    assert "| 2 | 3 | – | – | – | – | 20 | 20 | 7 | 0.35 |" in lines
    assert lines[-1] == "| 4 | 2 | 3 | – | 1 | 0.33 | – | – | – | – |"


# What the teacher knew.


def test_figures_by_round_are_medians_over_seeds(paper: ModuleType, tables: ModuleType) -> None:
    runs = five("gad-feded", (40, 60), (50, 62), (60, 64))
    for run, accuracy in zip(runs, (0.6, 0.7, 0.9), strict=True):
        run["curve"][1]["figures"]["teacher_accuracy"] = accuracy
    found = found_in(paper, runs)
    assert found.figure("gad-feded", "teacher_accuracy") == [(1, 0.5), (2, 0.7)]
    assert tables.teacher_table(found, "feded").splitlines()[2:] == [
        "| 1 | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 |",
        "| 2 | 70.0 | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 | 62.0 |",
    ]
    assert set(tables.plots(found)) == {"curves-gad", "teacher-feded"}


# Bytes and bars.


def test_uploads_are_those_of_a_site_in_the_last_round(paper: ModuleType, tables: ModuleType) -> None:
    runs = [*SMALL, weighed("weigh-biored-fedavg-sealed", 10 * 90_900_000, answered=10)]
    lines = tables.table7(found_in(paper, runs)).splitlines()
    assert lines[2:] == [
        "| FedAvg, sealed | – | – | 90.9 MB | – | – | – |",
        "| FedED, float32 | 7.9 KB | – | – | 5 KB | 323 B | 42 KB |",
        "| FedED, top-1 | 1.1 KB | – | – | – | – | – |",
    ]


def test_one_feded_must_meet_both_targets(paper: ModuleType, targets: ModuleType) -> None:
    found = found_in(paper, [*GOOD, *SMALL])
    told = {bar.target.split(":")[0]: [] for bar in targets.bars(found)}
    for bar in targets.bars(found):
        told[bar.target.split(":")[0]].append(bar.verdict)
    assert told["FedED-3"] == ["met", "met"]
    assert told["FedED"] == told["FedED-5"] == ["not measured"] * 2
    assert targets.all_met(found)
    quick = five("gad-feded-3", *[(60, 50, 50, 50)] * 5) + five("gad-feded-5", *[(40, 40, 40, 66)] * 5)
    assert not targets.all_met(found_in(paper, [*quick, *GOOD[:5], *SMALL]))


@pytest.mark.parametrize("left", [GOOD + SMALL[:0], GOOD[:4] + GOOD[5:] + SMALL, SMALL])
def test_targets_that_were_not_measured_are_not_met(
    paper: ModuleType, targets: ModuleType, left: list[dict[str, Any]]
) -> None:
    assert not targets.all_met(found_in(paper, left))


def test_large_uploads_miss_the_target(paper: ModuleType, targets: ModuleType) -> None:
    ways = ("float32", "float16", "top-k")
    runs = [weighed(f"weigh-gad-feded-{way}", size) for way, size in zip(ways, (125_005, 60_000, 62_000), strict=True)]
    found, one = targets.bars(found_in(paper, runs))[:2], targets.bars(found_in(paper, runs[:1]))[1]
    assert [(bar.measured, bar.verdict) for bar in found] == [("25.0 KB", "missed"), ("12.0 KB, float16", "missed")]
    assert one.met is None  # another precision might be smaller


def test_claims_are_judged_by_corpus(paper: ModuleType, targets: ModuleType) -> None:
    runs = [run_of(f"euadr-{method}", 0, f1) for method, f1 in (("fedavg", 60), ("feded", 58), ("central", 70))]
    found = found_in(paper, [*GOOD, *runs, run_of("euadr-fedavg", 1, 10), run_of("biored-fedavg", 0, 50)])
    assert targets.best_claim(found) == (
        "GAD, 5 seeds: yes, FedED-3 (FedAvg 62.0; FedED-3 64.0). EU-ADR, 1 seed: no (FedAvg 60.0; FedED 58.0)"
    )
    assert targets.extreme_claim(found, "central", max) == "EU-ADR, 1 seed: yes (FedAvg 60.0; FedED 58.0; Central 70.0)"
    assert targets.extreme_claim(found, "public", min) == ""


def test_the_claim_on_rounds_names_the_public_set_alone(paper: ModuleType, targets: ModuleType) -> None:
    found = found_in(paper, [*GOOD, run_of("gad-public", 0, 40, 60)])
    assert targets.fewer_claim(found) == (
        "FedED-3 0.33. Rounds of the public set alone, without a site: 2; of FedAvg: 3 [2, not reached]"
    )


def test_missing_studies_are_named(paper: ModuleType, tables: ModuleType, studies: ModuleType) -> None:
    races = [name for name, found in studies.VARIATIONS.items() if set(found.tables) <= {"table3", "table8"}]
    known = {"studies": {name: {} for name in races[1:]}, "left_out": ["x, seed 0: 3 rounds"]}
    said = tables.missing_text(paper.Measured(known))
    assert said == (
        f"Not measured: of table3 {races[0]}; all of table4; all of table5; all of figure2; all of table7. "
        "Cut off, and left out: x, seed 0: 3 rounds."
    )


# The page.


def test_every_method_has_a_title(tables: ModuleType, studies: ModuleType) -> None:
    methods = {variation.method for variation in studies.VARIATIONS.values()} - set(studies.SINGLE)
    assert methods | set(tables.CORPORA) <= tables.TITLES.keys()


def test_the_f1_of_calling_all_related_is_read_from_the_sites(
    paper: ModuleType, tables: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"@GENE$ and @DISEASE$ {n}\t{int(n < 3)}\n" for n in range(4)))
    Jsonl().write(PairTsv().read(tmp_path / "pairs.tsv"), tmp_path / "gad" / "seed-0" / "test.jsonl")
    several = {"task": {"relations": {"Bind": [], "Association": []}}, "draws": {"seed-0": {}}}
    described = {"gad": {"task": {"relations": {"association": []}}, "draws": {"seed-0": {}, "tune": {}}}}
    (tmp_path / "sites.json").write_text(json.dumps({**described, "biored": several}))
    # Three of four pairs are related: precision 3/4, recall 1.
    found = tables.all_related(tmp_path)
    assert found == {"gad": [round(6 / 7, 4)]}
    told = tables.related_text(paper.Measured({"all_related": found}))
    assert told == "Calling every pair related gives an F1 of: GAD 85.7 (85.7 – 85.7)."


def test_the_page_and_the_plots_are_filled_from_what_was_measured(tmp_path: Path) -> None:
    sizes = {
        part: {"documents": count, "pairs": count} for part, count in (("train", 1000), ("public", 200), ("test", 90))
    }
    head = {"settings": {"gad_rounds": LIMIT}, "sites": {"gad": {"seed-0": sizes, "seed-1": sizes, "tune": {}}}}
    files = {"results": [*GOOD, raced("race-fedavg-c0.3", 0, 40, 62)], "weighed": SMALL}
    for name, runs in files.items():
        own = head if name == "results" else {"settings": {}}
        (tmp_path / f"{name}.json").write_text(json.dumps({**own, "runs": runs}))
    (tmp_path / "chosen.json").write_text(json.dumps({"rates": {"fedavg": 7e-5, "feded-3": 4e-5}, "target": TARGET}))
    page, expected = tmp_path / "page.md", tmp_path / "expected.json"
    page.write_text((PAPER / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "papers.summarise", "feded", "--readme", str(page), "--expected", str(expected)]
    given = [str(tmp_path / "results.json"), "--weighed", str(tmp_path / "weighed.json")]
    subprocess.run([*command, *given, "--chosen", str(tmp_path / "chosen.json")], check=True, cwd=ROOT)
    once = page.read_text(encoding="utf-8")
    subprocess.run(command, check=True, cwd=ROOT)
    assert page.read_text(encoding="utf-8") == once
    assert "| GAD | 1,000 | 200 | 90 | 4 |" in once
    assert "| FedED-3 | `label_rounds = 3`, `distillation_batch = 16` | 4e-05 |" in once
    assert "| FedED, float32 | 7.9 KB |" in once and "| 0.3 | 2 | – | – | – |" in once
    assert {path.name for path in tmp_path.glob("*.svg")} == {"curves-gad.svg", "teacher-feded-3.svg", "figure2.svg"}
    assert all(once.count(f"({path.name})") == 1 for path in tmp_path.glob("*.svg"))
    told = subprocess.run([*command, "--check"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.startswith("met: a site uploads at most 25.0 KB")


def test_what_was_published_is_as_the_paper_has_it(tables: ModuleType) -> None:
    for corpus, methods in tables.PUBLISHED["scores"].items():
        for method, (precision, recall, f1) in methods.items():
            assert f1 == pytest.approx(2 * precision * recall / (precision + recall), abs=0.06), (corpus, method)
    assert sum(own["count"] for own in tables.PUBLISHED["classes"].values()) == 9413
    assert all(found["feded"] < found["fedavg"] for found in tables.PUBLISHED["rounds"].values())
