from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tomli_w
from tests.papers.modules import fixture_of

from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pair_tsv import PairTsv
from wardround.studies.study_file import parse_study, read_study
from wardround.text.document import Document

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "papers" / "feded"
METHODS = ("fedavg", "fedatt", "feded", "feded-3", "feded-5", "public", "central")
RATES = dict.fromkeys(METHODS, 1e-4) | {"central": 2e-4}


studies, make_sites, paper = fixture_of("feded.studies"), fixture_of("feded.make_sites"), fixture_of("feded.paper")


def sizes(train: int, public: int, test: int) -> dict[str, Any]:
    parts = {"train": train, "public": public, "test": test}
    return {name: {"documents": count, "pairs": count} for name, count in parts.items()}


ASSOCIATION = {"kind": "relations", "directed": False, "level": "mention", "relations": {"association": []}}


def described(sites: int = 50, *, seeds: int = 2) -> dict[str, Any]:
    draws = {f"seed-{seed}": sizes(1000, 200, 100) for seed in range(seeds)} | {"tune": sizes(900, 180, 100)}
    return {"task": ASSOCIATION, "sites": sites, "draws": draws}


@pytest.fixture
def draws(make_sites: ModuleType, tmp_path: Path) -> Any:
    return make_sites.Draws(tmp_path, {corpus: described() for corpus in ("gad", "euadr", "biored")})


def pairs(count: int, folder: Path) -> list[Document]:
    """Sentences that say which of them have a relation."""
    said = ("a variant of @GENE$ goes with @DISEASE$", "no link of @GENE$ to @DISEASE$")
    lines = [f"{said[n % 2]} in cohort {n}\t{1 - n % 2}" for n in range(count)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    return list(PairTsv().read(folder / "pairs.tsv"))


def ids(documents: Any) -> list[str]:
    return sorted(document.id for document in documents)


# Sites.


def test_a_fifth_is_public_and_the_rest_goes_to_one_site_each(make_sites: ModuleType, tmp_path: Path) -> None:
    found = pairs(60, tmp_path)
    parts = make_sites.Parts(make_sites._ASSOCIATION, found[:50], found[50:])
    counts = make_sites.write_draw(parts, tmp_path / "draw", sites=4, seed=3)
    read = {path.parent.name: list(Jsonl().read(path)) for path in tmp_path.glob("draw/sites/*/train.jsonl")}
    public = list(Jsonl().read(tmp_path / "draw" / "public.jsonl"))
    assert {name: len(documents) for name, documents in read.items()} == dict.fromkeys(make_sites.site_names(4), 10)
    assert ids([*public, *(d for documents in read.values() for d in documents)]) == ids(found[:50])
    assert ids(Jsonl().read(tmp_path / "draw" / "all" / "all" / "train.jsonl")) == ids(found[:50])
    assert list(Jsonl().read(tmp_path / "draw" / "test.jsonl")) == found[50:]
    assert {name: part["pairs"] for name, part in counts.items()} == {"train": 50, "public": 10, "test": 10}


def test_rates_are_chosen_on_no_pair_that_is_tested(make_sites: ModuleType, tmp_path: Path) -> None:
    found = pairs(60, tmp_path)
    tuned = make_sites.tuning(make_sites.Parts(make_sites._ASSOCIATION, found[:50], found[50:]))
    assert (len(tuned.train), len(tuned.test)) == (45, 5)
    assert ids([*tuned.train, *tuned.test]) == ids(found[:50])


@pytest.mark.corpus
def test_a_seed_goes_with_a_fold(make_sites: ModuleType, shared_data: Path) -> None:
    first, sixth, second = (make_sites.read(shared_data, "gad", seed) for seed in (0, 5, 1))
    assert (len(first.train), len(first.test)) == (4796, 534)
    assert ids(sixth.test) == ids(first.test)
    assert {document.text for document in second.test} != {document.text for document in first.test}
    assert 35 <= len(make_sites.read(shared_data, "euadr", 9).test) <= 37


# Studies.


def studies_of(studies: ModuleType, draws: Any) -> dict[str, Any]:
    sweep = studies.FedEd(studies.Settings(), draws, {"rates": RATES})
    return {name: sweep.study(variation, 0) for name, variation in studies.VARIATIONS.items()}


def test_every_variation_is_a_study(studies: ModuleType, draws: Any) -> None:
    made = studies_of(studies, draws)
    for table in made.values():
        parse_study(tomli_w.dumps(table))
    # 7 methods with 3 rates; 10, 8 and 6 methods; 3 methods with 4 C and with 3 B and 2 E; 10 ways on 3 corpora.
    assert len(made) == 21 + 24 + 3 * (4 + 6) + 30


def test_methods_differ_in_their_algorithm_and_rate_alone(studies: ModuleType, draws: Any) -> None:
    made = studies_of(studies, draws)
    three = [made[f"gad-{method}"] for method in ("fedavg", "fedatt", "feded")]
    assert [study["algorithm"].pop("name") for study in three] == ["fedavg", "fedatt", "feded"]
    expected = {"rounds": 20, "participation": 0.1, "local_epochs": 2, "keep_moments": False}
    assert all(study["algorithm"] == expected and len(study["sites"]) == 50 for study in three)
    assert len({json.dumps(study["training"]) for study in three}) == 1
    assert [("public" in study) for study in three] == [False, False, True]


def test_feded_is_the_papers_or_leaves_labels_out_after_some_rounds(studies: ModuleType, draws: Any) -> None:
    made = studies_of(studies, draws)
    plain, three = made["gad-feded"]["algorithm"], made["gad-feded-3"]["algorithm"]
    assert three == {**plain, "label_rounds": 3, "distillation_batch": 16}
    assert made["race-feded-3-c0.5"]["algorithm"] == {**three, "participation": 0.5}


def test_central_and_single_are_one_site(studies: ModuleType, draws: Any) -> None:
    made = studies_of(studies, draws)
    assert list(made["gad-central"]["sites"]) == ["all"]
    assert [list(made[f"gad-single-{number}"]["sites"]) for number in (1, 3)] == [["site-001"], ["site-003"]]
    assert made["gad-single-2"]["training"]["learning_rate"] == RATES["central"]
    assert made["gad-central"]["algorithm"]["keep_moments"]


def test_bytes_of_plain_updates_are_counted_after_a_full_round(studies: ModuleType, draws: Any) -> None:
    made = studies_of(studies, draws)
    work = {name: study["algorithm"].get("local_steps") for name, study in made.items() if name.startswith("weigh-gad")}
    assert [name for name, steps in work.items() if steps is None] == [
        "weigh-gad-fedavg-plain",
        "weigh-gad-fedatt-plain",
    ]
    assert {steps for steps in work.values() if steps} == {1}


def test_the_committed_study_is_the_one_measured(studies: ModuleType, make_sites: ModuleType) -> None:
    there = make_sites.Draws(PAPER / "../../runs/feded/sites", {"gad": described()})
    chosen = json.loads((PAPER / "chosen.json").read_text()) if (PAPER / "chosen.json").is_file() else {}
    rates = chosen.get("rates", {"feded": 2e-5})
    expected = PAPER / "expected.json"
    known = json.loads(expected.read_text()).get("settings", {}) if expected.is_file() else {}
    settings = studies.Settings(**known)
    made = studies.FedEd(settings, there, {"rates": rates}).study(studies.VARIATIONS["gad-feded"], 0)
    assert parse_study(tomli_w.dumps(made)) == read_study(PAPER / "feded.toml")


# Runs.


def test_a_table_that_needs_a_choice_waits_for_it(studies: ModuleType, draws: Any) -> None:
    without, rates, both = (
        studies.FedEd(studies.Settings(), draws, chosen)
        for chosen in ({}, {"rates": RATES}, {"rates": RATES, "target": 0.75})
    )
    with pytest.raises(
        SystemExit, match="no rate was chosen for central, fedatt, fedavg, feded, feded-3, feded-5, public"
    ):
        without.runs(["table3"], [0])
    with pytest.raises(SystemExit, match="no target F1 was chosen"):
        rates.runs(["figure2"], [0])
    assert len(without.runs(["tune"])) == 21
    raced = both.runs(["table8"])
    assert len(raced) == 18 and all(run.own_options[-2:] == ["--target", "0.75"] for run in raced)


def test_the_guess_by_hand(studies: ModuleType, draws: Any) -> None:
    guess = studies.FedEd(studies.Settings(gad_rounds=10), draws).estimate(studies.VARIATIONS["gad-feded"], 0)
    # 5 sites, 2 epochs of 800 / 50 pairs in batches of 4; 200 public pairs in batches of 4, predicted 7 times.
    a_round = 5 * 2 * 4 * 0.02 + 5 * 0.3 + 50 * 0.02 + 7 * 200 * 0.0005
    assert guess == pytest.approx(30 + 10 * (a_round + 100 * 0.0008))


def tuned(study: str, *f1: float, **more: Any) -> dict[str, Any]:
    curve = [{"round": number, "f1": score} for number, score in enumerate(f1, start=1)]
    return {"variation": study, "seed": 0, "tuned": "", "device": "cpu", "curve": curve, **more}


def test_the_rate_with_the_best_last_rounds_is_chosen(paper: ModuleType) -> None:
    scores = {"4e-5": (0.9, 0.5, 0.5, 0.5), "1e-4": (0.1, 0.5, 0.6, 0.7), "2.5e-4": (0.1, 0.7, 0.5, 0.5)}
    runs = [tuned(f"tune-{method}-{rate}", *f1) for method in METHODS for rate, f1 in scores.items()]
    known = {"target": 0.5}
    assert paper.choose_rates(runs, {}, known) == {"rates": dict.fromkeys(METHODS, 1e-4), **known}
    runs[-1]["cut_off"] = True
    with pytest.raises(SystemExit, match=r"tune-central-2\.5e-4 is not among the finished runs"):
        paper.choose_rates(runs, {}, {})


def test_the_target_lies_between_calling_all_related_and_fedavg(paper: ModuleType) -> None:
    runs = []
    for f1 in (0.70, 0.80, 0.90):
        run = tuned("gad-fedavg", f1, tested=100, f1=f1)
        run["curve"][-1]["types"] = {"association": [40, 30, 10]}
        runs.append(run)
    # 50 of 100 pairs are related: all of them called so, precision is a half and F1 two thirds.
    assert paper.all_related_f1(runs[0]) == pytest.approx(2 / 3)
    target = round(2 / 3 + 0.75 * (0.8 - 2 / 3), 3)
    assert paper.choose_target(runs, {}, {"rates": RATES}) == {"rates": RATES, "target": target}


# One run.


def small_study(tmp_path: Path, *, rounds: int) -> Path:
    """Three sites of four pairs each, and a public set."""
    found, folder = pairs(24, tmp_path), tmp_path / "run"
    folder.mkdir()
    for number in range(3):
        Jsonl().write(found[4 * number : 4 * number + 4], tmp_path / f"site-{number}" / "train.jsonl")
        Jsonl().write(found[4 * number : 4 * number + 1], tmp_path / f"site-{number}" / "dev.jsonl")
    Jsonl().write(found[12:18], tmp_path / "public.jsonl")
    Jsonl().write(found[18:], tmp_path / "test.jsonl")
    sites = {f"site-{n}": {"data": str(tmp_path / f"site-{n}"), "format": "jsonl"} for n in range(3)}
    study = {
        "study": {"name": "small", "seed": 0},
        "task": ASSOCIATION,
        "public": {"data": str(tmp_path / "public.jsonl"), "format": "jsonl"},
        "model": {"encoder": "bert-tiny"},
        "algorithm": {"name": "feded", "rounds": rounds, "local_epochs": 1, "participation": 0.5},
        "training": {"batch_size": 4, "learning_rate": 1e-3, "schedule": "constant"},
        "privacy": {"mechanism": "plain", "minimum_sites": 1},
        "evaluation": {"every": rounds},
        "sites": sites,
    }
    (folder / "asked.toml").write_text(tomli_w.dumps(study))
    return folder


def one_run(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(PAPER / "one_run.py"), str(folder), "cpu", *options]
    return subprocess.Popen(command, cwd=ROOT)


def _lines(curve: Path) -> int:
    return len(curve.read_text().splitlines()) if curve.is_file() else 0


@pytest.mark.slow
def test_a_run_scores_every_second_round_and_the_last(tmp_path: Path) -> None:
    folder = small_study(tmp_path, rounds=3)
    assert one_run(folder, "--test", str(tmp_path / "test.jsonl"), "--every", "2").wait() == 0
    found = json.loads((folder / "summary.json").read_text())
    assert [("f1" in line, line["answered"]) for line in found["curve"]] == [(False, 2), (True, 2), (True, 2)]
    tp, _, fn = found["curve"][-1]["types"]["association"]
    assert tp + fn == 3 and found["f1"] == found["curve"][-1]["f1"]
    assert {"teacher_accuracy", "student_accuracy", "agreement", "teacher_f1"} <= found["curve"][0]["figures"].keys()
    # Six rows of two classes in float32, from two sites, and less than as much again around them.
    assert 2 * 48 < found["curve"][-1]["up"] < 2 * 400
    assert not (folder / "sites").exists() and "cut_off" not in found


@pytest.mark.slow
def test_a_run_ends_at_the_target_or_on_a_signal(tmp_path: Path) -> None:
    folder = small_study(tmp_path, rounds=400)
    assert one_run(folder, "--test", str(tmp_path / "test.jsonl"), "--target", "0.01").wait() == 0
    reached = json.loads((folder / "summary.json").read_text())
    assert reached["reached"] == reached["rounds"] < 400 and reached["f1"] >= 0.01
    (folder / "curve.jsonl").unlink()
    process = one_run(folder, "--test", str(tmp_path / "test.jsonl"))
    while not _lines(folder / "curve.jsonl"):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    left = json.loads((folder / "summary.json").read_text())
    assert left["cut_off"] and 1 <= left["rounds"] < 400 and "reached" not in left
