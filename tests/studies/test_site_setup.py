from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.models.tiny import notes
from tests.studies.tiny_studies import CPU, ONE_TOP, learnable, tiny

from wardround.corpora.jsonl import Jsonl
from wardround.corpora.synthetic.phi_notes import PHI_TYPES
from wardround.errors import CorpusError, MessageError, StudyError, UsageError
from wardround.federation.ledger import read_entries, verify
from wardround.federation.message import Message, decode, encode, grouped
from wardround.federation.site_runtime import RequestPolicy, Site
from wardround.models.saved import load_model, model_card
from wardround.studies.assemble import coordinator_of
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import SiteData
from wardround.studies.site_setup import LEDGER, open_here, open_site, request_policy_of, with_ledger
from wardround.studies.study_file import SiteSection, Study
from wardround.studies.study_notes import check_place, load_notes
from wardround.tasks.ner import NerTask
from wardround.text.document import Document
from wardround.text.tag_schemes import SCHEMES
from wardround.text.tag_sets import TagSet

NOTES = notes(8)


def opened(study: Study, name: str, folder: Path, documents: tuple[Document, ...] = NOTES, **more: Any) -> Site:
    return open_site(study, name, SiteData(documents, documents[:1], documents[:2]), folder=folder, device=CPU, **more)


def test_a_built_in_hospital_depends_on_the_seed_alone() -> None:
    section = SiteSection(built_in="harbour-0004")
    first, again = (load_notes("a", section, seed=3) for _ in range(2))
    assert (first.train, first.dev, first.test) == (again.train, again.dev, again.test)
    assert first.train and first.dev and first.test
    assert load_notes("a", section, seed=4).train != first.train
    assert load_notes("a", SiteSection(built_in="harbour-0000"), seed=3).train != first.train


def test_a_hospital_whose_notes_identify_people_and_what_a_tag_set_calls_them() -> None:
    section = SiteSection(built_in="northgate")
    own, ours = (load_notes("a", section, seed=0, tag_set=tag_set) for tag_set in ("", "hipaa"))
    assert TagSet.of(own.test) == TagSet(tuple(sorted(PHI_TYPES)))
    kept = {"DOCTOR", "HOSPITAL", "PROFESSION", "STATE"}  # which HIPAA has no place for
    assert set(TagSet.of(ours.test).types) == {"DATES", "EMAIL", "NAMES", "OTHER", "PLACES", "TELEPHONE"} | kept
    assert [note.text for note in ours.train] == [note.text for note in own.train]


def test_one_of_the_four_hospitals() -> None:
    found = load_notes("a", SiteSection(built_in="lakeside"), seed=0)
    assert len(found.train) > 20


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "harbor",
            r"^no built-in hospital is called 'harbor' – did you mean 'harbour'\?; there are harbour,",
        ),
        ("harbour-", r"^no built-in hospital is called 'harbour-'"),
        ("harbour-0001", r"^no built-in hospital is called 'harbour-0001' – did you mean 'hillside-0001'\?$"),
        ("x-7", r"^no built-in hospital is called 'x-7' – did you mean 'lakeside-0007'\?$"),
    ],
)
def test_a_hospital_that_is_not_built_in(name: str, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        load_notes("a", SiteSection(built_in=name), seed=0)


def test_notes_in_files(tmp_path: Path) -> None:
    for part, documents in (("train", NOTES[:5]), ("dev", NOTES[5:6]), ("test", NOTES[6:])):
        Jsonl().write(documents, tmp_path / "ward" / f"{part}.jsonl")
    found = load_notes("a", SiteSection(tmp_path / "ward", "jsonl"), seed=0)
    assert (found.train, found.dev, found.test) == (NOTES[:5], NOTES[5:6], NOTES[6:])


def test_options_reach_the_format(tmp_path: Path) -> None:
    Jsonl("prodigy").write(NOTES, tmp_path / "ward.jsonl")
    found = load_notes("a", SiteSection(tmp_path / "ward.jsonl", "jsonl", {"shape": "prodigy"}), seed=0)
    assert [document.text for document in found.train] == [document.text for document in NOTES]
    with pytest.raises(UsageError, match="'shap' is not an option"):
        load_notes("a", SiteSection(tmp_path / "ward.jsonl", "jsonl", {"shap": "prodigy"}), seed=0)


def test_missing_or_invalid_notes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"^\[sites.a\] does not say where its notes are"):
        load_notes("a", SiteSection(), seed=0)
    with pytest.raises(StudyError, match=r"^\[sites.a\] data: ward does not exist$"):
        load_notes("a", SiteSection(tmp_path / "ward", "brat"), seed=0)
    (tmp_path / "ward.jsonl").write_text("Mrs Marker\n")
    with pytest.raises(CorpusError) as refused:
        load_notes("a", SiteSection(tmp_path / "ward.jsonl", "jsonl"), seed=0)
    assert "Marker" not in str(refused.value) and str(tmp_path) not in str(refused.value)


# What a site annotates, what it calls that, and what its test notes are annotated with.

HARBOUR_TYPES = ("Drug", "Disease", "Dosage")


def types_in(documents: Sequence[Document]) -> set[str]:
    return {entity.type for document in documents for entity in document.entities}


def test_only_what_is_scored_is_ever_complete() -> None:
    own = load_notes("a", SiteSection(built_in="harbour-0000", types=HARBOUR_TYPES), seed=3)
    section = SiteSection(built_in="harbour-0000", types=HARBOUR_TYPES, scored=(*HARBOUR_TYPES, "ADE"))
    more = load_notes("a", section, seed=3)
    assert more.train == own.train
    assert types_in(more.train) <= set(HARBOUR_TYPES)
    assert types_in(own.test) <= set(HARBOUR_TYPES) < types_in(more.test) | set(HARBOUR_TYPES)
    assert [document.text for document in more.test] == [document.text for document in own.test]
    alike = SiteSection(built_in="harbour-0000", types=HARBOUR_TYPES, scored=HARBOUR_TYPES)
    assert load_notes("a", alike, seed=3).test == own.test


def with_fraction(fraction: float) -> Study:
    return tiny(sites={"harbour": {"types": None, "fraction": fraction}})


def test_a_site_trains_on_a_fraction_of_its_notes_and_is_scored_as_with_all(tmp_path: Path) -> None:
    whole, half, quarter = (opened(with_fraction(f), "harbour", tmp_path / str(f)) for f in (1.0, 0.5, 0.25))
    texts = [[example.words for example in site.notes.train] for site in (quarter, half, whole)]
    assert [len(own) for own in texts] == sorted({len(own) for own in texts})
    assert set(texts[0]) < set(texts[1]) < set(texts[2])
    for site in (half, quarter):
        assert (site.notes.dev, site.notes.test) == (whole.notes.dev, whole.notes.test)
        assert site.model.tags == whole.model.tags


def test_an_invalid_fraction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        StudyError, match=r"fraction is 0\.0; it must be a share of the training notes, above 0 and up to 1$"
    ):
        with_fraction(0.0)
    with pytest.raises(
        StudyError, match=r"^\[sites\.harbour\] fraction: 8 training notes are too few to take 0\.01 of"
    ):
        opened(with_fraction(0.01), "harbour", tmp_path)


def named(folder: Path, text: str) -> Path:
    path = folder / "names.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_notes_are_loaded_under_the_names_of_the_study(tmp_path: Path) -> None:
    for part in ("train", "dev", "test"):
        Jsonl().write(NOTES[:2], tmp_path / "ward" / f"{part}.jsonl")
    names = named(tmp_path, 'Drug = "Medication"\n')
    found = load_notes("a", SiteSection(tmp_path / "ward", "jsonl", names=names), seed=0)
    for part in (found.train, found.dev, found.test):
        assert [entity.type for document in part for entity in document.entities] == ["Medication", "ADE"] * 2
        assert [document.text for document in part] == [document.text for document in NOTES[:2]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'Drug = "medicaton"\n',
            "'Drug' is mapped to 'medicaton', which is not a type of the study – did you mean 'Med",
        ),
        ("Drug\n", "is not TOML"),
        (None, "cannot be opened"),
    ],
)
def test_invalid_type_names_are_refused_before_any_note_is_read(tmp_path: Path, text: str | None, said: str) -> None:
    names = named(tmp_path, text) if text is not None else tmp_path / "names.toml"
    section = SiteSection(tmp_path, "jsonl", names=names)  # where there is no note
    for refuse in (
        partial(check_place, "a", section, types=("Medication", "ADE")),
        partial(load_notes, "a", section, seed=0, types=("Medication", "ADE")),
    ):
        with pytest.raises(StudyError, match=r"^\[sites.a\] names: names.toml") as refused:
            refuse()
        assert said in str(refused.value)
        assert str(tmp_path) not in str(refused.value)


def told(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "notes.json").read_text())
    return found


def test_unknown_types_are_not_learned_and_are_counted_for_the_owner(tmp_path: Path) -> None:
    strange = tuple(TagSet.rename(document, {"ADE": "Reaction"}) for document in NOTES)
    study = tiny(sites={"harbour": {"types": ["Drug"]}})
    site = opened(study, "harbour", tmp_path / "strange", strange)
    assert told(tmp_path / "strange")["unknown_types"] == {"Reaction": 8}
    assert {tag for sentence in site.notes.train for tag in sentence.tags} == {"O", "B-Drug"}
    # ADE is a type of the study, of another site: this one does not list it, and nobody needs to be told.
    opened(study, "harbour", tmp_path / "known")
    assert "unknown_types" not in told(tmp_path / "known")
    # A site that lists nothing learns what there is.
    opened(tiny(sites={"harbour": {"types": None}}), "harbour", tmp_path / "all", strange)
    assert "unknown_types" not in told(tmp_path / "all")


def test_a_site_is_scored_on_more_than_it_trains_on(tmp_path: Path) -> None:
    sites = {"harbour": {"types": ["Drug"], "scored": ["Drug", "ADE"]}, "hillside": {"types": ["ADE"], "scheme": ""}}
    site = opened(tiny(model={"shared": ["all"]}, sites=sites), "harbour", tmp_path)
    assert isinstance(site.task, NerTask)
    assert (site.task.types, site.task.scored) == (TagSet(("Drug",)), TagSet(("Drug", "ADE")))
    # Two notes, a mention of each type in both.
    assert site.task.score(NOTES[:2]).main.micro.gold == 2
    assert site.task.score_test(NOTES[:2]).main.micro.gold == 4


@pytest.mark.parametrize("keep", ["best", "last"])
def test_a_site_keeps_the_round_that_its_study_keeps(tmp_path: Path, keep: str) -> None:
    site = opened(tiny(evaluation={"keep": keep}), "harbour", tmp_path)
    site.keep_if_best(0.5)
    assert bool([name for name in site.state() if name.startswith("kept/")]) == (keep == "best")


def test_a_site_is_as_the_study_describes_it(tmp_path: Path) -> None:
    study = tiny(sites={"hillside": {"types": ["ADE"]}})
    site = opened(study, "hillside", tmp_path)
    assert isinstance(site.task, NerTask) and site.model is site.task.model
    task = site.task
    assert (site.name, task.types.types, task.model.scheme, site.seed) == ("hillside", ("ADE",), SCHEMES["BIOES"], 7)
    assert task.model.tags == ("O", "B-ADE", "I-ADE", "E-ADE", "S-ADE")
    assert {"gradient", "score", "finish"} <= site.steps.keys()
    assert (len(site.notes.dev), len(site.notes.test)) == (1, 2)
    assert (tmp_path / "state" / "state-00000000.safetensors").is_file()


def test_a_site_that_names_no_types_has_those_of_its_notes(tmp_path: Path) -> None:
    site = opened(tiny(sites={"harbour": {"types": None}}), "harbour", tmp_path)
    assert isinstance(site.task, NerTask)
    assert site.task.types.types == ("ADE", "Drug")


def test_what_a_site_does_not_annotate_is_not_trained(tmp_path: Path) -> None:
    # Under a shared top the model knows the other site's types too; these notes hold both, the site annotates one.
    sites = {"harbour": {"types": ["Drug"]}, "hillside": {"types": ["ADE"], "scheme": ""}}
    site = opened(tiny(model={"shared": ["all"]}, sites=sites), "harbour", tmp_path)
    assert site.model.tag_set.types == ("Drug", "ADE")
    tags = {site.model.tags[tag] if isinstance(tag, int) else str(tag) for s in site.notes.train for tag in s.tags}
    assert tags == {"O", "B-Drug"}


def test_notes_without_an_entity_teach_nothing(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"^\[sites.harbour\]: its training notes hold no entity to learn from$"):
        opened(tiny(sites={"harbour": {"types": None}}), "harbour", tmp_path, (Document("n", "Well."),))


def test_a_lasting_site_writes_its_state_before_it_answers(tmp_path: Path) -> None:
    study = learnable(tmp_path / "data")
    folder = tmp_path / "site"
    site = opened(study, "east", folder, durable=True)
    coordinator = coordinator_of(study)
    values = {**coordinator.settings(), "sizes": {"east": len(site.notes.train)}, "round": 1}
    site.answer("gradient", Message(values, grouped("shared", coordinator.arrays())))
    assert (folder / "state" / "state-00000001.safetensors").is_file()


def test_an_answer_is_in_the_ledger_before_it_is_sent(tmp_path: Path) -> None:
    study = tiny()
    door = with_ledger(study, opened(study, "harbour", tmp_path), tmp_path, durable=False)
    answer = door.answer_bytes("describe", 3, encode(Message()))
    (entry,) = read_entries(tmp_path / LEDGER)
    assert (entry.study, entry.step, entry.round, entry.mechanism) == ("tiny", "describe", 3, "plain")
    assert entry.bytes == len(answer)
    assert decode(answer).value("documents", int) == 2


def test_a_reopened_site_continues_with_its_ledger(tmp_path: Path) -> None:
    study = tiny()
    for _ in range(2):
        door = open_here(study, "harbour", tmp_path, device=CPU, ledger=True)
        door.answer_bytes("describe", 0, encode(Message()))
        door.close()
    assert verify(tmp_path / LEDGER).entries == 2
    assert (tmp_path / "state" / "laid-aside.safetensors").is_file()


def test_a_ledger_is_optional_on_one_machine_and_always_written_among_hospitals(tmp_path: Path) -> None:
    for name, options in (("none", {}), ("wanted", {"ledger": True}), ("among hospitals", {"durable": True})):
        door = open_here(tiny(), "harbour", tmp_path / name, device=CPU, **options)
        door.answer_bytes("describe", 0, encode(Message()))
        assert (tmp_path / name / LEDGER).is_file() == bool(options)


def test_the_final_model_is_saved_at_the_site(tmp_path: Path) -> None:
    study = tiny(sites=ONE_TOP)
    site = opened(study, "harbour", tmp_path)
    assert site.on_finish is not None
    score = site.task.score(site.notes.test)
    site.on_finish(site.task, score)
    folder = RunFolder(tmp_path).model
    assert load_model(folder).tag_set.types == ("Drug",)
    assert model_card(folder)["notes"] == {
        "strict_f1": score.main.micro.f1,
        "relaxed_f1": score.counts["relaxed"].micro.f1,
    }


def test_the_request_policy_follows_from_the_study(tmp_path: Path) -> None:
    training = {"batch_size": 8, "learning_rate": 0.02, "output_learning_rate": 0.05, "weight_decay": 0.1, "clip": 2.0}
    algorithm = {"name": "fedprox", "rounds": 9, "local_steps": 3, "proximal": 0.5}
    study = tiny(algorithm=algorithm, training=training, privacy={"smallest_batch": 4})
    expected = RequestPolicy(
        9,
        {"batch_size": 8, "clip": 2.0, "decay": 0.1, "steps": 3, "epochs": 1, "keep_moments": True, "proximal": 0.5},
        {"rate": 0.02, "output_rate": 0.05},
        4,
        sites=2,
        names=frozenset({"harbour", "hillside"}),
    )
    assert request_policy_of(study) == opened(study, "harbour", tmp_path).request_policy == expected


@pytest.mark.parametrize("wrong", [{"round": 999}, {"batch_size": 1}])
def test_a_site_gives_no_gradient_that_its_study_does_not_ask_for(tmp_path: Path, wrong: dict[str, int]) -> None:
    study = tiny(algorithm={"rounds": 4})
    site, coordinator = opened(study, "harbour", tmp_path), coordinator_of(study)
    values = {**coordinator.settings(), "sizes": {"harbour": len(site.notes.train)}, "round": 4}
    with pytest.raises(MessageError) as refused:
        site.answer("gradient", Message({**values, **wrong}, grouped("shared", coordinator.arrays())))
    assert refused.value.code == "policy"
    assert (site.round, site.batches_drawn) == (0, 0)
    site.answer("gradient", Message(values, grouped("shared", coordinator.arrays())))


def test_a_site_with_fewer_sentences_than_the_smallest_batch_is_not_opened(tmp_path: Path) -> None:
    study = tiny(training={"batch_size": 64}, privacy={"smallest_batch": 7})
    said = r"^\[sites.harbour\]: its training notes hold 6 sentences; \[privacy\] smallest_batch requires 7$"
    with pytest.raises(StudyError, match=said):
        opened(study, "harbour", tmp_path, NOTES[:2])  # three sentences a note
    assert not (tmp_path / "state").exists()
    opened(tiny(training={"batch_size": 64}, privacy={"smallest_batch": 6}), "harbour", tmp_path, NOTES[:2])
