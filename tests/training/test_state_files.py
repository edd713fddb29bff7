from __future__ import annotations

import multiprocessing
import random
import time
from itertools import count
from pathlib import Path

import pytest
import torch

import wardround.training.state_files as state_files
from wardround.errors import TrainingError
from wardround.training.state_files import copy_into, load_tensors, save_tensors, tensors_under


def test_saved_tensors_are_loaded_and_no_partial_file_remains(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    save_tensors(path, {"a/x": torch.arange(6.0).reshape(2, 3).T, "n": torch.tensor(3)})
    loaded = load_tensors(path)
    assert loaded["a/x"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert int(loaded["n"]) == 3
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_fsync_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.safetensors"
    save_tensors(path, {"n": torch.tensor(1)})

    def full_disk(descriptor: int) -> None:
        raise OSError

    monkeypatch.setattr(state_files.os, "fsync", full_disk)
    with pytest.raises(
        TrainingError, match=rf"^state\.safetensors in the folder {tmp_path.name} cannot be written: OSErr"
    ):
        save_tensors(path, {"n": torch.tensor(2)})
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert int(load_tensors(path)["n"]) == 1


def test_an_interrupted_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.safetensors"
    save_tensors(path, {"n": torch.tensor(1)})

    def power_cut(partial: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", power_cut)
        with pytest.raises(KeyboardInterrupt):
            save_tensors(path, {"n": torch.tensor(2)})
    assert int(load_tensors(path)["n"]) == 1
    save_tensors(path, {"n": torch.tensor(3)})
    assert int(load_tensors(path)["n"]) == 3
    assert list(tmp_path.iterdir()) == [path]


def test_an_old_partial_file_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    path.with_name("state.safetensors.partial").write_bytes(
        b"half a file, and longer than what is written over it" * 99
    )
    save_tensors(path, {"n": torch.tensor(1)})
    assert int(load_tensors(path)["n"]) == 1
    assert list(tmp_path.iterdir()) == [path]


LARGEST = 400_000  # numbers; writing so many takes milliseconds, so most kills happen during a write


def write_for_ever(path: Path, first: int) -> None:
    for number in count(first):
        size = 1000 + 40_000 * number % LARGEST
        save_tensors(path, {"numbers": torch.full((size,), float(number)), "number": torch.tensor(number)})


def whole_state(path: Path) -> int:
    """Return the number of the state in the file; check that all of it comes from one write."""
    found = load_tensors(path)
    number = int(found["number"])
    assert found["numbers"].shape == (1000 + 40_000 * number % LARGEST,)
    assert bool((found["numbers"] == number).all())
    return number


def test_a_killed_writer_leaves_a_complete_state_that_is_not_older(tmp_path: Path) -> None:
    path, chance = tmp_path / "state.safetensors", random.Random(7)
    save_tensors(path, {"numbers": torch.full((1000,), 0.0), "number": torch.tensor(0)})
    found, cut, kills = 0, 0, 0
    # On a slow machine many kills happen before the first write.
    while kills < 20 or (kills < 500 and not (found and cut)):
        kills += 1
        writer = multiprocessing.get_context("fork").Process(target=write_for_ever, args=(path, found + 1))
        writer.start()
        try:
            time.sleep(chance.uniform(0.01, 0.08))
        finally:
            writer.kill()
            writer.join()
        assert whole_state(path) >= found
        found, cut = whole_state(path), cut + path.with_name("state.safetensors.partial").exists()
    assert found  # it did write
    assert cut  # and was killed during a write


@pytest.mark.parametrize("content", [None, b"", b"half a file"])
def test_the_error_about_a_damaged_file_shows_only_its_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "state.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TrainingError, match=r"^state\.safetensors is missing or damaged"):
        load_tensors(path)


def test_tensors_under_a_prefix_exclude_similar_prefixes() -> None:
    found = tensors_under("a", {"a/x": torch.tensor(1), "ab/x": torch.tensor(2), "a/b/x": torch.tensor(3)})
    assert {name: int(tensor) for name, tensor in found.items()} == {"x": 1, "b/x": 3}


TWO = torch.ones(2)


@pytest.mark.parametrize("given", [{}, {"x": TWO}, {"x": TWO, "y": torch.ones(3)}, {"x": TWO, "z": TWO}])
def test_tensors_of_another_model_are_refused_and_change_nothing(given: dict[str, torch.Tensor]) -> None:
    parameters = {"x": torch.zeros(2), "y": torch.zeros(2)}
    with pytest.raises(TrainingError, match="another model"):
        copy_into(parameters, given)
    assert all(not tensor.any() for tensor in parameters.values())
