from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.studies.tiny_studies import ONE_TOP, of_algorithm, tiny

from wardround.algorithms.algorithm import SharedLayers
from wardround.errors import StudyError
from wardround.federation.site_runtime import COMMON_STEPS
from wardround.studies.catalogue import ALGORITHMS
from wardround.studies.site_review import STEPS_IN_WORDS, review
from wardround.studies.study_file import Study, parse_study, study_for_kits

REPLICA_STEPS = ("open_sum", "share_copy", "load_copy")
VOTING_STEPS = ("judge", "submit_vote", "unmask_vote", "decide")
PROTECTING_STEPS = ("submit", "unmask", "open_mean", *REPLICA_STEPS, "begin", *VOTING_STEPS)
AMONG_HOSPITALS = [name for name, kind in ALGORITHMS.items() if kind.shared_layers is not SharedLayers.ALL_COMMON]


def lines(study: Study, heading: str, *, site: str = "harbour") -> tuple[str, ...]:
    found = {section.heading: section.lines for section in review(study, site, coordinator="study.example.org:8002")}
    assert list(found) == [
        "The study",
        "What would run here",
        "What would leave this site",
        "What would stay",
        "Who could read what leaves",
    ]
    return found[heading]


def of(algorithm: str, **sections: dict[str, object]) -> Study:
    return of_algorithm(algorithm, **sections)


def test_every_step_has_its_sentence_and_no_sentence_is_left_over() -> None:
    assert STEPS_IN_WORDS.keys() == {*COMMON_STEPS, *PROTECTING_STEPS}
    for kind in ALGORITHMS.values():
        assert all(step.review for step in kind.steps.values())


@pytest.mark.parametrize("mechanism", ["plain", "sealed"])
def test_a_study_that_begins_from_another_model_says_so(mechanism: str) -> None:
    study = tiny(model={"start_sha256": "ab" * 32}, privacy={"mechanism": mechanism, "minimum_sites": 2})
    assert "Its shared layers begin from a model that was trained before; the coordinator has it." in lines(
        study, "The study"
    )
    steps = [line.partition(": ")[0] for line in lines(study, "What would run here")[1:]]
    assert ("begin" in steps) == (mechanism == "sealed")  # else they come with the first round


def test_what_deidentification_counts_is_said() -> None:
    said = "With the counts, how many words and mentions stay readable, and in how many of your notes, by type."
    assert said in lines(tiny(task={"kind": "deidentify"}), "What would leave this site")
    assert said not in lines(tiny(), "What would leave this site")


@pytest.mark.parametrize(
    ("mechanism", "steps"),
    [
        ("plain", ()),
        ("masked", ("submit", "unmask")),
        ("sealed", ("submit", *REPLICA_STEPS)),
        ("sealed+masked", ("submit", "unmask", *REPLICA_STEPS)),
    ],
)
def test_what_a_mechanism_adds_is_said(mechanism: str, steps: tuple[str, ...]) -> None:
    study = tiny(privacy={"mechanism": mechanism, "minimum_sites": 3}, sites={"riverside": {"types": ["Drug"]}})
    said = [line.partition(": ")[0] for line in lines(study, "What would run here")[1:]]
    assert said == ["describe", *study.algorithm.kind.steps, *steps, "score", "finish", "save", "restore"]
    readers = lines(study, "Who could read what leaves")
    assert readers[0] == f"The mechanism is {mechanism}."
    assert ("can read each of your updates separately" in readers[1]) == (mechanism == "plain")
    assert any("number of training sentences" in line for line in readers[2:]) == (mechanism != "plain")
    leaving = lines(study, "What would leave this site")
    assert any("coordinator never has them" in line for line in leaving) == mechanism.startswith("sealed")


@pytest.mark.parametrize("algorithm", AMONG_HOSPITALS)
def test_every_step_of_a_site_is_listed_once(algorithm: str) -> None:
    first, *steps = lines(of(algorithm), "What would run here")
    assert first.endswith("the coordinator cannot send code.")
    said = [step.partition(": ")[0] for step in steps]
    assert sorted(said) == sorted({*ALGORITHMS[algorithm].steps, *COMMON_STEPS})
    assert all(step.partition(": ")[2] for step in steps)


@pytest.mark.parametrize(
    ("mechanism", "steps"),
    [
        ("plain", []),
        ("masked", ["submit", "unmask"]),
        ("sealed", ["submit", "unmask", "open_mean"]),
        ("sealed+masked", ["submit", "unmask", "open_mean"]),
    ],
)
def test_what_a_mechanism_adds_if_sites_send_predictions(mechanism: str, steps: list[str]) -> None:
    third = {"riverside": {"types": ["Drug"]}}
    given: dict[str, Any] = {"privacy": {"mechanism": mechanism, "minimum_sites": 3}, "sites": {**ONE_TOP, **third}}
    study = of("feded", **given)
    said = [line.partition(": ")[0] for line in lines(study, "What would run here")[1:]]
    assert said == ["describe", "train_and_predict", *steps, "score", "finish", "save", "restore"]
    readers = " ".join(lines(study, "Who could read what leaves"))
    assert ("every site has the same weight" in readers) == (mechanism != "plain")
    assert "number of training sentences" not in readers
    leaving = lines(study, "What would leave this site")
    assert not any("to learn its clip" in line for line in leaving)
    logits = of_algorithm("feded", algorithm={"predictions": "logits"}, **given)
    told = any("to learn its clip" in line for line in lines(logits, "What would leave this site"))
    assert told == (mechanism != "plain")


@pytest.mark.parametrize("mechanism", ["plain", "masked"])
def test_sites_of_the_algorithm_public_send_neither_predictions_nor_updates(mechanism: str) -> None:
    privacy = {"mechanism": mechanism, "minimum_sites": 3}
    study = of("public", privacy=privacy, sites={**ONE_TOP, "riverside": {"types": ["Drug"]}})
    leaving = lines(study, "What would leave this site")
    assert leaving[:2] == (
        "Requests outside the study's own settings are refused.",
        "Your number of training sentences; no update and no prediction, because no site trains.",
    )
    assert not any("In each round" in line or "×" in line or "With it" in line for line in leaving)
    assert lines(study, "What would stay")[1:] == (
        "No model is trained here: the coordinator trains it on the public notes.",
        "The text of an error: only its code is sent.",
    )
    assert lines(study, "Who could read what leaves") == (
        f"The mechanism is {mechanism}.",
        ALGORITHMS["public"].sent_to_sites,
    )


@pytest.mark.parametrize("mechanism", ["masked", "sealed", "sealed+masked"])
@pytest.mark.parametrize("algorithm", ["public", "single"])
def test_a_mechanism_adds_no_step_to_an_algorithm_that_aggregates_nothing(algorithm: str, mechanism: str) -> None:
    privacy = {"mechanism": mechanism, "minimum_sites": 3}
    study = of(algorithm, privacy=privacy, sites={**ONE_TOP, "riverside": {"types": ["Drug"]}})
    steps = [line.partition(": ")[0] for line in lines(study, "What would run here")[1:]]
    assert steps == ["describe", *ALGORITHMS[algorithm].steps, "score", "finish", "save", "restore"]
    assert not any("the weight" in line for line in lines(study, "Who could read what leaves"))


def test_the_weight_of_a_site_that_relates_is_its_pairs() -> None:
    study = parse_study(
        '[study]\nname = "s"\n[task]\nkind = "relations"\n[task.relations]\nADE = [["Drug", "ADE"]]\n'
        '[model]\nencoder = "bert-tiny"\n[algorithm]\nname = "fedavg"\n'
        '[privacy]\nmechanism = "masked"\nminimum_sites = 3\n[sites.harbour]\n[sites.hillside]\n[sites.riverside]\n'
    )
    told = lines(study, "Who could read what leaves")
    assert any("the weight of each: its number of training pairs of entities." in line for line in told)


def test_what_leaves_in_numbers() -> None:
    """Embeddings of 8 numbers, two rows more than buckets, and a convolution over three words from 8 to 8."""
    told = lines(tiny(model={"word_buckets": 62_498}, algorithm={"rounds": 500}), "What would leave this site")
    arrays = [line for line in told if "×" in line or line.endswith(" 8")]
    # 62,500 × 8 = 500,000; 8 × 8 × 3 = 192; 8. In four bytes each 2.0008 MB, and 500 times that 1.0004 GB.
    assert [line.partition(" ")[2] for line in arrays] == ["62500 × 8", "8 × 8 × 3", "8"]
    assert told[0].startswith("In each round an update of 3 arrays, 500,200 numbers, 2.0 MB; ")
    assert told[0].endswith("over all rounds up to 1.0 GB.")


def test_where_nothing_is_shared_nothing_but_figures_leave() -> None:
    study = of("single")
    told = " ".join(lines(study, "What would leave this site"))
    assert "In each round" not in told and "With each update" not in told and "×" not in told
    assert "your number of training sentences" in told
    assert "can be guessed" not in " ".join(lines(study, "Who could read what leaves"))


def test_where_everything_is_shared_no_layer_stays() -> None:
    whole = tiny(model={"shared": ["all"]}, sites=ONE_TOP)
    assert "No layer: this study shares the whole model." in lines(whole, "What would stay")
    (layers,) = [line for line in lines(tiny(), "What would stay") if line.startswith("The private layers: ")]
    assert {"lstm", "output", "crf"} >= set(layers.removeprefix("The private layers: ").rstrip(".").split(", ")) > set()


def test_a_warning_is_shown_only_if_word_embeddings_are_shared() -> None:
    assert "which words" in " ".join(lines(tiny(), "Who could read what leaves"))
    convolution = tiny(model={"shared": ["word_cnn"]})
    told = " ".join(lines(convolution, "Who could read what leaves"))
    assert "which words" not in told and "can be guessed" in told


def test_who_takes_part_where_and_for_how_long() -> None:
    study = tiny(study={"description": "What drugs did."}, privacy={"minimum_sites": 2}, algorithm={"rounds": 1200})
    assert lines(study, "The study") == (
        "tiny. What drugs did.",
        "Its coordinator is at study.example.org:8002; it has 2 sites: harbour, hillside.",
        "The algorithm is fedner, for 1,200 rounds at most.",
        "harbour annotates Drug, Disease, Dosage.",
        "hillside annotates Drug, ADE, Finding.",
    )
    readers = lines(study, "Who could read what leaves")
    assert "A round counts when 2 or more of 2 sites answer." in readers


def test_no_path_is_in_what_hospitals_are_given(tmp_path: Path) -> None:
    sites = {
        "harbour": {"built_in": None, "data": str(tmp_path / "ward"), "format": "conll", "options": {"column": 3}},
        "hillside": {"types": None},
    }
    given = study_for_kits(tiny(sites=sites)).decode()
    assert not [word for word in (tmp_path.name, "ward", "conll", "column", "hillside-0001") if word in given]
    study = parse_study(given)
    assert study.sites["harbour"].types == ("Drug", "Disease", "Dosage")
    assert study.sites["hillside"].scheme == "BIOES"
    said = [line for site in study.sites for part in review(study, site, coordinator="h:1") for line in part.lines]
    assert not [line for line in said if re.search(r"(^|\s)/\w|harbour-0000|conll", line)]
    assert "hillside annotates types that it does not name here." in said


def test_pooling_is_for_one_machine() -> None:
    with pytest.raises(StudyError, match="pooled needs all notes in one place"):
        study_for_kits(of("pooled"))


def test_the_request_policy_is_described() -> None:
    said = (
        "An update is made of at least {}; requests outside the study's own settings are refused. "
        "A round that is repeated draws other sentences, and the number of repeats is limited."
    )
    heading = "What would leave this site"
    assert said.format("16 sentences, or of all that you have, if you have fewer") in lines(tiny(), heading)
    assert said.format("1 sentence") in lines(tiny(privacy={"smallest_batch": 1}), heading)
    assert said.format("8 sentences") in lines(tiny(privacy={"smallest_batch": 8}), heading)
    assert "Requests outside the study's own settings are refused." in lines(of("single"), heading)


def test_what_other_sites_receive_is_said_of_every_algorithm() -> None:
    told = {name: lines(of(name), "Who could read what leaves")[-1] for name in AMONG_HOSPITALS}
    assert told == {name: ALGORITHMS[name].sent_to_sites for name in AMONG_HOSPITALS}
    assert [name for name, line in told.items() if "the number of sentences each site trains on" in line] == ["fedner"]
    assert [name for name, line in told.items() if "for each site and shared layer, a weight" in line] == ["fedatt"]
    assert told["single"] == "Other sites receive nothing."
    assert told["fedavg"] == told["fedprox"] == "Other sites receive only the updated shared layers."
