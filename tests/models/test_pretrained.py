"""What is refused is in tests/attacks/test_model_folders.py; here is what a folder may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.tiny import write_encoder
from wardround.errors import ModelError
from wardround.models.encoders import MINILM, encoder_folder, encoder_source
from wardround.models.pretrained import (
    UnloadableError,
    check_model_folder,
    label_settings,
    load_configuration,
    load_encoder_network,
    load_network_for_tokens,
    load_tokenizer,
    local_model_folder,
    shown_name,
)


def test_a_folder_is_returned_unchanged(tiny_encoder: Path) -> None:
    assert local_model_folder(str(tiny_encoder), offline=True) == str(tiny_encoder)
    assert encoder_folder(MINILM, offline=True) == encoder_source(MINILM)


@pytest.mark.parametrize("offline", [True, False])
def test_an_id_that_is_not_cached_is_refused(offline: bool) -> None:
    remedy = "name a folder of this machine" if offline else "fetch it first, or name a folder"
    with pytest.raises(ModelError, match=f"the encoder 'somebody/absent' is not on this machine; {remedy}"):
        local_model_folder("somebody/absent", offline=offline)


@pytest.mark.parametrize("source", ["a/b/c", "/absent/folder", "a b", "owner/", "x" * 200])
def test_a_name_that_is_neither_folder_nor_id_is_refused(source: str) -> None:
    with pytest.raises(ModelError, match="a Hugging Face id is written owner/name") as caught:
        local_model_folder(source, offline=False)
    assert "/absent" not in str(caught.value)


def test_a_snapshot_of_the_cache_is_found_offline(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = tmp_path / "models--somebody--encoder"
    (stored / "refs").mkdir(parents=True)
    (stored / "refs" / "main").write_text("0123")
    (stored / "snapshots" / "0123").mkdir(parents=True)
    for file in tiny_encoder.iterdir():
        (stored / "snapshots" / "0123" / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    folder = local_model_folder("somebody/encoder", offline=True)
    assert Path(folder) == stored / "snapshots" / "0123"
    assert load_configuration(folder).hidden_size == 8
    assert shown_name(folder) == "somebody/encoder"


def test_names_in_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_name("some/folder") == "folder"
    assert shown_name(".") == tmp_path.name


def test_labels_become_settings() -> None:
    assert label_settings(()) == {}
    assert label_settings(("O", "B-Drug")) == {
        "num_labels": 2,
        "id2label": {0: "O", 1: "B-Drug"},
        "label2id": {"O": 0, "B-Drug": 1},
    }


def test_the_network_and_its_missing_weights_are_returned(tiny_encoder: Path) -> None:
    network, lacking = load_network_for_tokens(str(tiny_encoder), labels=("O", "B-Drug", "I-Drug"), fresh=True)
    assert network.classifier.weight.shape == (3, 8)
    assert lacking == []
    assert load_tokenizer(str(tiny_encoder), options={"model_max_length": 9}).model_max_length == 9


def test_every_failure_to_load_is_one_error(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "broken")
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": null, "num_hidden_layers": null}')
    with pytest.raises(UnloadableError, match=r"^broken contains no model that can be loaded$"):
        load_encoder_network(str(folder))
    with pytest.raises(UnloadableError, match=r"^there is no folder 'absent'$"):
        load_configuration(str(tmp_path / "absent"))


def test_other_harmless_files_are_accepted(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "whole")
    (folder / "README.md").write_text("import os")
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    (folder / "trainer_state.json").write_text('{"grad_norm": NaN}')
    (folder / "copy.txt").symlink_to("README.md")
    check_model_folder(folder)
    (tmp_path / "link").symlink_to(folder)
    check_model_folder(tmp_path / "link")  # a folder that the user names by a link is the user's choice
