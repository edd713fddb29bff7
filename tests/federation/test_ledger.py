from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wardround.errors import LedgerError, MessageError
from wardround.federation import ledger as ledger_module
from wardround.federation.ledger import Entry, Ledger, read_entries, verify
from wardround.federation.message import Message, encode

NOTHING_BEFORE = "0" * 64


def record(ledger: Ledger, message: Message | None = None, *, round_number: int = 1) -> bytes:
    return ledger.record(
        message or Message({"round": round_number}),
        study="s",
        step="train",
        round_number=round_number,
        mechanism="plain",
    )


def written(path: Path, entries: int = 4) -> list[bytes]:
    """Write a ledger with this many entries; return its lines."""
    ledger = Ledger(path)
    for number in range(1, entries + 1):
        record(ledger, round_number=number)
    return path.read_bytes().splitlines(keepends=True)


def head_of(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def fault(path: Path) -> str:
    """Return the error, which is the same for reading and for opening to write; neither changes the file."""
    before = path.read_bytes()
    with pytest.raises(LedgerError) as read:
        verify(path)
    with pytest.raises(LedgerError) as opened:
        Ledger(path)
    assert str(read.value) == str(opened.value)
    assert path.read_bytes() == before
    return str(read.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "egress.jsonl"


def chained(previous: str, *, round_number: int = 1) -> bytes:
    """Return a well-formed line, as an attacker who knows the format could write it."""
    entry: dict[str, Any] = {
        "time": 0.0,
        "study": "s",
        "round": round_number,
        "step": "train",
        "arrays": [],
        "values": [],
        "blobs": {},
        "bytes": 1,
        "digest": "",
        "mechanism": "plain",
        "weight": None,
        "previous": previous,
    }
    return json.dumps(entry).encode() + b"\n"


def test_two_lines_by_hand(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1234.56789)
    ledger = Ledger(path)
    first = Message({"weight": 2.0, "loss": 0.5}, {"update/w": np.zeros((2, 3), np.float32)})
    second = Message({}, {}, {"key": b"hello"})
    sent = ledger.record(first, study="heart", step="gradient", round_number=7, mechanism="plain")
    sent_next = ledger.record(second, study="heart", step="keys", round_number=8, mechanism="masked")

    header = b'{"values":{},"arrays":[],"blobs":[["key",5]]}'  # 45 bytes
    assert sent_next == b"WRM1" + b"\x2d\x00\x00\x00" + header + b"hello"
    line = (
        '{"time":1234.568,"study":"heart","round":7,"step":"gradient","arrays":[["update/w",[2,3]]],'
        f'"values":["loss","weight"],"blobs":{{}},"bytes":{len(sent)},"digest":"{sha256(sent).hexdigest()}",'
        f'"mechanism":"plain","weight":2.0,"previous":"{NOTHING_BEFORE}","refusal":""}}'
    )
    next_line = (
        '{"time":1234.568,"study":"heart","round":8,"step":"keys","arrays":[],"values":[],"blobs":{"key":5},'
        f'"bytes":58,"digest":"{sha256(sent_next).hexdigest()}","mechanism":"masked","weight":null,'
        f'"previous":"{sha256(line.encode()).hexdigest()}","refusal":""}}'
    )
    assert path.read_text() == f"{line}\n{next_line}\n"
    head = sha256(next_line.encode()).hexdigest()
    assert head_of(path).read_text() == head + "\n"
    assert ledger.head == head
    verdict = verify(path)
    assert (verdict.entries, verdict.bytes_out, verdict.head) == (2, len(sent) + 58, head)
    assert (verdict.size, verdict.torn) == (len(line) + len(next_line) + 2, 0)


def test_the_ledger_records_exactly_what_is_sent(path: Path) -> None:
    message = Message({"weight": 3.0}, {"a": np.arange(5.0)}, {"b": b"xyz"})
    data = record(Ledger(path), message)
    (entry,) = read_entries(path)
    assert data == encode(message)
    assert (entry.bytes, entry.digest) == (len(data), sha256(data).hexdigest())


def test_the_ledger_records_no_content(path: Path) -> None:
    message = Message(
        {"note": "Mrs Marker", "deep": {"Marker": ["Marker"]}, "weight": "Mrs Marker", "count": 77_777},
        {"a": np.array([77_777.0])},
        {"b": b"Mrs Marker"},
    )
    record(Ledger(path), message)
    text = path.read_text() + head_of(path).read_text()
    assert "Marker" not in text and "77777" not in text
    (entry,) = read_entries(path)
    assert (entry.values, entry.arrays, entry.blobs) == (["count", "deep", "note", "weight"], [["a", [1]]], {"b": 10})
    assert entry.weight is None


def test_the_line_is_on_disk_before_there_is_anything_to_send(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, int]] = []

    def watched(descriptor: int) -> None:
        file = os.fstat(descriptor)
        synced.append((file.st_ino, file.st_size))

    ledger = Ledger(path)
    monkeypatch.setattr(os, "fsync", watched)
    data = record(ledger)
    assert synced == [(path.stat().st_ino, path.stat().st_size), (head_of(path).stat().st_ino, 65)]
    assert verify(path).entries == 1
    assert sha256(data).hexdigest() in path.read_text()


@pytest.mark.parametrize("failing", ["egress.jsonl", "egress.jsonl.head"])
def test_nothing_is_sent_that_cannot_be_recorded(path: Path, failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == path.with_name(failing).stat().st_ino:
            raise OSError(errno.ENOSPC, "No space left on device")

    ledger = Ledger(path)
    record(ledger)
    before, head = path.read_bytes(), ledger.head
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LedgerError) as caught:
            record(ledger, round_number=2)
    assert str(caught.value) == "egress.jsonl: cannot be used (No space left on device)"
    assert (path.read_bytes(), ledger.head) == (before, head)
    assert verify(path).entries == 1
    record(ledger, round_number=2)
    assert verify(path).entries == 2


@pytest.mark.parametrize("missing", [1, 100])
def test_a_full_disk_that_cuts_a_line(path: Path, missing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1234.5)  # so that both lines are equally long
    ledger = Ledger(path)
    record(ledger)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * len(before) - missing, hard))
    try:
        with pytest.raises(LedgerError, match=r"^egress.jsonl: cannot be used \(the disk is full\)$"):
            record(ledger, round_number=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    record(ledger, round_number=2)
    assert verify(path).entries == 2


def test_a_new_file_is_known_to_its_folder_before_it_is_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    Ledger(path)
    assert synced == [path.parent.stat().st_ino, head_of(path).stat().st_ino]


def test_nothing_stays_open(path: Path) -> None:
    written(path, 1)
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        record(Ledger(path))
        verify(path)
    assert len(os.listdir("/dev/fd")) == before


def test_a_message_that_cannot_be_encoded_is_not_on_record(path: Path) -> None:
    ledger = Ledger(path)
    with pytest.raises(MessageError):
        record(ledger, Message({"a": float("nan")}))
    assert path.read_bytes() == b""


def test_only_its_owner_reads_it(path: Path) -> None:
    before = os.umask(0)
    try:
        written(path, 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(head_of(path).stat().st_mode) == 0o600


def test_a_new_ledger_is_empty_and_intact(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "egress"
    assert Ledger(path).head == NOTHING_BEFORE
    assert verify(path) == ledger_module.Verdict(0, 0, NOTHING_BEFORE, size=0)
    assert list(read_entries(path)) == []


def test_two_ledgers_in_one_folder_do_not_share_a_head(tmp_path: Path) -> None:
    for name in ("st.mary", "st.john", "st.head"):
        written(tmp_path / name, 2)
    for name in ("st.mary", "st.john", "st.head"):
        assert verify(tmp_path / name).entries == 2


def test_a_reopened_ledger_continues_the_chain(path: Path) -> None:
    for number in range(1, 4):
        ledger = Ledger(path)
        record(ledger, round_number=number)
    assert [entry.round for entry in read_entries(path)] == [1, 2, 3]
    assert verify(path).head == Ledger(path).head == ledger.head


@pytest.mark.parametrize("line", [0, 1, 2])
def test_an_altered_line_breaks_the_next(path: Path, line: int) -> None:
    lines = written(path)
    lines[line] = lines[line].replace(b'"bytes":', b'"bytes":1')
    path.write_bytes(b"".join(lines))
    assert fault(path) == f"egress.jsonl:{line + 2}: does not follow the line before it"


def test_an_altered_last_line(path: Path) -> None:
    lines = written(path)
    path.write_bytes(b"".join(lines).replace(b'"round":4', b'"round":5'))
    assert fault(path).startswith("egress.jsonl: its end is missing or altered")


@pytest.mark.parametrize("line", [0, 1, 2])
def test_a_removed_line(path: Path, line: int) -> None:
    lines = written(path)
    del lines[line]
    path.write_bytes(b"".join(lines))
    assert fault(path) == f"egress.jsonl:{line + 1}: does not follow the line before it"


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_removed_last_lines(path: Path, kept: int) -> None:
    path.write_bytes(b"".join(written(path)[:kept]))
    assert fault(path) == "egress.jsonl: its end is missing or altered, or lines were added from outside"


def test_a_removed_ledger_is_missed(path: Path) -> None:
    written(path)
    path.unlink()
    with pytest.raises(LedgerError, match="No such file"):
        verify(path)
    with pytest.raises(LedgerError, match="its end is missing"):
        Ledger(path)


def test_an_inserted_line(path: Path) -> None:
    lines = written(path)
    lines.insert(2, chained(sha256(lines[1][:-1]).hexdigest()))
    path.write_bytes(b"".join(lines))
    assert fault(path) == "egress.jsonl:4: does not follow the line before it"


def test_two_swapped_lines(path: Path) -> None:
    lines = written(path)
    lines[1], lines[2] = lines[2], lines[1]
    path.write_bytes(b"".join(lines))
    assert fault(path) == "egress.jsonl:2: does not follow the line before it"


def test_a_line_twice(path: Path) -> None:
    lines = written(path)
    path.write_bytes(b"".join([*lines, lines[-1]]))
    assert fault(path) == "egress.jsonl:5: does not follow the line before it"


def test_two_lines_appended_from_outside(path: Path) -> None:
    lines = written(path)
    one = chained(sha256(lines[-1][:-1]).hexdigest())
    two = chained(sha256(one[:-1]).hexdigest())
    path.write_bytes(b"".join([*lines, one, two]))
    assert fault(path).startswith("egress.jsonl: its end is missing or altered, or lines were added")


def test_a_rewritten_chain(path: Path) -> None:
    written(path)
    one = chained(NOTHING_BEFORE)
    two = chained(sha256(one[:-1]).hexdigest())
    path.write_bytes(one + two)
    assert "added from outside" in fault(path)


def test_a_head_that_was_removed_or_altered(path: Path) -> None:
    written(path)
    for head in (b"", b"\xff\xfe", b"0" * 64, b"f" * 64, b"x" * 10_000):
        head_of(path).write_bytes(head)
        assert "its end is missing" in fault(path)
    head_of(path).unlink()
    assert "its end is missing" in fault(path)


GARBAGE = [
    b"\n",
    b"{}\n",
    b"[]\n",
    b"7\n",
    b'"previous"\n',
    b"\xff\xfe\n",
    b"\x00" * 100 + b"\n",
    b"[" * 100_000 + b"\n",
    chained(NOTHING_BEFORE).replace(b'"bytes": 1', b'"bytes": "1"'),
    chained(NOTHING_BEFORE).replace(b'"bytes": 1', b'"bytes": null'),
    chained(NOTHING_BEFORE).replace(b'"arrays": []', b'"arrays": 3'),
    chained(NOTHING_BEFORE).replace(b'"time": 0.0', b'"time": "now"'),
    chained(NOTHING_BEFORE).replace(b'"study": "s", ', b""),
    chained(NOTHING_BEFORE).replace(b'"study": "s"', b'"study": "s", "refusal": 1'),
    chained(NOTHING_BEFORE).replace(b'"study": "s"', b'"study": "s", "refusal": null'),
    chained(NOTHING_BEFORE).replace(b'"study": "s"', b'"study": "s", "more": 1'),
]


@pytest.mark.parametrize("line", GARBAGE, ids=range(len(GARBAGE)))
def test_invalid_entries(path: Path, line: bytes) -> None:
    path.write_bytes(line)
    assert fault(path) == "egress.jsonl:1: is not an entry of a ledger"


def test_a_fault_quotes_nothing_and_names_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "Mrs Marker" / "egress.jsonl"
    written(path)
    path.write_bytes(b"Mrs Marker\n")
    assert "Marker" not in fault(path)
    folder = tmp_path / "Marker"
    folder.mkdir()
    for call in (verify, Ledger):
        with pytest.raises(LedgerError) as caught:
            call(folder / "egress.jsonl" / "x" if call is verify else folder)
        assert "/" not in str(caught.value)


def test_a_power_cut_within_a_line_at_every_byte(path: Path) -> None:
    lines = written(path, 2)
    head = sha256(lines[0][:-1]).hexdigest()
    for length in range(len(lines[1])):
        path.write_bytes(lines[0] + lines[1][:length])
        head_of(path).write_text(head + "\n")
        verdict = verify(path)
        assert (verdict.entries, verdict.torn, verdict.size) == (1, length, len(lines[0]))
        if length % 50 == 0:
            ledger = Ledger(path)
            assert (ledger.head, path.read_bytes()) == (head, lines[0])
            record(ledger, round_number=9)
            assert [entry.round for entry in read_entries(path)] == [1, 9]


def test_a_power_cut_within_the_first_line(path: Path) -> None:
    (line,) = written(path, 1)
    path.write_bytes(line[:-1])
    head_of(path).unlink()
    assert (verify(path).entries, verify(path).torn) == (0, len(line) - 1)
    record(Ledger(path), round_number=5)
    assert [entry.round for entry in read_entries(path)] == [5]


def test_a_truncated_line_that_the_head_covers_is_not_a_power_cut(path: Path) -> None:
    lines = written(path)
    path.write_bytes(b"".join(lines)[:-1])
    assert "its end is missing" in fault(path)


@pytest.mark.parametrize("entries", [1, 2, 4])
def test_a_power_cut_between_the_line_and_the_head(path: Path, entries: int) -> None:
    lines = written(path, entries)
    behind = sha256(lines[-2][:-1]).hexdigest() if entries > 1 else NOTHING_BEFORE
    head_of(path).write_text(behind + "\n")
    assert verify(path).entries == entries
    ledger = Ledger(path)
    assert head_of(path).read_text().strip() == ledger.head == sha256(lines[-1][:-1]).hexdigest()


def test_no_power_cut_leaves_the_head_behind_and_a_line_torn(path: Path) -> None:
    lines = written(path, 3)
    path.write_bytes(b"".join(lines) + b"torn")
    head_of(path).write_text(sha256(lines[1][:-1]).hexdigest() + "\n")
    assert "its end is missing" in fault(path)


def test_repeated_power_cuts(path: Path) -> None:
    lines = written(path, 3)
    head_of(path).write_text(sha256(lines[0][:-1]).hexdigest() + "\n")
    path.write_bytes(lines[0] + lines[1])  # the first cut came between the second line and its head
    Ledger(path)
    path.write_bytes(lines[0] + lines[1] + lines[2][:20])  # the next one within the third line
    assert verify(path).torn == 20
    assert Ledger(path).head == sha256(lines[1][:-1]).hexdigest()


def test_of_two_writers_the_outdated_one_is_refused_and_the_chain_stays_valid(path: Path) -> None:
    first, second = Ledger(path), Ledger(path)
    record(first, round_number=1)
    with pytest.raises(LedgerError, match=r"^egress.jsonl: another process wrote to it; only one process can"):
        record(second, round_number=2)
    record(first, round_number=3)
    assert [entry.round for entry in read_entries(path)] == [1, 3]
    record(Ledger(path), round_number=4)
    assert verify(path).entries == 3


def waits_for(lock: int, path: Path, call: Callable[[], object], seconds: float = 0.05) -> bool:
    """Return whether `call` waits while another holds the lock; it ends when the lock is released."""
    worker = threading.Thread(target=call)
    with path.open("rb") as stream:
        fcntl.flock(stream, lock)
        worker.start()
        worker.join(seconds)
        waited = worker.is_alive()
    worker.join(60)
    assert not worker.is_alive()
    return waited


def test_writers_wait_for_all_and_readers_for_writers(path: Path) -> None:
    ledger = Ledger(path)
    assert waits_for(fcntl.LOCK_SH, path, lambda: record(ledger))
    assert waits_for(fcntl.LOCK_EX, path, lambda: record(ledger))
    assert waits_for(fcntl.LOCK_EX, path, lambda: verify(path))
    assert not waits_for(fcntl.LOCK_SH, path, lambda: verify(path), seconds=60)
    assert verify(path).entries == 2


RACER = """
import sys
from pathlib import Path
from wardround.errors import LedgerError
from wardround.federation.message import Message
from wardround.federation.ledger import Ledger
done = 0
for attempt in range(1000):
    try:
        Ledger(Path(sys.argv[1])).record(Message(), study="s", step="t", round_number=done, mechanism="plain")
        done += 1
    except LedgerError as error:
        assert "another process" in str(error), error
    if done == 10:
        break
else:
    sys.exit("never got through")
"""


def test_processes_that_race_never_fork_the_chain(path: Path) -> None:
    racers = [subprocess.Popen([sys.executable, "-c", RACER, str(path)]) for _ in range(2)]
    while any(racer.poll() is None for racer in racers):
        if path.exists():
            verify(path)  # also while they write
    assert [racer.returncode for racer in racers] == [0, 0]
    assert verify(path).entries == 20


def test_reading_changes_nothing(path: Path) -> None:
    lines = written(path, 2)
    path.write_bytes(b"".join(lines) + b"torn")
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.parent.iterdir()}
    verify(path)
    list(read_entries(path))
    assert {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.parent.iterdir()} == before


def test_a_line_without_end_does_not_fill_the_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "_LONGEST_LINE", 1000)
    path.write_bytes(b"x" * 5000)
    assert verify(path).torn == 5000


Call = Callable[[Path], object]


@pytest.mark.parametrize("call", [verify, lambda path: list(read_entries(path))], ids=["verify", "entries"])
def test_a_ledger_that_is_not_there(path: Path, call: Call) -> None:
    with pytest.raises(LedgerError, match=r"^egress.jsonl: cannot be used \(No such file or directory\)$"):
        call(path)
    assert list(path.parent.iterdir()) == []


def test_entries_carry_what_was_recorded(path: Path) -> None:
    record(Ledger(path), Message({"weight": 12.5}, {"a": np.zeros((0, 2))}), round_number=3)
    (entry,) = read_entries(path)
    assert isinstance(entry, Entry)
    assert (entry.study, entry.step, entry.round, entry.mechanism, entry.weight) == ("s", "train", 3, "plain", 12.5)
    assert entry.arrays == [["a", [0, 2]]]


# Refusals


def refuse(ledger: Ledger, code: str, *, round_number: int = 1) -> None:
    ledger.record_refusal(code, study="s", step="open_sum", round_number=round_number, mechanism="sealed")


def test_a_refusal_by_hand(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1234.56789)
    ledger = Ledger(path)
    ledger.record_refusal("sum", study="heart", step="open_sum", round_number=7, mechanism="sealed")
    line = (
        '{"time":1234.568,"study":"heart","round":7,"step":"open_sum","arrays":[],"values":[],"blobs":{},"bytes":3,'
        f'"digest":"{sha256(b"sum").hexdigest()}","mechanism":"sealed","weight":null,'
        f'"previous":"{NOTHING_BEFORE}","refusal":"sum"}}'
    )
    assert path.read_text() == f"{line}\n"
    assert head_of(path).read_text() == sha256(line.encode()).hexdigest() + "\n"
    verdict = verify(path)
    assert (verdict.entries, verdict.bytes_out, verdict.head) == (1, 3, ledger.head)


def test_refusals_are_lines_of_the_chain(path: Path) -> None:
    ledger = Ledger(path)
    record(ledger, round_number=1)
    refuse(ledger, "sum", round_number=2)
    refuse(ledger, "replay", round_number=2)
    record(ledger, round_number=3)
    assert [entry.refusal for entry in read_entries(path)] == ["", "sum", "replay", ""]
    assert [entry.round for entry in read_entries(path)] == [1, 2, 2, 3]
    assert verify(path).entries == 4
    refuse(Ledger(path), "sum")  # it goes on where it was left
    assert verify(path, recorded_head=ledger.head).entries == 5
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))  # without a refusal
    assert fault(path) == "egress.jsonl:3: does not follow the line before it"
    path.write_bytes(b"".join(lines).replace(b'"refusal":"replay"', b'"refusal":""'))
    assert fault(path) == "egress.jsonl:4: does not follow the line before it"


def test_a_refusal_that_cannot_be_written_leaves_the_ledger_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(path)
    record(ledger)
    before = path.read_bytes(), head_of(path).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LedgerError):
            refuse(ledger, "sum")
    assert path.read_bytes() == before[0]
    assert verify(path).entries == 1


def test_a_ledger_without_refusals_is_read_verified_and_continued(path: Path) -> None:
    first = chained(NOTHING_BEFORE, round_number=1)
    second = chained(sha256(first[:-1]).hexdigest(), round_number=2)
    assert b"refusal" not in first + second
    path.write_bytes(first + second)
    head_of(path).write_text(sha256(second[:-1]).hexdigest() + "\n")
    assert (verify(path).entries, verify(path).head) == (2, sha256(second[:-1]).hexdigest())
    assert [entry.refusal for entry in read_entries(path)] == ["", ""]
    ledger = Ledger(path)
    refuse(ledger, "sum", round_number=3)
    record(ledger, round_number=4)
    assert path.read_bytes().startswith(first + second)  # what was written is never rewritten
    assert [entry.refusal for entry in read_entries(path)] == ["", "", "sum", ""]
    assert verify(path).entries == 4
    path.write_bytes(path.read_bytes().replace(b'"round": 1', b'"round": 9'))
    assert fault(path) == "egress.jsonl:2: does not follow the line before it"


def test_a_rehearsal_forces_nothing_to_disk_and_its_ledger_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wardround.federation.ledger.time.time", lambda: 1.5)
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", forced.append)
    quick, durable = (Ledger(tmp_path / name, durable=name == "durable") for name in ("quick", "durable"))
    opening = len(forced)
    for number in (1, 2, 3):
        record(quick, round_number=number)
    assert (opening > 0, len(forced)) == (True, opening)
    for number in (1, 2, 3):
        record(durable, round_number=number)
    assert len(forced) == opening + 6  # the line and the head of each
    assert (tmp_path / "quick").read_bytes() == (tmp_path / "durable").read_bytes()
    assert head_of(tmp_path / "quick").read_bytes() == head_of(tmp_path / "durable").read_bytes()


def test_opening_a_rehearsal_forces_nothing_to_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: pytest.fail("forced to disk"))
    record(Ledger(path, durable=False))
    assert verify(path).entries == 1


def test_a_rehearsal_detects_alterations_too(path: Path) -> None:
    ledger = Ledger(path, durable=False)
    for number in (1, 2, 3):
        record(ledger, round_number=number)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    assert fault(path) == "egress.jsonl:2: does not follow the line before it"
