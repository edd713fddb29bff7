"""A saved model: a folder of safetensors and JSON, written whole or not at all.

`wardround.json` says what the model is; `model.safetensors` holds its weights. The folder of an encoder tagger is a
Hugging Face folder as well, which `transformers.pipeline("token-classification")` opens as it is. That of a relation
classifier holds its encoder so, and its output layer in `output.safetensors`. That of a joint extractor is both: an
encoder tagger's, with the relation head in `output.safetensors`. That of a LightNER is its BART's, with what was
trained beside it in `prompt.safetensors` and `output.safetensors`.

LoRA layers are saved added to what they adapt: what is loaded is a plain encoder tagger. A prompt lies beside the
encoder in `prompt.safetensors`; `transformers` would not look at it, and so read the folder as another model.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from wardround.errors import ModelError, TextError
from wardround.models.adapters import merged_weights
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.encoders import without_remarks
from wardround.models.joint_extractor import JointExtractor, JointExtractorConfig
from wardround.models.light_ner import LightNer, LightNerConfig
from wardround.models.parameter_split import LayeredModel
from wardround.models.pretrained import check_model_folder
from wardround.models.relation_classifier import RelationClassifier, RelationClassifierConfig
from wardround.models.vocabulary import RESERVED, ListedWords
from wardround.models.word_tagger import WordTagger, WordTaggerConfig
from wardround.models.word_vectors import WordVectors
from wardround.parsing import MalformedDataError, read_json
from wardround.text.relation_sets import RelationSet
from wardround.text.tag_sets import TagSet

__all__ = ["load_model", "model_card", "save_model"]

_Config = TypeVar(
    "_Config", WordTaggerConfig, EncoderTaggerConfig, LightNerConfig, RelationClassifierConfig, JointExtractorConfig
)
_FORMAT = 1
_CARD, _WEIGHTS, _WORDS, _CRF = "wardround.json", "model.safetensors", "words.json", "crf.safetensors"
_OUTPUT, _PROMPT = "output.safetensors", "prompt.safetensors"


def save_model(model: LayeredModel, folder: Path, *, notes: Mapping[str, Any] | None = None) -> None:
    """Write `model` to `folder`, replacing a model that was there; `notes` go into the card as they are."""
    save = next((kind.save for kind in _KINDS.values() if isinstance(model, kind.model)), None)
    assert save is not None, "a kind of model that cannot be saved"
    _write(folder, lambda partial: {**save(model, partial), "config": model.settings()}, notes)


def load_model(folder: Path) -> LayeredModel:
    """The model in `folder`, ready to predict.

    Nothing of the folder is run and no hub is called, whatever the card says of the model's origin.
    """
    card = model_card(folder)
    check_model_folder(folder)
    kind = _KINDS.get(card["kind"])
    if kind is None:
        raise ModelError(f"{folder.name}: a model of kind {card['kind']!r} is unknown to this version")
    model = kind.load(folder, card)
    model.eval()
    return model


def model_card(folder: Path) -> dict[str, Any]:
    """What `wardround.json` says of the model."""
    try:
        card = read_json(folder / _CARD)
    except FileNotFoundError:
        raise ModelError(f"folder {folder.name!r} holds no model: there is no {_CARD} in it") from None
    except OSError as error:
        raise ModelError(f"{folder.name}/{_CARD} cannot be read ({error.strerror})") from error
    except MalformedDataError as error:
        raise ModelError(f"{folder.name}/{_CARD} {error}") from error
    if not isinstance(card, dict) or card.get("format") != _FORMAT or not _is_card(card):
        raise ModelError(f"{folder.name}/{_CARD} is not a model card of format {_FORMAT}")
    return card


def _write(folder: Path, fill: Callable[[Path], dict[str, Any]], notes: Mapping[str, Any] | None) -> None:
    """Have `fill` write the weights and describe the model, and put the folder in its place whole."""
    taken = folder.is_file() or (folder.is_dir() and any(folder.iterdir()))
    if taken and not (folder / _CARD).is_file():
        raise ModelError(f"{folder.name!r} holds something that is no model; name an empty or new folder")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    card = {"format": _FORMAT, **fill(partial), "notes": dict(notes or {})}
    (partial / _CARD).write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)


def _is_card(card: dict[str, Any]) -> bool:
    types = card.get("types")
    return (
        isinstance(card.get("kind"), str)
        and isinstance(card.get("notes", {}), dict)
        and isinstance(card.get("config"), dict)
        and isinstance(types, list)
        and all(isinstance(kind, str) for kind in types)
    )


def _tag_set(folder: Path, card: dict[str, Any]) -> TagSet:
    try:
        return TagSet(tuple(card["types"]))
    except TextError as error:
        raise ModelError(f"{folder.name}/{_CARD}: {error}") from error


def _relation_set(folder: Path, card: dict[str, Any]) -> RelationSet:
    try:
        return RelationSet.from_values(card.get("relations"))
    except TextError as error:
        raise ModelError(f"{folder.name}/{_CARD}: {error}") from error


# One pair a kind of model.


def _save_words(model: WordTagger, folder: Path) -> dict[str, Any]:
    _save_tensors(model.state_dict(), folder / _WEIGHTS)
    if isinstance(model.word_index, ListedWords):
        (folder / _WORDS).write_text(json.dumps(model.word_index.words, ensure_ascii=False), encoding="utf-8")
    context = model.contextual.fingerprint() if "contextual" in model.groups else None
    return {"kind": "word-tagger", "types": list(model.tag_set.types), "contextual_sha256": context}


def _load_words(folder: Path, card: dict[str, Any]) -> WordTagger:
    config = _configuration(WordTaggerConfig, card, folder)
    weights = _load_tensors(folder / _WEIGHTS)
    vectors = _load_vectors(folder, weights) if (folder / _WORDS).is_file() else None
    model = WordTagger(config, _tag_set(folder, card), vectors, offline=True)
    if "contextual" in model.groups and model.contextual.fingerprint() != card.get("contextual_sha256"):
        raise ModelError(f"{folder.name}: the encoder {config.contextual!r} here is not the one it was trained on")
    _fill(model, weights, folder)
    return model


def _save_encoder(model: EncoderTagger | JointExtractor, folder: Path) -> dict[str, Any]:
    _save_pretrained(model, folder)
    if model.config.decoder == "crf":
        _save_tensors(model.crf.state_dict(), folder / _CRF)
    if isinstance(model, EncoderTagger) and model.config.adapter == "prompt":
        _save_tensors(model.prompt.state_dict(), folder / _PROMPT)
    return {"kind": "encoder-tagger", "types": list(model.tag_set.types)}


def _load_encoder(folder: Path, card: dict[str, Any]) -> EncoderTagger:
    config = _configuration(EncoderTaggerConfig, card, folder)
    model = EncoderTagger(config.merged(), _tag_set(folder, card), source=str(folder))
    if model.config.decoder == "crf":
        _fill(model.crf, _load_tensors(folder / _CRF), folder)
    if model.config.adapter == "prompt":
        _fill(model.prompt, _load_tensors(folder / _PROMPT), folder)
    return model


def _save_light_ner(model: LightNer, folder: Path) -> dict[str, Any]:
    _save_pretrained(model, folder)
    _save_tensors(model.prompt.state_dict(), folder / _PROMPT)
    _save_tensors(model.output.state_dict(), folder / _OUTPUT)
    return {"kind": "light-ner", "types": list(model.tag_set.types)}


def _load_light_ner(folder: Path, card: dict[str, Any]) -> LightNer:
    config = _configuration(LightNerConfig, card, folder)
    model = LightNer(config, _tag_set(folder, card), source=str(folder))
    _fill(model.prompt, _load_tensors(folder / _PROMPT), folder)
    _fill(model.output, _load_tensors(folder / _OUTPUT), folder)
    return model


def _save_classifier(model: RelationClassifier, folder: Path) -> dict[str, Any]:
    _save_pretrained(model, folder)
    _save_tensors(model.output.state_dict(), folder / _OUTPUT)
    types = [kind.name for kind in model.relations.types]
    return {"kind": "relation-classifier", "types": types, "relations": model.relations.as_values()}


def _load_classifier(folder: Path, card: dict[str, Any]) -> RelationClassifier:
    config = _configuration(RelationClassifierConfig, card, folder)
    model = RelationClassifier(config, _relation_set(folder, card), source=str(folder))
    _fill(model.output, _load_tensors(folder / _OUTPUT), folder)
    return model


def _save_joint(model: JointExtractor, folder: Path) -> dict[str, Any]:
    card = _save_encoder(model, folder)
    _save_tensors(model.relation_head.state_dict(), folder / _OUTPUT)
    return {**card, "kind": "joint-extractor", "relations": model.relations.as_values()}


def _load_joint(folder: Path, card: dict[str, Any]) -> JointExtractor:
    config = _configuration(JointExtractorConfig, card, folder)
    model = JointExtractor(config, _tag_set(folder, card), _relation_set(folder, card), source=str(folder))
    if model.config.decoder == "crf":
        _fill(model.crf, _load_tensors(folder / _CRF), folder)
    _fill(model.relation_head, _load_tensors(folder / _OUTPUT), folder)
    return model


@dataclass(frozen=True)
class _Kind:
    model: type[LayeredModel]
    save: Callable[[Any, Path], dict[str, Any]]  # writes the weights; what it returns goes into the card
    load: Callable[[Path, dict[str, Any]], LayeredModel]


_KINDS: Mapping[str, _Kind] = {
    "word-tagger": _Kind(WordTagger, _save_words, _load_words),
    "encoder-tagger": _Kind(EncoderTagger, _save_encoder, _load_encoder),
    "light-ner": _Kind(LightNer, _save_light_ner, _load_light_ner),
    "relation-classifier": _Kind(RelationClassifier, _save_classifier, _load_classifier),
    "joint-extractor": _Kind(JointExtractor, _save_joint, _load_joint),
}


# Weights and configurations.


def _load_vectors(folder: Path, weights: Mapping[str, Tensor]) -> WordVectors:
    try:
        words = read_json(folder / _WORDS)
        vectors = weights["words.weight"][RESERVED:].numpy()
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{folder.name}/{_WORDS} is no JSON, or has no vectors beside it") from error
    if not isinstance(words, list) or len(words) != len(vectors):
        raise ModelError(f"{folder.name}/{_WORDS} is no list of {len(vectors)} words")
    return WordVectors(tuple(map(str, words)), vectors)


def _configuration(kind: type[_Config], card: dict[str, Any], folder: Path) -> _Config:
    """The configuration in the card; each setting must be of its field's type."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in card["config"].items()
    }
    kinds = {field.name: type(field.default) for field in fields(kind)}
    wrong = [name for name, value in given.items() if not _fits(value, kinds.get(name))]
    if wrong:
        raise ModelError(f"{folder.name}/{_CARD}: {', '.join(wrong)} cannot be set so in this version")
    return kind(**given)


def _fits(value: object, kind: type | None) -> bool:
    return type(value) is kind or (kind is float and type(value) is int)


def _fill(module: Any, weights: dict[str, Tensor], folder: Path) -> None:
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise ModelError(f"{folder.name}: the weights do not fit the model card") from error


def _save_pretrained(model: EncoderTagger | LightNer | JointExtractor | RelationClassifier, folder: Path) -> None:
    """The encoder and its tokenizer as a Hugging Face folder."""
    with without_remarks():
        model.network.save_pretrained(folder, state_dict=merged_weights(model.network), safe_serialization=True)
        model.tokenizer.tokenizer.save_pretrained(folder)


def _save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def _load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path.parent.name}/{path.name} is missing or damaged") from error
