from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BartConfig, BartModel

from tests.models.tiny import SENTENCES, TYPES, notes, same_weights
from tests.models.tiny_bart import write_bart
from wardround.errors import ModelError
from wardround.models import light_ner
from wardround.models.light_ner import LightNer, LightNerConfig, PointerOutputs
from wardround.models.pointer_sequences import END
from wardround.models.saved import load_model, model_card, save_model
from wardround.models.tagging_model import TaggingModel, tag_scoring
from wardround.tasks.ner import NerTask
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_schemes import WordSpan
from wardround.text.tag_sets import TagSet

GROUPS = ("embeddings", "encoder_0", "encoder_1", "decoder_0", "decoder_1", "prompt", "output")
# Every label is one piece of the tiny tokenizer.
LABELS = "ADE=rash, Drug=aspirin"
START = [2, 0]  # </s> <s>
RASH = WordSpan(0, 1, "ADE")
PENICILLIN = WordSpan(2, 5, "Drug")


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bart(tmp_path_factory.mktemp("barts") / "tiny")


def tagger(bart: Path, *, types: TagSet = TYPES, seed: int = 0, **changes: Any) -> LightNer:
    """With outputs that have moved away from where they start, so that all of them matter."""
    torch.manual_seed(seed)
    config = LightNerConfig(bart=str(bart), prompt_length=3, prompt_hidden=8, dropout=0.0, labels=LABELS)
    model = LightNer(replace(config, **changes), types)
    width = model.network.config.d_model
    for name, parameter in model.output.named_parameters():
        torch.nn.init.normal_(parameter, std=0.2 * (width**0.5 if name == "names" else width))
    return model.eval()


def rows(model: LightNer, sentences: Sequence[Sequence[str]], spans: Sequence[Sequence[WordSpan]]) -> Tensor:
    """Tags as the task hands them over, padded with 0."""
    width = max(map(len, sentences))
    tags = [model.scheme.encode(found, len(words)) for words, found in zip(sentences, spans, strict=True)]
    return torch.tensor([[model.tag_rows[tag] for tag in row] + [0] * (width - len(row)) for row in tags])


def written(model: LightNer, sentence: Sequence[str], outputs: Sequence[int]) -> Tensor:
    """Log p of each output after those before it, from the network's own calls on piece ids."""
    tokenizer, table = model.tokenizer.tokenizer, model.network.shared.weight
    little = table.shape[1] ** -0.5  # what outputs learn counts 1/√d, a pointer 1/d
    pieces = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in sentence]
    ids = torch.tensor([[0, *(piece for word in pieces for piece in word), 2]])
    firsts = [1 + sum(map(len, pieces[:place])) for place in range(len(pieces))]
    # The end, ADE and Drug are called </s>, rash and aspirin; then the words.
    called = [2, *(tokenizer(label, add_special_tokens=False)["input_ids"][0] for label in ("rash", "aspirin"))]
    spelled = [*called, *(word[0] for word in pieces)]
    inputs = table[[*START, *(spelled[output] for output in outputs[:-1])]].clone()
    for place, output in enumerate(outputs[:-1], start=len(START)):
        if output < 3:
            inputs[place] += little * model.output.names[output]
    with model.prompt.appended(None):
        states = model.network.encoder(ids).last_hidden_state
        decoded = model.network.decoder(inputs_embeds=inputs[None], encoder_hidden_states=states, use_cache=False)
    words = 0.5 * little**2 * model.output.pointer(states[0, firsts]) + 0.5 * table[spelled[3:]]
    vectors = torch.cat([table[called] + little * model.output.names, words])
    scores = (decoded.last_hidden_state[0, 1:] @ vectors.T).log_softmax(1)
    return scores[range(len(outputs)), list(outputs)]


# What it is made of.


def test_every_layer_is_a_group_and_bart_is_frozen(bart: Path) -> None:
    model = tagger(bart)
    assert model.groups == GROUPS
    assert {model.group_of(name) for name, _ in model.named_parameters()} == set(GROUPS)
    assert model.group_of("network.decoder.layers.1.encoder_attn.k_proj.weight") == "decoder_1"
    assert model.group_of("network.encoder.layernorm_embedding.bias") == "embeddings"
    assert (model.split.shared, model.split.private[-1]) == (("prompt",), "output")
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name.partition(".")[0] for name in trained} == {"prompt", "output"}
    assert model.shared_parameters().keys() | model.private_parameters().keys() == trained
    assert model.outputs == ("O", "B-ADE", "I-ADE", "B-Drug", "I-Drug")


def test_an_unfrozen_bart_is_trained(bart: Path) -> None:
    model = tagger(bart, frozen=False)
    assert model.trainable_share == 1.0
    assert model.split.shared == GROUPS[:-1]
    model.loss(model.prepare(SENTENCES), rows(model, SENTENCES, [[], [RASH], [], []])).backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_shared_groups_can_be_configured(bart: Path) -> None:
    assert tagger(bart, shared=("prompt", "output")).split.shared == ("prompt", "output")
    with pytest.raises(ModelError, match="no layer group is called layer_0; this model has embeddings, encoder_0,"):
        tagger(bart, shared=("layer_0",))


def test_the_trainable_share_of_bart_base(bart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted without weights; the tokenizer plays no part in it."""
    base = BartConfig(
        vocab_size=50_265,
        d_model=768,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
    )
    monkeypatch.setattr(light_ner, "load_bart", lambda origin: BartModel(base))
    types = TagSet(("ADE", "Drug", "Disease", "Finding", "Symptom"))
    with torch.device("meta"):
        model = LightNer(LightNerConfig(bart=str(bart)), types)
    prompt = 10 * 768 + 12 * (768 * 400 + 400 * 2 * 768)
    output = (1 + 5) * 768 + 768 * 768 + 768
    attention, norm = 4 * (768 * 768 + 768), 2 * 768
    forward = 2 * 768 * 3072 + 3072 + 768
    layers = 6 * (attention + forward + 2 * norm) + 6 * (2 * attention + forward + 3 * norm)
    embeddings = 50_265 * 768 + 2 * (1026 * 768 + norm)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    assert sum(sizes.values()) == embeddings + layers + prompt + output
    assert sum(size for name, size in sizes.items() if name.startswith("network.")) == 139_420_416
    assert model.trainable_share == (prompt + output) / (139_420_416 + prompt + output)
    print(f"trainable share of bart-base: {100 * model.trainable_share:.2f}% (Wang 2023: 7.04%)")
    assert round(model.trainable_share, 4) == 0.0772
    assert model.trainable_share <= 0.08


def test_a_type_starts_as_the_mean_embedding_of_its_label(bart: Path) -> None:
    config = LightNerConfig(bart=str(bart), prompt_hidden=8, labels="ADE=joint pain")
    model = LightNer(config, TagSet(("ADE", "TookDrug")))
    table = model.network.shared.weight
    tokenizer = model.tokenizer.tokenizer
    expected = [table[2]]
    for words in ("joint pain", "took drug"):
        pieces = tokenizer(words, add_special_tokens=False)["input_ids"]
        assert len(pieces) > 1
        expected.append(table[pieces].mean(0))
    with model.prompt.appended(None):
        read = model._encode(model.prepare([SENTENCES[0]]))
    torch.testing.assert_close(read.vectors[0, :3], torch.stack(expected))


def test_labels_of_unknown_types_are_ignored(bart: Path) -> None:
    model = tagger(bart, types=TagSet(("Drug",)))
    assert model.pieces_of_names.shape == (2, 1)


# What it writes, and what that costs.


def test_the_loss_covers_start_end_type_and_end_symbol(bart: Path) -> None:
    model, sentence = tagger(bart), SENTENCES[1]
    outputs = [3, 3, 1, 3 + 2, 3 + 4, 2, END]  # Rash, and 10 mg penicillin
    expected = -written(model, sentence, outputs).sum()
    found = model.loss(model.prepare([sentence]), rows(model, [sentence], [[RASH, PENICILLIN]]))
    torch.testing.assert_close(found, expected)


def test_a_sentence_without_mentions_has_only_the_end_symbol(bart: Path) -> None:
    model = tagger(bart)
    found = model.loss(model.prepare([SENTENCES[0]]), torch.zeros(1, 4, dtype=torch.long))
    torch.testing.assert_close(found, -written(model, SENTENCES[0], [END])[0])


def test_the_loss_of_a_sentence_does_not_depend_on_its_batch(bart: Path) -> None:
    model = tagger(bart)
    spans = [[WordSpan(1, 2, "Drug")], [RASH, PENICILLIN], [WordSpan(0, 1, "ADE")], []]
    alone = [
        model.loss(model.prepare([words]), rows(model, [words], [found]))
        for words, found in zip(SENTENCES, spans, strict=True)
    ]
    together = model.loss(model.prepare(SENTENCES), rows(model, SENTENCES, spans))
    torch.testing.assert_close(together, torch.stack(alone).mean())


def test_embeddings_may_be_scaled(tmp_path: Path) -> None:
    """The decoder reads scaled embeddings; outputs are compared with them as they are."""
    model = tagger(write_bart(tmp_path / "scaled", scaled=True))
    assert model.network.shared.embed_scale == 4.0
    with torch.inference_mode():
        read = model._encode(model.prepare(SENTENCES))
    torch.testing.assert_close(read.embedded[:, :3], 4 * read.vectors[:, :3])


def test_the_parts_of_the_loss_add_up(bart: Path) -> None:
    """Eq. 8 and 9 where ADE is annotated here and Drug is taught: local first, then taught, then the end."""
    model = tagger(bart)
    sentences = [SENTENCES[1], SENTENCES[0], SENTENCES[2]]
    local, taught = [[RASH], [], [RASH]], [[RASH, PENICILLIN], [WordSpan(1, 2, "Drug")], [RASH]]
    annotated = torch.tensor([False, True, True, False, False])
    source, target, silence = model.split_loss(
        model.prepare(sentences), rows(model, sentences, local), rows(model, sentences, taught), annotated=annotated
    )
    first = -written(model, sentences[0], [3, 3, 1, 5, 7, 2, END])
    second = -written(model, sentences[1], [4, 4, 2, END])
    third = -written(model, sentences[2], [3, 3, 1, END])
    torch.testing.assert_close(source, torch.stack([first[:3].sum(), torch.tensor(0.0), third[:3].sum()]))
    torch.testing.assert_close(silence, torch.stack([first[6], second[3], third[3]]))
    torch.testing.assert_close(target, torch.stack([first[3:6].sum(), second[:3].sum(), torch.tensor(0.0)]))


def test_local_mentions_precede_taught_ones_in_the_targets(bart: Path) -> None:
    model, sentence = tagger(bart), SENTENCES[1]
    local, taught = [[PENICILLIN]], [[RASH, PENICILLIN]]
    annotated = torch.tensor([False, False, False, True, True])
    found = model.split_loss(
        model.prepare([sentence]), rows(model, [sentence], local), rows(model, [sentence], taught), annotated=annotated
    )
    expected = -written(model, sentence, [5, 7, 2, 3, 3, 1, END])
    torch.testing.assert_close(found.source[0], expected[:3].sum())
    torch.testing.assert_close(found.target[0], expected[3:6].sum())


def test_without_a_teacher_the_local_annotation_counts_as_complete(bart: Path) -> None:
    model, sentences = tagger(bart), [SENTENCES[1], SENTENCES[0]]
    inputs, local = model.prepare(sentences), rows(model, sentences, [[RASH], []])
    found = model.split_loss(inputs, local, None, annotated=torch.ones(5, dtype=torch.bool))
    torch.testing.assert_close((found.source + found.silence).mean(), model.loss(inputs, local))
    assert found.target.tolist() == [0.0, 0.0]
    assert not found.target.requires_grad  # no gradient is asked of it


def test_one_backward_gives_the_gradient_of_each_sentence(bart: Path) -> None:
    """Eq. 11: by the probe, and by training each sentence alone."""
    model, sentences = tagger(bart), [SENTENCES[1], SENTENCES[2], SENTENCES[0]]
    spans = [[RASH, PENICILLIN], [RASH], [WordSpan(1, 2, "Drug")]]
    annotated = torch.ones(5, dtype=torch.bool)
    assert model.probes.leaf_shape == (3, 16)
    model.probes.leaf = model.probes.fresh_leaves(3, model.device).requires_grad_()
    assert torch.equal(model.probes.leaf[1], model.prompt.q)
    together = model.split_loss(model.prepare(sentences), rows(model, sentences, spans), None, annotated=annotated)
    whole = together.source + together.silence
    (found,) = torch.autograd.grad(whole.sum(), model.probes.leaf)
    model.probes.leaf = None
    for row, (words, mentions) in enumerate(zip(sentences, spans, strict=True)):
        alone = model.loss(model.prepare([words]), rows(model, [words], [mentions]))
        (expected,) = torch.autograd.grad(alone, model.prompt.q)
        torch.testing.assert_close(whole[row], alone)
        torch.testing.assert_close(found[row], expected)
        assert expected.norm() > 1e-4


def greedy(model: LightNer, sentence: Sequence[str], longest: int) -> list[int]:
    """Eq. 4: try every output after those generated so far, and decode the whole sequence each time."""
    outputs: list[int] = []
    while len(outputs) < longest:
        scores = [float(written(model, sentence, [*outputs, each])[-1]) for each in range(3 + len(sentence))]
        outputs.append(scores.index(max(scores)))
        if outputs[-1] == END:
            return outputs[:-1]
    return outputs


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_the_best_output_is_written_at_each_step(bart: Path, seed: int) -> None:
    """In a batch with a cache, which sentences that have ended leave, as one by one without either."""
    model = tagger(bart, seed=seed, longest=7)
    with torch.no_grad():
        inputs = model.prepare(SENTENCES)
        with model.prompt.appended(None):
            found = model._generate(model._encode(inputs))
        assert found == [greedy(model, sentence, 7) for sentence in SENTENCES]
        lengths = [len(sentence) for sentence in SENTENCES]
        spans = [model.output_space.spans(outputs, length) for outputs, length in zip(found, lengths, strict=True)]
        assert [model.scheme.spans(tags) for tags in model.decode(inputs)] == [sorted(each) for each in spans]
    assert len({len(outputs) for outputs in found}) > 1


def test_generated_outputs_become_tags_of_the_scheme(bart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tagger(bart, scheme="BIOES")
    outputs = [[4, 4, 2, 2], [5, 7, 2, 3, 3, 1, 7, 8, 1], [3, 4, 1], []]
    monkeypatch.setattr(model, "_generate", lambda read: outputs)
    assert model.decode(model.prepare(SENTENCES)) == [
        ["O", "S-Drug", "O", "O"],
        ["S-ADE", "O", "B-Drug", "I-Drug", "E-Drug", "O", "O", "O"],
        ["O"],  # pointed at a word that is not there
        ["O", "O", "O", "O"],
    ]


def test_padding_words_have_no_finite_score(bart: Path) -> None:
    model = tagger(bart)
    with torch.inference_mode(), model.prompt.appended(None):
        read = model._encode(model.prepare(SENTENCES))
        scores = model._output_scores(read, model._decoder_states(read, model._start_embeddings(read)))
    assert scores.shape == (4, 2, 3 + 8)
    assert scores.isfinite()[:, 0].sum(1).tolist() == [3 + len(sentence) for sentence in SENTENCES]


def test_generation_stops_at_the_last_position_of_the_decoder(tmp_path: Path) -> None:
    model = tagger(write_bart(tmp_path / "short", positions=16), longest=300)
    with torch.no_grad():
        model.output.names[END] -= 50 * model.network.shared.weight[2].sign()
        model.output.names[2] += 50 * model.network.shared.weight[2].sign()
        with model.prompt.appended(None):
            found = model._generate(model._encode(model.prepare([SENTENCES[0]])))
    assert len(found[0]) <= 14


def test_mentions_beyond_the_positions_of_the_decoder_are_left_out(tmp_path: Path) -> None:
    model = tagger(write_bart(tmp_path / "short", positions=16))
    words = ["aspirin"] * 6  # 6 mentions take 3 · 6 + 2 places; four fit
    spans = [[WordSpan(place, place + 1, "Drug") for place in range(6)]]
    found = model.loss(model.prepare([words]), rows(model, [words], spans))
    outputs = [part for place in range(4) for part in (3 + place, 3 + place, 2)]
    torch.testing.assert_close(found, -written(model, words, [*outputs, END]).sum())


# Sentences that are too long.


def test_words_beyond_the_limit_are_not_read(bart: Path) -> None:
    model = tagger(bart, limit=8)
    sentence = ("aspirin",) * 9  # of one piece each: six fit between <s> and </s>
    inputs = model.prepare([SENTENCES[2], sentence])
    assert inputs.pieces is not None and inputs.words is not None
    assert inputs.pieces.ids.shape[0] == 2
    assert inputs.pieces.sentence.tolist() == [0, 1]
    assert model.words_read([SENTENCES[2], sentence]) == [1, 6]
    assert (inputs.words[1] >= 0).tolist() == [True] * 6 + [False] * 3
    assert inputs.mask.sum(1).tolist() == [1, 9]
    with torch.inference_mode():
        assert [len(tags) for tags in model.decode(inputs)] == [1, 9]
    kept, lost = WordSpan(0, 2, "Drug"), WordSpan(5, 7, "ADE")  # the second reaches beyond
    found = model.loss(model.prepare([sentence]), rows(model, [sentence], [[kept, lost]]))
    expected = model.loss(model.prepare([sentence[:6]]), rows(model, [sentence[:6]], [[kept]]))
    torch.testing.assert_close(found, expected)


def test_mentions_that_are_not_read_are_counted(bart: Path) -> None:
    task = NerTask(tagger(bart, limit=8))
    text = " ".join(["aspirin"] * 9)
    ranges = {"first": (0, 7), "reaching beyond": (40, 55), "beyond": (64, 71)}
    mentions = tuple(Entity(name, "Drug", (Range(*ends),)) for name, ends in ranges.items())
    task.encode([Document("long", text, mentions), Document("short", "aspirin", mentions[:1])])
    assert (task.alignment_losses["exact"], task.alignment_losses["unread"]) == (4, 2)
    task.encode([Document("short", "aspirin", mentions[:1])])
    assert "unread" not in task.alignment_losses


def test_only_the_first_window_is_read(bart: Path) -> None:
    """A batch in which sentences of one, three and two windows lie side by side."""
    model = tagger(bart, limit=6)
    sentences = [("rash",) * 2, ("aspirin", "rash") * 5, ("nausea",) * 7]
    together = model.prepare(sentences)
    assert together.pieces is not None and together.words is not None
    for row, sentence in enumerate(sentences):
        alone = model.prepare([sentence[:4]])
        assert alone.pieces is not None and alone.words is not None
        width = alone.pieces.ids.shape[1]
        assert together.pieces.ids[row, :width].tolist() == alone.pieces.ids[0].tolist()
        known = together.words[row][together.words[row] >= 0]
        assert known.tolist() == alone.words[0].tolist()


def test_the_model_does_not_score_tags(bart: Path) -> None:
    model = tagger(bart)
    assert not isinstance(model, TaggingModel)
    for name in ("emissions", "marginals", "decoder", "posterior", "posterior_loss"):
        assert not hasattr(model, name)
    with pytest.raises(ModelError, match="does not score the tags of words; name an encoder"):
        tag_scoring(model)
    task = NerTask(model)
    with pytest.raises(ModelError, match="does not score the tags of words; name an encoder"):
        task.heads(task.encode(notes(1)))
    assert model.not_distillable == "writes mentions and scores no tags"


# Built, saved, trained.


def test_settings_are_the_configuration_as_plain_values(bart: Path) -> None:
    model = tagger(bart, limit=32)
    assert LightNerConfig(**model.settings()) == model.config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1"),
        ({"limit": 3}, "limit is 3; it must be at least 4"),
        ({"longest": 2}, "longest is 2; it must be at least 3"),
        ({"prompt_length": 0}, "prompt_length is 0; it must be at least 1"),
        ({"prompt_hidden": 0}, "prompt_hidden is 0; it must be at least 1"),
        ({"labels": "ADE"}, "labels: 'ADE' is not a label"),
    ],
)
def test_invalid_configurations_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        LightNerConfig(**changes)


def test_folders_without_a_bart_are_refused(bart: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="'tiny' is a model of kind 'bert'; name a BART, such as facebook/bart-base"):
        tagger(tiny_encoder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"folder 'empty' contains no config\.json"):
        tagger(tmp_path / "empty")
    folder = write_bart(tmp_path / "gone")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no BART could be loaded from 'gone': name a Hugging Face id") as caught:
        tagger(folder)
    assert str(tmp_path) not in str(caught.value)


def test_a_loaded_model_is_the_saved_one(
    bart: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tagger(bart, longest=9, shared=("prompt", "output"))
    capfd.readouterr()
    save_model(model, tmp_path / "model", notes={"strict_f1": 0.5})
    assert capfd.readouterr() == ("", "")
    torch.manual_seed(99)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, LightNer)
    assert not loaded.training
    assert (loaded.tags, loaded.settings(), loaded.split) == (model.tags, model.settings(), model.split)
    assert same_weights(model, loaded)
    assert model_card(tmp_path / "model")["kind"] == "light-ner"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    # transformers 4 writes the tokenizer's merges.txt too.
    assert {path.suffix for path in files if path.name != "merges.txt"} == {".json", ".safetensors"}
    inputs, tags = model.prepare(SENTENCES), rows(model, SENTENCES, [[], [RASH], [], []])
    with torch.inference_mode():
        assert torch.equal(model.loss(inputs, tags), loaded.loss(inputs, tags))
        assert model.decode(inputs) == loaded.decode(inputs)


def test_a_missing_or_misfitting_part_is_refused(bart: Path, tmp_path: Path) -> None:
    save_model(tagger(bart), tmp_path / "model")
    save_model(tagger(bart, prompt_hidden=9), tmp_path / "other")
    (tmp_path / "model" / "prompt.safetensors").replace(tmp_path / "prompt.safetensors")
    with pytest.raises(ModelError, match=r"model/prompt\.safetensors is missing or damaged"):
        load_model(tmp_path / "model")
    (tmp_path / "other" / "prompt.safetensors").replace(tmp_path / "model" / "prompt.safetensors")
    with pytest.raises(ModelError, match="model: the weights do not fit the model card"):
        load_model(tmp_path / "model")


def test_a_frozen_bart_memorises_a_few_notes(bart: Path) -> None:
    torch.manual_seed(0)
    model = LightNer(LightNerConfig(bart=str(bart), prompt_hidden=32), TYPES)
    task, known = NerTask(model), notes(6)
    examples = task.encode(known)
    before = {name: tensor.clone() for name, tensor in model.network.state_dict().items()}
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for _ in range(200):
        model.train()
        optimizer.zero_grad()
        task.batch_loss(examples).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert task.score(known).main.micro.f1 == 1.0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.network.state_dict().items())


def test_pointer_outputs_start_as_embeddings() -> None:
    outputs, embedded = PointerOutputs(4, 3), torch.randn(2, 5, 4)
    assert not outputs.learned_names.any()
    torch.testing.assert_close(outputs.words(torch.randn(2, 5, 4), embedded), 0.5 * embedded)


def test_the_learned_part_of_pointer_outputs_is_scaled_down() -> None:
    """With d = 4 names count a half and a pointer a quarter, of which half is mixed in."""
    outputs = PointerOutputs(4, 1)
    torch.nn.init.constant_(outputs.names, 3.0)
    torch.nn.init.eye_(outputs.pointer.weight)
    torch.nn.init.constant_(outputs.pointer.bias, 1.0)
    assert outputs.learned_names.tolist() == [[1.5] * 4]
    states, embedded = torch.full((1, 1, 4), 7.0), torch.full((1, 1, 4), 10.0)
    assert outputs.words(states, embedded).tolist() == [[[6.0] * 4]]  # 0.5 · 8 / 4 + 0.5 · 10
