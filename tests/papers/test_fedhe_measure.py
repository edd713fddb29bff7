from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tomli_w
from tests.papers.modules import fixture_of

from wardround.corpora.jsonl import Jsonl
from wardround.studies.study_file import parse_study, read_study
from wardround.text.document import Document, Entity, Range

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "papers" / "fedhe"
RATES = {"bert-tiny": 1e-3, "bert-mini": 3e-4, "bert-small": 1e-4}


studies, make_sites, paper = fixture_of("fedhe.studies"), fixture_of("fedhe.make_sites"), fixture_of("fedhe.paper")


def described(clients: int, sentences: int, types: list[str]) -> dict[str, Any]:
    parts = {part: {"sentences": sentences, "mentions": 0} for part in ("train", "dev", "test")}
    names = ["all"] if clients == 1 else [f"client-{n:02}" for n in range(1, clients + 1)]
    return {name: {"types": types, "scheme": "BIO", **parts} for name in names}


def every_group(sentences: int) -> dict[str, Any]:
    groups = {"bc2gm-2": (2, ["GENE"]), "bc2gm-all": (1, ["GENE"])}
    both = ["Chemical", "Disease"]
    groups |= {"bc5cdr-2": (2, both), "bc5cdr-all": (1, both), "bc5cdr-4": (4, both)}
    groups |= {"bc5cdr-22": (22, both), "bc5cdr-22-skewed": (22, both), "bc5cdr-64": (64, both)}
    return {group: described(clients, sentences, types) for group, (clients, types) in groups.items()}


@pytest.fixture
def sites(studies: ModuleType, tmp_path: Path) -> Any:
    return studies.Sites(tmp_path, every_group(128))


# Sites.


def note(number: int, *types: str) -> Document:
    entities = tuple(Entity(f"T{n}", kind, (Range(0, 4),)) for n, kind in enumerate(types, start=1))
    return Document(f"n{number}", f"word {number}", entities, sentences=(Range(0, len(f"word {number}")),))


def corpus(make_sites: ModuleType, sentences: int) -> Any:
    train = [note(n, *(("Chemical",), ("Disease",), ())[n % 3]) for n in range(sentences)]
    return make_sites.Site(("Chemical", "Disease"), train, train[: sentences // 2], train[: sentences // 4])


def ids(documents: Any) -> list[str]:
    return sorted(document.id for document in documents)


def test_every_sentence_goes_to_one_client(make_sites: ModuleType) -> None:
    whole = corpus(make_sites, 1320)
    groups = make_sites.all_groups({"bc2gm": whole, "bc5cdr": whole}, seed=0)
    assert {name: len(group) for name, group in groups.items()} == {
        **{"bc2gm-2": 2, "bc2gm-all": 1, "bc5cdr-2": 2, "bc5cdr-all": 1, "bc5cdr-4": 4},
        **{"bc5cdr-22": 22, "bc5cdr-64": 64, "bc5cdr-22-skewed": 22},
    }
    for name, group in groups.items():
        for part in ("train", "dev"):
            dealt = [d for site in group.values() for d in site.parts[part]]
            assert ids(dealt) == ids(whole.parts[part]), (name, part)


def test_two_clients_are_scored_on_the_whole_test_part_and_more_on_a_share_each(make_sites: ModuleType) -> None:
    whole = corpus(make_sites, 1320)
    groups = make_sites.all_groups({"bc2gm": whole, "bc5cdr": whole}, seed=0)
    assert all(ids(site.test) == ids(whole.test) for site in groups["bc5cdr-2"].values())
    for name in ("bc5cdr-4", "bc5cdr-22", "bc5cdr-64", "bc5cdr-22-skewed"):
        assert ids(d for site in groups[name].values() for d in site.test) == ids(whole.test)


def test_skewed_clients_differ_in_types_and_size_and_the_others_do_not(make_sites: ModuleType) -> None:
    whole = corpus(make_sites, 1320)
    alike, skewed = make_sites.dealt(whole, 22, seed=0), make_sites.skewed(whole, 22, seed=0)
    assert {len(site.train) for site in alike.values()} == {60}
    lengths = [len(site.train) for site in skewed.values()]
    assert min(lengths) == 20 and max(lengths) > 120
    assert [ids(site.test) for site in skewed.values()] == [ids(site.test) for site in alike.values()]


@pytest.mark.corpus
def test_the_official_parts_are_read(make_sites: ModuleType, shared_data: Path) -> None:
    site = make_sites.read(shared_data, "bc5cdr", limit=50)
    assert [len(part) for part in site.parts.values()] == [50, 50, 50]
    assert {entity.type for document in site.train for entity in document.entities} == {"Chemical", "Disease"}


# Studies.


def studies_of(studies: ModuleType, sites: Any, settings: Any) -> dict[str, Any]:
    sweep = studies.FedHe(settings, sites, RATES)
    return {name: sweep.study(variation, 1) for name, variation in studies.VARIATIONS.items()}


def test_every_variation_is_a_study(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites, studies.Settings())
    for name, table in made.items():
        study = parse_study(tomli_w.dumps(table))
        assert (study.study.seed, study.algorithm.name) == (1, studies.VARIATIONS[name].algorithm)
    # 4 networks with the paper's rate and 3 with their own, on 2 corpora, in 4 ways; 3 rates; 3 groups; 6 mechanisms.
    assert len(made) == 7 * 2 * 4 + 3 * 3 + 3 * 2 + 6


def test_the_recipe_is_the_papers(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites, studies.Settings())["bc2gm-bert-mini-fedhe"]
    assert made["algorithm"] == {"name": "fedavg", "rounds": 5, "local_epochs": 10}
    assert (made["training"]["learning_rate"], made["training"]["weight_decay"]) == (2e-5, 0.1)
    assert made["model"] == {"encoder": "bert-mini", "shared": ["all"]}
    assert list(made["sites"]) == ["client-01", "client-02"]


def test_methods_differ_in_what_leaves_a_site_and_in_nothing_else(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites, studies.Settings())
    four = {method: made[f"bc5cdr-minilm-{method}"] for method in ("single", "central", "federated", "fedhe")}
    assert {method: (len(study["sites"]), study["privacy"]["mechanism"]) for method, study in four.items()} == {
        **{"single": (2, "plain"), "central": (1, "plain"), "federated": (2, "plain"), "fedhe": (2, "sealed")}
    }
    assert len({json.dumps(study["training"]) for study in four.values()}) == 1
    assert {study["algorithm"]["rounds"] * study["algorithm"]["local_epochs"] for study in four.values()} == {50}


def test_a_chosen_rate_is_that_of_its_network(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites, studies.Settings())
    rates = {name: study["training"]["learning_rate"] for name, study in made.items()}
    assert rates["bc2gm-bert-mini-single-chosen"] == rates["bc5cdr-64-bert-mini-fedhe"] == 3e-4
    assert (rates["bc5cdr-4-bert-tiny-masked"], rates["tune-bert-small-1e-3"]) == (1e-3, 1e-3)


def test_masks_hide_a_site_among_three_or_more(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites, studies.Settings())
    names = ("plain", "masked", "sealed", "sealed-compact", "sealed-ckks", "sealed-masked")
    few = {name: made[f"bc5cdr-4-bert-tiny-{name}"]["privacy"] for name in names}
    unbounded = {"smallest_batch": 1, "largest_share": 1.0}
    assert few["sealed-masked"] == {
        **{"mechanism": "sealed+masked", "scheme": "bfv", "packing": "standard", "minimum_sites": 3, **unbounded}
    }
    assert few["masked"] == {"mechanism": "masked", "minimum_sites": 3, **unbounded}
    assert (few["sealed-ckks"]["scheme"], few["sealed-compact"]["packing"]) == ("ckks", "compact")


def test_the_committed_study_is_the_one_measured(studies: ModuleType, sites: Any) -> None:
    folder = PAPER / "../../runs/fedhe/sites"
    there = studies.Sites(folder, sites.described)
    made = studies.FedHe(studies.Settings(), there).study(studies.VARIATIONS["bc2gm-minilm-fedhe"], 0)
    assert parse_study(tomli_w.dumps(made)) == read_study(PAPER / "fedhe.toml")


# Runs.


def test_a_table_that_needs_a_rate_waits_for_it(studies: ModuleType, sites: Any) -> None:
    without, sweep = (studies.FedHe(studies.Settings(), sites, chosen) for chosen in ({}, RATES))
    with pytest.raises(SystemExit, match="bert-mini, bert-small, bert-tiny"):
        without.runs(["table4-chosen"], [0])
    assert len(without.runs(["table4"], [0, 1])) == 64
    runs = sweep.runs(["clients"], [0])
    assert {(run.variation, run.slots) for run in runs} >= {
        ("bc5cdr-bert-mini-fedhe-chosen", 1),
        ("bc5cdr-22-bert-mini-fedhe", 2),
        ("bc5cdr-64-bert-mini-federated", 4),
    }
    assert {run.facts["learning_rate"] for run in runs} == {3e-4}
    assert all(run.own_options == ["--score-training"] for run in runs)


def test_the_guess_by_hand(studies: ModuleType, sites: Any) -> None:
    settings = studies.Settings(rounds=2, local_epochs=3, batch_size=64)
    guess = studies.FedHe(settings, sites).estimate(studies.VARIATIONS["bc5cdr-bert-mini-fedhe"], 0)
    # 6 epochs of 256 / 64 steps, 256 sentences scored 2 + 1 + 1 times, 11.1 million numbers sealed 2 · 2 times.
    assert guess == pytest.approx(15 + 24 * 0.014 + 1024 * 0.0006 + 4 * 11.1 * 0.25)


def test_the_rate_with_the_highest_development_score_is_chosen(paper: ModuleType) -> None:
    scores = {"bert-tiny": (0.1, 0.2, 0.3), "bert-mini": (0.4, 0.5, 0.2), "bert-small": (0.6, 0.5, 0.0)}
    runs = [
        {"variation": f"tune-{network}-{rate}", "dev_f1": f1}
        for network, found in scores.items()
        for rate, f1 in zip(("1e-4", "3e-4", "1e-3"), found, strict=True)
    ]
    assert paper.choose_rates(runs) == {"bert-tiny": 1e-3, "bert-mini": 3e-4, "bert-small": 1e-4}
    with pytest.raises(SystemExit, match="tune-bert-small-1e-3 is not among the finished runs"):
        paper.choose_rates(runs[:-1])


@pytest.mark.slow
def test_from_sites_to_results(tmp_path: Path) -> None:
    text = "aspirin helps"
    notes = [Document(f"n{n}", text, (Entity("T1", "Drug", (Range(0, 7),)),)) for n in range(4)]
    for name in ("client-01", "client-02"):
        for part in ("train", "dev", "test"):
            Jsonl().write(notes, tmp_path / "bc5cdr-2" / name / f"{part}.jsonl.gz")
    (tmp_path / "sites.json").write_text(json.dumps({"bc5cdr-2": described(2, 4, ["Drug"])}))
    (tmp_path / "rates.json").write_text(json.dumps(RATES))
    asked = ["--sites", str(tmp_path), "--out", str(tmp_path / "out"), "--chosen", str(tmp_path / "rates.json")]
    asked += ["--seeds", "0", "--device", "cpu", "--tiny", "--set", "local_epochs=4"]
    methods = ("federated", "fedhe")
    only = ",".join(f"bc5cdr-bert-tiny-{method}-chosen" for method in methods)
    command = [sys.executable, "-m", "papers.measure", "fedhe", *asked, "--only", only]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    runs = json.loads((tmp_path / "out" / "results.json").read_text())["runs"]
    assert [run["variation"] for run in runs] == [f"bc5cdr-bert-tiny-{method}-chosen" for method in sorted(methods)]
    plain, sealed = runs
    assert (plain["rounds"], plain["learning_rate"], plain["clipped"]) == (2, 1e-3, 0)
    assert 0.95 < sealed["bytes_up"] / plain["bytes_up"] < 1.05
    for name in ("client-01", "client-02"):
        assert plain["sites"][name]["training"] == sealed["sites"][name]["training"]
        tp, _, fn = plain["sites"][name]["training"]
        assert tp + fn == 4
