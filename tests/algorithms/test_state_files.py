from __future__ import annotations

from pathlib import Path

import pytest
import torch

import wardround.algorithms.state_files as state_files
from wardround.algorithms.state_files import copy_into, load_moments, load_tensors, moments, save_tensors, under
from wardround.errors import TrainingError


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


def test_an_optimizer_goes_on_with_the_memory_of_another() -> None:
    def stepped(parameter: torch.Tensor, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        parameter.grad = parameter * 2
        optimizer.step()
        return parameter.clone()

    first = torch.tensor([1.0, -2.0])
    optimizer = torch.optim.Adam([first], lr=0.1)
    stepped(first, optimizer)
    second = first.clone()
    resumed = torch.optim.Adam([second], lr=0.1)
    load_moments(resumed, {name: tensor.clone() for name, tensor in moments(optimizer).items()})
    assert torch.equal(stepped(first, optimizer), stepped(second, resumed))
    assert {name for name in moments(resumed)} == {"0/step", "0/exp_avg", "0/exp_avg_sq"}
