from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.papers.modules import fixture_of, measured_of

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "papers" / "fedhe"
Counts = tuple[int, int, int]


paper, overheads = fixture_of("fedhe.paper"), fixture_of("fedhe.overheads")


def percent(tp: int) -> Counts:
    """Counts whose F1 is `tp` percent."""
    return tp, 100 - tp, 100 - tp


def run_of(study: str, seed: int, *scores: tuple[Counts, Counts], rate: float = 2e-5) -> dict[str, Any]:
    """A run with a (training, test) pair for each client."""
    sites = {
        f"client-{number:02}": {
            "strict": {**dict(zip(("tp", "fp", "fn"), test, strict=True)), "interval": [0.25, 0.75]},
            "training": list(training),
        }
        for number, (training, test) in enumerate(scores, start=1)
    }
    figures = {"dev_f1": 0.5, "rounds": 5, "best_round": 5, "seconds": 1.0, "bytes_down": 10, "bytes_up": 40_000_000}
    own = {"variation": study, "seed": seed, "tuned": "", "learning_rate": rate, "device": "cpu"}
    return {**own, **figures, "clipped": 0, "sites": sites}


def measured(paper: ModuleType, *runs: dict[str, Any]) -> Any:
    return measured_of(paper, runs)


def test_single_clients_are_scored_separately_and_federated_ones_together(paper: ModuleType) -> None:
    two = [(percent(90), percent(50)), (percent(80), percent(60))]
    found = measured(paper, run_of("bc2gm-minilm-single", 0, *two), run_of("bc2gm-minilm-fedhe", 0, *two))
    assert found.f1("bc2gm-minilm-single", "test") == [0.5, 0.6]
    assert found.f1("bc2gm-minilm-fedhe", "test") == [pytest.approx(0.55)]  # 110 of 200
    assert found.f1("bc2gm-minilm-fedhe", "training") == [pytest.approx(0.85)]


def test_table_4_by_hand(paper: ModuleType) -> None:
    runs = [run_of("bc2gm-bert-tiny-fedhe", seed, (percent(80), percent(tp))) for seed, tp in enumerate((50, 60))]
    runs.append(run_of("bc5cdr-bert-tiny-fedhe", 0, (percent(70), percent(40))))
    lines = paper.table4(measured(paper, *runs)).splitlines()
    # The deviation of 0.5 and 0.6 is 0.1 / √2.
    ours = "0.800 ± 0.000 | 0.550 ± 0.071 | 0.700 | 0.400"
    assert lines[2:] == [f"| BERT-tiny | FedHE | {ours} | 0.744 ± 0.005 | 0.604 ± 0.010 |"]


def test_a_chosen_rate_is_shown(paper: ModuleType) -> None:
    run = run_of("bc5cdr-bert-small-central-chosen", 0, (percent(70), percent(40)), rate=3e-4)
    lines = paper.table4_chosen(measured(paper, run)).splitlines()
    assert lines[2:] == ["| BERT-small | 0.0003 | Central | – | – | 0.700 | 0.400 |"]


def test_sealed_and_plain_are_compared_over_the_seeds_both_have(paper: ModuleType) -> None:
    runs = [run_of("bc2gm-minilm-federated", seed, (percent(90), percent(tp))) for seed, tp in enumerate((50, 70))]
    runs.append(run_of("bc2gm-minilm-fedhe", 1, (percent(90), percent(69))))
    lines = paper.sealed_beside_plain(measured(paper, *runs)).splitlines()
    assert lines[2:] == ["| BC2GM | MiniLM | 0.700 | 0.690 | -0.0100 | 0.250 – 0.750 |"]


def test_many_clients_and_mechanisms_by_hand(paper: ModuleType) -> None:
    pair = (percent(90), percent(60))
    found = measured(
        paper,
        run_of("bc5cdr-bert-mini-federated-chosen", 0, pair, pair),
        run_of("bc5cdr-22-skewed-bert-mini-fedhe", 0, *[pair] * 22),
        run_of("bc5cdr-4-bert-tiny-sealed-masked", 0, *[pair] * 4),
    )
    assert paper.clients(found).splitlines()[2:] == [
        "| 2 | 0.900 | 0.600 | – | – |",
        "| 22, non-IID | – | – | 0.900 | 0.600 |",
    ]
    # 40 MB over 5 rounds and 4 clients.
    assert paper.mechanisms(found).splitlines()[2:] == ["| sealed+masked | 0.900 | 0.600 | 2.0 |"]


def test_runs_of_one_study_must_have_one_rate(paper: ModuleType) -> None:
    pair = (percent(90), percent(60))
    runs = [run_of("bc5cdr-bert-mini-fedhe-chosen", seed, pair, rate=rate) for seed, rate in ((0, 1e-3), (1, 1e-4))]
    with pytest.raises(AssertionError, match="several rates"):
        measured(paper, *runs)


OVERHEADS = {
    "machine": "a machine",
    "networks": {
        "bert-tiny": {
            "parameters": 1_000_000,
            "ways": {
                "bfv": {"bytes": 4_040_000, "seal": [1.0, 2.0, 3.0], "open": [0.5, 0.5, 0.5], "largest_error": 0.0},
                "ckks": {"bytes": 80_000_000, "seal": [8.0], "open": [2.0], "largest_error": 0.0},
            },
            "aggregation": {
                "bfv": [{"clients": 2, "seconds": 0.21, "peak_mb": 100}, {"clients": 22, "seconds": 2, "peak_mb": 100}],
                "ckks": [{"clients": 22, "seconds": 14.0, "peak_mb": 1500}],
            },
        }
    },
}


def test_overheads_by_hand(paper: ModuleType) -> None:
    found = paper.Measured({"overheads": OVERHEADS})
    assert paper.sizes(found).splitlines()[2] == (
        "| BERT-tiny | 1,000,000 | 4.0 MB | 4.0 MB (1.01×) | – | 80.0 MB (20.00×) | 16 MB | 340 MB |"
    )
    # The 99th percentile of 1, 2, 3 lies 0.98 of the way from 2 to 3.
    assert paper.times(found).splitlines()[2:] == [
        "| BERT-tiny | BFV | 3 | 2.000 | 1.000 | 2.980 | 0.500 | 0.000 | 0.500 |",
        "| BERT-tiny | CKKS | 1 | 8.000 | – | 8.000 | 2.000 | – | 2.000 |",
        "| BERT-tiny | published | – | 8.016 | 0.133 | 8.484 | 2.179 | 0.053 | 2.337 |",
    ]
    assert paper.aggregation(found).splitlines()[2:] == [
        "| BERT-tiny | 2 | 0.2 s, 100 MB | – | – | – |",
        "| BERT-tiny | 22 | 2.0 s, 100 MB | – | 14.0 s, 1,500 MB | about 20 s |",
        "",
        "![figure1-seconds](figure1-seconds.svg)",
        "![figure1-memory](figure1-memory.svg)",
    ]


def test_the_page_and_the_plots_are_filled_from_what_was_measured(paper: ModuleType, tmp_path: Path) -> None:
    results, overheads = tmp_path / "results.json", tmp_path / "overheads.json"
    pair = (percent(90), percent(60))
    runs = [run_of(f"bc2gm-{study}", 0, pair) for study in ("bert-mini-central", "minilm-fedhe")]
    head = {"settings": {"rounds": 5}, "sites": {"bc2gm-2": {"client-01": {}, "client-02": {}}}}
    results.write_text(json.dumps({**head, "runs": runs}))
    overheads.write_text(json.dumps(OVERHEADS))
    page, expected = tmp_path / "page.md", tmp_path / "expected.json"
    page.write_text((PAPER / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "papers.summarise", "fedhe", "--readme", str(page), "--expected", str(expected)]
    subprocess.run([*command, str(results), "--overheads", str(overheads)], check=True, cwd=ROOT)
    once = page.read_text(encoding="utf-8")
    subprocess.run(command, check=True, cwd=ROOT)
    assert page.read_text(encoding="utf-8") == once
    assert "| BERT-mini | Central | 0.900 | 0.600 | – | – | 0.995 ± 0.001 | 0.763 ± 0.010 |" in once
    assert "| BERT-tiny | 22 | 2.0 s, 100 MB |" in once
    assert json.loads(expected.read_text())["sites"] == {"bc2gm-2": 2}
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        *("figure1-seconds.svg", "figure1-memory.svg", "table4-bc2gm.svg")
    }
    assert once.count("table4-bc2gm.svg") == 1 and "table4-bc5cdr" not in once


def test_what_was_published_is_as_the_paper_has_it(paper: ModuleType) -> None:
    gains = {network: rows["fedhe"][1][0] - rows["federated"][1][0] for network, rows in paper.PUBLISHED["f1"].items()}
    assert gains == {"bert-tiny": pytest.approx(-0.009), "bert-mini": pytest.approx(0.036)}
    assert all(mean < last for rows in paper.PUBLISHED["times"].values() for mean, _, last in rows.values())


@pytest.mark.parametrize(("way", "error"), [("bfv", 2e-7), ("bfv-compact", 2e-5), ("ckks", 1e-6)])
def test_an_encrypted_update_is_decrypted(overheads: ModuleType, way: str, error: float) -> None:
    pytest.importorskip("tenseal")
    found = overheads.cost(way, 6 * 4096, 2)
    assert 0 < found["largest_error"] < error
    assert len(found["seal"]) == len(found["open"]) == 2
    # Two numbers a word fill three blocks of 4096 words, three a word two; a block has 32,972 bytes and its length, and
    # an update a tag of eight.
    blocks = {"bfv": 3, "bfv-compact": 2}
    if way in blocks:
        assert found["bytes"] == blocks[way] * (32_972 + 4) + 8
    else:
        assert 18 < found["bytes"] / (4 * 6 * 4096) < 22


def test_a_coordinator_needs_no_more_memory_for_more_clients(overheads: ModuleType) -> None:
    pytest.importorskip("tenseal")
    two, many = overheads.aggregation("bfv", 200_000, [2, 40])
    assert (two["clients"], many["clients"]) == (2, 40)
    assert many["seconds"] > two["seconds"] and many["peak_mb"] <= 1.1 * two["peak_mb"]


def test_parameters_are_those_of_the_whole_tagger(overheads: ModuleType) -> None:
    # 30522 + 512 + 2 rows, a norm; 12 · 768² and 13 · 768 a layer, 12 of them; 3 tags.
    base = (30522 + 512 + 2) * 768 + 2 * 768 + 12 * (12 * 768**2 + 13 * 768) + 3 * 769
    assert overheads.parameters_of("bert-base") == base
