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
from wardround.training.state_files import copy_into, load_tensors, save_tensors, under


def test_what_is_saved_is_loaded_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    save_tensors(path, {"a/x": torch.arange(6.0).reshape(2, 3).T, "n": torch.tensor(3)})
    loaded = load_tensors(path)
    assert loaded["a/x"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert int(loaded["n"]) == 3
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.safetensors"
    save_tensors(path, {"n": torch.tensor(1)})

    def full_disk(descriptor: int) -> None:
        raise OSError

    monkeypatch.setattr(state_files.os, "fsync", full_disk)
    with pytest.raises(OSError):
        save_tensors(path, {"n": torch.tensor(2)})
    assert int(load_tensors(path)["n"]) == 1


def test_a_write_cut_before_its_end_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_a_cut_left_behind_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    path.with_name("state.safetensors.partial").write_bytes(
        b"half a file, and longer than what is written over it" * 99
    )
    save_tensors(path, {"n": torch.tensor(1)})
    assert int(load_tensors(path)["n"]) == 1
    assert list(tmp_path.iterdir()) == [path]


LARGEST = 400_000  # numbers; the writing of so many takes milliseconds, so that most kills fall into it


def write_for_ever(path: Path, first: int) -> None:
    for number in count(first):
        size = 1000 + 40_000 * number % LARGEST
        save_tensors(path, {"numbers": torch.full((size,), float(number)), "number": torch.tensor(number)})


def whole_state(path: Path) -> int:
    """The number of the state that is found; every part of it is of one write."""
    found = load_tensors(path)
    number = int(found["number"])
    assert found["numbers"].shape == (1000 + 40_000 * number % LARGEST,)
    assert bool((found["numbers"] == number).all())
    return number


def test_a_writer_that_is_killed_leaves_one_whole_state_and_never_an_older_one(tmp_path: Path) -> None:
    path, chance = tmp_path / "state.safetensors", random.Random(7)
    save_tensors(path, {"numbers": torch.full((1000,), 0.0), "number": torch.tensor(0)})
    found, cut, kills = 0, 0, 0
    while kills < 20 or (kills < 500 and not (found and cut)):  # on a slow machine many come before the first write
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
    assert cut  # and was killed in the middle of it


@pytest.mark.parametrize("content", [None, b"", b"half a file"])
def test_a_damaged_file_is_refused_by_name_alone(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "state.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TrainingError, match=r"^state\.safetensors is missing or damaged"):
        load_tensors(path)


def test_under_takes_a_prefix_and_not_its_like() -> None:
    found = under("a", {"a/x": torch.tensor(1), "ab/x": torch.tensor(2), "a/b/x": torch.tensor(3)})
    assert {name: int(tensor) for name, tensor in found.items()} == {"x": 1, "b/x": 3}


TWO = torch.ones(2)


@pytest.mark.parametrize("given", [{}, {"x": TWO}, {"x": TWO, "y": torch.ones(3)}, {"x": TWO, "z": TWO}])
def test_what_does_not_fit_changes_nothing(given: dict[str, torch.Tensor]) -> None:
    parameters = {"x": torch.zeros(2), "y": torch.zeros(2)}
    with pytest.raises(TrainingError, match="another model"):
        copy_into(parameters, given)
    assert all(not tensor.any() for tensor in parameters.values())
