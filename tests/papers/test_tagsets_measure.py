from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tomli_w
from tests.papers.modules import fixture_of

from wardround.studies.catalogue import ALGORITHMS
from wardround.studies.study_file import parse_study, read_study

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "papers" / "tagsets"
FAMILIES = ("bilstm-crf", "lora", "prompt", "light-ner")
HOSPITALS = {
    "harbour": ["Drug", "Disease", "Dosage"],
    "hillside": ["Drug", "ADE", "Finding"],
    "riverside": ["Drug", "ADE", "Symptom"],
    "lakeside": ["Disease", "Symptom", "Finding", "Dosage"],
}
CLINICAL = ["Drug", "ADE", "Disease", "Symptom", "Finding", "Dosage"]


studies, make_sites = fixture_of("tagsets.studies"), fixture_of("tagsets.make_sites")
paper, one_run = fixture_of("tagsets.paper"), fixture_of("common.one_run")


def corpus(tag_sets: dict[str, list[str]], scored: list[str]) -> dict[str, Any]:
    """400 sentences at each site for training, 100 for testing."""
    parts = {"train": {"sentences": 400}, "dev": {"sentences": 50}, "test": {"sentences": 100}}
    return {
        "types": scored,
        "sites": {site: {"scored": scored, **parts} for site in tag_sets},
        "samplings": {name: tag_sets for name in ("0", "1", "2", "3", "4", "tune")},
    }


def described() -> dict[str, Any]:
    two = corpus({"one": ["a"], "two": ["b"]}, ["a", "b"])
    return {"gum": two, "bio": two, "synthetic": corpus(HOSPITALS, CLINICAL)}


@pytest.fixture
def sites(make_sites: ModuleType, tmp_path: Path) -> Any:
    return make_sites.TagSites(tmp_path, described())


def chosen_for(studies: ModuleType, *families: str) -> dict[str, Any]:
    """A rate for each family; prompts have one of their own, and are taught late."""
    rates = {family: studies.Chosen(1e-3) for family in families or FAMILIES}
    tuned = {"hospitals-posterior": studies.Chosen(3e-3, 5, 2), "hospitals-pooled": studies.Chosen(4e-3)}
    return {name: asdict(own) for name, own in (rates | {"prompt": studies.Chosen(2e-3, 12)} | tuned).items()}


def studies_of(studies: ModuleType, sites: Any, **changes: Any) -> dict[str, Any]:
    sweep = studies.TagSetSweep(studies.Settings(bart="some/bart", **changes), sites, chosen_for(studies))
    return {name: sweep.study(variation, 0) for name, variation in studies.VARIATIONS.items()}


# Studies.


def test_every_variation_is_a_study(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites)
    for table in made.values():
        if table["algorithm"]["name"] in ALGORITHMS:
            parse_study(tomli_w.dumps(table))
    # 4 tries for 4 families; 15 methods for 3 families and 11 for LightNER on 3 corpora; 8 sizes, 4 lengths; 3 ways; on
    # the hospitals 12 and 6 tries, for two studies.
    assert len(made) == 16 + 3 * (3 * 15 + 11) + 8 + 4 + 4 * 3 + 12 + 6 + 2


def test_methods_differ_in_their_algorithm_alone(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites)
    ours = [made[f"gum-prompt-{method}"] for method in ("full", "no-weight", "neither", "posterior")]
    told = [(study["algorithm"]["unknown"], study["algorithm"]["weighting"]) for study in ours]
    assert told == [("pseudo", True), ("pseudo", False), ("outside", False), ("posterior", False)]
    same = {json.dumps([study["model"], study["training"], study["sites"], study["evaluation"]]) for study in ours}
    assert len(same) == 1 and {study["algorithm"]["rounds"] for study in ours} == {25}
    assert made["gum-prompt-raw-weight"]["algorithm"] == {**ours[0]["algorithm"], "centred": False}


def test_a_model_is_asked_when_it_was_chosen_to_be(studies: ModuleType, sites: Any) -> None:
    names = ("gum-prompt-full", "gum-prompt-early", "gum-prompt-hong", "gum-lora-full", "tune-prompt-5e-3")
    made, short = studies_of(studies, sites), studies_of(studies, sites, gum_rounds=6)
    assert [made[name]["algorithm"]["trusted_after"] for name in names] == [12, 1, 12, 5, 5]
    assert made["tune-prompt-late"]["algorithm"]["trusted_after"] == 12
    assert made["tune-prompt-late"]["training"] == made["tune-prompt-5e-3"]["training"]
    # Half of the rounds are taught, however few there are.
    assert [short[name]["algorithm"]["trusted_after"] for name in names] == [3, 1, 3, 3, 3]


def test_on_hospitals_two_methods_are_tuned_separately(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites)
    plain, tuned = made["synthetic-lora-posterior"], made["synthetic-lora-posterior-tuned"]
    assert tuned["algorithm"] == {**plain["algorithm"], "trusted_after": 5, "local_epochs": 2}
    assert tuned["training"] == {**plain["training"], "learning_rate": 3e-3}
    assert (tuned["model"], tuned["sites"]) == (plain["model"], plain["sites"])
    assert made["synthetic-lora-pooled-tuned"]["training"]["learning_rate"] == 4e-3
    tried = made["tune-hospitals-posterior-0.01-12-2"]
    assert (tried["training"]["learning_rate"], tried["algorithm"]["trusted_after"]) == (0.01, 12)
    assert tried["algorithm"]["local_epochs"] == 2
    assert tried["sites"]["harbour"]["data"].endswith("synthetic/tune/harbour")
    once, twice = (made[f"tune-hospitals-pooled-0.01-{epochs}"] for epochs in (12, 24))
    assert twice["algorithm"]["rounds"] == 2 * once["algorithm"]["rounds"]


def test_rates_are_chosen_on_gum_and_those_of_light_ner_on_hospitals(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites)
    tried = {family: [own.name for own in studies.tries_of(family).values()] for family in FAMILIES}
    told = {family: {studies.VARIATIONS[name].corpus for name in names} for family, names in tried.items()}
    assert told == {family: {"synthetic" if family == "light-ner" else "gum"} for family in FAMILIES}
    assert [made[tried[family][-1]]["algorithm"]["trusted_after"] for family in ("lora", "light-ner")] == [12, 1]


def test_fedavg_shares_all_and_the_last_model_is_kept(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites)
    assert made["bio-lora-fedavg"]["model"] == {"encoder": "minilm", "adapter": "lora", "shared": ["all"]}
    assert made["bio-lora-fedavg"]["algorithm"] == {"name": "fedavg", "local_epochs": 1, "rounds": 25}
    assert {study["evaluation"]["keep"] for study in made.values()} == {"last"}


def test_one_place_has_complete_annotation_and_an_epoch_is_all_of_it(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites, pooled_epochs=3, pooled_batch=64)
    pooled = made["synthetic-lora-pooled"]
    assert all(site["types"] == CLINICAL for site in pooled["sites"].values())
    assert pooled["training"]["batch_size"] == 64
    assert pooled["algorithm"]["rounds"] == 75  # 3 epochs of 1,600 sentences in batches of 64
    assert made["synthetic-lora-full"]["sites"]["harbour"]["types"] == HOSPITALS["harbour"]


def test_a_model_that_writes_mentions_has_no_tag_scores_to_learn_from(studies: ModuleType) -> None:
    methods = {
        family: {v.method for v in studies.VARIATIONS.values() if f"gum-{family}" in v.tables} for family in FAMILIES
    }
    assert methods["lora"] - methods["light-ner"] == {
        *("partial", "posterior"),
        *("partial-outside", "posterior-outside"),
    }
    assert len(methods["lora"]) == 15 and methods["lora"] == methods["bilstm-crf"] == methods["prompt"]


def test_figure_3_varies_one_thing(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites)
    base = {**made["gum-prompt-full"], "study": {}}
    small, long = ({**made[name], "study": {}} for name in ("hidden-16", "epochs-3"))
    assert small == {**base, "model": {**base["model"], "prompt_hidden": 16}}
    assert long == {**base, "algorithm": {**base["algorithm"], "local_epochs": 3}}


def test_a_larger_prompt_is_tried_at_a_lower_rate_too(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites)
    one_rate, slower = made["hidden-640"], made["hidden-640-slower"]
    rate = pytest.approx(one_rate["training"]["learning_rate"] * 48 / 640)
    assert {**slower, "study": {}} == {
        **{**one_rate, "study": {}},
        "training": {**one_rate["training"], "learning_rate": rate},
    }


def test_the_committed_study_is_the_one_measured(studies: ModuleType, make_sites: ModuleType) -> None:
    known = json.loads((PAPER / "expected.json").read_text())["settings"] if (PAPER / "expected.json").is_file() else {}
    chosen = json.loads((PAPER / "chosen.json").read_text())
    there = make_sites.TagSites(Path("/nowhere"), {"synthetic": corpus(HOSPITALS, CLINICAL)})
    variation = studies.VARIATIONS["synthetic-prompt-full"]
    made = studies.TagSetSweep(studies.Settings(**known), there, chosen).study(variation, 0)
    assert parse_study(tomli_w.dumps(made)) == read_study(PAPER / "tagsets.toml")


# Runs.


def test_a_seed_is_a_sampling(studies: ModuleType, sites: Any) -> None:
    runs = studies.TagSetSweep(studies.Settings(), sites, chosen_for(studies)).runs(["gum-prompt-full"])
    assert [run.seed for run in runs] == [0, 1, 2, 3, 4]
    assert runs[0].facts == {"learning_rate": 2e-3, "annotated": {"one": ("a",), "two": ("b",)}}
    tuned = studies.TagSetSweep(studies.Settings(), sites).runs(["tune-lora"])
    assert [(run.seed, run.facts["learning_rate"]) for run in tuned] == [(0, 2e-3), (0, 5e-3), (0, 1e-2), (0, 5e-3)]


def test_missing_choices_and_models_are_reported(studies: ModuleType, sites: Any) -> None:
    with pytest.raises(SystemExit, match="no rate was chosen for lora"):
        studies.TagSetSweep(studies.Settings(), sites).runs(["gum-lora"])
    with pytest.raises(SystemExit, match="light-ner needs a BART"):
        studies.TagSetSweep(studies.Settings(), sites, chosen_for(studies)).runs(["bytes"])


def test_paths_are_not_part_of_the_settings(studies: ModuleType, sites: Any) -> None:
    kind = studies.TagSetSweep
    one, other = (
        kind(kind.prepared(studies.Settings(encoder=f"{place}/minilm", bart=place)), sites) for place in ("/a", "/b")
    )
    assert one.head() == other.head()
    assert kind.prepared(studies.Settings(bart="runs/bart")).bart == str(Path("runs/bart").resolve())


def test_the_guess_by_hand(studies: ModuleType, sites: Any) -> None:
    sweep = studies.TagSetSweep(studies.Settings(gum_rounds=10), sites)
    guess = {m: sweep.estimate(studies.VARIATIONS[f"gum-prompt-{m}"], 0) for m in ("full", "fedavg")}
    # 800 sentences: 50 steps of 25 ms, read once by the teacher and three times more to be compared, 1 ms each.
    assert guess["full"] == pytest.approx(30 + 10 * (50 * 0.025 + 0.8 + 2.4) + 0.2)
    assert guess["fedavg"] == pytest.approx(30 + 10 * 50 * 0.025 + 0.2)


# Rates.


def tuned(study: str, found: int) -> dict[str, Any]:
    """A run that finds so many of ten mentions of the type that is not annotated, and all of the other."""
    sites = {
        "one": {"types": {"a": {"strict": [10, 0, 0]}, "b": {"strict": [found, 0, 10 - found]}}},
        "two": {"types": {"a": {"strict": [found, 0, 10 - found]}, "b": {"strict": [10, 0, 0]}}},
    }
    return {
        **{"variation": study, "seed": 0, "tuned": "", "learning_rate": 0.1, "rounds": 1, "seconds": 1.0},
        **{"annotated": {"one": ["a"], "two": ["b"]}, "sites": sites, "device": "cpu"},
        **{"network": {"parameters": 10, "trainable": 1, "probe": [10, 4]}, "a_round": {"up": 1.0, "down": 1.0}},
    }


def test_the_best_rate_over_types_not_annotated_is_chosen(
    paper: ModuleType, studies: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    tries = {"2e-3": 3, "5e-3": 4, "1e-2": 5}
    runs = [tuned(f"tune-{family}-{name}", found) for family in ("lora", "prompt") for name, found in tries.items()]
    runs += [tuned("tune-lora-late", 4), tuned("tune-prompt-late", 6), tuned("tune-bilstm-crf-2e-3", 9)]
    known = {"bilstm-crf": asdict(studies.Chosen(4e-3)), "lora": asdict(studies.Chosen(1.0))}
    # Asking late was best of all with prompts, and is taken with its rate.
    chosen = {"lora": asdict(studies.Chosen(1e-2)), "prompt": asdict(studies.Chosen(5e-3, 12))}
    assert paper.choose(runs, {"sites": described()}, known) == {**known, **chosen}
    told = capsys.readouterr().out
    # 5 of 10 found, none wrong: F1 is 10 / 15.
    assert "lora: 2e-3 gives 46.2, 5e-3 gives 57.1, 1e-2 gives 66.7, late gives 57.1" in told
    assert "bilstm-crf: 4e-3, 8e-3, late not tried; it keeps {'rate': 0.004" in told and "light-ner" in told


def test_on_hospitals_the_best_setting_over_all_types_is_chosen(
    paper: ModuleType, studies: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    best = studies.Chosen(5e-3, 12, 2)
    tries = studies.tries_of("hospitals-posterior").values()
    sites = described() | {"synthetic": described()["gum"]}
    runs = [tuned(own.name, 7 if own.tried == best else 4) for own in tries]
    known = {"lora": asdict(studies.Chosen(1.0))}
    assert paper.choose(runs, {"sites": sites}, known) == {**known, "hospitals-posterior": asdict(best)}
    # 7 of 10 of one type, all of the other: (14 / 17 + 1) / 2.
    told = capsys.readouterr().out
    assert "0.005-12-2 gives 91.2" in told
    assert "hospitals-pooled: 0.002-12, " in told and "not tried; it keeps nothing" in told


# One run.


class Folder:
    """A run folder with two rounds in it."""

    def events(self) -> Iterator[dict[str, Any]]:
        yield {"event": "started"}
        yield {"event": "round", "answered": 4, "up": 8000, "down": 400, "figures": {"weight": 1.0}}
        yield {"event": "round", "answered": 4, "up": 4000, "down": 800, "figures": {"weight": 0.9}}
        yield {"event": "scored", "mean_f1": 0.5}


def test_bytes_are_those_of_a_site_in_the_last_round(one_run: ModuleType) -> None:
    assert one_run.last_round_bytes(Folder()) == {"up": 1000.0, "down": 200.0}
    assert one_run.round_figures(Folder()) == {"weight": [1.0, 0.9]}


def test_the_network_is_counted(one_run: ModuleType, tmp_path: Path) -> None:
    study = read_study(PAPER / "tagsets.toml")
    text = tomli_w.dumps(
        {
            "study": {"name": "x"},
            "model": {"encoder": "bert-tiny", "adapter": "prompt", "prompt_hidden": 8},
            "algorithm": {"name": "tagsets"},
            "sites": {"harbour": {"built_in": "harbour", "types": list(study.sites["harbour"].types)}},
        }
    )
    found = one_run.network_sizes(parse_study(text, folder=tmp_path))
    assert found["probe"] == [10, 128]
    # A prompt of 10 rows; in each of 2 layers 128 to 8 and 8 to 256; an output of 7 tags. Biases are few.
    least = 10 * 128 + 2 * (128 * 8 + 8 * 256) + 7 * 129
    assert least <= found["trainable"] <= least + 2 * (8 + 256) < found["parameters"] / 100


@pytest.mark.slow
def test_a_tiny_study_runs_to_its_summary(tmp_path: Path, shared_data: Path) -> None:
    sites, out = tmp_path / "sites", tmp_path / "out"
    made = [sys.executable, "-m", "papers.tagsets.make_sites", "--data", str(shared_data), "--out", str(sites)]
    subprocess.run(made, check=True, cwd=ROOT)
    asked = ["--sites", str(sites), "--out", str(out), "--only", "synthetic-prompt-full", "--seeds", "0", "--tiny"]
    subprocess.run([sys.executable, "-m", "papers.measure", "tagsets", *asked, "--device", "cpu"], check=True, cwd=ROOT)
    (run,) = json.loads((out / "results.json").read_text())["runs"]
    assert run["rounds"] == run["best_round"] == 2 and run["annotated"]["harbour"] == HOSPITALS["harbour"]
    assert set(run["sites"]["harbour"]["types"]) == set(CLINICAL)
    # What a site sends is what trains and a gradient of the prompt, in float32, and little around it.
    numbers = run["network"]["trainable"] + 10 * 128
    assert 4 * numbers < run["a_round"]["up"] < 4 * numbers + 5000
