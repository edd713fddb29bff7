from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny import write_encoder
from tests.processes import open_files
from tests.studies.protected_studies import protection_of, shielded
from tests.studies.tiny_studies import (
    CPU,
    PUBLIC,
    Killed,
    Onlooker,
    events_of,
    learnable,
    run,
    scores_of,
    tensors_of,
    tiny,
)

from wardround.algorithms import fedavg
from wardround.algorithms.algorithm import SiteStep
from wardround.errors import MessageError
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.site_runtime import Site
from wardround.federation.worker_process import RequestHandler
from wardround.models.parameter_split import LayeredModel
from wardround.studies import shared_model_pool as lending_module
from wardround.studies.assemble import model_of
from wardround.studies.run_folder import RunFolder
from wardround.studies.shared_model_pool import SharedModelPool
from wardround.studies.site_setup import open_here, open_site
from wardround.studies.study_file import Study, parse_study
from wardround.studies.study_notes import load_notes
from wardround.studies.study_run import EngineSettings, StudyRun
from wardround.tasks.ner import NerTask
from wardround.text.tag_sets import TagSet
from wardround.training.state_files import load_tensors

ONE_SCHEME = {"east": {"types": ["Drug"], "scheme": "BIO"}, "west": {"types": ["Drug"], "scheme": "BIO"}}
SHARED, DECIDED = {"shared": ["all"]}, {"shared": None}
LARGE = {"batch_size": 64, "learning_rate": 0.02}  # of one batch a round, summed over the sites
# Each shares the whole model; what Adam remembers is kept from round to round, or is not.
WHOLE: Mapping[str, dict[str, Any]] = {
    "fedavg": {"algorithm": {"name": "fedavg", "rounds": 4, "local_steps": 2}, "model": SHARED},
    "fedavg, no moments": {
        "algorithm": {"name": "fedavg", "rounds": 4, "local_epochs": 2, "keep_moments": False},
        "model": SHARED,
    },
    "fedprox": {"algorithm": {"name": "fedprox", "rounds": 4, "local_steps": 2, "proximal": 0.1}, "model": SHARED},
    "fedatt": {"algorithm": {"name": "fedatt", "rounds": 4, "local_steps": 2}, "model": SHARED},
    "fedner": {"algorithm": {"name": "fedner", "rounds": 4}, "model": SHARED, "training": LARGE},
    "pooled": {"algorithm": {"name": "pooled", "rounds": 4}, "model": DECIDED, "training": LARGE},
    "feded": {
        "algorithm": {"name": "feded", "rounds": 4, "local_epochs": 1},
        "model": {**DECIDED, "decoder": "softmax"},
        "public": PUBLIC,
    },
}
EVERY = pytest.mark.parametrize("name", list(WHOLE))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes")


def whole(data: Path, name: str, **sections: Mapping[str, Any]) -> Study:
    """A study of three sites that share every layer."""
    settings: dict[str, Any] = {
        "evaluation": {"every": 2},
        "federation": {"checkpoint_every": 2},
        "training": {"batch_size": 8, "learning_rate": 0.02},
        **WHOLE[name],
        **sections,
    }
    return shielded(data, "plain", sites=ONE_SCHEME, **settings)


def drive(study: Study, path: Path, *, shared: bool, at_once: int = 16, watcher: Onlooker | None = None) -> None:
    """As `run_on_one_machine`, with networks shared or each site's own, so many sites open at once."""
    folder, model_pool, protection = (
        RunFolder(path),
        SharedModelPool(study, CPU) if shared else None,
        protection_of(study),
    )

    def opened(name: str) -> RequestHandler:
        return open_here(study, name, folder.site(name), device=CPU, party_keys=protection, model_pool=model_pool)

    federation = InProcessFederation(tuple(study.sites), opened, open_at_once=at_once)
    engine = EngineSettings(checkpoint_every=study.federation.checkpoint_every, sites_save=False)
    try:
        StudyRun(
            study, federation, folder, engine=engine, watcher=watcher or Onlooker(), party_keys=protection, device=CPU
        ).run()
    finally:
        federation.close()


def assert_same(folder: Path, other: Path) -> None:
    losses, others = ([event["loss"] for event in events_of(path, "round")] for path in (folder, other))
    assert losses == others
    assert_same_end(folder, other)


def assert_same_end(folder: Path, other: Path) -> None:
    assert scores_of(folder) == scores_of(other)
    mine, theirs = tensors_of(folder), tensors_of(other)
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if mine[name] != theirs[name]] == []


@pytest.fixture(scope="module")
def own(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs in which each site has a network of its own; a test must leave them as they are."""
    folder = tmp_path_factory.mktemp("own")
    for name in WHOLE:
        drive(whole(data, name), folder / name, shared=False)
    return {name: folder / name for name in WHOLE}


# Which sites share a network.


def networks(study: Study) -> list[LayeredModel]:
    model_pool = SharedModelPool(study, CPU)
    return [
        model_pool.network(TagSet(site.types), scheme=site.scheme, encoder=site.encoder)
        for site in study.sites.values()
    ]


@EVERY
def test_sites_that_share_every_layer_have_one_network(data: Path, name: str) -> None:
    first, *others = networks(whole(data, name))
    assert len(others) == 2 and all(other is first for other in others)
    assert not first.private_parameters()


@pytest.mark.parametrize(
    "sections",
    [
        {"algorithm": {"name": "fedavg"}, "model": {"shared": ["words", "word_cnn"]}},
        {"algorithm": {"name": "single"}, "model": DECIDED},
        {"algorithm": {"name": "feded", "site_models": "own"}, "model": DECIDED, "public": PUBLIC},
    ],
)
def test_sites_with_private_layers_have_one_each(data: Path, sections: dict[str, Any]) -> None:
    first, *others = networks(learnable(data, sites=ONE_SCHEME, **sections))
    assert first.private_parameters()
    assert not any(other is first for other in others)


def test_with_shared_output_layers_sites_with_other_types_have_the_same_network(tmp_path: Path) -> None:
    sites = {"harbour": {"types": ["Drug"]}, "hillside": {"types": ["ADE", "Drug"], "scheme": ""}}
    study = tiny(algorithm={"name": "fedavg"}, model=SHARED, sites=sites)
    model_pool = SharedModelPool(study, CPU)
    opened = [
        open_site(
            study,
            name,
            load_notes(name, study.sites[name], seed=7),
            folder=tmp_path / name,
            device=CPU,
            model_pool=model_pool,
        )
        for name in study.sites
    ]
    assert opened[0].model is opened[1].model
    tasks = [site.task for site in opened]
    assert isinstance(tasks[0], NerTask) and isinstance(tasks[1], NerTask)
    assert [task.types.types for task in (tasks[0], tasks[1])] == [("Drug",), ("ADE", "Drug")]


@pytest.mark.parametrize(("start", "once"), [("central", True), ("own", False)])
def test_sites_of_one_network_read_the_public_set_once(start: str, once: bool, tmp_path: Path) -> None:
    sites = {"harbour": {"types": ["Drug"]}, "hillside": {"types": ["Drug"], "scheme": ""}}
    sites["other"] = {"built_in": "harbour-0004", "types": ["Drug", "ADE"]}
    algorithm = {"name": "feded", "site_models": start}
    study = tiny(algorithm=algorithm, model={**DECIDED, "decoder": "softmax"}, sites=sites, public=PUBLIC)
    model_pool = SharedModelPool(study, CPU)
    harbour, hillside, other = (
        open_site(
            study, name, load_notes(name, site, seed=7), folder=tmp_path / name, device=CPU, model_pool=model_pool
        ).notes.public.examples
        for name, site in study.sites.items()
    )
    assert (hillside is harbour, other is harbour) == (once, once)
    assert harbour == hillside == other


def test_a_site_of_a_networked_study_shares_no_network(data: Path, tmp_path: Path) -> None:
    study = whole(data, "fedavg")
    notes = {name: load_notes(name, study.sites[name], seed=7) for name in study.sites}
    east, west = (
        open_site(study, name, notes[name], folder=tmp_path / name, device=CPU, durable=True)
        for name in ("east", "west")
    )
    assert east.model is not west.model


# What comes of it.


@EVERY
@pytest.mark.parametrize("at_once", [16, 1])
def test_shared_networks_give_the_same_bit_for_bit(
    data: Path, own: dict[str, Path], name: str, at_once: int, tmp_path: Path
) -> None:
    drive(whole(data, name), tmp_path, shared=True, at_once=at_once)
    assert_same(tmp_path, own[name])


def test_these_studies_learn(own: dict[str, Path]) -> None:
    """Else equal results would say little."""
    for name, folder in own.items():
        first, *_, last = [event["loss"] for event in events_of(folder, "round")]
        assert last < first, name
        assert {event["answered"] for event in events_of(folder, "round")} == {3}


@EVERY
def test_an_interrupted_study_resumes_to_the_same_result(
    data: Path, own: dict[str, Path], name: str, tmp_path: Path
) -> None:
    study = whole(data, name)
    with pytest.raises(Killed):
        drive(study, tmp_path, shared=True, at_once=2, watcher=Onlooker(kill_after=3))
    drive(study, tmp_path, shared=True)
    assert_same_end(tmp_path, own[name])


@pytest.mark.parametrize("mechanism", ["masked", "sealed"])
@pytest.mark.parametrize("name", ["fedavg", "feded"])
def test_protected_sums_are_the_same(data: Path, mechanism: str, name: str, tmp_path: Path) -> None:
    """A site whose shared half nobody else has fills the network from its own copy."""
    study = whole(data, name, privacy={"mechanism": mechanism})
    drive(study, tmp_path / "own", shared=False)
    drive(study, tmp_path / "shared", shared=True, at_once=2)
    assert_same(tmp_path / "shared", tmp_path / "own")


def test_relations_by_an_encoder_give_the_same_result(tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    study = parse_study(
        f"""
        study = {{ name = "pairs", seed = 3 }}
        task = {{ kind = "relations", negatives = 2.0, relations = {{ causes = [["Drug", "ADE"]] }} }}
        model = {{ encoder = "{encoder}", limit = 48 }}
        public = {{ built_in = "hillside-0009" }}
        algorithm = {{ name = "feded", rounds = 3, participation = 0.5 }}
        training = {{ learning_rate = 0.01, batch_size = 8 }}
        [sites]
        a = {{ built_in = "hillside-0001" }}
        b = {{ built_in = "riverside-0002" }}
        c = {{ built_in = "hillside-0005" }}
        d = {{ built_in = "riverside-0006" }}
        """
    )
    drive(study, tmp_path / "own", shared=False)
    drive(study, tmp_path / "shared", shared=True, at_once=1)
    assert_same(tmp_path / "shared", tmp_path / "own")


def test_a_site_that_fails_half_way_leaves_nothing_to_the_next(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights and gradients are no numbers when it gives up."""

    def step(site: Site, message: Any) -> Any:
        if site.name != "east" or message.value("round", int) != 2:
            return fedavg.train(site, message)
        with site.all_or_nothing():
            fedavg.local_update(site, message)
            for parameter in site.model.parameters():
                parameter.grad = torch.full_like(parameter, float("nan"))
                parameter.data.fill_(float("nan"))
            raise MessageError("not-a-number")

    monkeypatch.setitem(fedavg.ALGORITHM.steps, "train", SiteStep(step, ""))
    study = whole(data, "fedavg", privacy={"minimum_sites": 2})
    for shared in (False, True):
        drive(study, tmp_path / str(shared), shared=shared)
    assert [e["absent"] for e in events_of(tmp_path / "True", "round")][1] == [["east", "failed", "not-a-number"]]
    assert_same(tmp_path / "True", tmp_path / "False")


# What a machine builds and holds.


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[LayeredModel]:
    """Every network that was built to be shared."""
    found: list[LayeredModel] = []

    def build(*words: Any, **named: Any) -> LayeredModel:
        found.append(model_of(*words, **named))
        return found[-1]

    monkeypatch.setattr(lending_module, "model_of", build)
    return found


def test_a_study_on_one_machine_builds_one_network_for_its_sites(
    data: Path, own: dict[str, Path], built: list[LayeredModel], tmp_path: Path
) -> None:
    run(whole(data, "fedavg"), tmp_path)
    assert len(built) == 1
    assert_same(tmp_path, own["fedavg"])


@pytest.mark.slow
def test_so_does_each_of_its_workers(data: Path, own: dict[str, Path], tmp_path: Path) -> None:
    run(whole(data, "fedavg"), tmp_path, workers=2)
    assert_same(tmp_path, own["fedavg"])
    # One process has written the models of the first and third site.
    east, west, north = ((tmp_path / f"sites/{name}/model/model.safetensors") for name in ("east", "west", "north"))
    assert east.samefile(north) and not east.samefile(west)


@pytest.mark.parametrize("name", ["fedavg", "fedner", "feded"])
def test_no_gradient_is_left_when_a_site_has_answered(
    data: Path, name: str, tmp_path: Path, built: list[LayeredModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[bool] = []
    plain = Site.answer

    def answer(self: Site, step: str, message: Any) -> Any:
        found = plain(self, step, message)
        answered.append(all(parameter.grad is None for parameter in built[0].parameters()))
        return found

    monkeypatch.setattr(Site, "answer", answer)
    run(whole(data, name), tmp_path)
    assert len(answered) > 20 and all(answered)


def test_a_site_that_keeps_nothing_has_a_small_state(own: dict[str, Path]) -> None:
    state = own["fedavg, no moments"] / "sites" / "east" / "state"
    assert {path.stat().st_size < 1000 for path in state.iterdir()} == {True}
    assert load_tensors(state / "laid-aside.safetensors").keys() == {"round", "batches_drawn", "kept_f1", "past"}
    moments = load_tensors(own["fedavg"] / "sites" / "east" / "state" / "laid-aside.safetensors")
    assert any(name.startswith("shared_optimizer/") for name in moments)


def test_sites_that_were_closed_leave_no_file_open(tmp_path: Path) -> None:
    sites = {name: None for name in ("harbour", "hillside")}
    sites |= {f"s{n}": {"built_in": f"harbour-{4 * n:04d}", "types": ["Drug"]} for n in range(12)}
    algorithm = {"name": "fedavg", "rounds": 2, "participation": 0.25, "keep_moments": False}
    before = open_files()
    drive(tiny(algorithm=algorithm, model=SHARED, sites=sites), tmp_path, shared=True, at_once=3)
    assert open_files() <= before


def test_opening_a_site_returns_the_memory_of_closed_sites(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed: list[int] = []

    class Library:
        def malloc_trim(self, spared: int) -> int:
            trimmed.append(spared)
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    study = whole(data, "feded")
    drive(study, tmp_path / "one at a time", shared=True, at_once=1)
    # Asked are three sites each time: to restore, describe, train in 4 rounds, score twice, save twice and finish.
    assert trimmed == [0] * 33
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())  # another allocator has no such thing
    drive(study, tmp_path / "elsewhere", shared=True)
    assert trimmed == [0] * 33


# What lies on disk.


def weights(folder: Path) -> list[Path]:
    return sorted(folder.glob("sites/*/model/model.safetensors"))


def test_equal_models_are_on_disk_once(data: Path, tmp_path: Path) -> None:
    drive(whole(data, "fedavg"), tmp_path, shared=True)
    assert [path.stat().st_nlink for path in weights(tmp_path)] == [3, 3, 3]
    cards = [path.with_name("wardround.json") for path in weights(tmp_path)]
    told = {card.read_text() for card in cards}
    assert len({card.stat().st_ino for card in cards}) == len(told), "only cards that say the same are one"
    drive(whole(data, "fedavg"), tmp_path, shared=True)  # a finished study is scored and written again
    assert [path.stat().st_nlink for path in weights(tmp_path)] == [3, 3, 3]
    assert not list(tmp_path.rglob("*.partial"))


def test_models_that_differ_stay_apart(tmp_path: Path) -> None:
    study = tiny(algorithm={"name": "fedavg", "rounds": 1, "local_steps": 1})
    drive(study, tmp_path / "private", shared=True)
    assert [path.stat().st_nlink for path in weights(tmp_path / "private")] == [1, 1]
    model_pool = SharedModelPool(
        tiny(algorithm={"name": "fedavg"}, model=SHARED, sites={"hillside": {"scheme": None}}), CPU
    )
    model = model_pool.network(TagSet(("Drug",)), scheme="", encoder="")
    for number in range(3):
        with torch.no_grad():
            next(model.parameters()).fill_(max(1.0, number))
        model_pool.save(model, tmp_path / str(number), notes={"number": number})
    files = [tmp_path / str(number) / "model.safetensors" for number in range(3)]
    assert [file.stat().st_nlink for file in files] == [2, 2, 1]
    assert load_tensors(files[2])["words.weight"].max() == 2


def test_a_disk_without_links_gets_copies(
    data: Path, own: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: Any) -> None:
        raise OSError("not here")

    monkeypatch.setattr(os, "link", refuse)
    drive(whole(data, "fedavg"), tmp_path, shared=True)
    assert [path.stat().st_nlink for path in weights(tmp_path)] == [1, 1, 1]
    assert_same(tmp_path, own["fedavg"])
