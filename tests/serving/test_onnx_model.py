from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.tiny import TYPES, notes, word_tagger, write_encoder

import wardround
from wardround.errors import ModelError, UsageError
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.saved import load_model, save_model
from wardround.models.tagging_model import TaggingModel
from wardround.models.word_vectors import WordVectors

onnx = pytest.importorskip("onnx", reason="the export needs wardround[onnx]")


NOTES = [
    *notes(12, seed=5),
    wardround.Document("odd", "½ 😀 aspirin\n\nx " + "word " * 90 + "rash"),
    wardround.Document("e", ""),
]


def encoder(folder: Path, **config: object) -> TaggingModel:
    torch.manual_seed(1)
    source = write_encoder(folder / "encoder")
    return EncoderTagger(EncoderTaggerConfig(encoder=str(source), limit=32, overlap=8, **config), TYPES)  # type: ignore[arg-type]


def with_vectors(folder: Path) -> TaggingModel:
    words = ("the", "aspirin", "rash")
    return word_tagger(vectors=WordVectors(words, np.eye(3, 8, dtype=np.float32)))


BUILDERS: dict[str, Callable[[Path], TaggingModel]] = {
    "fedner": lambda _: word_tagger(),
    "characters by LSTM": lambda _: word_tagger(character_layer="lstm", dense=8, lstm_layers=2, scheme="BIOES"),
    "no characters, softmax": lambda _: word_tagger(character_layer="none", decoder="softmax", scheme="IOB1"),
    "vectors": with_vectors,
    "encoder": encoder,
    "encoder with CRF": lambda folder: encoder(folder, decoder="crf"),
    "encoder with LoRA": lambda folder: encoder(folder, adapter="lora"),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_an_exported_model_predicts_as_the_model(name: str, tmp_path: Path) -> None:
    save_model(BUILDERS[name](tmp_path), tmp_path / "model")
    wardround.load(tmp_path / "model").export(tmp_path / "onnx")
    model, exported = wardround.load(tmp_path / "model"), wardround.load(tmp_path / "onnx")
    assert exported.types == model.types
    found = 0
    for right, ours in zip(model.pipe(NOTES), exported.pipe(NOTES), strict=True):
        assert ours.entities == right.entities  # the scores are not compared here
        assert [e.score for e in ours.entities] == pytest.approx([e.score for e in right.entities], abs=1e-4)
        found += len(right.entities)
    assert found > 20


@pytest.fixture(scope="module")
def exported(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx") / "model"
    wardround.load(model_folder).export(folder)
    return folder


@pytest.fixture
def altered(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "altered"))


def change_card(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    card = json.loads((folder / "wardround.json").read_text())
    change(card)
    (folder / "wardround.json").write_text(json.dumps(card))


def test_calibration_and_scores_are_those_of_the_model(model_folder: Path, exported: Path) -> None:
    model, ours = wardround.load(model_folder), wardround.load(exported)
    assert ours.is_calibrated == model.is_calibrated
    right, found = (wardround.evaluate(one, NOTES) for one in (model, ours))
    assert found.scores["strict"]["f1"] == right.scores["strict"]["f1"] > 0.5


def test_weights_in_8_bits_are_smaller_and_find_nearly_the_same(model_folder: Path, tmp_path: Path) -> None:
    wardround.load(model_folder).export(tmp_path / "float32")
    wardround.load(model_folder).export(tmp_path / "int8", int8=True)
    whole, small = ((tmp_path / name / "network.onnx") for name in ("float32", "int8"))
    operators = {node.op_type for node in onnx.load(small).graph.node}
    assert operators & {"MatMulInteger", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul"}
    assert not operators & {"MatMulInteger"} or small.read_bytes() != whole.read_bytes()
    float32, int8 = (wardround.evaluate(tmp_path / name, NOTES).scores["strict"]["f1"] for name in ("float32", "int8"))
    assert int8 == pytest.approx(float32, abs=0.1)


def test_it_is_loaded_and_predicts_without_torch(exported: Path, model_folder: Path) -> None:
    text = NOTES[0].text
    code = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'onnx'): sys.modules[name] = None\n"
        "import wardround\n"
        f"found = wardround.load({str(exported)!r})({text!r})\n"
        "print([[e.type, e.start, e.end] for e in found.entities])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    right = wardround.load(model_folder)(text)
    assert json.loads(done.stdout.replace("'", '"')) == [[e.type, e.start, e.end] for e in right.entities] != []


def test_the_telemetry_of_onnx_runtime_is_off(exported: Path, tmp_path: Path) -> None:
    """Where it is on, its official builds leave the file of a session in the folder for temporary files."""
    code = f"import wardround; wardround.load({str(exported)!r})('No fever.')"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", code], env=environment | {"TMPDIR": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["network.onnx", "crf.safetensors"])
def test_a_file_that_was_changed_is_refused(altered: Path, name: str) -> None:
    content = bytearray((altered / name).read_bytes())
    content[len(content) // 2] ^= 1
    (altered / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name} was changed: its SHA-256 is not that of the card"):
        wardround.load(altered)
    (altered / name).unlink()
    with pytest.raises(ModelError, match=f"{name} is missing or cannot be read"):
        wardround.load(altered)


def test_a_link_is_not_followed(altered: Path, exported: Path) -> None:
    (altered / "network.onnx").unlink()
    (altered / "network.onnx").symlink_to(exported / "network.onnx")
    with pytest.raises(ModelError, match=r"network\.onnx is a link; copy the file itself"):
        wardround.load(altered)


def test_a_network_cannot_read_other_files(altered: Path, tmp_path: Path) -> None:
    """The digests of a forged folder fit, and its network takes weights from a file elsewhere."""
    (tmp_path / "secret").write_bytes(bytes(4096))
    network = onnx.load(altered / "network.onnx")
    tensor = max(network.graph.initializer, key=lambda one: len(one.raw_data))
    onnx.external_data_helper.set_external_data(tensor, location="../secret")
    tensor.ClearField("raw_data")
    content = network.SerializeToString()
    (altered / "network.onnx").write_bytes(content)
    change_card(altered, lambda card: card["files"].update({"network.onnx": sha256(content).hexdigest()}))  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match=r"refers to data in another file, which is never read"):
        wardround.load(altered)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda card: card.update(files={}), "does not list the files of an ONNX model"),
        (lambda card: card["files"].update({"../other": "0"}), "does not list the files of an ONNX model"),
        (lambda card: card["config"].update(scheme="BIG"), "the scheme is none of"),
        (lambda card: card["config"].update(word_buckets="many"), "word_buckets is not a number of at least 1"),
        (lambda card: card.update(types=["Drug"]), r"crf\.safetensors does not fit the types"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(
    altered: Path, change: Callable[[dict[str, object]], object], message: str
) -> None:
    change_card(altered, change)
    with pytest.raises(ModelError, match=message):
        wardround.load(altered)


def test_a_damaged_network_is_refused_without_a_word_of_it(altered: Path) -> None:
    (altered / "network.onnx").write_bytes(b"secret words")
    digest = sha256(b"secret words").hexdigest()
    change_card(altered, lambda card: card["files"].update({"network.onnx": digest}))  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match=r"cannot be opened by this version of ONNX Runtime") as raised:
        wardround.load(altered)
    assert "secret" not in str(raised.value)


def test_what_needs_the_network_says_so(exported: Path, tmp_path: Path) -> None:
    model = wardround.load(exported)
    with pytest.raises(ModelError, match="an ONNX model only predicts; load the model that it was exported from"):
        model.save(tmp_path / "copy")
    with pytest.raises(ModelError, match="is an ONNX model, which only predicts"):
        load_model(exported)
    with pytest.raises(UsageError, match="an ONNX model runs on the processor"):
        wardround.load(exported, device="cuda")
    assert wardround.redact("Call 555-867-5309.", model=model).text != "Call 555-867-5309."


def test_redaction_with_a_threshold_hides_what_the_model_itself_hides(exported: Path, model_folder: Path) -> None:
    text = " ".join(note.text for note in NOTES)
    models = [wardround.load(folder) for folder in (model_folder, exported)]
    right, ours = (wardround.redact(text, model=one, threshold=0.2).text for one in models)
    assert ours == right != wardround.redact(text, model=models[0], threshold=0.999).text


def test_only_taggers_are_exported_and_nothing_is_overwritten(model_folder: Path, tmp_path: Path) -> None:
    save_model(encoder(tmp_path, adapter="prompt"), tmp_path / "model")
    with pytest.raises(ModelError, match="cannot be exported to ONNX"):
        wardround.load(tmp_path / "model").export(tmp_path / "onnx")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("onnx")]
    (tmp_path / "taken").mkdir()
    with pytest.raises(ModelError, match="taken exists; name a new folder"):
        wardround.load(model_folder).export(tmp_path / "taken")
