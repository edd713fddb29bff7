from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.models.tiny import TINY, same_weights, word_tagger, write_encoder
from wardround.errors import ModelError
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.presets import preset
from wardround.models.relation_classifier import RelationClassifier, RelationClassifierConfig
from wardround.models.saved import save_model
from wardround.models.tagging_model import TaggingModel
from wardround.models.transfer import (
    TransferReport,
    freeze,
    layers_of,
    layers_up_to,
    load_source,
    plan_transfer,
    warm_start,
)
from wardround.models.word_tagger import WordTagger
from wardround.models.word_vectors import WordVectors
from wardround.text.relation_sets import RelationSet, RelationType
from wardround.text.tag_sets import TagSet

LAYERS = ("words", "characters.embedding", "characters", "word_cnn", "lstm", "output", "crf")
FRESH = -1.0


def tagger(*types: str, seed: int = 0, vectors: WordVectors | None = None, **changes: Any) -> WordTagger:
    torch.manual_seed(seed)
    return WordTagger(replace(TINY, **changes), TagSet(types or ("ADE", "Drug")), vectors)


def on(encoder: Path, *types: str, seed: int = 0, **changes: Any) -> EncoderTagger:
    torch.manual_seed(seed)
    return EncoderTagger(EncoderTaggerConfig(encoder=str(encoder), **changes), TagSet(types or ("ADE", "Drug")))


@torch.no_grad()
def numbered(model: WordTagger) -> WordTagger:
    """Rows of the output are their own number; a step from tag 3 to tag 4 is 34."""
    size = len(model.tags)
    numbers = torch.arange(size, dtype=torch.float32)
    model.output.weight.copy_(numbers[:, None].expand_as(model.output.weight))
    model.output.bias.copy_(numbers)
    model.crf.start.copy_(numbers)
    model.crf.end.copy_(numbers)
    model.crf.step.copy_(10 * numbers[:, None] + numbers)
    return model


@torch.no_grad()
def blank(model: WordTagger) -> WordTagger:
    for name in ("output", "crf"):
        for parameter in layers_of(model)[name].values():
            parameter.fill_(FRESH)
    return model


def how(report: TransferReport) -> dict[str, str]:
    return {row.layer: row.how for row in report.layers}


def why(report: TransferReport, layer: str) -> str:
    return next(row.why for row in report.layers if row.layer == layer)


def given(source: TaggingModel, target: TaggingModel, **settings: Any) -> TransferReport:
    report = plan_transfer(source, target, **settings)
    report.put_into(target)
    return report


def same_layer(left: TaggingModel, right: TaggingModel, layer: str) -> bool:
    mine, theirs = layers_of(left)[layer], layers_of(right)[layer]
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def vectors(*words: str, first: float = 0.0) -> WordVectors:
    """Every number of the n-th word is `first` + n."""
    rows = np.arange(len(words), dtype=np.float32) + np.float32(first)
    return WordVectors(words, np.repeat(rows[:, None], 4, axis=1))


# Layers and prefixes.


def test_layers_bottom_to_top_hold_every_parameter_once() -> None:
    model = tagger()
    layers = layers_of(model)
    assert tuple(layers) == LAYERS
    names = [name for held in layers.values() for name in held]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
    assert set(layers["characters.embedding"]) == {"characters.embedding.weight"}
    assert set(layers["characters"]) == {"characters.convolution.weight", "characters.convolution.bias"}


@pytest.mark.parametrize("last", LAYERS)
def test_lower_layers_are_copied_and_the_rest_is_fresh_bit_for_bit(last: str) -> None:
    source, target, fresh = tagger(seed=1), tagger(seed=2), tagger(seed=2)
    report = given(source, target, up_to=last)
    place = LAYERS.index(last) + 1
    assert how(report) == {layer: "copied" if at < place else "fresh" for at, layer in enumerate(LAYERS)}
    for layer in LAYERS[:place]:
        assert same_layer(target, source, layer)
    for layer in LAYERS[place:]:
        assert same_layer(target, fresh, layer)
        assert not same_layer(target, source, layer)


def test_without_up_to_all_layers_are_taken() -> None:
    source, target = tagger(seed=1), tagger(seed=2)
    report = given(source, target)
    assert report.up_to == "crf"
    assert same_weights(source, target)
    assert report.taken == sum(parameter.numel() for parameter in source.parameters())


def test_planning_changes_neither_model_and_is_the_same_twice() -> None:
    source, target = tagger(seed=1), tagger("Dosage", "Drug", seed=2)
    report = plan_transfer(source, target)
    assert same_weights(source, tagger(seed=1))
    assert same_weights(target, tagger("Dosage", "Drug", seed=2))
    again = plan_transfer(source, target)
    assert report == again
    assert report.as_values() == again.as_values()
    assert report.as_values() != plan_transfer(tagger(seed=3), target).as_values()


def test_transferred_weights_are_copies() -> None:
    source, target = tagger(seed=1), tagger(seed=2)
    given(source, target)
    with torch.no_grad():
        target.words.weight.fill_(7.0)
    assert same_weights(source, tagger(seed=1))


def test_an_unknown_layer_is_refused_with_the_nearest() -> None:
    said = r"^no layer of the source is called 'lstn' – did you mean 'lstm'\?; there are words, characters\.embedding, "
    with pytest.raises(ModelError, match=said):
        plan_transfer(tagger(), tagger(), up_to="lstn")
    with pytest.raises(ModelError, match=r"^no layer of the source is called 'dense'"):
        plan_transfer(tagger(), tagger(dense=4), up_to="dense")


def test_values_for_the_card() -> None:
    report = plan_transfer(tagger(seed=1), tagger(seed=2), up_to="words")
    values = report.as_values()
    words = {"layer": "words", "parameters": 66 * 16, "taken": 66 * 16, "how": "copied", "why": ""}
    assert values["layers"][0] == words
    assert values["layers"][4] == {
        "layer": "lstm",
        "parameters": 2 * (4 * 16 * (16 + 16) + 2 * 4 * 16),
        "taken": 0,
        "how": "fresh",
        "why": "above words",
    }
    assert len(values["weights_sha256"]) == 64


# Tags.


def test_rows_are_matched_by_tag() -> None:
    source, target = numbered(tagger("ADE", "Drug")), blank(tagger("Dosage", "Drug"))
    report = given(source, target)
    # Source: O B-ADE I-ADE B-Drug I-Drug; target: O B-Dosage I-Dosage B-Drug I-Drug.
    expected = torch.tensor([0.0, FRESH, FRESH, 3.0, 4.0])
    assert torch.equal(target.output.weight, expected[:, None].expand(5, 32))
    for row in (target.output.bias, target.crf.start, target.crf.end):
        assert torch.equal(row, expected)
    assert target.crf.step.tolist() == [
        [0.0, FRESH, FRESH, 3.0, 4.0],
        [FRESH] * 5,
        [FRESH] * 5,
        [30.0, FRESH, FRESH, 33.0, 34.0],
        [40.0, FRESH, FRESH, 43.0, 44.0],
    ]
    taken = {row.layer: row.taken for row in report.layers}
    assert taken["output"] == 3 * 32 + 3
    assert taken["crf"] == 3 + 3 + 9
    assert (how(report)["output"], how(report)["crf"]) == ("resized", "resized")
    assert why(report, "crf") == "3 of 5 tags are the source's; fresh: B-Dosage, I-Dosage"


def test_the_same_tags_in_another_order() -> None:
    source, target = numbered(tagger("ADE", "Drug")), blank(tagger("Drug", "ADE"))
    report = given(source, target)
    assert target.output.bias.tolist() == [0, 3, 4, 1, 2]
    assert target.crf.step[1].tolist() == [30, 33, 34, 31, 32]
    assert (how(report)["output"], how(report)["crf"]) == ("copied", "copied")
    assert why(report, "output") == "5 of 5 tags are the source's, which has them in other rows"


def test_fewer_types_than_the_source() -> None:
    source, target = numbered(tagger("ADE", "Drug")), blank(tagger("Drug"))
    report = given(source, target)
    assert target.output.bias.tolist() == [0, 3, 4]
    assert target.crf.step.tolist() == [[0, 3, 4], [30, 33, 34], [40, 43, 44]]
    assert how(report)["output"] == "resized"


def test_another_scheme() -> None:
    source, target = numbered(tagger("ADE", "Drug")), blank(tagger("Drug", scheme="BIOES"))
    given(source, target)
    assert target.tags == ("O", "B-Drug", "I-Drug", "E-Drug", "S-Drug")
    assert target.output.bias.tolist() == [0, 3, 4, FRESH, FRESH]
    back = blank(tagger("Drug", "ADE"))
    given(numbered(tagger("Drug", scheme="BIOES")), back)
    assert back.crf.start.tolist() == [0, 1, 2, FRESH, FRESH]


def test_without_common_types_only_the_row_of_outside_is_copied() -> None:
    source, target = numbered(tagger("ADE")), blank(tagger("Dosage"))
    report = given(source, target)
    assert target.output.bias.tolist() == [0, FRESH, FRESH]
    assert why(report, "output") == "1 of 3 tags are the source's; fresh: B-Dosage, I-Dosage"


# NeuroNER, issue 152: fine-tuning on i2b2 2014 stopped at 'B-BIOID', a label that MIMIC does not have.
MIMIC = ("AGE", "COUNTRY", "DATE", "DOCTOR", "HOSPITAL", "IDNUM", "PATIENT", "PHONE", "STATE", "STREET", "ZIP")
I2B2 = ("AGE", "BIOID", "CITY", "COUNTRY", "DATE", "DEVICE", "DOCTOR", "EMAIL", "HOSPITAL", "IDNUM", "PATIENT", "PHONE")


@pytest.mark.parametrize(("there", "here"), [(MIMIC, I2B2), (I2B2, MIMIC)])
def test_labels_that_the_source_lacks_are_fresh(there: tuple[str, ...], here: tuple[str, ...]) -> None:
    source, target = tagger(*there, scheme="BIOES", seed=1), tagger(*here, scheme="BIOES", seed=2)
    fresh = tagger(*here, scheme="BIOES", seed=2)
    given(source, target)
    for tag, row in target.tag_rows.items():
        expected = source.output.weight[source.tag_rows[tag]] if tag in source.tags else fresh.output.weight[row]
        assert torch.equal(target.output.weight[row], expected)
    loss = target.loss(target.prepare([["Seen", "today"]]), torch.tensor([[0, 1]]))
    assert loss.isfinite()


def test_a_reason_names_only_a_few_fresh_tags() -> None:
    said = why(plan_transfer(tagger("AGE"), tagger(*I2B2)), "output")
    assert (
        said
        == "3 of 25 tags are the source's; fresh: B-BIOID, I-BIOID, B-CITY, I-CITY, B-COUNTRY, I-COUNTRY and 16 more"
    )


def test_a_crf_that_only_one_model_has_is_not_transferred() -> None:
    report = given(tagger(decoder="softmax"), tagger(seed=2))
    assert (report.up_to, how(report)["crf"]) == ("output", "fresh")
    report = plan_transfer(tagger(), tagger(seed=2, decoder="softmax"))
    assert (how(report)["output"], how(report)["crf"]) == ("copied", "skipped")
    assert why(report, "crf") == "the target has no such layer"


# Words.


def test_buckets_that_are_split_keep_every_words_vector() -> None:
    source, target = tagger(word_buckets=2, seed=1), tagger(word_buckets=6, seed=2)
    report = given(source, target)
    assert torch.equal(target.words.weight, source.words.weight[[0, 1, 2, 3, 2, 3, 2, 3]])
    for word in ("aspirin", "Rash", "10", "mg", "ward", "Monday"):
        assert torch.equal(target.words.weight[target.word_index(word)], source.words.weight[source.word_index(word)])
    assert how(report)["words"] == "resized"
    assert why(report, "words") == "each of 2 buckets of words became 3"
    assert how(report)["lstm"] == "copied"


def test_buckets_that_are_joined_are_averaged() -> None:
    source, target = tagger(word_buckets=4, word_dimension=1), tagger(word_buckets=2, word_dimension=1)
    with torch.no_grad():
        source.words.weight.copy_(torch.tensor([[0.0], [9.0], [1.0], [2.0], [5.0], [8.0]]))
    report = given(source, target)
    assert target.words.weight[:, 0].tolist() == [0.0, 9.0, 3.0, 5.0]  # (1 + 5) / 2 and (2 + 8) / 2
    for word in ("aspirin", "Rash", "10", "mg"):
        assert (source.word_index(word) - 2) % 2 == target.word_index(word) - 2
    assert why(report, "words") == "each 2 of 4 buckets of words became one, their mean"


def test_other_numbers_of_buckets_are_skipped_with_the_layers_above() -> None:
    source, target = tagger(word_buckets=4, seed=1), tagger(word_buckets=6, seed=2)
    report = plan_transfer(source, target, up_to="lstm")
    assert how(report) == {
        "words": "skipped",
        "characters.embedding": "copied",
        "characters": "copied",
        "word_cnn": "skipped",
        "lstm": "skipped",
        "output": "fresh",
        "crf": "fresh",
    }
    assert why(report, "words") == "4 buckets of words cannot become 6: neither number divides the other"
    assert why(report, "lstm") == "it is above words, which was skipped"
    told = given(source, target, up_to="lstm", past_gaps=True)
    assert (how(told)["words"], how(told)["word_cnn"], how(told)["lstm"]) == ("skipped", "copied", "copied")
    assert same_layer(target, source, "lstm")
    assert same_layer(target, tagger(word_buckets=6, seed=2), "words")


def test_listed_words_find_their_rows() -> None:
    source = tagger(vectors=vectors("rash", "aspirin", "ward"), seed=1)
    target = tagger(vectors=vectors("ward", "fever", "rash", first=10), seed=2)
    unknown = source.words.weight[1].tolist()
    report = given(source, target)
    # ward is the source's third word, rash its first; fever keeps what it came with.
    assert target.words.weight[2:, 0].tolist() == [2, 11, 0]
    assert target.words.weight[1].tolist() == unknown
    assert next(row.taken for row in report.layers) == 4 * 4  # two words, unknown and padding
    assert why(report, "words") == "2 of 3 words are in the source's list; the others keep their own vectors"


def test_the_same_list_is_copied() -> None:
    source, target = tagger(vectors=vectors("a", "b")), tagger(vectors=vectors("a", "b", first=5))
    report = given(source, target)
    assert how(report)["words"] == "copied"
    assert target.words.weight[2:, 0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (lambda: tagger(vectors=vectors("c", "d")), "no word of its list is in the source's"),
        (lambda: tagger(word_dimension=4), "one of the two models hashes words, the other has a list of them"),
        (lambda: tagger(), "words.weight is 4 × 4 in the source, 66 × 16 in the target"),
    ],
)
def test_words_without_a_match_are_skipped(target: Any, said: str) -> None:
    report = plan_transfer(tagger(vectors=vectors("a", "b")), target())
    assert how(report)["words"] == "skipped"
    assert why(report, "words") == said


# Networks that differ.


def test_from_fedner_to_the_papers_network() -> None:
    source, target = (
        WordTagger(replace(preset(name), word_buckets=16), TagSet(("Drug",))) for name in ("fedner", "transfer")
    )
    report = plan_transfer(source, target)
    assert how(report) == {
        "words": "copied",
        "characters.embedding": "skipped",
        "characters": "skipped",
        "word_cnn": "skipped",
        "lstm": "skipped",
        "dense": "skipped",
        "output": "skipped",
        "crf": "skipped",
    }
    assert why(report, "characters.embedding").endswith("is 189 × 100 in the source, 189 × 25 in the target")
    kind = "it is another kind of layer: only the target has characters.forwards.weight_ih_l0"
    assert why(report, "characters") == kind
    assert why(report, "lstm") == "it is above characters.embedding, which was skipped"
    past = plan_transfer(source, target, past_gaps=True)
    assert why(past, "word_cnn") == "the target has no such layer"
    assert why(past, "dense") == "the source has no such layer"
    assert how(past)["crf"] == "resized"


def test_a_layer_of_the_source_alone_keeps_its_position() -> None:
    source, target = tagger(word_cnn=4), tagger(word_cnn=0)
    report = plan_transfer(source, target, up_to="word_cnn")
    assert [row.layer for row in report.layers] == list(LAYERS)
    assert report.layers[3].parameters == 0
    assert how(plan_transfer(source, target, up_to="characters")).keys() == {*LAYERS} - {"word_cnn"}


def test_a_transfer_that_copies_nothing_is_refused() -> None:
    with pytest.raises(
        ModelError, match=r"^no layer of the source fits: words: words\.weight is 66 × 16 in the source"
    ):
        plan_transfer(tagger(), tagger(word_dimension=8, character_layer="none"))


def test_a_word_tagger_and_an_encoder_have_no_layer_in_common(tiny_encoder: Path) -> None:
    with pytest.raises(ModelError, match=r"^no layer of the source fits: "):
        plan_transfer(tagger(), on(tiny_encoder))


def test_the_mix_of_another_encoder_is_skipped(tiny_encoder: Path, tmp_path: Path) -> None:
    other = write_encoder(tmp_path / "other", seed=5)
    source = tagger(contextual=str(tiny_encoder), seed=1)
    same = plan_transfer(source, tagger(contextual=str(tiny_encoder)))
    assert how(same)["contextual"] == "copied"
    report = plan_transfer(source, tagger(contextual=str(other)))
    assert (how(report)["contextual"], how(report)["lstm"]) == ("skipped", "skipped")
    assert why(report, "contextual") == "it mixes the layers of another encoder"


# Encoders.


def changed(model: EncoderTagger) -> EncoderTagger:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    return model


def test_the_layers_of_an_encoder(tiny_encoder: Path) -> None:
    source, target, fresh = (
        changed(on(tiny_encoder)),
        on(tiny_encoder, "Drug", seed=2),
        on(tiny_encoder, "Drug", seed=2),
    )
    report = given(source, target, up_to="layer_0")
    assert how(report) == {"embeddings": "copied", "layer_0": "copied", "layer_1": "fresh", "output": "fresh"}
    assert same_layer(target, source, "layer_0")
    assert same_layer(target, fresh, "layer_1")
    report = given(source, target)
    assert how(report)["output"] == "resized"
    assert torch.equal(target.network.classifier.weight, source.network.classifier.weight[[0, 3, 4]])


def test_another_vocabulary_of_word_pieces_skips_all_layers_above(tiny_encoder: Path) -> None:
    source, target = on(tiny_encoder), on(tiny_encoder)
    target.tokenizer.tokenizer.add_tokens(["quillwort"])
    with pytest.raises(
        ModelError, match=r"^no layer of the source fits: embeddings: the vocabularies of word pieces differ"
    ):
        plan_transfer(source, target)
    report = plan_transfer(source, target, past_gaps=True)
    assert how(report) == {"embeddings": "skipped", "layer_0": "copied", "layer_1": "copied", "output": "copied"}


def test_layers_with_other_settings_are_skipped(tiny_encoder: Path) -> None:
    source, target = on(tiny_encoder), on(tiny_encoder)
    target.network.config.num_attention_heads = 4
    report = plan_transfer(source, target, past_gaps=True)
    assert why(report, "layer_1") == "num_attention_heads is 2 in the source, 4 in the target"


def test_an_encoder_with_adapters_takes_the_adapted_layers(tiny_encoder: Path) -> None:
    source = changed(on(tiny_encoder))
    prompted, adapted = on(tiny_encoder, adapter="prompt"), on(tiny_encoder, adapter="lora")
    for target, adapter, above in ((prompted, "prompt", "skipped"), (adapted, "lora", "copied")):
        report = given(source, target)
        assert (how(report)["layer_1"], how(report)["output"]) == ("copied", above)
        assert same_layer(target, source, "layer_1")
        assert why(report, adapter) == "the source has no such layer"
        assert how(plan_transfer(source, target, past_gaps=True))["output"] == "copied"
    again = given(prompted, on(tiny_encoder, adapter="prompt", seed=3))
    assert how(again)["prompt"] == "copied"


# Freezing.


def test_frozen_layers_do_not_train() -> None:
    model = tagger()
    assert freeze(model, ["characters", "lstm"]) == ("characters.embedding", "characters", "lstm")
    held = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert held == {name for name, _ in model.named_parameters() if name.startswith(("characters.", "lstm."))}
    assert freeze(tagger(), ["characters.embedding"]) == ("characters.embedding",)


def test_layers_up_to_one() -> None:
    assert layers_up_to(tagger(), "characters") == ("words", "characters.embedding", "characters")
    with pytest.raises(ModelError, match=r"^no layer is called 'crff' – did you mean 'crf'\?"):
        layers_up_to(tagger(), "crff")


def test_a_refused_freeze_changes_nothing() -> None:
    model = tagger()
    with pytest.raises(ModelError, match=r"^no layer is called 'wrds' – did you mean 'words'\?"):
        freeze(model, ["lstm", "wrds"])
    with pytest.raises(ModelError, match=r"^every layer would be frozen and nothing left to train; name fewer layers$"):
        freeze(model, LAYERS)
    assert all(parameter.requires_grad for parameter in model.parameters())


# Saved models.


def test_a_source_is_a_model_folder_or_the_run_around_it(tmp_path: Path) -> None:
    save_model(word_tagger(seed=3), tmp_path / "run" / "model")
    for place in (tmp_path / "run", tmp_path / "run" / "model"):
        assert same_weights(load_source(place), word_tagger(seed=3))


def test_folders_that_are_no_source_are_refused(tmp_path: Path, tiny_encoder: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        with pytest.raises(
            ModelError,
            match=rf"^(folder '{name}' holds no model: there is no wardround\.json|there is no folder '{name}'; )",
        ):
            load_source(tmp_path / name)
    relations = RelationSet((RelationType("causes", (("Drug", "ADE"),)),))
    save_model(RelationClassifier(RelationClassifierConfig(encoder=str(tiny_encoder)), relations), tmp_path / "pairs")
    said = (
        r"^pairs holds a model of the family relation-classifier; layers can be transferred from a word tagger or an "
        r"encoder tagger only$"
    )
    with pytest.raises(ModelError, match=said):
        load_source(tmp_path / "pairs")


def test_a_warm_start(tmp_path: Path, tiny_encoder: Path) -> None:
    save_model(tagger(seed=1), tmp_path / "model")
    target = tagger("Drug", seed=2)
    report = warm_start(target, tmp_path / "model", up_to="word_cnn")
    assert report.up_to == "word_cnn"
    assert same_layer(target, tagger(seed=1), "word_cnn")
    assert same_layer(target, tagger("Drug", seed=2), "lstm")
    assert warm_start(target, tmp_path).up_to == "crf"
    assert same_layer(target, tagger(seed=1), "lstm")
    relations = RelationSet((RelationType("causes", (("Drug", "ADE"),)),))
    pairs = RelationClassifier(RelationClassifierConfig(encoder=str(tiny_encoder)), relations)
    with pytest.raises(ModelError, match=r"^only a word tagger or an encoder tagger can start from another model$"):
        warm_start(pairs, tmp_path)
