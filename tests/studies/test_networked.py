"""Whole studies among hospitals: every party started by its command, in processes of its own, over mutual TLS."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models.tiny import notes
from tests.processes import descendants, kill
from tests.studies.tiny_studies import scores_of, text_of, tiny

pytest.importorskip("nvflare", reason="install wardround[flare]")

from tests.studies.consortium import Consortium

from wardround.cli.main import main
from wardround.corpora.jsonl import Jsonl
from wardround.federation.ledger import read_entries, verify
from wardround.models.saved import save_model
from wardround.studies.assemble import common_model
from wardround.studies.run_reading import read_run, with_examples
from wardround.text.document import Document
from wardround.training.state_files import load_tensors

RIVERSIDE = {"built_in": "riverside-0002", "types": ["Drug", "Symptom"], "scheme": "BIO"}
HOSPITALS = {"harbour": "harbour-0000", "hillside": "hillside-0001", "riverside": "riverside-0002"}


def start_all(consortium: Consortium, *, supervised: Collection[str]) -> None:
    """By `start` those who are named, the others, since a supervisor takes seconds to load, by what it would run."""
    for name, hospital in HOSPITALS.items():
        consortium.accept(name)
        if name in supervised:
            consortium.start_site(name, "--built-in", hospital)
        else:
            consortium.work_at_site(name, hospital)
    consortium.start_coordinator(supervised="coordinator" in supervised)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """A study that nobody disturbed, after its end."""
    text = text_of(
        model={"lstm": 0, "word_cnn": 16, "word_buckets": 512},  # learns something in so few rounds
        algorithm={"rounds": 40},
        training={"batch_size": 64, "learning_rate": 0.05, "schedule": "constant"},
        sites={"riverside": RIVERSIDE},
        evaluation={"every": 20},
        privacy={"minimum_sites": 3},
        federation={"wait": 90.0},
    )
    consortium = Consortium(tmp_path_factory.mktemp("quiet"), text)
    try:
        start_all(consortium, supervised=["hillside"])
        consortium.finish()
        yield consortium
    finally:
        consortium.end()


@pytest.mark.slow
def test_among_hospitals_and_on_one_machine_a_study_gives_the_same(quiet: Consortium, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        main(["run", str(quiet.folder / "study.toml"), "--out", str(out), "--device", "cpu"])
    assert not ended.value.code
    here, there = load_tensors(out / "shared.safetensors"), load_tensors(quiet.run / "shared.safetensors")
    assert here.keys() == there.keys() and len(here) > 2
    for name, tensor in here.items():
        assert np.abs(tensor.numpy() - there[name].numpy()).max() <= 1e-6
    assert scores_of(out) == scores_of(quiet.run)
    found = {name: score["strict"]["tp"] for name, score in scores_of(out)["sites"].items()}
    assert found.keys() == set(HOSPITALS)
    assert any(found.values())  # else equal scores would say nothing


@pytest.mark.slow
def test_every_byte_that_left_is_in_a_ledger(quiet: Consortium) -> None:
    ledgers = [quiet.kits[name] / "site" / "ledger.jsonl" for name in HOSPITALS]
    entries = [entry for ledger in ledgers for entry in read_entries(ledger)]
    left = sum(entry.bytes for entry in entries)
    assert sum(verify(ledger).bytes_out for ledger in ledgers) == left
    assert json.loads((quiet.run / "scores.json").read_text())["traffic"]["up"] == left
    in_rounds = [entry.bytes for entry in entries if entry.step in ("describe", "gradient")]
    assert len(in_rounds) == 3 * (1 + 40)
    assert sum(event["up"] for event in quiet.events("round")) == sum(in_rounds)
    steps = [entry.step for entry in read_entries(ledgers[0])]
    assert steps == ["restore", "describe", *["gradient"] * 20, "score", *["gradient"] * 20, "score", "finish"]


@pytest.mark.slow
def test_the_coordinators_folder_has_the_costs_of_each_site_and_no_note(quiet: Consortium) -> None:
    record = with_examples(read_run(quiet.run), quiet.run, 4)
    for name in HOSPITALS:
        left = verify(quiet.kits[name] / "site" / "ledger.jsonl").bytes_out
        assert sum(sites[name].up for sites in record.history.costs.values()) == left
    costs = [cost for sites in record.history.costs.values() for cost in sites.values()]
    assert all(0 < cost.worked < cost.seconds for cost in costs)  # the rest is the way there and back
    assert record.excerpts == () and "notes of a site are never shown" in record.no_excerpts
    assert "built_in" not in record.study
    assert (quiet.run / "report.html").is_file()


ROUNDS, DEADLINE = 250, 40.0
# So large that a round is long enough for a process to be killed in the middle of it.
SLOW = {"lstm": 96, "word_cnn": 96, "word_dimension": 32}


@pytest.fixture
def disturbed(tmp_path: Path) -> Iterator[Consortium]:
    text = text_of(
        model=SLOW,
        algorithm={"rounds": ROUNDS},
        training={"batch_size": 64},
        sites={"riverside": RIVERSIDE},
        evaluation={"every": ROUNDS},
        federation={"deadline": DEADLINE, "wait": 90.0},
    )
    consortium = Consortium(tmp_path, text)
    try:
        yield consortium
    finally:
        consortium.end()


class Diary:
    """Who was in which round; of a round that was done again, the last record counts."""

    def __init__(self, consortium: Consortium) -> None:
        self.records = {int(event["round"]): event for event in consortium.events("round")}

    def absences(self, site: str, *, after: int = 0) -> dict[int, str]:
        """The rounds without a site, and why."""
        return {
            number: code
            for number, record in self.records.items()
            for name, _, code in record["absent"]
            if name == site and number > after
        }

    def contributions(self, site: str, *, after: int = 0) -> list[int]:
        absent = self.absences(site)
        return [number for number in sorted(self.records) if number > after and number not in absent]

    def seconds(self, number: int) -> float:
        return float(self.records[number]["time"] - self.records[number - 1]["time"])


def first_missed(consortium: Consortium, site: str, before: int) -> int:
    """Wait until a site was absent after a round: the first round that went on without it."""
    consortium.wait_until(lambda: bool(Diary(consortium).absences(site, after=before)), f"{site} was not missed")
    diary = Diary(consortium)
    first = min(diary.absences(site, after=before))
    assert diary.seconds(first) < DEADLINE
    assert diary.records[first]["answered"] == 2
    return first


def missed_until_back(consortium: Consortium, site: str, *, before: int, away: int) -> list[tuple[int, str]]:
    """Wait until a site is there again after the round it was away in; the rounds it missed, and why."""
    consortium.wait_until(lambda: bool(Diary(consortium).contributions(site, after=away)), f"{site} is not back")
    return sorted(Diary(consortium).absences(site, after=before).items())


def gone_and_back(consortium: Consortium, site: str, before: int) -> list[tuple[int, str]]:
    away = first_missed(consortium, site, before)
    return missed_until_back(consortium, site, before=before, away=away)


def rounds_to_rejoin(missed: list[tuple[int, str]]) -> int:
    """How many rounds a site missed after it could be reached again."""
    unreachable = [number for number, code in missed if code == "unreachable"]
    return missed[-1][0] - max(unreachable, default=missed[0][0]) if missed else 0


def kill_an_engine(consortium: Consortium) -> None:
    before = consortium.round_number()
    kill(consortium.engine("harbour"))
    missed = gone_and_back(consortium, "harbour", before)
    assert {code for _, code in missed} <= {"unreachable", "restarted", "transport"}
    assert rounds_to_rejoin(missed) < 3


def kill_when_it_was_asked(consortium: Consortium, pid: int) -> None:
    """Kill a worker that owes an answer; one that is killed while it owes none is started again, and nobody notices."""
    os.kill(pid, signal.SIGSTOP)
    finished = -1
    while finished != consortium.round_number():  # until the rounds stand still, for they wait for it
        finished = consortium.round_number()
        time.sleep(3)
    kill(pid)


def kill_a_worker(consortium: Consortium) -> None:
    before = consortium.round_number()
    kill_when_it_was_asked(consortium, consortium.worker("hillside"))
    missed = gone_and_back(consortium, "hillside", before)
    assert [code for _, code in missed] == ["worker-died"]


def kill_a_whole_site_and_the_coordinator(consortium: Consortium) -> None:
    """The site is away when the coordinator dies, and comes back to the next start of it.

    A round that the site missed may then be done again, with it: only the rounds after that say that it is back.
    """
    before = consortium.round_number()
    supervisor = consortium.commands["riverside"].process
    for pid in descendants(supervisor.pid):
        kill(pid)
    supervisor.wait()
    first_missed(consortium, "riverside", before)
    kill(consortium.engine("coordinator"))
    finished = consortium.round_number()
    consortium.start_site("riverside", "--built-in", HOSPITALS["riverside"])
    consortium.wait_until(lambda: bool(consortium.events("resumed")), "the coordinator did not resume")
    assert finished - 1 <= consortium.events("resumed")[0]["round"] <= finished
    assert rounds_to_rejoin(missed_until_back(consortium, "riverside", before=before, away=finished)) < 3
    consortium.wait_until(
        lambda: all(Diary(consortium).contributions(site, after=finished) for site in HOSPITALS), "not all are back"
    )


@pytest.mark.slow
def test_a_study_survives_any_killed_process_and_counts_nothing_twice(disturbed: Consortium) -> None:
    start_all(disturbed, supervised=["coordinator", "harbour", "riverside"])
    disturbed.wait_until(lambda: len(Diary(disturbed).contributions("riverside")) >= 2, "it does not begin")
    for disturb in (kill_an_engine, kill_a_worker, kill_a_whole_site_and_the_coordinator):
        disturb(disturbed)
    disturbed.finish()
    diary = Diary(disturbed)
    assert sorted(diary.records) == list(range(1, ROUNDS + 1))
    assert all(record["answered"] + len(record["absent"]) == 3 for record in diary.records.values())
    for site in HOSPITALS:
        contributions, kills = len(diary.contributions(site)), 2  # its own, and the coordinator's
        assert contributions <= disturbed.batches_drawn(site) <= contributions + kills
        verify(disturbed.kits[site] / "site" / "ledger.jsonl")
    assert scores_of(disturbed.run)["sites"].keys() == set(HOSPITALS)
    assert (disturbed.run / "report.html").is_file()


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Consortium]:
    """A study that begins from a model of before and ends with its last round."""
    sections: dict[str, Any] = {
        "model": {**SLOW, "start": "earlier"},
        "algorithm": {"rounds": ROUNDS},
        "training": {"batch_size": 64},
        "sites": {"riverside": RIVERSIDE},
        "evaluation": {"every": ROUNDS, "keep": "last"},
        "privacy": {"minimum_sites": 2},
        "federation": {"deadline": DEADLINE, "wait": 90.0},
    }
    save_model(common_model(tiny(**{**sections, "model": SLOW, "study": {"seed": 8}})), tmp_path / "earlier")
    consortium = Consortium(tmp_path, text_of(**sections))
    try:
        yield consortium
    finally:
        consortium.end()


@pytest.mark.slow
def test_a_hospital_that_joins_late_continues_from_the_shared_half_of_the_others(begun: Consortium) -> None:
    for name in HOSPITALS:
        begun.accept(name)
    for name in ("harbour", "hillside"):
        begun.work_at_site(name, HOSPITALS[name])
    begun.start_coordinator("--start", begun.folder / "earlier", supervised=False)
    begun.wait_until(lambda: begun.round_number() >= 3, "it does not begin")
    begun.work_at_site("riverside", HOSPITALS["riverside"])
    begun.finish()
    diary = Diary(begun)
    joined = diary.contributions("riverside")
    assert joined and min(joined) > 3
    assert joined == list(range(min(joined), ROUNDS + 1))  # from then on, each round
    assert begun.batches_drawn("riverside") == len(joined)
    # Its scores are those of its private half on the shared half that all of them have trained.
    model = load_tensors(begun.kits["riverside"] / "site" / "model" / "model.safetensors")
    for name, part in load_tensors(begun.run / "shared.safetensors").items():
        assert bool((model[name] == part).all())
    scores = scores_of(begun.run)["sites"]["riverside"]
    entries = list(read_entries(begun.kits["riverside"] / "site" / "ledger.jsonl"))
    assert [entry.step for entry in entries][:2] == ["describe", "gradient"] and entries[-1].step == "finish"
    assert scores["documents"] > 0
    assert "earlier" not in begun.kit("riverside").study.decode()


MARKER, NOTES = "Quillfeather", "lantern-street-notes"
FAULTY = f"""
import logging
import sys

if "wardround.studies.worker" in sys.orig_argv:
    from wardround.tasks import ner

    learn, calls = ner.batch_loss, 0

    def fail_once(model, batch):
        global calls
        calls += 1
        if calls != 3:
            return learn(model, batch)
        text = " ".join(word for sentence in batch for word in sentence.words)
        assert {MARKER!r} in text
        print(text)
        print(text, file=sys.stderr)
        logging.getLogger("wardround").error(text)
        raise ValueError(text)

    ner.batch_loss = fail_once
"""


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Consortium]:
    """One site has a sentence that nobody else may see, and an error that quotes it; another has not accepted."""
    for part, size in (("train", 12), ("dev", 4), ("test", 4)):
        Jsonl().write([marked_note(note) for note in notes(size, seed=size)], tmp_path / NOTES / f"{part}.jsonl")
    (tmp_path / "faulty").mkdir()
    (tmp_path / "faulty" / "sitecustomize.py").write_text(FAULTY)
    sites = {"harbour": {"built_in": None, "types": ["Drug", "ADE"]}, "riverside": RIVERSIDE}
    text = text_of(
        sites=sites,
        algorithm={"rounds": 12},
        training={"batch_size": 128},  # the notes of a site are one batch: the sentence is in each
        privacy={"minimum_sites": 2},
        federation={"deadline": 40.0, "wait": 90.0},
    )
    consortium = Consortium(tmp_path, text)
    try:
        yield consortium
    finally:
        consortium.end()


def marked_note(note: Document) -> Document:
    return replace(note, text=f"{note.text} Mrs {MARKER} of Lantern Street agreed.")


def found_in(folder: Path, word: str) -> set[str]:
    """The files below a folder that hold a word."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)) for path in files if word.encode() in path.read_bytes()}


@pytest.mark.slow
def test_no_text_of_a_note_leaves_its_site_even_after_an_error(marked: Consortium) -> None:
    marked.accept("harbour")
    path = os.pathsep.join([str(marked.folder / "faulty"), *filter(None, [os.environ.get("PYTHONPATH")])])
    data = ("--data", marked.folder / NOTES, "--format", "jsonl")
    marked.start_site("harbour", *data, environment={"PYTHONPATH": path})
    marked.accept("hillside")
    for name in ("hillside", "riverside"):
        marked.work_at_site(name, HOSPITALS[name])
    marked.start_coordinator(supervised=False)
    marked.wait_until(lambda: bool(marked.events("round_failed")), "no error was raised")
    marked.accept("riverside")
    marked.finish()

    failed = marked.events("round_failed")[0]
    assert failed["round"] == 3
    assert "harbour failed ValueError" in failed["reason"] and "riverside refused not-accepted" in failed["reason"]
    diary = Diary(marked)
    assert sorted(diary.records) == list(range(1, 13))
    assert diary.absences("harbour") == {}
    assert diary.absences("riverside") == {1: "not-accepted", 2: "not-accepted"}
    assert scores_of(marked.run)["sites"].keys() == set(HOSPITALS)

    shutil.rmtree(marked.folder / "faulty")
    assert found_in(marked.folder, MARKER) == {f"{NOTES}/{part}.jsonl" for part in ("train", "dev", "test")}
    assert found_in(marked.folder, NOTES) == {"kits/harbour/site/worker.json"}
    log = (marked.kits["harbour"] / "logs" / "engine.log").read_text()
    assert "step=gradient round=3 failed: ValueError" in log
