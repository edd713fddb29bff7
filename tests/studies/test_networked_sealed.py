"""Sealed and masked studies among hospitals, with a key service; whoever is killed, nobody reads an update."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes import kill
from tests.studies.tiny_studies import scores_of, text_of

pytest.importorskip("nvflare", reason="install wardround[flare]")
pytest.importorskip("tenseal", reason="install wardround[sealed]")

from tests.studies.consortium import Consortium

from wardround.cli.main import main
from wardround.federation.ledger import read_entries
from wardround.models.saved import save_model
from wardround.secure_aggregation.keys.material import find_secrets
from wardround.studies.assemble import common_model
from wardround.studies.study_file import parse_study
from wardround.training.state_files import load_tensors

RIVERSIDE = {"built_in": "riverside-0002", "types": ["Drug", "Symptom"], "scheme": "BIO"}
HOSPITALS = {"harbour": "harbour-0000", "hillside": "hillside-0001", "riverside": "riverside-0002"}
ROUNDS = 12


def study(**sections: dict[str, object]) -> str:
    table: dict[str, dict[str, object]] = {
        "model": {"lstm": 0, "word_cnn": 16, "word_buckets": 512},
        "algorithm": {"rounds": ROUNDS},
        "training": {"batch_size": 64, "learning_rate": 0.05, "schedule": "constant"},
        "sites": {"riverside": RIVERSIDE},
        "evaluation": {"every": ROUNDS},
        "privacy": {"mechanism": "sealed+masked", "minimum_sites": 3},
        "federation": {"wait": 90.0, "deadline": 40.0},
    }
    return text_of(**{name: {**table.get(name, {}), **sections.get(name, {})} for name in {**table, **sections}})


def long_study() -> str:
    """Of more rounds than two sites finish while a third one, or the key service, starts again."""
    rounds = 500
    return study(
        algorithm={"rounds": rounds}, privacy={"mechanism": "sealed", "minimum_sites": 2}, evaluation={"every": rounds}
    )


def start_all(consortium: Consortium, *words: str | Path, supervised: tuple[str, ...] = ()) -> None:
    consortium.start_keys()
    for name, hospital in HOSPITALS.items():
        consortium.accept(name)
        if name in supervised:
            consortium.start_site(name, "--built-in", hospital)
        else:
            consortium.work_at_site(name, hospital)
    consortium.start_coordinator(*words, supervised=False)


def finish(consortium: Consortium) -> None:
    """Everybody ends by himself but the key service, which nobody tells."""
    keys = consortium.commands.pop("keys")
    codes = {name: command.wait(180.0) for name, command in consortium.commands.items()}
    assert set(codes.values()) == {0}, (codes, consortium.outputs())
    consortium.commands["keys"] = keys


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """A study that begins from a model of before, and that nobody disturbed, after its end."""
    folder = tmp_path_factory.mktemp("sealed")
    save_model(common_model(parse_study(study(study={"name": "earlier", "seed": 8}))), folder / "earlier")
    text = study(model={"lstm": 0, "word_cnn": 16, "word_buckets": 512, "start": "earlier"})
    consortium = Consortium(folder, text, sealed=True)
    try:
        start_all(consortium, "--start", folder / "earlier")
        finish(consortium)
        yield consortium
    finally:
        consortium.end()


@pytest.mark.slow
def test_among_hospitals_and_on_one_machine_a_sealed_study_gives_the_same(quiet: Consortium, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        main(["run", str(quiet.folder / "study.toml"), "--out", str(out), "--device", "cpu"])
    assert not ended.value.code
    assert scores_of(out)["sites"] == scores_of(quiet.run)["sites"]
    for name in HOSPITALS:
        here = load_tensors(out / "sites" / name / "model" / "model.safetensors")
        there = load_tensors(quiet.kits[name] / "site" / "model" / "model.safetensors")
        assert here.keys() == there.keys()
        assert all(bool((here[part] == there[part]).all()) for part in here)


@pytest.mark.slow
def test_the_coordinator_has_neither_a_key_nor_the_shared_half(quiet: Consortium) -> None:
    kit = quiet.kits["coordinator"]
    assert list(find_secrets(kit, own=quiet.kit("coordinator").key)) == []
    assert not (quiet.run / "shared.safetensors").exists()
    kept = load_tensors(quiet.run / "checkpoint.safetensors")
    model = load_tensors(quiet.kits["harbour"] / "site" / "model" / "model.safetensors")
    # What it has of the shared half is what the study begins from: of before round 1.
    for name, tensor in kept.items():
        if name.startswith("shared/"):
            assert not bool((tensor == model[name.removeprefix("shared/")]).all())


@pytest.mark.slow
def test_what_leaves_a_site_is_in_its_ledger_under_its_mechanism(quiet: Consortium) -> None:
    entries = list(read_entries(quiet.kits["harbour"] / "site" / "ledger.jsonl"))
    assert {entry.mechanism for entry in entries} == {"sealed+masked"}
    assert [entry.step for entry in entries][:3] == ["restore", "begin", "describe"]
    steps = [entry.step for entry in entries if entry.round == 3]
    assert steps == ["gradient", "submit", "unmask", "open_sum"]
    (given,) = [entry for entry in entries if entry.round == 3 and entry.step == "submit"]
    assert [name for name, _ in given.arrays] == ["sealed", "lengths"]


@pytest.mark.slow
def test_the_study_continues_if_key_service_and_a_site_are_killed(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, long_study(), sealed=True)
    try:
        start_all(consortium, supervised=("harbour",))
        consortium.wait_until(lambda: consortium.round_number() >= 5, "it does not begin")
        consortium.commands["keys"].end()
        before = consortium.round_number()
        consortium.wait_until(lambda: consortium.round_number() >= before + 3, "without the service it stands still")
        kill(consortium.worker("harbour"))  # which has its key from the service alone
        consortium.wait_until(
            lambda: "keys-unreachable" in str(consortium.events("round") + consortium.events("absent")),
            "a site without a key takes part",
        )
        consortium.start_keys()
        after = consortium.round_number()
        consortium.wait_until(
            lambda: any(not event["absent"] for event in consortium.events("round") if event["round"] > after),
            "harbour does not come back",
        )
        finish(consortium)
        assert scores_of(consortium.run)["sites"].keys() == set(HOSPITALS)
        assert consortium.events("caught_up")
    finally:
        consortium.end()


@pytest.mark.slow
def test_sites_use_a_new_key_and_a_revoked_site_is_excluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    consortium = Consortium(tmp_path, long_study(), sealed=True)
    monkeypatch.setenv("WARDROUND_PASSPHRASE", "nobody reads this one")

    def keys(*words: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["keys", words[0], str(consortium.kits["keys"]), *words[1:]])
        assert not ended.value.code, capsys.readouterr()

    def absences(after: int) -> list[tuple[str, str]]:
        rounds = [event for event in consortium.events("round") if event["round"] > after]
        return [(site, code) for event in rounds for site, _, code in event["absent"]]

    try:
        start_all(consortium)
        consortium.wait_until(lambda: consortium.round_number() >= 3, "it does not begin")
        keys("rotate")
        rotated = consortium.round_number()
        # The coordinator takes the service's last answer for the present one for five seconds.
        consortium.wait_until(lambda: "secret" in logged(consortium, epoch=2), "nobody asked for the new key")
        consortium.wait_until(lambda: consortium.round_number() >= rotated + 5, "under a new key it stands still")
        assert absences(0) == []
        keys("revoke", "harbour")
        consortium.wait_until(lambda: ("harbour", "revoked") in absences(rotated), "a revoked site takes part")
        gone = consortium.round_number()
        consortium.wait_until(lambda: consortium.round_number() >= gone + 3, "the others do not go on")
        assert {site for site, _ in absences(gone)} == {"harbour"}
    finally:
        consortium.end()


def logged(consortium: Consortium, *, epoch: int) -> str:
    """What was asked of the key service about an epoch."""
    log = consortium.kits["keys"] / "keys.jsonl"
    return "".join(line for line in log.read_text().splitlines(keepends=True) if f'"epoch":{epoch},' in line)
