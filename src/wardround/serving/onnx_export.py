"""Export a tagger to ONNX, in float32 or with weights in 8 bits."""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from wardround.errors import ModelError
from wardround.models.cards import CARD, CARD_FORMAT, ONNX
from wardround.models.encoder_tagger import EncoderTagger
from wardround.models.encoders import PieceBatch
from wardround.models.model_files import save_tensors
from wardround.models.parameter_split import LayeredModel
from wardround.models.tagging_model import Inputs, TaggingModel
from wardround.models.vocabulary import ListedWords
from wardround.models.word_tagger import WordTagger
from wardround.serving.onnx_model import CRF, NETWORK, TOKENIZER, WORDS, import_runtime

__all__ = ["export_onnx"]

# Lengths differ from sentence to sentence and from word to word, so that no size is taken for a constant.
_EXAMPLE = (("Took", "aspirin", "daily", "."), ("Nausea", "after", "10", "mg"), ("Rash",))
_OPSET = 17


def export_onnx(model: LayeredModel, out: Path, *, notes: Mapping[str, Any] | None = None, int8: bool = False) -> None:
    """Write a tagger as an ONNX model to the new folder `out`; `notes` are those of its card.

    With `int8`, weights of matrix products have 8 bits, and their inputs are rounded as they come.
    """
    if out.exists():
        raise ModelError(f"{out.name} exists; name a new folder")
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _write_files(model.eval(), partial, notes or {}, int8=int8)
        partial.replace(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_files(model: LayeredModel, folder: Path, notes: Mapping[str, Any], *, int8: bool) -> None:
    config = _write_network(model, folder) | {"network": model.kind, "int8": int8}
    if int8:
        _quantize(folder / NETWORK)
    assert isinstance(model, TaggingModel), "other models have no network to write"
    if not model.decoder.independent:
        save_tensors(model.decoder.state_dict(), folder / CRF)  # type: ignore[attr-defined]
    files = {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
    card = {
        "format": CARD_FORMAT,
        "kind": ONNX,
        "types": list(model.tag_set.types),
        "config": {"scheme": model.scheme.name, **config},
        "files": files,
        "notes": dict(notes),
    }
    (folder / CARD).write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


class _Emissions(nn.Module):
    """The network of a tagger as a function of tensors."""

    def __init__(self, model: TaggingModel, inputs: Callable[..., Inputs]) -> None:
        super().__init__()
        self.model, self.inputs = model, inputs

    def forward(self, *tensors: Tensor) -> Tensor:
        """Return a score for each word and tag."""
        return self.model.emissions(self.inputs(*tensors)).float()


def _write_network(model: LayeredModel, folder: Path) -> dict[str, Any]:
    """Write the network, and the files of what it reads; return the settings of its reader."""
    if isinstance(model, WordTagger) and "contextual" not in model.groups:
        _trace(model, model.prepare(_EXAMPLE), folder, reads_pieces=False)
        config: dict[str, Any] = {"spellings": "characters" in model.groups}
        if isinstance(model.word_index, ListedWords):
            (folder / WORDS).write_text(json.dumps(model.word_index.words, ensure_ascii=False), encoding="utf-8")
            return config
        return config | {"word_buckets": model.word_index.size - 2}
    if isinstance(model, EncoderTagger) and model.config.adapter != "prompt":
        _trace(model, model.prepare(_EXAMPLE), folder, reads_pieces=True)
        tokenizer, table = model.tokenizer.tokenizer, model.tokenizer.table
        if not tokenizer.is_fast:
            raise ModelError("the tokenizer of this encoder has no tokenizer.json, so the model cannot be exported")
        tokenizer.backend_tokenizer.save(str(folder / TOKENIZER))
        sizes = {"limit": table.limit, "overlap": table.overlap, "padding": table.padding}
        return {**sizes, "prefix": table.prefix, "suffix": table.suffix}
    raise ModelError(
        f"a model of the kind {model.kind} with this configuration cannot be exported to ONNX: word taggers without a "
        "contextual encoder and encoder taggers without a prompt can"
    )


def _trace(model: TaggingModel, example: Inputs, folder: Path, *, reads_pieces: bool) -> None:
    words = {0: "batch", 1: "words"}
    if reads_pieces:
        assert example.pieces is not None, "an encoder reads pieces"
        pieces = {0: "windows", 1: "pieces"}
        axes: Mapping[str, Mapping[int, str]] = {
            "mask": words,
            "ids": pieces,
            "attention": pieces,
            "first_piece": words,
        }
        tensors: tuple[Tensor, ...] = (
            example.mask,
            example.pieces.ids,
            example.pieces.attention,
            example.pieces.first_piece,
        )

        def inputs(mask: Tensor, ids: Tensor, attention: Tensor, first_piece: Tensor) -> Inputs:
            return Inputs(mask=mask, pieces=PieceBatch(ids, attention, first_piece, torch.zeros(1, dtype=torch.long)))

    else:
        axes = {"mask": words, "words": words, "spelled": words}
        tensors = tuple(t for t in (example.mask, example.words, example.spelled, example.spellings) if t is not None)
        if example.spellings is not None:
            axes = {**axes, "spellings": {0: "distinct", 1: "characters"}}

        def inputs(mask: Tensor, words: Tensor, spelled: Tensor, spellings: Tensor | None = None) -> Inputs:  # type: ignore[misc]
            return Inputs(mask=mask, words=words, spelled=spelled, spellings=spellings)

    network = _Emissions(model, inputs).eval()
    with torch.no_grad(), _quiet():
        # The exporter by tracing: that by torch.export takes a batch of one sentence for a constant in an LSTM.
        torch.onnx.export(
            network,
            tensors,
            str(folder / NETWORK),
            dynamo=False,
            opset_version=_OPSET,
            input_names=list(axes),
            output_names=["scores"],
            dynamic_axes={**axes, "scores": words},
        )


def _quantize(path: Path) -> None:
    """Replace the network by one with weights in 8 bits."""
    import_runtime()
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ModuleNotFoundError as error:
        raise ModelError(f"--int8 needs {error.name}: pip install 'wardround[onnx]'") from None
    with TemporaryDirectory() as scratch, _quiet():
        whole = Path(scratch) / NETWORK
        shutil.move(path, whole)
        # Embeddings in 8 bits cost more F1 than all products together, and an LSTM in 8 bits is slower than in float32.
        kinds = ["MatMul", "Gemm"]
        quantize_dynamic(whole, path, weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=kinds)


@contextmanager
def _quiet() -> Any:
    """Silence the exporter's notes on what tracing assumes, which the parity tests cover, and on its own future."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.setLevel(before)
