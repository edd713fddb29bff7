from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from wardround.errors import TrainingError
from wardround.training.loop import EpochRecord, TrainingState, load_checkpoint, save_checkpoint

STATE = TrainingState(
    {
        "model/words.weight": torch.randn(3, 2),
        "best/words.weight": torch.randn(2, 3).t(),  # not contiguous
        "optimizer/0/step": torch.tensor(7.0),
        "optimizer/0/exp_avg": torch.tensor([1e-30, -0.0, 1.0]),
    },
    (EpochRecord(1, 0.1 + 0.2, 1 / 3, True, 1.5), EpochRecord(2, 1e-9, 0.0, False, 0.25)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.safetensors"


def test_a_checkpoint_survives_a_round_trip_bit_for_bit(path: Path) -> None:
    save_checkpoint(path, STATE, settings="abc")
    loaded = load_checkpoint(path, settings="abc")
    assert loaded.records == STATE.records
    assert loaded.tensors.keys() == STATE.tensors.keys()
    for name, tensor in STATE.tensors.items():
        assert torch.equal(loaded.tensors[name], tensor)
        assert loaded.tensors[name].dtype == tensor.dtype
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_newer_checkpoint_replaces_the_older_one(path: Path) -> None:
    save_checkpoint(path, STATE, settings="abc")
    save_checkpoint(path, TrainingState({}, STATE.records[:1]), settings="abc")
    assert load_checkpoint(path, settings="abc").records == STATE.records[:1]


def test_a_checkpoint_with_other_settings_is_refused(path: Path) -> None:
    save_checkpoint(path, STATE, settings="abc")
    with pytest.raises(TrainingError, match="a training with other settings or data; name another folder"):
        load_checkpoint(path, settings="abd")


def test_a_partial_file_left_by_a_crash_is_ignored_and_overwritten(path: Path) -> None:
    save_checkpoint(path, STATE, settings="abc")
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(b"half a checkpoint")
    assert load_checkpoint(path, settings="abc").records == STATE.records
    save_checkpoint(path, STATE, settings="abc")
    assert not partial.exists()


def test_a_failed_write_keeps_the_previous_checkpoint(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(path, STATE, settings="abc")

    def fail(tensors: object, name: Path, metadata: object) -> None:
        name.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr("wardround.training.state_files.save_file", fail)
    with pytest.raises(
        TrainingError, match="cannot be written: the disk is full; the file of the last checkpoint is kept"
    ):
        save_checkpoint(path, TrainingState({}, ()), settings="abc")
    assert load_checkpoint(path, settings="abc").records == STATE.records


@pytest.mark.parametrize("size", [0, 5, 100, -50])
def test_a_truncated_checkpoint_is_refused(path: Path, size: int) -> None:
    save_checkpoint(path, STATE, settings="abc")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(TrainingError, match=r"^checkpoint\.safetensors is not a checkpoint, or is damaged; remove it"):
        load_checkpoint(path, settings="abc")


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"settings": "abc"},
        {"settings": "abc", "records": "["},
        {"settings": "abc", "records": "7"},
        {"settings": "abc", "records": '[{"epoch": 1}]'},
        {"settings": "abc", "records": json.dumps([[1, 2]])},
    ],
)
def test_tensors_without_valid_records_are_not_a_checkpoint(path: Path, metadata: dict[str, str] | None) -> None:
    save_file({"model/a": torch.zeros(1)}, path, metadata=metadata)
    with pytest.raises(TrainingError, match="is not a checkpoint, or is damaged"):
        load_checkpoint(path, settings="abc")


def test_a_missing_checkpoint_is_refused(path: Path) -> None:
    with pytest.raises(TrainingError, match="is not a checkpoint, or is damaged"):
        load_checkpoint(path, settings="abc")
