"""Studies that start from a saved model; the sites have the study of their kits, but not the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.algorithms.wards import Go
from tests.models.tiny import same_weights
from tests.studies.protected_studies import Lasting, copies, shielded
from tests.studies.tiny_studies import CPU, Onlooker, events_of, learnable, run, scores_of, tiny

from wardround.errors import StudyError
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import SiteId
from wardround.federation.ledger import read_entries
from wardround.federation.message import Message
from wardround.models.saved import load_model, save_model
from wardround.studies.assemble import check_start, common_model, model_of, start_table, with_start_digest
from wardround.studies.run_folder import RunFolder
from wardround.studies.site_setup import open_here
from wardround.studies.study_file import Study, parse_study, study_for_kits, to_toml
from wardround.studies.study_run import EngineSettings, StudyOutcome, StudyRun
from wardround.text.tag_sets import TagSet
from wardround.training.state_files import load_tensors

ENGINE = EngineSettings(checkpoint_every=1, sites_save=True, retries=2, pause=0.0)


def source_of(study: Study, folder: Path) -> Path:
    """A saved model that the study's could have been, with other weights."""
    model = common_model(study)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.25)
    save_model(model, folder)
    return folder


def starting(study: Study, folder: Path, **changes: Any) -> Study:
    """The study from that model, as the coordinator has it."""
    source = source_of(study, folder / "earlier-model")
    return with_start_digest(replace(study, model=replace(study.model, start=source, **changes)))


def at_sites(study: Study) -> Study:
    """The same as a site has it: what its kit says, and where its notes are."""
    kit = parse_study(study_for_kits(study).decode())
    assert kit.model.start is None
    return replace(kit, sites=study.sites)


def among_hospitals(study: Study, path: Path, federation: Lasting) -> StudyOutcome:
    protection, watcher = federation.protection, Onlooker()
    return StudyRun(study, federation, RunFolder(path), engine=ENGINE, watcher=watcher, party_keys=protection).run()


# What is written down.


def test_a_kit_has_the_digest_of_the_start_but_not_its_path(tmp_path: Path) -> None:
    study = starting(tiny(), tmp_path)
    text = study_for_kits(study).decode()
    assert study.model.start_sha256 in text
    assert "earlier-model" not in text and str(tmp_path) not in text
    assert parse_study(to_toml(study)) == study
    assert with_start_digest(tiny()) == tiny()


def test_the_start_must_be_the_one_the_study_was_made_with(tmp_path: Path) -> None:
    study = starting(tiny(), tmp_path)
    check_start(study)
    check_start(tiny())
    with pytest.raises(
        StudyError, match=r"^\[model\] start_sha256 is the digest of a saved model; name that model as start"
    ):
        run(at_sites(study), tmp_path / "run")  # which could not begin from it
    save_model(common_model(tiny()), tmp_path / "earlier-model")
    with pytest.raises(
        StudyError, match=r"^\[model\] start: earlier-model is not the model that the study was made with"
    ):
        check_start(study)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"algorithm": {"name": "single"}, "model": {"shared": None}}, r"single shares none here: leave it out"),
        ({"model": {"start_up_to": "words", "start": None}}, r"start_up_to limits what is copied from a start"),
    ],
)
def test_a_start_is_refused_if_no_layer_is_shared(sections: Mapping[str, Any], said: str) -> None:
    model = {"start": "anywhere", **sections.get("model", {})}
    with pytest.raises(StudyError, match=said):
        tiny(**{**sections, "model": model})


def test_a_start_of_which_only_private_layers_fit(tmp_path: Path) -> None:
    other = tiny(model={"word_dimension": 4, "word_cnn": 4, "lstm": 4})
    source_of(other, tmp_path / "source")
    study = tiny(model={"start": str(tmp_path / "source"), "word_buckets": 48, "shared": ["word_cnn"]})
    with pytest.raises(Exception, match="no layer of the source fits"):
        common_model(study)
    same = tiny(model={"start": str(tmp_path / "own"), "shared": ["word_cnn"], "start_up_to": "words"})
    source_of(replace(same, model=replace(same.model, start=None, start_up_to="")), tmp_path / "own")
    with pytest.raises(
        StudyError, match=r"^\[model\] start: nothing of own fits the layers that sites share: word_cnn"
    ):
        common_model(same)


def test_private_layers_start_fresh_at_every_site(tmp_path: Path) -> None:
    study = starting(tiny(), tmp_path)
    fresh, begun = (model_of(s, TagSet(("Drug",)), scheme="BIO") for s in (tiny(), study))
    private = fresh.private_parameters()
    assert private and all(torch.equal(part, private[name]) for name, part in begun.private_parameters().items())
    shared = fresh.shared_parameters()
    assert all(bool((part == shared[name] + 0.25).all()) for name, part in begun.shared_parameters().items())


def test_a_table_shows_what_is_copied_from_the_start(tmp_path: Path) -> None:
    assert start_table(tiny()) is None
    table = start_table(starting(tiny(), tmp_path, start_up_to="word_cnn"))
    assert table is not None
    assert table.title == "Starts from earlier-model up to word_cnn"
    # Rows for 64 buckets, padding and the unknown, of 8 numbers each; three words of 8 into 8 filters, with a bias.
    assert table.rows[:2] == (("words", 528, 528, "copied", ""), ("word_cnn", 200, 200, "copied", ""))
    others = {row[0]: row[2:] for row in table.rows[2:]}
    assert others.keys() == {"lstm", "output", "crf"}
    assert set(others.values()) == {(0, "fresh", "it is private: each site starts with its own")}


# What sites are told.


def test_among_hospitals_a_study_starts_as_on_one_machine(tmp_path: Path) -> None:
    study = starting(learnable(tmp_path / "notes", algorithm={"rounds": 3}), tmp_path)
    run(study, tmp_path / "here")
    federation = Lasting(at_sites(study), tmp_path / "there")
    among_hospitals(study, tmp_path / "there", federation)
    here, there = (load_tensors(tmp_path / place / "shared.safetensors") for place in ("here", "there"))
    assert all(torch.equal(part, there[name]) for name, part in here.items())
    assert scores_of(tmp_path / "here") == scores_of(tmp_path / "there")
    for name in study.sites:
        models = [load_model(tmp_path / place / "sites" / name / "model") for place in ("here", "there")]
        assert same_weights(*models)  # type: ignore[arg-type]
    run(learnable(tmp_path / "notes", algorithm={"rounds": 3}), tmp_path / "afresh")
    afresh = load_tensors(tmp_path / "afresh" / "shared.safetensors")
    assert not any(torch.equal(part, afresh[name]) for name, part in here.items())


def sealed_study(folder: Path) -> Study:
    pytest.importorskip("tenseal", reason="install wardround[sealed]")
    return starting(shielded(folder / "notes", "sealed", algorithm={"rounds": 3}, **TWO), folder)


TWO: dict[str, Any] = {"privacy": {"minimum_sites": 2}}


def test_where_only_sites_have_the_shared_half_they_receive_its_start(tmp_path: Path) -> None:
    study = sealed_study(tmp_path)
    run(study, tmp_path / "here")
    federation = Lasting(at_sites(study), tmp_path / "there")
    among_hospitals(study, tmp_path / "there", federation)
    assert len(copies(federation)) == 1
    assert scores_of(tmp_path / "here")["sites"] == scores_of(tmp_path / "there")["sites"]


def test_a_site_that_missed_the_start_loads_the_copy_of_another(tmp_path: Path) -> None:
    study = sealed_study(tmp_path)
    federation = Lasting(at_sites(study), tmp_path / "run")

    def away(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if (site, step) == ("west", "begin"):
            raise ConnectionError
        return go(message)

    federation.meddle = away
    among_hospitals(study, tmp_path / "run", federation)
    first, *later = events_of(tmp_path / "run", "round")
    assert {(site, code) for site, _, code in first["absent"]} == {("west", "behind")}
    assert not any(record["absent"] for record in later)
    assert [event["sites"] for event in events_of(tmp_path / "run", "caught_up")] == [["west"]]
    assert len(copies(federation)) == 1


def test_another_start_than_the_studys_is_refused_by_a_site(tmp_path: Path) -> None:
    study = sealed_study(tmp_path)
    federation = Lasting(at_sites(study), tmp_path / "run")

    def forged(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if (site, step) != ("west", "begin"):
            return go(message)
        return go(replace(message, arrays={name: array + 1 for name, array in message.arrays.items()}))

    federation.meddle = forged
    among_hospitals(study, tmp_path / "run", federation)
    assert ("begin", "west", "start") in {
        (event["step"], event["site"], event["code"]) for event in events_of(tmp_path / "run", "absent")
    }
    assert len(copies(federation)) == 1


def test_the_start_is_counted_and_answered_through_the_ledger(tmp_path: Path) -> None:
    study = sealed_study(tmp_path)
    kit, places = at_sites(study), RunFolder(tmp_path / "run")
    protection = Lasting(kit, tmp_path / "nobody").protection
    federation = InProcessFederation(
        tuple(kit.sites),
        lambda name: open_here(kit, name, places.site(name), device=CPU, durable=True, party_keys=protection),
    )
    outcome = StudyRun(study, federation, places, engine=ENGINE, watcher=Onlooker(), party_keys=protection).run()
    federation.close()
    entries = [list(read_entries(places.site(name) / "ledger.jsonl")) for name in kit.sites]
    assert [entry.step for entry in entries[0]][:3] == ["restore", "begin", "describe"]
    assert sum(entry.bytes for ledger in entries for entry in ledger) == outcome.traffic.up
    told = sum(part.numel() * 4 for part in common_model(study).shared_parameters().values())
    assert outcome.traffic.down > len(kit.sites) * told


# A hospital that joins late.


def test_a_site_that_joins_late_continues_from_the_shared_half_of_the_others(tmp_path: Path) -> None:
    rounds, joins = 6, 4
    study = learnable(tmp_path / "notes", algorithm={"rounds": rounds}, evaluation={"every": 1, "keep": "last"})
    federation = Lasting(study, tmp_path / "run")
    told: dict[str, dict[int, dict[str, bytes]]] = {name: {} for name in study.sites}

    def late(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if site == "west" and joins - 1 not in told["east"]:
            raise ConnectionError
        if step == "gradient":
            told[site][message.value("round", int)] = {
                name: array.tobytes() for name, array in message.group("shared").items()
            }
        return go(message)

    federation.meddle = late
    among_hospitals(study, tmp_path / "run", federation)
    assert list(told["west"]) == list(range(joins, rounds + 1))
    for number, shared in told["west"].items():
        assert shared == told["east"][number]
    assert told["west"][joins] != told["east"][1]  # what the others had learned by then
    assert federation.open("west").batches_drawn == rounds - joins + 1
    # Its scores are those of the model it ends with: its own private half on the shared half of the last round.
    ended = load_model(tmp_path / "run" / "sites" / "west" / "model")
    last = load_tensors(tmp_path / "run" / "shared.safetensors")
    assert all(torch.equal(dict(ended.named_parameters())[name], part) for name, part in last.items())
    score = federation.open("west").task.score(federation.open("west").notes.test)
    assert scores_of(tmp_path / "run")["sites"]["west"]["strict"]["tp"] == score.main.micro.tp
