"""Attacks by files and messages that break a parser: deep nesting, endless numbers, `true` instead of a number.

None of them may end in an error that was not foreseen, which says nothing of the file or of what to do.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import exit_code
from tests.studies import tiny_studies
from tests.sweeps import tiny_sweeps

from wardround.corpora.jsonl import Jsonl
from wardround.corpora.splits import Manifest
from wardround.corpora.type_names import read_type_names
from wardround.errors import CorpusError, KitError, MessageError, StudyError, UsageError, WardroundError
from wardround.federation.ledger import verify
from wardround.federation.message import decode
from wardround.redaction.journal import Journal
from wardround.reports.event_file import START, read_after
from wardround.reports.run_record import sweep_row
from wardround.reports.training_page import ERROR_COUNTS, read_error_counts
from wardround.secure_aggregation.keys.key_log import read_log
from wardround.secure_aggregation.keys.material import PublicParameters
from wardround.settings import with_settings
from wardround.studies.note_counts import read_note_counts
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_reading import read_run
from wardround.studies.study_file import parse_study, read_study
from wardround.studies.study_sections import FederationSection
from wardround.studies.watched_runs import runs_in
from wardround.sweeps.folders import read_table
from wardround.sweeps.sweep_file import read_sweep

DEEP, LONG = 100_000, 5_000
JSON: dict[str, bytes] = {
    "deep lists": b"[" * DEEP,
    "deep objects": b'{"a":' * DEEP,
    "deep and closed": b'{"version": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep within Python's own limit": b"[" * 900 + b"]" * 900,
    "long number": b'{"version": ' + b"9" * LONG + b"}",
    "number that is no float": b'{"version": ' + b"9" * 400 + b"}",
    "NaN": b'{"version": NaN}',
    "infinite": b'{"version": -Infinity, "time": 1e999}',
    "no UTF-8": b'{"\xff": 1}',
    "half a character": b'{"a": "\\ud83d"}',
    "nothing": b"",
    "null": b"null",
    "list": b"[]",
    "text": b'"version"',
    "number": b"1",
    "true": b"true",
    "zeros": b"\0" * 100,
}
TOML: dict[str, str] = {
    "deep lists": "a = " + "[" * DEEP,
    "deep tables": "a = " + "{b = " * DEEP,
    "deep and closed": "a = " + "[" * DEEP + "]" * DEEP,
    "deep within Python's own limit": "a = " + "[" * 150 + "]" * 150,
    "deep names": ".".join("a" * 2_000) + " = 1",
    "deep sections": "[" + ".".join("a" * 2_000) + "]",
    "long number": "a = " + "9" * LONG,
    "long number in sixteens": "a = 0x" + "f" * DEEP,
    "number that is no float": "a = " + "9" * 400,
    "NaN": "a = nan",
    "infinite": "a = -inf",
    "too large": "a = 1e999",
    "no date": "a = 2021-02-31",
    "zeros": "\0",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run" / "file.json"


def foreseen(act: Callable[[], object]) -> None:
    """Check that only one of our own errors is raised."""
    with suppress(WardroundError):
        act()


# Study files, sweep files and mappings of names.


STUDY_FAULTS = r"the study file (is no TOML|is nested too deeply|holds )|\[more\] is not a section"


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_a_study_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(tiny_studies.text_of() + f"\n[more]\n{text}\n")
    with pytest.raises(StudyError, match=STUDY_FAULTS):
        read_study(path)
    with pytest.raises(StudyError, match=STUDY_FAULTS):
        parse_study(path.read_text())


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_a_sweep_file_and_the_study_it_names(text: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(f"{text}\n")
    with pytest.raises(StudyError, match=r"(is no TOML|is nested too deeply|holds |is not a section)"):
        read_sweep(path)
    (tmp_path / "study.toml").write_text(f"{text}\n")
    tiny_sweeps.write(path, base=None, sweep={"name": "tiny", "study": "study.toml"})
    with pytest.raises(StudyError, match=r"study\.toml (is no TOML|is nested too deeply|holds )"):
        read_sweep(path)


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_a_mapping_of_type_names(text: str, tmp_path: Path) -> None:
    (tmp_path / "names.toml").write_text(f"{text}\n")
    with pytest.raises(CorpusError, match=r"^names\.toml"):
        read_type_names(tmp_path / "names.toml")


@pytest.mark.parametrize("command", [("study", "show"), ("study", "check"), ("run", "--out", "out"), ("sweep", "show")])
@pytest.mark.parametrize("text", [TOML["deep lists"], TOML["deep names"], TOML["long number"], TOML["NaN"]])
def test_commands_report_a_malformed_file_in_a_short_message(
    command: tuple[str, ...], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(f"{text}\n")
    words = [word if word != "out" else str(tmp_path / "out") for word in command]
    assert exit_code(*words, path) == 2
    said = capsys.readouterr().err
    assert "unexpected" not in said
    assert len(said) < 1000


@pytest.mark.parametrize("part", ["a", '"a"', "'a'", "a ", '"\\""', '"\\\\"', "'\\'", "é"])
def test_a_name_of_many_parts_that_fills_the_memory(part: str) -> None:
    """Python's parser needs time and memory quadratic in the number of parts: gigabytes for a file of 200 kB."""
    with pytest.raises(StudyError, match="the study file is nested too deeply"):
        parse_study(".".join([part] * 1_000_000) + " = 1")


def test_a_study_file_that_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.touch()
    with path.open("r+b") as stream:
        stream.truncate(10**12)
    with pytest.raises(StudyError, match=r"study\.toml is larger than"):
        read_study(path)
    with pytest.raises(StudyError, match=r"study\.toml is larger than"):
        read_sweep(path)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("study", "seed", "true"),
        ("study", "seed", str(2**63)),
        ("study", "seed", str(-(2**70))),
        ("algorithm", "rounds", "true"),
        ("algorithm", "rounds", "9" * 50),
        ("federation", "checkpoint_every", "false"),
        ("privacy", "minimum_sites", "true"),
        ("training", "batch_size", "true"),
        ("federation", "deadline", "true"),
        ("federation", "deadline", "nan"),
        ("federation", "deadline", "inf"),
    ],
)
def test_a_study_setting_that_is_not_a_valid_number_is_refused(section: str, key: str, value: str) -> None:
    text = '[study]\nname = "tiny"\n[sites.east]\nbuilt_in = "harbour-0000"\n'
    text = (
        text.replace("[study]\n", f"[study]\n{key} = {value}\n")
        if section == "study"
        else (text + f"[{section}]\n{key} = {value}\n")
    )
    with pytest.raises(StudyError, match=rf"\[{section}\] {key} is .* it must be"):
        parse_study(text)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "NaN", "Infinity"])
def test_a_command_option_that_is_not_a_number_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="is not a number"):
        with_settings(FederationSection(), {"deadline": value}, "the federation")


@pytest.mark.parametrize("value", ["9" * 30, "-" + "9" * 30, "9" * LONG, "true", "1.5", "1e3"])
def test_a_command_option_that_is_not_an_integer_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="is not a whole number") as caught:
        with_settings(FederationSection(), {"checkpoint_every": value}, "the federation")
    assert len(str(caught.value)) < 500


# Kits.


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("nvflare", reason="kits need wardround[flare]")
    from wardround.provisioning.kits import KitPlan, provision

    study = b'[study]\nname = "heart"\n[sites.harbour]\n'
    plan = KitPlan("heart", "localhost", 8002, ("harbour",), days=30)
    return provision(plan, study, tmp_path_factory.mktemp("made") / "kits")["harbour"]


@pytest.fixture
def kit(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "harbour"))


FACTS: dict[str, Any] = {
    "port": [True, False, 8002.0, "8002", None, [8002], 0, 65536, 10**50, -1],
    "days": [True, 30.0, "30", None, 0, 10**50],
    "sites": ["harbour", {"harbour": 1}, [True], [["harbour"]], [None], [], None, 1],
    "study": [True, 1, None, ["heart"], ""],
    "host": [True, 1, None, ["localhost"], ""],
    "keys": [True, 1, ["localhost:1"], "localhost:true", "localhost"],
    "name": [True, 1, None, ["harbour"], ""],
    "version": [True, 1, 4, None, "3", [3], 2.5],
    "study_sha256": [True, 1, None, [], ""],
    "role": [True, 1, None, ["site"], "coordinator"],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in FACTS.items() for value in values])
def test_kit_facts_of_a_wrong_type(key: str, value: Any, kit: Path) -> None:
    from wardround.provisioning.kits import read_kit

    facts = json.loads((kit / "kit.json").read_text())
    (kit / "kit.json").write_text(json.dumps(facts | {key: value}))
    with pytest.raises(KitError) as caught:
        read_kit(kit)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("value", [True, 8002.0, "8002", None])
def test_a_plan_requires_numbers(value: Any) -> None:
    pytest.importorskip("nvflare", reason="kits need wardround[flare]")
    from wardround.provisioning.kits import KitPlan

    with pytest.raises(KitError, match="port: a whole number"):
        KitPlan("heart", "localhost", value, ("harbour",))
    with pytest.raises(KitError, match="days of validity: a whole number"):
        KitPlan("heart", "localhost", 8002, ("harbour",), days=value)


@pytest.mark.parametrize("data", JSON.values(), ids=JSON)
def test_an_invalid_kit_json_is_refused(data: bytes, kit: Path) -> None:
    from wardround.provisioning.kits import read_kit

    (kit / "kit.json").write_bytes(data)
    with pytest.raises(KitError, match=r"kit\.json"):
        read_kit(kit)


def test_a_kit_that_fills_the_memory(kit: Path) -> None:
    from wardround.provisioning.kits import read_kit

    with (kit / "kit.json").open("r+b") as stream:
        stream.truncate(10**12)
    with pytest.raises(KitError, match=r"kit\.json .* larger than"):
        read_kit(kit)


# Messages.


@pytest.mark.parametrize("data", JSON.values(), ids=JSON)
def test_a_header_of_a_message(data: bytes) -> None:
    with pytest.raises(MessageError):
        decode(b"WRM1" + struct.pack("<I", len(data)) + data)


@pytest.mark.parametrize("part", ["values", "arrays", "blobs"])
@pytest.mark.parametrize("deep", [b"[" * 400_000, b"[" * 900 + b"]" * 900, b'{"a":' * 900 + b"1" + b"}" * 900])
def test_a_deep_part_of_a_header(part: str, deep: bytes) -> None:
    parts = {"values": b"{}", "arrays": b"[]", "blobs": b"[]"} | {part: deep}
    header = b"{" + b",".join(b'"%s":%s' % (name.encode(), found) for name, found in parts.items()) + b"}"
    with pytest.raises(MessageError):
        decode(b"WRM1" + struct.pack("<I", len(header)) + header)


@pytest.mark.parametrize("data", JSON.values(), ids=JSON)
def test_public_parameters_of_an_epoch(data: bytes) -> None:
    with pytest.raises(MessageError, match="these are not public parameters of an epoch"):
        PublicParameters.from_json(data)


@pytest.mark.parametrize("key", ["study", "epoch", "scheme", "id", "oldest"])
@pytest.mark.parametrize("value", [True, None, [], {}, 1.5, "", 10**50])
def test_public_parameters_of_another_kind(key: str, value: Any) -> None:
    good = {"study": "5e" * 32, "epoch": 1, "scheme": "bfv-standard", "id": "ab" * 16, "oldest": 0}
    PublicParameters.from_values(good)
    with pytest.raises(MessageError, match="these are not public parameters of an epoch"):
        PublicParameters.from_values(good | {key: value})


# Corpora.


@pytest.mark.parametrize("data", JSON.values(), ids=JSON)
def test_a_line_of_a_corpus(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_bytes(data + b"\n")
    foreseen(lambda: list(Jsonl().read(tmp_path / "notes.jsonl")))


@pytest.mark.parametrize("shape", ["own", "prodigy", "spacy", "doccano", "label-studio", "presidio"])
@pytest.mark.parametrize("value", [True, False, 10**50, -1, 1.5, None, "0", [[[]]]])
def test_invalid_offsets(shape: str, value: Any, tmp_path: Path) -> None:
    span = {"start": value, "end": 4, "label": "A", "type": "A", "entity_type": "A", "ranges": [[value, 4]], "id": "T1"}
    inner = {"text": "Took", "full_text": "Took", "entities": [span], "spans": [span], "label": [[value, 4, "A"]]}
    line: Any = ["Took", {"entities": [[value, 4, "A"]]}] if shape == "spacy" else inner
    (tmp_path / "notes.jsonl").write_text(json.dumps(line) + "\n")
    with suppress(WardroundError):
        for document in Jsonl(shape=shape).read(tmp_path / "notes.jsonl", problems=lambda _: None):  # type: ignore[arg-type]
            assert [entity.start for entity in document.entities if isinstance(entity.start, bool)] == []


@pytest.mark.parametrize("data", JSON.values(), ids=JSON)
def test_a_manifest_of_splits(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "split.json").write_bytes(data)
    with pytest.raises(CorpusError, match=r"^split\.json"):
        Manifest.read(tmp_path / "split.json")


# Runs, ledgers and journals, which somebody else may have written.

FILES = ("events.jsonl", "scores.json", "summary.json", "study.toml", "note-counts.json", ERROR_COUNTS)


def readers(folder: Path) -> Iterator[Callable[[], object]]:
    """Return every function that reads a run folder."""
    yield lambda: read_run(folder)
    yield lambda: list(RunFolder(folder).events())
    yield lambda: read_after(folder / "events.jsonl", START)
    yield lambda: [run.facts for run in runs_in(folder.parent, site=False).all()]
    yield lambda: [run.facts for run in runs_in(folder.parent, site=True).all()]
    yield lambda: sweep_row(folder, 1)
    yield lambda: read_note_counts(folder)
    yield lambda: read_error_counts(folder)
    yield lambda: [read_table(folder / name) for name in FILES]
    yield lambda: list(read_log(folder / "events.jsonl"))
    yield lambda: Journal(folder, {}, resume=True)


@pytest.mark.parametrize("name", [*FILES, "ledger.jsonl", "journal.jsonl", "kit.json"])
@pytest.mark.parametrize("data", JSON.values(), ids=JSON)
def test_a_file_of_a_run(name: str, data: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text('{"event": "start"}\n')
    (folder / name).write_bytes(data + b"\n")
    for act in readers(folder):
        foreseen(act)


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_the_study_of_a_run(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text('{"event": "start"}\n')
    (folder / "study.toml").write_text(f"{text}\n")
    for act in readers(folder):
        foreseen(act)


SCORES: list[Any] = [
    {"sites": []},
    {"sites": {"east": []}},
    {"sites": {"east": {"strict": [1]}}},
    {"sites": {"east": {"strict": {"f1": "x"}}}},
    {"sites": {"east": {"strict": {"types": {"Drug": {"tp": True}}}}}},
    {"sites": None, "traffic": 1},
    {"traffic": []},
    {"rounds": [], "best_round": {}},
    {"test": []},
    {"strict": {"f1": []}},
]


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("studied", [True, False])
def test_scores_of_another_shape(scores: Any, studied: bool, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "scores.json").write_text(json.dumps(scores))
    if studied:
        (folder / "study.toml").write_text(tiny_studies.text_of())
    foreseen(lambda: read_run(folder))


@pytest.mark.parametrize(
    "event", [[], {"event": []}, {"event": "round", "loss": "x"}, {"event": "round", "time": 1e308}]
)
def test_events_of_another_shape(event: Any, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "events.jsonl").write_text(json.dumps(event) + "\n" + '{"event": "round", "round": 1e999}\n')
    foreseen(lambda: read_run(folder))


@pytest.mark.parametrize("data", JSON.values(), ids=JSON)
def test_a_ledger(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_bytes(data + b"\n")
    with pytest.raises(WardroundError, match=r"^ledger\.jsonl"):
        verify(tmp_path / "ledger.jsonl")


@pytest.mark.parametrize(
    "notes", [[], "x", 1, {"transfer": []}, {"transfer": {"layers": 1}}, {"transfer": {"layers": [1]}}]
)
def test_a_report_on_a_model_with_notes_of_another_shape(
    notes: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "one"
    (folder / "model").mkdir(parents=True)
    (folder / "events.jsonl").write_text('{"event": "start"}\n')
    card = {"format": 1, "kind": "word-tagger", "config": {}, "types": [], "notes": notes}
    (folder / "model" / "wardround.json").write_text(json.dumps(card))
    exit_code("report", folder)
    assert "unexpected" not in capsys.readouterr().err


# One place for parsers.

SOURCE = Path(__file__).resolve().parents[2] / "src" / "wardround"
# A message has limits of its own, lines of a corpus are parsed where a faulty one is reported, and a vault is our own.
ELSEWHERE = {
    "parsing.py",
    "federation/message.py",
    "corpora/jsonl.py",
    "cli/redact.py",
    "secure_aggregation/keys/service_state.py",
}


def test_files_of_others_are_parsed_in_one_place() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(call in path.read_text(encoding="utf-8") for call in ("json.loads(", "json.load(", "tomllib.load"))
    }
    assert found <= ELSEWHERE
