from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tomli_w
from tests.papers.modules import fixture_of, measured_of

from wardround.corpora.jsonl import Jsonl
from wardround.studies.assemble import model_of
from wardround.studies.study_file import parse_study, read_study
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_sets import TagSet

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "papers" / "fedner"


studies, paper = fixture_of("fedner.studies"), fixture_of("fedner.paper")


def described(train: int, **sites: Any) -> dict[str, Any]:
    sizes = {part: {"sentences": train, "mentions": 0} for part in ("train", "dev", "test")}
    return {name: {**site, **sizes} for name, site in sites.items()}


def every_group(studies: ModuleType, train: int) -> dict[str, Any]:
    """The five sites of the committed study under every name of a group."""
    table = tomllib.loads((PAPER / "fedner.toml").read_text(encoding="utf-8"))["sites"]
    five = {name: {"types": site["types"], "scheme": site["scheme"]} for name, site in table.items()}
    one = {name: {"types": ["GENE"], "scheme": "BIO"} for name in five}
    groups = {v.group for v in studies.VARIATIONS.values()}
    return {group: described(train, **(five if group.startswith("five") else one)) for group in groups}


def test_the_committed_study_is_the_one_measured(studies: ModuleType) -> None:
    folder = PAPER / "../../runs/fedner/sites"
    sites = studies.Sites(folder, every_group(studies, 1000))
    made = studies.FedNer(studies.Settings(), sites).study(studies.VARIATIONS["fedner"], 0)
    assert parse_study(tomli_w.dumps(made)) == read_study(PAPER / "fedner.toml")


def test_every_variation_is_a_study(studies: ModuleType, tmp_path: Path) -> None:
    sites = studies.Sites(tmp_path, every_group(studies, 100))
    for variation in studies.VARIATIONS.values():
        study = parse_study(tomli_w.dumps(studies.FedNer(studies.Settings(), sites).study(variation, 1)))
        assert (study.study.seed, study.algorithm.name) == (1, variation.algorithm)
    assert len(studies.VARIATIONS) == 44


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("share-embeddings", {"words", "characters"}),
        ("fedner", {"words", "characters", "word_cnn"}),
        ("share-lstm", {"words", "characters", "word_cnn", "lstm"}),
        ("share-everything", {"words", "characters", "word_cnn", "lstm", "output", "crf"}),
        ("fedner-lstm-crf", {"words"}),
        ("single-elmoner", set()),
        ("pooled", {"words", "characters", "word_cnn", "lstm"}),
    ],
)
def test_what_each_variation_shares(studies: ModuleType, tmp_path: Path, name: str, shared: set[str]) -> None:
    sites = studies.Sites(tmp_path, every_group(studies, 100))
    made = studies.FedNer(studies.Settings(encoder=""), sites).study(studies.VARIATIONS[name], 0)
    del made["model"]["vectors"]
    study = parse_study(tomli_w.dumps(made))
    model = model_of(study, TagSet(study.sites["ade"].types), scheme=study.sites["ade"].scheme)
    assert set(model.split.shared) == shared


def test_rounds_and_steps_by_hand(studies: ModuleType, tmp_path: Path) -> None:
    sweep = studies.FedNer(studies.Settings(epochs=4), studies.Sites(tmp_path, every_group(studies, 64)))
    kinds = studies.VARIATIONS
    rounds = {name: sweep.rounds(kinds[name]) for name in ("fedner", "fedavg", "pooled")}
    assert rounds == {"fedner": 10, "fedavg": 4, "pooled": 10}  # 4 · 5 · 64 / 128
    alone = sweep.study(kinds["share-nothing"], 0)["training"]
    assert (alone["batch_size"], alone["learning_rate"]) == (26, 0.004)  # 128 / 5
    own = sweep.study(kinds["single-elmoner"], 0)["training"]
    assert (own["batch_size"], own["learning_rate"]) == (16, 0.002)


def test_a_table_needs_its_studies(studies: ModuleType, tmp_path: Path) -> None:
    sweep = studies.FedNer(studies.Settings(), studies.Sites(tmp_path, every_group(studies, 100)))
    assert {run.variation for run in sweep.runs(["gap"], [0])} == {"single-elmoner", "fedner", "pooled"}


# Summaries.


def run_of(variation: str, seed: int, counts: dict[str, tuple[int, int, int]], tuned: str = "") -> dict[str, Any]:
    def figures(tp: int, fp: int, fn: int) -> dict[str, Any]:
        return {"tp": tp, "fp": fp, "fn": fn, "interval": [0.25, 0.75]}

    sites = {site: {"strict": figures(*c), "relaxed": figures(*c), "types": {}} for site, c in counts.items()}
    numbers = {"dev_f1": 0.5, "rounds": 3, "best_round": 2, "seconds": 1.0, "bytes_down": 10, "bytes_up": 2_000_000}
    return {"variation": variation, "seed": seed, "tuned": tuned, "device": "cpu", **numbers, "sites": sites}


def five_of(paper: ModuleType, tp: int) -> dict[str, tuple[int, int, int]]:
    return {site: (tp, 100 - tp, 100 - tp) for site in paper.FIVE}  # F1 is tp percent


def gap_runs(paper: ModuleType) -> list[dict[str, Any]]:
    scores = {"single-elmoner": (50, 52), "fedner": (56, 60), "pooled": (60, 62)}
    return [run_of(name, seed, five_of(paper, tp)) for name, found in scores.items() for seed, tp in enumerate(found)]


def test_the_gap_by_hand(paper: ModuleType) -> None:
    runs = [*gap_runs(paper), run_of("fedner", 0, five_of(paper, 99), tuned="x=1")]
    lines = paper.gap(measured_of(paper, runs)).splitlines()
    # (58 − 51) / (61 − 51) = 70%; seed 0 alone 6 / 10, seed 1 alone 8 / 10.
    cells = "51.0 (50.0 – 52.0) | 58.0 (56.0 – 60.0) | 61.0 (60.0 – 62.0) | +7.0 [+6.0, +8.0] | 70% [60, 80]"
    assert lines[2] == f"| mean | {cells} | – |"
    assert lines[3] == f"| ade | {cells} | 25.0 – 75.0 |"


def test_scores_are_means_over_sites_of_f1(paper: ModuleType) -> None:
    measured = measured_of(paper, [run_of("fedner", 0, {"a": (1, 1, 1), "b": (3, 1, 1)})])
    assert measured.f1("fedner") == [62.5]  # 50 and 75
    assert measured.f1("fedner", site="b") == [75.0]


def test_studies_are_compared_over_the_seeds_they_have_in_common(paper: ModuleType) -> None:
    runs = [run_of("bc2gm-single", seed, {"a": (tp, 100 - tp, 100 - tp)}) for seed, tp in enumerate((50, 60))]
    runs += [run_of("bc2gm-pooled", 1, {"all": (80, 20, 20)}), run_of("bc2gm-everything", 1, {"a": (75, 25, 25)})]
    lines = paper.one_corpus(measured_of(paper, runs), "bc2gm").splitlines()
    assert lines[2:] == [
        "| single | 55.0 (50.0 – 60.0) | 55.0 (50.0 – 60.0) | – | – |",
        "| FedNER, everything | 75.0 | 75.0 | +15.0 [+15.0, +15.0] | 75% [75, 75] |",
        "| pooled | 80.0 | 80.0 | +20.0 [+20.0, +20.0] | – |",
    ]


def test_where_pooling_gains_nothing_there_is_no_gap(paper: ModuleType) -> None:
    assert paper.closed([50.0], [51.0], [50.0]) == "–"


def test_the_page_is_filled_between_its_markers(paper: ModuleType, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"settings": {}, "sites": {}, "runs": gap_runs(paper)}))
    page, expected = tmp_path / "page.md", tmp_path / "expected.json"
    page.write_text((PAPER / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "papers.summarise", "fedner", "--readme", str(page), "--expected", str(expected)]
    subprocess.run([*command, str(results)], check=True, cwd=ROOT)
    once = page.read_text(encoding="utf-8")
    subprocess.run(command, check=True, cwd=ROOT)
    assert page.read_text(encoding="utf-8") == once
    assert "| FedNER | 58.0 (56.0 – 60.0) |" in once and "| FedNER | 65.16 | 84.55 |" in once
    assert json.loads(expected.read_text())["studies"]["pooled"]["sites"]["ade"]["strict"] == [
        [60, 40, 40],
        [62, 38, 38],
    ]


def test_the_published_table_has_its_eight_rows(paper: ModuleType) -> None:
    assert len(paper.PUBLISHED) == 8
    assert all(
        strict < relaxed
        for figures in paper.PUBLISHED.values()
        for strict, relaxed in zip(figures[::2], figures[1::2], strict=True)
    )


# From sites to results.


@pytest.fixture(scope="module")
def tiny_sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sites")
    text = "aspirin helps"
    notes = [Document(f"n{n}", text, (Entity("T1", "Drug", (Range(0, 7),)),)) for n in range(8)]
    for name in ("ade", "anatem"):
        for part in ("train", "dev", "test"):
            Jsonl().write(notes, folder / "five" / name / f"{part}.jsonl.gz")
    site = {"types": ["Drug"], "scheme": "BIO"}
    (folder / "sites.json").write_text(json.dumps({"five": described(8, ade=site, anatem=site)}))
    np.savez(folder / "five.npz", words=np.array(["aspirin", "helps"]), vectors=np.ones((2, 4), np.float32))
    return folder


RATE = ("--set", "shared_learning_rate=0.02")


def command(sites: Path, out: Path, *more: str) -> list[str]:
    asked = ["--sites", str(sites), "--out", str(out), "--seeds", "0", "--device", "cpu", "--tiny", *more]
    return [sys.executable, "-m", "papers.measure", "fedner", *asked]


def test_runs_are_listed_before_they_are_run(tiny_sites: Path, tmp_path: Path) -> None:
    asked = command(tiny_sites, tmp_path, "--only", "gap", "--dry-run")
    said = subprocess.run(asked, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert "3 runs, 0 of them finished before" in said and "fedner-seed-0" in said
    assert not list(tmp_path.iterdir())


def test_values_to_be_tried_give_a_run_each(tiny_sites: Path, tmp_path: Path) -> None:
    tune = ("--tune", "shared_learning_rate=1e-3,4e-3")
    asked = command(tiny_sites, tmp_path, "--only", "fedner", "--seeds", "0,1", *tune, "--dry-run")
    said = subprocess.run(asked, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert sorted(line.split()[-1] for line in said.splitlines()[2:]) == [
        f"fedner-shared_learning_rate-{value}-seed-{seed}" for value in ("1e-3", "4e-3") for seed in (0, 1)
    ]


@pytest.mark.slow
def test_a_measurement_ends_in_results_and_repeats_nothing(tiny_sites: Path, tmp_path: Path) -> None:
    for finished in ("0", "1"):
        asked = command(tiny_sites, tmp_path, "--only", "fedner", "--set", "rounds=20", *RATE)
        said = subprocess.run(asked, check=True, capture_output=True, text=True, cwd=ROOT).stdout
        assert f"1 runs, {finished} of them finished before" in said
    (run,) = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert (run["variation"], run["seed"], run["rounds"], run["device"]) == ("fedner", 0, 20, "cpu")
    assert set(run["sites"]) == {"ade", "anatem"} and run["bytes_up"] > 0
    counts = run["sites"]["ade"]["strict"]
    assert (counts["tp"], counts["fp"], counts["fn"]) == (8, 0, 0)  # two words can be learned
    left = {path.name for path in (tmp_path / "fedner-seed-0").iterdir()}
    assert left == {"asked.toml", "study.toml", "events.jsonl", "scores.json", "summary.json", "log.txt", "sites"}
    assert {path.name for path in (tmp_path / "fedner-seed-0" / "sites").glob("*/*")} == {"note-counts.json"}


def test_results_of_other_settings_are_not_added_to(tiny_sites: Path, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"settings": {}, "sites": {}, "runs": []}))
    asked = command(tiny_sites, tmp_path, "--only", "fedner")
    ended = subprocess.run(asked, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 1 and "other settings or sites" in ended.stderr
