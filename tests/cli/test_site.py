"""`wardround site review` and `start`; how a site comes to its kit is in test_provision.py."""

from __future__ import annotations

import json
import re
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.running import Run
from tests.models.tiny import notes
from tests.studies.tiny_studies import text_of

pytest.importorskip("nvflare", reason="kits need wardround[flare]")

from wardround.corpora.jsonl import Jsonl
from wardround.federation.engines.flare import supervisor
from wardround.federation.ledger import Ledger
from wardround.federation.message import Message
from wardround.provisioning.kits import provision
from wardround.studies.networked import plan_kits
from wardround.studies.run_guard import run_lock
from wardround.studies.study_file import parse_study
from wardround.text.tag_sets import TagSet

NOT_ACCEPTED = "the study was not accepted; read `wardround site review harbour`, then add --accept"


def provisioned(folder: Path, text: str) -> Path:
    """The kit of harbour."""
    study = folder / "study.toml"
    study.write_text(text, encoding="utf-8")
    return provision(*plan_kits(study, host="localhost", port=9000, days=2), folder / "kits")["harbour"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kits; a test must leave them as they are."""
    return provisioned(tmp_path_factory.mktemp("made"), text_of()).parent


@pytest.fixture
def kit(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "kits") / "harbour"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What the supervisor was given to run; it runs nothing, and says that all went well."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: commands.append(command) or 0)
    return commands


def test_a_study_is_read_and_then_accepted(kit: Path, run: Run) -> None:
    first = run("site", "review", kit)
    assert first.code == 0
    said = first.out.splitlines()
    assert said[-1] == "Not accepted: add --accept to take part."
    assert "  Its coordinator is at localhost:9000; it has 2 sites: harbour, hillside." in said
    assert [line for line in said if line and not line.startswith(" ")][:-1] == [
        "The study",
        "What would run here",
        "What would leave this site",
        "What would stay",
        "Who could read what leaves",
    ]
    assert str(kit) not in first.out and "harbour-0000" not in first.out
    accepted = run("site", "review", kit, "--accept", "--by", "Dr Quill").out.splitlines()[-1]
    assert re.fullmatch(
        rf"Accepted by Dr Quill at \d{{4}}-.* UTC with version {re.escape(version('wardround'))}\.", accepted
    )
    assert run("site", "review", kit).out.splitlines()[-1] == accepted
    written = json.loads((kit / "site" / "accepted.json").read_text())
    assert (written["by"], written["version"]) == ("Dr Quill", version("wardround"))
    (kit / "site" / "accepted.json").write_text(json.dumps({"study": written["study"]}))  # as earlier versions wrote it
    assert run("site", "review", kit).out.splitlines()[-1] == "Accepted."


def test_start_refuses_a_study_that_was_not_accepted(kit: Path, run: Run, started: list[tuple[str, ...]]) -> None:
    ran = run("site", "start", kit, "--built-in", "harbour-0000")
    assert ran.code == 2
    assert ran.err == f"wardround: {NOT_ACCEPTED}\n"
    assert not started and not (kit / "site" / "worker.json").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"study": "0"}', '{"study": null}', "accepted"])
def test_an_acceptance_of_another_study_does_not_count(
    content: str, kit: Path, run: Run, started: list[tuple[str, ...]]
) -> None:
    assert run("site", "review", kit, "--accept").code == 0
    (kit / "site" / "accepted.json").write_text(content, encoding="utf-8")
    assert NOT_ACCEPTED in run("site", "start", kit, "--built-in", "harbour-0000").err
    assert not started


def test_a_study_that_changed_after_it_was_accepted(
    kit: Path, run: Run, tmp_path: Path, started: list[tuple[str, ...]]
) -> None:
    """In the same kit it is an altered kit; in a new one the old word does not count."""
    assert run("site", "review", kit, "--accept").code == 0
    (tmp_path / "second").mkdir()
    changed = provisioned(tmp_path / "second", text_of(algorithm={"rounds": 7}))
    shutil.copytree(kit / "site", changed / "site")
    assert NOT_ACCEPTED in run("site", "start", changed, "--built-in", "harbour-0000").err
    shutil.copy(changed / "study.toml", kit / "study.toml")
    for words in (("review", kit, "--accept"), ("start", kit, "--built-in", "harbour-0000")):
        ran = run("site", *words)
        assert ran.code == 2
        assert "study.toml was altered after the kit was made" in ran.err_in_one_line
    assert not started


def test_start_writes_local_choices_only_for_the_worker(
    kit: Path, run: Run, tmp_path: Path, started: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("train", "dev", "test"):
        Jsonl().write(notes(3), tmp_path / "ward" / f"{part}.jsonl")
    assert run("site", "review", kit, "--accept").code == 0
    monkeypatch.chdir(tmp_path)
    ran = run("site", "start", kit, "--data", "ward", "--format", "jsonl", "--device", "cpu", "--threads", "2")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "harbour takes part in tiny; coordinator localhost:9000",
        f"ledger  {kit / 'site' / 'ledger.jsonl'}",
    ]
    assert started == [(sys.executable, "-m", "wardround.cli.main", "site", "work", str(kit))]
    file = kit / "site" / "worker.json"
    assert file.stat().st_mode & 0o777 == 0o600
    spec = json.loads(file.read_text(encoding="utf-8"))
    assert (spec["site"], spec["device"], spec["threads"]) == ("harbour", "cpu", 2)
    mine, other = parse_study(spec["study"]).sites.values()
    assert (mine.data, mine.format, mine.types) == (tmp_path / "ward", "jsonl", ("Drug", "Disease", "Dosage"))
    assert (other.data, other.format, other.built_in, other.scheme) == (None, "", "", "BIOES")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "name the notes by --data and --format, or a synthetic hospital by --built-in"),
        (("--format", "brat"), "name the notes by --data and --format"),
        (("--data", "."), "name the notes by --data and --format"),
        (("--data", ".", "--format", "brat", "--built-in", "harbour"), "name the notes by --data and --format"),
        (("--data", ".", "--format", "brta"), "did you mean 'brat'"),
        (("--data", ".", "--format", "jsonl"), "notes: contains no file ending in .jsonl"),
        (("--built-in", "harbor"), "did you mean 'harbour'"),
    ],
)
def test_unreadable_notes_are_reported_before_the_site_takes_part(
    words: tuple[str, ...],
    complaint: str,
    kit: Path,
    run: Run,
    started: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run("site", "review", kit, "--accept").code == 0
    (kit / "notes").mkdir()
    monkeypatch.chdir(kit / "notes")
    ran = run("site", "start", kit, *words)
    assert ran.code == 2
    assert complaint in ran.err_in_one_line
    assert str(kit.parent) not in ran.err
    assert not started and not (kit / "site" / "worker.json").exists()


def ward_of(folder: Path) -> Path:
    """Notes that call a drug a medication, and what it did nothing that anybody knows."""
    theirs = {"Drug": "medication", "ADE": "Druq"}
    for part in ("train", "dev", "test"):
        Jsonl().write([TagSet.rename(note, theirs) for note in notes(3)], folder / "ward" / f"{part}.jsonl")
    return folder / "ward"


def test_the_type_names_of_a_hospital_stay_there(
    run: Run, tmp_path: Path, started: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study").mkdir()
    more = {"scored": ["Drug", "Disease", "Dosage", "ADE"], "names": "/elsewhere/lantern-street.toml"}
    kit = provisioned(tmp_path / "study", text_of(sites={"harbour": more}))
    assert not [path for path in kit.parent.rglob("*") if path.is_file() and b"lantern-street" in path.read_bytes()]
    assert run("site", "review", kit, "--accept").code == 0
    ward_of(tmp_path)
    (tmp_path / "ours.toml").write_text('medication = "Drug"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    ran = run("site", "start", kit, "--data", "ward", "--format", "jsonl", "--names", "ours.toml")
    assert ran.code == 0
    told = "not learned: 3 of 'Druq', which is no type of the study – did you mean 'Drug'?; see --names"
    assert ran.out.splitlines()[0] == told
    mine, other = parse_study(json.loads((kit / "site" / "worker.json").read_text())["study"]).sites.values()
    assert (mine.data, mine.names) == (tmp_path / "ward", tmp_path / "ours.toml")
    assert mine.scored == ("Drug", "Disease", "Dosage", "ADE")  # as the study says
    assert (mine.types, mine.scheme, other.names) == (("Drug", "Disease", "Dosage"), "", None)
    assert len(started) == 1


def test_invalid_type_names_are_reported_before_the_site_takes_part(
    kit: Path, run: Run, tmp_path: Path, started: list[tuple[str, ...]]
) -> None:
    assert run("site", "review", kit, "--accept").code == 0
    (tmp_path / "ours.toml").write_text('medication = "Drugg"\n', encoding="utf-8")
    words = ("site", "start", kit, "--data", ward_of(tmp_path), "--format", "jsonl", "--names", tmp_path / "ours.toml")
    ran = run(*words)
    assert ran.code == 2
    said = "[sites.harbour] names: ours.toml: 'medication' is mapped to 'Drugg', which is not a type of the study"
    assert said in ran.err_in_one_line
    assert str(tmp_path) not in ran.err
    assert not started and not (kit / "site" / "worker.json").exists()


@pytest.mark.parametrize("words", [("review",), ("start", "--built-in", "harbour-0000")])
def test_the_coordinators_kit_is_refused(words: tuple[str, ...], kit: Path, run: Run) -> None:
    command, *options = words
    ran = run("site", command, kit.parent / "coordinator", *options)
    assert ran.code == 2
    assert ran.err == "wardround: coordinator is the coordinator's kit; `wardround coordinator start` takes it\n"
    assert not (kit.parent / "coordinator" / "site").exists()


@pytest.fixture
def with_vectors(tmp_path: Path) -> Path:
    """The kit of harbour in a study with word vectors, which lie elsewhere at each party."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "glove.txt").write_text("aspirin 1 2 3\nrash 4 5 6\n", encoding="utf-8")
    (tmp_path / "lantern-street").mkdir()
    return provisioned(tmp_path / "lantern-street", text_of(model={"vectors": "glove.txt"}))


def test_where_the_coordinator_has_its_vectors_is_in_no_kit(with_vectors: Path) -> None:
    files = [path for path in with_vectors.parent.rglob("*") if path.is_file()]
    assert b'vectors = "glove.txt"\n' in (with_vectors / "study.toml").read_bytes()
    assert not [path.name for path in files if b"lantern-street" in path.read_bytes()]


def test_a_site_says_where_its_own_vectors_are(
    with_vectors: Path, run: Run, tmp_path: Path, started: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "mine")
    reviewed = run("site", "review", with_vectors, "--vectors", "glove.txt", "--accept")
    # Vectors of two words, three numbers each, and two rows that are always there.
    assert "words.weight 4 × 3" in reviewed.out
    assert run("site", "start", with_vectors, "--built-in", "harbour-0000", "--vectors", "glove.txt").code == 0
    assert started == [(sys.executable, "-m", "wardround.cli.main", "site", "work", str(with_vectors))]
    spec = json.loads((with_vectors / "site" / "worker.json").read_text(encoding="utf-8"))
    assert parse_study(spec["study"]).model.vectors == tmp_path / "mine" / "glove.txt"


@pytest.mark.parametrize("words", [("review",), ("start", "--built-in", "harbour-0000")])
def test_vectors_are_named_exactly_where_the_study_has_some(
    words: tuple[str, ...], kit: Path, with_vectors: Path, run: Run, tmp_path: Path, started: list[tuple[str, ...]]
) -> None:
    command, *options = words
    vectors = ("--vectors", tmp_path / "mine" / "glove.txt")
    assert run("site", "review", kit, "--accept").code == 0
    assert run("site", "review", with_vectors, *vectors, "--accept").code == 0
    left_out = run("site", command, with_vectors, *options)
    assert left_out.code == 2
    assert "uses the word vectors glove.txt; give the path with --vectors" in left_out.err_in_one_line
    too_much = run("site", command, kit, *options, *vectors)
    assert too_much.code == 2
    assert "the study names no word vectors; leave --vectors out" in too_much.err_in_one_line
    assert not started


# The site's own policy about what updates reveal.


@pytest.fixture(scope="module")
def made_with_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kit of a study that shares a table in which few words have the same row."""
    return provisioned(tmp_path_factory.mktemp("words"), text_of(model={"word_buckets": 8192}))


@pytest.fixture
def leaking(made_with_words: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made_with_words, tmp_path / "leaking" / "harbour")


def set_policy(kit: Path, text: str) -> None:
    (kit / "site").mkdir(exist_ok=True)
    (kit / "site" / "site_policy.toml").write_text(text, encoding="utf-8")


def test_a_study_above_the_recall_of_the_policy_is_refused(leaking: Path, run: Run) -> None:
    set_policy(leaking, "[leakage]\nhighest_token_recall = 0.5\n")
    ran = run("site", "review", leaking, "--accept")
    assert ran.code == 2
    refused = "the study is refused (site_policy.toml, [leakage] highest_token_recall 0.5): From one site's update"
    assert ran.err.startswith(f"wardround: {refused}")
    assert not (leaking / "site" / "accepted.json").exists()
    assert (leaking / "site" / "leakage.html").is_file()  # where the owner can read why


def test_a_policy_that_changed_needs_another_review(leaking: Path, run: Run, started: list[tuple[str, ...]]) -> None:
    """Whatever was accepted before, the site does not answer under a stricter policy."""
    assert run("site", "review", leaking, "--accept").code == 0
    set_policy(leaking, "[leakage]\nhighest_token_recall = 0.5\n")
    assert NOT_ACCEPTED in run("site", "start", leaking, "--built-in", "harbour-0000").err
    assert not started
    set_policy(leaking, "[leakage]\nfewest_tokens = 10\n")
    assert run("site", "review", leaking, "--accept").out.splitlines()[-1].startswith("Accepted by ")
    assert run("site", "start", leaking, "--built-in", "harbour-0000").code == 0


def test_a_study_below_the_tokens_of_the_policy_is_refused(leaking: Path, run: Run) -> None:
    set_policy(leaking, "[leakage]\nfewest_tokens = 5000\n")
    ran = run("site", "review", leaking, "--accept")
    assert ran.code == 2
    assert "site_policy.toml requires 5,000 words ([leakage] fewest_tokens); raise" in ran.err_in_one_line


def test_the_review_shows_the_audit_and_writes_a_page(leaking: Path, run: Run, tmp_path: Path) -> None:
    ran = run("site", "review", leaking, "--audit", "--html", tmp_path / "review.html")
    assert ran.code == 0
    assert "What updates reveal" in ran.out.splitlines()
    page = (tmp_path / "review.html").read_text(encoding="utf-8")
    assert page.index("Who could read what leaves") < page.index("What updates reveal")
    shown = json.loads(run("site", "review", leaking, "--audit", "--json").out)
    assert {finding["attack"] for finding in shown["leakage"]["findings"]} == {
        "changed rows",
        "span test",
        "crafted layer",
    }


def test_the_audit_of_a_review_can_use_the_sites_own_notes(leaking: Path, run: Run, tmp_path: Path) -> None:
    Jsonl().write(notes(12), tmp_path / "ward" / "train.jsonl")
    ran = run("site", "review", leaking, "--data", tmp_path / "ward", "--format", "jsonl", "--json")
    assert json.loads(ran.out)["leakage"]["own_notes"] is True
    assert not any(word in ran.said for word in ("aspirin", "penicillin", "metformin", str(tmp_path)))
    assert (
        "name the notes of the audit by --data and --format" in run("site", "review", leaking, "--format", "jsonl").err
    )


def test_status_says_what_happens_here(kit: Path, run: Run) -> None:
    facts = [line.split(maxsplit=1) for line in run("site", "status", kit).out.splitlines()]
    assert facts[:5] == [
        ["study", "tiny"],
        ["site", "harbour"],
        ["coordinator", "localhost:9000"],
        ["accepted", "no; `wardround site review` shows what would run here"],
        ["process", "none"],
    ]
    assert run("site", "review", kit, "--accept", "--by", "Dr Quill").code == 0
    with run_lock(kit / "site"):
        found = json.loads(run("site", "status", kit, "--json").out)
    assert found["accepted"].startswith("by Dr Quill at ")
    assert found["process"].startswith("process ")
    assert found["model"] == "not written yet"
    ledger = Ledger(kit / "site" / "ledger.jsonl")
    ledger.record(Message({"loss": 0.5}), study="tiny", step="train", round_number=3, mechanism="plain")
    ledger.record_refusal("round", study="tiny", step="train", round_number=4, mechanism="plain")
    found = json.loads(run("site", "status", kit, "--json").out)
    assert found["ledger"].startswith("2 lines, ")
    assert found["last_request"].startswith("round 4, train, refused (round), 20")
    assert run("site", "status", kit.parent / "coordinator").code == 2
