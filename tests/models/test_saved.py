from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import pipeline

from tests.models.tiny import SENTENCES, TYPES, same_weights, word_tagger, write_encoder
from wardround.errors import ModelError
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.joint_extractor import JointExtractor, JointExtractorConfig
from wardround.models.parameter_split import LayeredModel
from wardround.models.relation_classifier import RelationClassifier, RelationClassifierConfig
from wardround.models.saved import load_model, model_card, save_model
from wardround.models.tagging_model import TaggingModel
from wardround.models.word_vectors import WordVectors
from wardround.text.relation_sets import RelationSet, RelationType

VECTORS = WordVectors(("aspirin", "rash", "fièvre"), np.arange(9, dtype=np.float32).reshape(3, 3))


def encoder_tagger(encoder: Path | str, decoder: str = "softmax") -> EncoderTagger:
    torch.manual_seed(0)
    return EncoderTagger(EncoderTaggerConfig(encoder=str(encoder), decoder=decoder, limit=48, overlap=9), TYPES)


def adapted_tagger(encoder: Path | str, adapter: str, decoder: str = "softmax") -> EncoderTagger:
    """One whose adapter and output were trained, so to say."""
    torch.manual_seed(0)
    model = EncoderTagger(EncoderTaggerConfig(encoder=str(encoder), decoder=decoder, adapter=adapter), TYPES)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=5.0 if "classifier" in name else 0.5)
    return model.eval()


prompted, with_lora = partial(adapted_tagger, adapter="prompt"), partial(adapted_tagger, adapter="lora")


def joint_extractor(encoder: Path | str) -> JointExtractor:
    torch.manual_seed(0)
    relations = RelationSet((RelationType("causes", (("Drug", "ADE"),)),))
    return JointExtractor(JointExtractorConfig(encoder=str(encoder), decoder="crf"), TYPES, relations)


def relation_classifier(encoder: Path | str) -> RelationClassifier:
    relations = RelationSet((RelationType("causes", (("Drug", "ADE"),)),))
    return RelationClassifier(RelationClassifierConfig(encoder=str(encoder)), relations)


def same_predictions(left: TaggingModel, right: TaggingModel) -> bool:
    with torch.inference_mode():
        found = [model.marginals(model.prepare(SENTENCES)) for model in (left.eval(), right.eval())]
    return torch.equal(*found) and left.decode(left.prepare(SENTENCES)) == right.decode(right.prepare(SENTENCES))


MAKERS: dict[str, Callable[[Path], TaggingModel]] = {
    "hashed": lambda _: word_tagger(),
    "softmax": lambda _: word_tagger(decoder="softmax", character_layer="lstm", scheme="BIOES", dense=4),
    "listed": lambda _: word_tagger(vectors=VECTORS, train_words=False),
    "contextual": lambda encoder: word_tagger(contextual=str(encoder)),
    "encoder-softmax": lambda encoder: encoder_tagger(encoder),
    "encoder-crf": lambda encoder: encoder_tagger(encoder, "crf"),
    "encoder-prompt": prompted,
    "encoder-prompt-crf": partial(prompted, decoder="crf"),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_a_loaded_model_is_the_saved_one(
    maker: Callable[[Path], TaggingModel], tiny_encoder: Path, tmp_path: Path
) -> None:
    model = maker(tiny_encoder)
    save_model(model, tmp_path / "model", notes={"strict_f1": 0.5})
    loaded = load_model(tmp_path / "model")
    assert not loaded.training
    assert type(loaded) is type(model)
    assert loaded.tags == model.tags
    assert loaded.settings() == model.settings()
    assert loaded.split == model.split
    assert same_weights(model, loaded)
    assert same_predictions(model, loaded)
    assert model_card(tmp_path / "model")["notes"] == {"strict_f1": 0.5}
    # Nothing that could run code, and nothing left over.
    # transformers 4 writes a BERT's vocab.txt too.
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "vocab.txt"]
    assert {path.suffix for path in files} == {".json", ".safetensors"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("make", [encoder_tagger, prompted, with_lora, relation_classifier, joint_extractor])
def test_saving_a_model_prints_nothing(
    make: Callable[[Path], LayeredModel], tiny_encoder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = make(tiny_encoder)
    capfd.readouterr()
    save_model(model, tmp_path / "model")
    assert capfd.readouterr() == ("", "")


def test_a_compact_encoder_is_loaded_with_its_weights(tmp_path: Path) -> None:
    model = encoder_tagger("bert-tiny")
    save_model(model, tmp_path / "model")
    torch.manual_seed(99)
    assert same_weights(model, load_model(tmp_path / "model"))


def test_frozen_word_embeddings_stay_frozen(tmp_path: Path) -> None:
    save_model(word_tagger(vectors=VECTORS, train_words=False), tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert "words.weight" not in {**loaded.shared_parameters(), **loaded.private_parameters()}
    assert json.loads((tmp_path / "model" / "words.json").read_text("utf-8")) == list(VECTORS.words)


def test_a_model_with_hashed_words_writes_no_word_list(tmp_path: Path) -> None:
    model = word_tagger()
    model.prepare(SENTENCES)
    save_model(model, tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"wardround.json", "model.safetensors"}
    written = b"".join(path.read_bytes() for path in (tmp_path / "model").iterdir())
    assert b"aspirin" not in written


def test_the_content_of_the_model_card(tmp_path: Path) -> None:
    save_model(word_tagger(), tmp_path / "model")
    card = model_card(tmp_path / "model")
    assert (card["format"], card["kind"], card["types"]) == (1, "word-tagger", ["ADE", "Drug"])
    assert card["config"]["lstm"] == 16
    assert card["contextual_sha256"] is None


def test_whole_numbers_are_accepted_for_fractions(tmp_path: Path) -> None:
    model = word_tagger(dropout=0)
    save_model(model, tmp_path / "model")
    assert same_weights(model, load_model(tmp_path / "model"))


@pytest.mark.parametrize("decoder", ["softmax", "crf"])
def test_a_tagger_with_lora_is_saved_as_a_plain_one(tiny_encoder: Path, tmp_path: Path, decoder: str) -> None:
    model = adapted_tagger(tiny_encoder, "lora", decoder)
    inputs = model.prepare(SENTENCES)
    with torch.inference_mode():
        expected = model.emissions(inputs)
        save_model(model, tmp_path / "model")
        assert torch.equal(model.emissions(inputs), expected)  # it may be trained further
        loaded = load_model(tmp_path / "model")
        assert isinstance(loaded, EncoderTagger)
        torch.testing.assert_close(loaded.emissions(inputs), expected, atol=1e-5, rtol=1e-5)
        for layer in model.network.modules():
            if hasattr(layer, "lora_B"):
                layer.lora_B.default.weight.zero_()
        assert not torch.allclose(model.emissions(inputs), expected, atol=0.1)  # so that the layers were not left out
    assert model_card(tmp_path / "model")["config"]["adapter"] == "lora"
    assert loaded.config == replace(model.config, adapter="none")
    assert "lora" not in loaded.groups
    assert all(parameter.requires_grad for parameter in loaded.parameters())
    assert not any("lora" in name for name in load_file(tmp_path / "model" / "model.safetensors"))


def test_a_tagger_that_shares_its_lora_is_loaded(tiny_encoder: Path, tmp_path: Path) -> None:
    config = EncoderTaggerConfig(encoder=str(tiny_encoder), adapter="lora", shared=("lora", "output"))
    save_model(EncoderTagger(config, TYPES), tmp_path / "model")
    assert load_model(tmp_path / "model").split.shared == ("output",)


def test_a_prompt_is_saved_beside_the_encoder(tiny_encoder: Path, tmp_path: Path) -> None:
    model = adapted_tagger(tiny_encoder, "prompt")
    save_model(model, tmp_path / "model")
    written = load_file(tmp_path / "model" / "prompt.safetensors")
    assert written.keys() == model.prompt.state_dict().keys()
    assert load_file(tmp_path / "model" / "model.safetensors").keys() == model.network.state_dict().keys()
    # Whoever opens the folder without us is not sent to look for an attention that only we have.
    assert "wardround" not in (tmp_path / "model" / "config.json").read_text()
    loaded = load_model(tmp_path / "model")
    assert {name for name, parameter in loaded.named_parameters() if parameter.requires_grad} == {
        name for name, parameter in model.named_parameters() if parameter.requires_grad
    }


HUGGING_FACE: dict[str, Callable[[Path], EncoderTagger]] = {
    "softmax": encoder_tagger,
    "crf": lambda encoder: encoder_tagger(encoder, "crf"),
    "lora": with_lora,
}


@pytest.mark.parametrize("make", HUGGING_FACE.values(), ids=HUGGING_FACE)
def test_hugging_face_opens_an_encoder_model_unchanged(
    tmp_path: Path, make: Callable[[Path], EncoderTagger], tiny_encoder: Path
) -> None:
    model = make(tiny_encoder)
    with torch.no_grad():
        model.network.classifier.weight.normal_(0, 5)  # so that every tag is met
    model.eval()
    save_model(model, tmp_path / "model")
    opened = pipeline("token-classification", model=str(tmp_path / "model"), aggregation_strategy="first", device="cpu")
    met = set()
    for sentence in SENTENCES:
        with torch.inference_mode():
            best = model.emissions(model.prepare([sentence]))[0].argmax(1).tolist()
        expected = [model.tags[row] for row in best]
        met.update(expected)
        assert labels_by_word(opened(" ".join(sentence)), sentence) == [tag.rpartition("-")[2] for tag in expected]
    assert len(met) > 2


def labels_by_word(groups: list[dict[str, Any]], sentence: tuple[str, ...]) -> list[str]:
    """The pipeline's groups, which leave out O, mapped to words separated by one blank."""
    found, start = [], 0
    for word in sentence:
        end = start + len(word)
        held = [group["entity_group"] for group in groups if group["start"] < end and start < group["end"]]
        assert len(held) <= 1
        found.append(held[0] if held else "O")
        start = end + 1
    return found


def test_only_a_model_folder_is_replaced(tmp_path: Path) -> None:
    save_model(word_tagger(), tmp_path / "model")
    save_model(word_tagger(seed=1, vectors=VECTORS), tmp_path / "model")
    save_model(word_tagger(seed=1), tmp_path / "model")
    assert same_weights(load_model(tmp_path / "model"), word_tagger(seed=1))
    assert not (tmp_path / "model" / "words.json").exists()  # of the model before

    (tmp_path / "notes").mkdir()
    save_model(word_tagger(), tmp_path / "notes")  # empty
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious.txt").write_text("notes")
    with pytest.raises(ModelError, match="'other' contains files that are not a model; name a new or empty folder"):
        save_model(word_tagger(), tmp_path / "other")
    with pytest.raises(ModelError, match=r"'precious\.txt' contains files that are not a model"):
        save_model(word_tagger(), tmp_path / "other" / "precious.txt")
    assert (tmp_path / "other" / "precious.txt").read_text() == "notes"


def test_a_partial_folder_of_a_crash_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "model.partial").mkdir()
    (tmp_path / "model.partial" / "model.safetensors").write_bytes(b"half")
    save_model(word_tagger(), tmp_path / "model")
    assert same_weights(load_model(tmp_path / "model"), word_tagger())
    assert not (tmp_path / "model.partial").exists()


def test_a_model_may_be_saved_over_the_folder_it_came_from(tiny_encoder: Path, tmp_path: Path) -> None:
    save_model(encoder_tagger(tiny_encoder), tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    save_model(loaded, tmp_path / "model")
    assert same_weights(loaded, load_model(tmp_path / "model"))


def test_another_encoder_under_the_same_name_is_refused(tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    save_model(word_tagger(contextual=str(encoder)), tmp_path / "model")
    load_model(tmp_path / "model")
    shutil.rmtree(encoder)
    write_encoder(encoder, seed=1)
    with pytest.raises(
        ModelError, match=r"^model: the encoder '.*encoder' on this machine is not the one used in training$"
    ):
        load_model(tmp_path / "model")


Damage = Callable[[Path], object]


def edit_card(**changes: object) -> Damage:
    def damage(folder: Path) -> None:
        card = json.loads((folder / "wardround.json").read_text()) | changes
        (folder / "wardround.json").write_text(json.dumps(card))

    return damage


def edit_config(**changes: object) -> Damage:
    return lambda folder: edit_card(config=model_card(folder)["config"] | changes)(folder)


def overwrite(name: str, content: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(content)


def remove(*names: str) -> Damage:
    def damage(folder: Path) -> None:
        for name in names:
            (folder / name).unlink(missing_ok=name == "vocab.txt")  # written by transformers 4 only

    return damage


def cut(name: str) -> Damage:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-100])


def drop_tensor(file: str, name: str) -> Damage:
    def damage(folder: Path) -> None:
        kept = {key: tensor.clone() for key, tensor in load_file(folder / file).items() if key != name}
        save_file(kept, folder / file, metadata={"format": "pt"})

    return damage


ANY_MODEL: dict[str, Damage] = {
    "no card": remove("wardround.json"),
    "card is no JSON": overwrite("wardround.json", b"{"),
    "card is no text": overwrite("wardround.json", b"\xff\xfe"),
    "card is a list": overwrite("wardround.json", b"[]"),
    "later format": edit_card(format=2),
    "unknown kind": edit_card(kind="oracle"),
    "kind is a list": edit_card(kind=[]),
    "types are text": edit_card(types="Drug"),
    "types are numbers": edit_card(types=[1, 2]),
    "type named twice": edit_card(types=["Drug", "Drug"]),
    "other number of types": edit_card(types=["Drug"]),
    "config is a list": edit_card(config=[]),
    "unknown setting": edit_config(depth=3),
    "setting of another type": edit_config(dropout="much"),
    "truth for a number": edit_config(dropout=True),
    "unknown scheme": edit_config(scheme="BILOU"),
    "unknown decoder": edit_config(decoder="beam"),
    "no weights": remove("model.safetensors"),
    "empty weights": overwrite("model.safetensors", b""),
    "junk for weights": overwrite("model.safetensors", b"junk" * 50),
    "weights cut off": cut("model.safetensors"),
}
LISTED: dict[str, Damage] = {
    "words are no JSON": overwrite("words.json", b"["),
    "words are no list": overwrite("words.json", b"7"),
    "too few words": overwrite("words.json", b'["a"]'),
    "too many words": overwrite("words.json", b'["a","b","c","d"]'),
    "no words": remove("words.json"),
    "no vectors": drop_tensor("model.safetensors", "words.weight"),
    "other sizes": edit_config(lstm=9),
    "a missing tensor": drop_tensor("model.safetensors", "output.bias"),
}
ENCODER: dict[str, Damage] = {
    "no configuration": remove("config.json"),
    "no tokenizer": remove("tokenizer.json", "tokenizer_config.json", "vocab.txt"),
    "a missing tensor": drop_tensor("model.safetensors", "classifier.bias"),
    "a missing layer": drop_tensor("model.safetensors", "bert.encoder.layer.1.output.dense.weight"),
    "no CRF": remove("crf.safetensors"),
    "CRF cut off": cut("crf.safetensors"),
    "another CRF": drop_tensor("crf.safetensors", "step"),
}
PROMPTED: dict[str, Damage] = {
    "no prompt": remove("prompt.safetensors"),
    "prompt cut off": cut("prompt.safetensors"),
    "another prompt": drop_tensor("prompt.safetensors", "outer.1.weight"),
    "other sizes": edit_config(prompt_length=4),
    "unknown adapter": edit_config(adapter="prefix"),
}
JOINT: dict[str, Damage] = ENCODER | {
    "no relation head": remove("output.safetensors"),
    "relation head cut off": cut("output.safetensors"),
    "another relation head": drop_tensor("output.safetensors", "hidden.bias"),
    "no relation set": edit_card(relations=None),
    "relation set without types": edit_card(
        relations={"types": [], "negative": "", "directed": True, "level": "mention"}
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> dict[str, Path]:
    """An undamaged model of each kind."""
    folder = tmp_path_factory.mktemp("models")
    save_model(word_tagger(vectors=VECTORS), folder / "listed")
    save_model(encoder_tagger(tiny_encoder, "crf"), folder / "encoder")
    save_model(adapted_tagger(tiny_encoder, "prompt"), folder / "prompted")
    save_model(joint_extractor(tiny_encoder), folder / "joint")
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        pytest.param(kind, damage, id=f"{kind}-{name}")
        for kind, own in (("listed", LISTED), ("encoder", ENCODER), ("joint", JOINT))
        for name, damage in (ANY_MODEL | own).items()
    ]
    + [pytest.param("prompted", damage, id=f"prompted-{name}") for name, damage in PROMPTED.items()],
)
def test_a_damaged_folder_is_refused(whole: dict[str, Path], kind: str, damage: Damage, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(whole[kind], folder)
    load_model(folder)
    damage(folder)
    with pytest.raises(ModelError) as caught:
        load_model(folder)
    assert str(tmp_path) not in str(caught.value)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no folder 'nowhere'; `wardround train` writes a model"):
        load_model(tmp_path / "nowhere")
