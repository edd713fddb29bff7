from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.papers.modules import fixture_of, measured_of

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "papers" / "tagsets"
TYPES = ["a", "b", "c"]
TAG_SETS = {"one": ["a"], "two": ["b", "c"]}
Found = Mapping[str, Mapping[str, Sequence[int]]]  # by site and type: right, wrong, missed


paper, targets = fixture_of("tagsets.paper"), fixture_of("tagsets.targets")
measured, studies, summarise = fixture_of("tagsets.measured"), fixture_of("tagsets.studies"), fixture_of("summarise")


# Runs as `papers.measure` writes them.


def corpus() -> dict[str, Any]:
    part = {"sentences": 10, "mentions": {"a": 7, "b": 8}}
    sites = {site: {"scored": TYPES, "train": part, "dev": part, "test": part} for site in TAG_SETS}
    return {"types": TYPES, "sites": sites, "samplings": {"0": TAG_SETS}}


SITES = {name: corpus() for name in ("gum", "bio", "synthetic")}


def counts(percent: int) -> list[int]:
    """Counts of fifty mentions whose precision, recall and F1 are so many percent, an even number."""
    return [percent // 2, 50 - percent // 2, 50 - percent // 2]


def run_of(study: str, seed: int, found: Found, *, up: float = 1000.0, **more: Any) -> dict[str, Any]:
    sites = {site: {"types": {kind: {"strict": list(n)} for kind, n in kinds.items()}} for site, kinds in found.items()}
    return {
        **{"variation": study, "seed": seed, "tuned": "", "learning_rate": 0.1, "rounds": 25, "seconds": 1.0},
        **{"annotated": TAG_SETS, "sites": sites, "device": "cpu", "a_round": {"up": up, "down": 2 * up}},
        **{"network": {"parameters": 100_000, "trainable": 1000, "probe": [10, 64]}, **more},
    }


def scored(known: int, missing: int) -> Found:
    """Every annotated type at so many percent, every other at as many more or fewer."""
    return {s: {t: counts(known if t in own else missing) for t in TYPES} for s, own in TAG_SETS.items()}


def five(study: str, known: int, *missing: int, **more: Any) -> list[dict[str, Any]]:
    """Five samplings."""
    return [run_of(study, seed, scored(known, percent), **more) for seed, percent in enumerate(missing)]


def found_in(paper: ModuleType, runs: Sequence[dict[str, Any]]) -> Any:
    return measured_of(paper, runs, sites=SITES)


GAINS = [
    *five("gum-lora-full", 60, 40, 42, 44, 46, 48, up=8300.0),
    *five("gum-lora-no-weight", 60, 40, 40, 44, 44, 46, up=5600.0),
    *five("gum-lora-neither", 60, 20, 22, 20, 22, 20),
    *five("gum-lora-fedavg", 60, 20, 20, 20, 20, 20),
    *five("gum-lora-pooled", 60, 60, 60, 60, 60, 60),
]


# Scores.


def test_macro_is_over_types_then_over_sites(paper: ModuleType) -> None:
    found = {
        "one": {"a": counts(80), "b": counts(40), "c": counts(20)},
        "two": {"a": counts(10), "b": counts(60), "c": counts(70)},
    }
    got = found_in(paper, [run_of("gum-lora-full", 3, found)])
    # Not annotated: (40 + 20) / 2 at one, 10 at two. Annotated: 80 and (60 + 70) / 2. All: 140 / 3 at both.
    expected = {"missing": 0.20, "annotated": 0.725, "all": 1.4 / 3, "micro": 1.4 / 3}
    assert {m: got.scores("gum-lora-full", m) for m in expected} == {m: [pytest.approx(f)] for m, f in expected.items()}
    assert got.by_site("gum-lora-full", "missing") == {"one": pytest.approx(0.3), "two": pytest.approx(0.1)}


def test_a_type_with_four_mentions_is_chance(paper: ModuleType) -> None:
    found = {
        "one": {"a": [9, 0, 0], "b": [0, 0, 4], "c": [3, 0, 2]},
        "two": {"a": [1, 9, 3], "b": [9, 0, 0], "c": [9, 0, 0]},
    }
    got = found_in(paper, [run_of("gum-lora-full", 0, found)])
    # At one, b has four mentions and c an F1 of 6 / 8; at two, a has four: nothing is left there.
    assert got.scores("gum-lora-full", "missing") == [0.75]
    assert got.by_site("gum-lora-full", "micro")["two"] == pytest.approx(2 * 19 / (28 + 22))


def test_types_neither_annotated_nor_found_have_zero_counts(paper: ModuleType) -> None:
    run = run_of("gum-lora-full", 0, {"one": {"a": counts(80)}, "two": {"b": counts(60)}})
    brief = found_in(paper, [run]).studies["gum-lora-full"]
    assert brief["counts"]["one"] == {"a": [[40, 10, 10]], "b": [[0, 0, 0]], "c": [[0, 0, 0]]}


def test_types_are_counted_separately_where_annotated_and_where_not(paper: ModuleType) -> None:
    got = found_in(paper, five("gum-lora-full", 60, 20, 40))
    assert got.by_type("gum-lora-full") == {kind: (pytest.approx(0.6), pytest.approx(0.3)) for kind in TYPES}


def test_gains_compare_the_same_samplings(paper: ModuleType) -> None:
    runs = [*five("gum-lora-full", 60, 40, 50), run_of("gum-lora-fedavg", 1, scored(60, 20))]
    gain = found_in(paper, runs).gain("gum-lora-full", "gum-lora-fedavg")
    assert gain.mean == pytest.approx(0.3) and gain.seeds == 1 and gain.interval is None
    assert found_in(paper, runs[:2]).gain("gum-lora-full", "gum-lora-fedavg") is None


def test_intervals_are_those_of_the_mean(measured: ModuleType) -> None:
    spread = measured.Spread.of([0.2, 0.4])
    assert spread.mean == pytest.approx(0.3) and spread.interval == (0.2, 0.4)


def test_runs_of_one_study_must_have_one_rate(paper: ModuleType) -> None:
    runs = [run_of("gum-lora-full", seed, scored(60, 40), learning_rate=rate) for seed, rate in ((0, 0.1), (1, 0.2))]
    with pytest.raises(AssertionError, match="several rates"):
        found_in(paper, runs)


# Tables.


def test_table_1_has_the_published_mean(paper: ModuleType) -> None:
    lines = paper.score_table(found_in(paper, GAINS), "gum", "lora").splitlines()
    assert lines[0].startswith(
        "| method | one | two | mean | macro | annotated here | not annotated here | samplings |"
    )
    # At one a is annotated, at two b and c: (60 + 2 x 44) / 3 and (2 x 60 + 44) / 3.
    assert lines[2] == (
        "| Pseudo-complete, weighted | 49.3 | 54.7 | 52.0 | 52.0 | 60.0 | 44.0 (41.6 – 46.4) | 5 | 61.22 |"
    )
    assert lines[-1].endswith("| 60.0 (60.0 – 60.0) | 5 | – |") and len(lines) == 7
    assert paper.score_table(found_in(paper, GAINS), "gum", "prompt") == ""


def test_ablations_by_hand(paper: ModuleType) -> None:
    line = paper.ablation_table(found_in(paper, GAINS)).splitlines()[2]
    # Weighting: 0, 2, 0, 2, 2; distillation: 20, 18, 24, 22, 26.
    assert line.startswith("| GUM | LoRA | +24.0 (+21.6 to +26.4) | +22.0 (")
    assert "| +1.2 (+0.4 to +2.0) | – |" in line


def test_shares_of_one_place_by_hand(paper: ModuleType, targets: ModuleType) -> None:
    line = targets.recovered_table(found_in(paper, GAINS)).splitlines()[2]
    # 50, 51, 52, 53 and 54 of 60.
    assert line == "| GUM | LoRA | 87% | Pseudo-complete, weighted | 87% | 83% | 85% | 87% | 88% | 90% |"
    better = five("gum-lora-posterior", 60, 58, 58, 58)  # 59 of 60, in three samplings
    line = targets.recovered_table(found_in(paper, [*GAINS, *better])).splitlines()[2]
    assert line == "| GUM | LoRA | 87% | Posteriors | 98% | 98% | 98% | 98% | – | – |"
    assert targets.recovered_table(found_in(paper, GAINS[:-5])) == ""


def test_bytes_by_hand(paper: ModuleType) -> None:
    runs = [*GAINS, *five("gum-lora-ganin", 60, 40, up=6100.0), *five("gum-lora-hong", 60, 40, up=6300.0)]
    line = paper.bytes_table(found_in(paper, runs)).splitlines()[2]
    # 5,600 of 400,000 bytes; weighting adds 2,700 bytes for 10 x 64 numbers, discriminators 600 in the mean.
    assert line == "| GUM | LoRA | 100,000 | 1.00% | 5.6 KB | 1.40% | 2.7 KB | 640 | 600 B |"


def test_bytes_of_protected_updates_stand_beside_plain_ones(paper: ModuleType) -> None:
    runs = [run_of(f"weigh-lora-{way}", 0, scored(60, 40), up=2000.0) for way in ("masked", "sealed-masked")]
    lines = paper.protected_table(found_in(paper, runs)).splitlines()
    assert lines[2:] == ["| LoRA | – | 2.0 KB | – | 2.0 KB |"]


def test_figure_3_is_a_table_and_a_plot(paper: ModuleType, targets: ModuleType) -> None:
    runs = five("hidden-16", 60, 40, 42) + five("hidden-48", 60, 44, 46) + five("epochs-2", 60, 50)
    found = found_in(paper, runs)
    assert (
        paper.analysis_table(found, targets.BY_SIZE, "h")
        .splitlines()[2]
        .startswith("| 16 | 1.00% | 50.5 (50.0 – 51.0) | 50.5 | 41.0 (")
    )
    assert (
        paper.analysis_table(found, targets.BY_EPOCHS, "local epochs").splitlines()[2]
        == "| 2 | 1.00% | 55.0 | 55.0 | 50.0 | 1 |"
    )
    assert set(paper.plots(found)) == {"figure3a", "figure3b"}
    assert targets.BY_SIZE["hidden-128-slower"] == "128, rate × 48 / 128"
    both = found_in(paper, [*runs, *five("hidden-128-slower", 60, 44, 46)])
    drawn = [paper.figure3(which)["figure3a"].figure.axes[0].lines for which in (found, both)]
    assert len(drawn[1]) == 2 * len(drawn[0]) == 4
    assert set(paper.plots(found_in(paper, GAINS))) == {"methods-gum"}


# Bars.


def verdicts(targets: ModuleType, found: Any) -> list[str]:
    return [bar.verdict for bar in targets.bars(found)]


def test_targets_are_judged_on_the_best_family(paper: ModuleType, targets: ModuleType) -> None:
    worse = [*five("gum-prompt-full", 60, *[10] * 5), *five("gum-prompt-fedavg", 60, *[8] * 5)]
    found = found_in(paper, [*GAINS, *worse])
    assert found.best(["gum"], "fedavg") == ("gum", "lora")
    gain, order, recovered = (targets.bars(found)[place] for place in (2, 3, 5))
    assert gain.measured == "GUM, LoRA: +24.0 (+21.6 to +26.4) (44.0 and 20.0)" and gain.met
    assert order.measured.startswith("GUM, LoRA: 44.0, 42.8, 20.8; weighting +1.2 (") and order.met
    # 52.0 of 60.0.
    assert recovered.measured == "87%: gum-lora-full 52.0, gum-lora-pooled 60.0" and recovered.met
    assert verdicts(targets, found)[:2] == ["not measured"] * 2


def test_one_real_corpus_is_enough_and_both_must_fail_to_miss(paper: ModuleType, targets: ModuleType) -> None:
    small = [*five("bio-lora-full", 60, *[30] * 5), *five("bio-lora-fedavg", 60, *[24] * 5)]
    assert targets.bars(found_in(paper, [*GAINS, *small]))[2].met is True
    assert targets.bars(found_in(paper, small))[2].met is False
    assert targets.bars(found_in(paper, small[:4] + small[5:]))[2].verdict == "open"  # four samplings


def test_the_order_is_missed_where_weighting_harms(paper: ModuleType, targets: ModuleType) -> None:
    worse = five("gum-lora-full", 60, *[38] * 5)
    assert targets.bars(found_in(paper, [*worse, *GAINS[5:]]))[3].met is False


def test_uploads_are_shares_of_the_whole_network(paper: ModuleType, targets: ModuleType) -> None:
    found = targets.bars(found_in(paper, GAINS))
    # 8,300 bytes of 100,000 numbers in float32.
    assert [(bar.measured, bar.verdict) for bar in found[6:9]] == [
        ("–", "not measured"),
        ("GUM 2.08%", "missed"),
        ("–", "not measured"),
    ]


def test_weighting_may_send_ten_rows(paper: ModuleType, targets: ModuleType) -> None:
    assert targets.bars(found_in(paper, GAINS))[9].measured == "LoRA 10 × 64, 2,700 bytes"
    assert targets.bars(found_in(paper, GAINS))[9].met is True
    network = {"parameters": 100_000, "trainable": 1000, "probe": [11, 64]}
    large = [run | {"network": network} for run in GAINS]
    assert targets.bars(found_in(paper, large))[9].met is False
    heavy = [run | {"a_round": {"up": 9000.0, "down": 1.0}} for run in GAINS[:5]]
    assert targets.bars(found_in(paper, [*heavy, *GAINS[5:]]))[9].met is False


def test_targets_that_were_not_measured_are_not_met(paper: ModuleType, targets: ModuleType) -> None:
    assert not all(bar.met for bar in targets.bars(found_in(paper, [])))
    assert not all(bar.met for bar in targets.bars(found_in(paper, GAINS)))


def test_claims_are_judged_by_corpus_and_family(paper: ModuleType, targets: ModuleType) -> None:
    runs = [*GAINS, *five("gum-lora-peng", 60, *[50] * 5, up=6100.0)]
    told = targets.above_claim(found_in(paper, runs), ("ganin", "peng", "hong"))
    assert told == "GUM, LoRA: no (Pseudo-complete, weighted 52.0; Peng 2019 55.0)"
    assert targets.gains_claim(found_in(paper, runs), "full", "no-weight").startswith("GUM, LoRA +1.2 (")
    assert targets.bytes_claim(found_in(paper, GAINS)) == "bytes that weighting adds: LoRA 2,700"
    assert targets.bytes_claim(found_in(paper, runs)) == "bytes that weighting adds: LoRA 2,700 (discriminators 500)"


# The page.


def test_every_name_has_a_title(measured: ModuleType, studies: ModuleType) -> None:
    known = [*studies.VARIATIONS.values()]
    assert {v.method for v in known} <= measured.METHODS.keys()
    assert {v.corpus for v in known} == measured.CORPORA.keys() and {
        v.family for v in known
    } == measured.FAMILIES.keys()


def test_missing_studies_are_named(paper: ModuleType, studies: ModuleType) -> None:
    known = {name: {} for name, found in studies.VARIATIONS.items() if "gum-lora" in found.tables}
    del known["gum-lora-hong"]
    said = paper.missing_text(paper.Measured({"studies": known}))
    assert said.startswith("Not measured: all of tune-bilstm-crf; ") and "; of gum-lora gum-lora-hong; " in said
    assert paper.missing_text(paper.Measured({})) == ""


def test_the_table_of_rates_shows_the_tries(paper: ModuleType) -> None:
    brief = found_in(paper, [run_of("tune-lora-5e-3", 0, scored(60, 40))]).studies
    chosen = {"lora": {"rate": 5e-3, "trusted_after": 12}, "prompt": {"rate": 2e-3, "trusted_after": 0}}
    settings = {"trusted_after": 5, "gum_rounds": 15}
    known = {"chosen": chosen, "settings": settings, "studies": brief, "sites": SITES}
    assert paper.rates_table(paper.Measured(known)).splitlines()[2:] == [
        "| LoRA | 0.005 | GUM 7, biomedical 12, synthetic hospitals 12 | 5e-3: 40.0 |",
        "| prompt | 0.002 | GUM 5, biomedical 5, synthetic hospitals 5 | – |",
    ]


def test_tries_on_hospitals_are_sorted_by_score(paper: ModuleType) -> None:
    sites = SITES | {"synthetic": SITES["gum"]}
    names = {
        **{"tune-hospitals-posterior-0.002-5-4": 30, "tune-hospitals-posterior-0.005-12-2": 50},
        "tune-hospitals-pooled-0.01-24": 60,
    }
    runs = [run_of(name, seed, scored(60, f1)) for name, f1 in names.items() for seed in range(2)]
    assert paper.hospital_rates_table(measured_of(paper, runs, sites=sites)).splitlines()[2:] == [
        "| Posteriors | 0.005 | 12 | 2 | – | 55.0 |",
        "| Posteriors | 0.002 | 5 | 4 | – | 45.0 |",
        "| One place, complete annotation | 0.01 | – | – | 24 | 60.0 |",
    ]
    assert paper.hospital_rates_table(paper.Measured({})) == ""


def test_the_page_and_the_plots_are_filled_from_what_was_measured(
    paper: ModuleType, summarise: ModuleType, tmp_path: Path
) -> None:
    settings = {"gum_rounds": 25, "bio_rounds": 25, "synthetic_rounds": 25, "batch_size": 16}
    (tmp_path / "results.json").write_text(json.dumps({"settings": settings, "sites": SITES, "runs": GAINS}))
    (tmp_path / "chosen.json").write_text(json.dumps({"lora": {"rate": 1e-3, "trusted_after": 0}}))
    page, expected = tmp_path / "page.md", tmp_path / "expected.json"
    page.write_text((PAPER / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "papers.summarise", "tagsets", "--readme", str(page), "--expected", str(expected)]
    given = [str(tmp_path / "results.json"), "--chosen", str(tmp_path / "chosen.json")]
    subprocess.run([*command, *given], check=True, cwd=ROOT)
    once = page.read_text(encoding="utf-8")
    assert summarise.filled(paper.PAPER, once, json.loads(expected.read_text())) == once
    assert "| one | 10 | 10 | 7 / 7 | 8 / 8 | 0 / 0 |" in once and "| 0 | a | b, c |" in once
    assert "Rounds: GUM 25, biomedical 25, synthetic hospitals 25. Batches of 16. Measured on: cpu." in once
    assert {path.name for path in tmp_path.glob("*.svg")} == {"methods-gum.svg"}
    assert once.count("(methods-gum.svg)") == 1


def test_what_was_published_is_as_the_paper_has_it(paper: ModuleType) -> None:
    for corpus_, methods in paper.PUBLISHED["scores"].items():
        for method, (*sites, mean) in methods.items():
            assert len(sites) == len(paper.PUBLISHED["domains"][corpus_]["sites"])
            assert mean == pytest.approx(sum(sites) / len(sites), abs=0.011), (corpus_, method)
