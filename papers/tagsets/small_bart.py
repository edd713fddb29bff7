"""Train a small BART on plain text, for studies of LightNER without a pretrained one.

    python -m papers.tagsets.small_bart --texts notes.txt more.txt --out runs/tagsets/bart --device cuda --minutes 20

A text file has one document per line. The model learns to restore documents whose sentences were shuffled and in which
spans of Poisson(3) word pieces, 30% of all pieces, were each replaced by one mask (Lewis 2019). The output folder has
the format of Hugging Face: `[model] bart = "runs/tagsets/bart"`. It also has `small_bart.json`: what the model was
trained on, and its loss on held-out documents beside the loss before training.

With `--encoder minilm` (any BERT, by id or folder) the encoder is that BERT and stays frozen, with its vocabulary. Only
a decoder of `--layers` layers learns; it starts from the BERT's layers (`bart_from_bert.py`).

With `--minutes` the first steps are timed, and as many steps are made as fit. The same number as `--steps` gives the
same model: on a CPU bit for bit, on a GPU up to the order of additions.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from papers.tagsets.bart_from_bert import bart_from_bert, only_the_decoder_learns
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import BartConfig, BartForConditionalGeneration, BartTokenizer

from wardround.errors import ModelError
from wardround.models.encoders import encoder_folder, quiet_transformers
from wardround.models.pretrained import load_encoder_network, load_tokenizer
from wardround.tasks.batching import in_length_order
from wardround.text.segmentation import find_sentences, find_words
from wardround.training.batches import length_buckets

__all__ = ["Budget", "Marks", "Plan", "main", "make"]

Pieces = npt.NDArray[np.int64]
Passage = tuple[Pieces, ...]  # consecutive sentences

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]  # in BART's order
_MASKED, _SPAN = 0.3, 3.0  # share of masked pieces, and mean length of a span
_HELD_OUT, _MOST_HELD_OUT = 0.02, 500  # documents
_UNTIMED, _TIMED = 10, 100  # first steps: warm-up, then timing
_MARGIN = 0.95  # of the minutes
_IGNORED = -100
_SHAPES = 64  # batch lengths are multiples of it


class Marks(NamedTuple):
    """The special word pieces."""

    begin: int
    pad: int
    end: int
    mask: int

    @classmethod
    def of(cls, tokenizer: Any) -> Self:
        """Return them; BART's <s> and </s> correspond to BERT's [CLS] and [SEP]."""
        return cls(tokenizer.cls_token_id, tokenizer.pad_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)


@dataclass(frozen=True)
class Plan:
    """The size of the model, and how it is trained."""

    encoder: str = ""  # a BERT to be the encoder; empty: everything is trained from random weights
    layers: int = 3  # of the decoder, and of a new encoder
    width: int = 256  # of a new model
    vocabulary: int = 16_000  # of a new model
    length: int = 256  # word pieces that the model can read, including special ones
    batch: int = 64  # passages
    steps: int = 20_000
    minutes: float = 0.0  # as many steps as fit into this time, at most `steps`; 0: all of them
    rate: float = 5e-4
    warmup: int = 300  # steps
    seed: int = 0
    device: str = "cpu"


# Texts.


def read_documents(paths: Iterable[Path]) -> list[list[str]]:
    """Read each document as sentences with words separated by spaces, as a tagger gets them."""
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    found = []
    for line in lines:
        sentences = [line[start:end] for start, end in find_sentences(line)]
        if sentences:
            found.append([" ".join(s[start:end] for start, end in find_words(s)) for s in sentences])
    return found


def held_out(documents: Sequence[list[str]], seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Return the documents to train on, and one in fifty to evaluate on."""
    count = min(max(1, round(_HELD_OUT * len(documents))), _MOST_HELD_OUT)
    chosen = set(np.random.default_rng(seed).permutation(len(documents))[:count].tolist())
    return (
        [document for row, document in enumerate(documents) if row not in chosen],
        [document for row, document in enumerate(documents) if row in chosen],
    )


def make_tokenizer(documents: Iterable[Sequence[str]], *, vocabulary: int, length: int) -> BartTokenizer:
    """Learn byte-level pairs from these texts, in the form of BART's tokenizer."""
    learned = Tokenizer(BPE())
    learned.pre_tokenizer = ByteLevel(add_prefix_space=True)
    trainer = BpeTrainer(
        vocab_size=vocabulary, special_tokens=SPECIAL, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    learned.train_from_iterator((sentence for document in documents for sentence in document), trainer)
    model = json.loads(learned.to_str())["model"]
    merges: Any = [tuple(pair) for pair in model["merges"]]
    return BartTokenizer(vocab=model["vocab"], merges=merges, add_prefix_space=True, model_max_length=length)


def passages_of(documents: Iterable[Sequence[str]], tokenizer: Any, *, length: int) -> list[Passage]:
    """Cut each document into runs of sentences that the model can read at once; longer sentences are truncated."""
    room = length - 2
    found: list[Passage] = []
    for document in documents:
        held: list[Pieces] = []
        for ids in tokenizer(list(document), add_special_tokens=False, verbose=False)["input_ids"]:
            sentence = np.array(ids[:room], dtype=np.int64)
            if held and sum(map(len, held)) + len(sentence) > room:
                found.append(tuple(held))
                held = []
            held.append(sentence)
        found.append(tuple(held))
    return found


# Noise.


def corrupted(passage: Passage, random: np.random.Generator, *, mask: int) -> Pieces:
    """Return the passage with shuffled sentences and masked spans."""
    shuffled = np.concatenate([passage[row] for row in random.permutation(len(passage))])
    lengths = span_lengths(len(shuffled), random)
    places = random.permutation(len(shuffled) - int(lengths.sum()) + 1)[: len(lengths)]
    return infilled(shuffled, lengths[: len(places)], np.sort(places), mask=mask)


def span_lengths(pieces: int, random: np.random.Generator) -> Pieces:
    """Draw lengths until they add up to the share to mask; the last one is cut to fit."""
    total = round(_MASKED * pieces)
    drawn = random.poisson(_SPAN, size=2 * total + 8)  # more than enough: a span has three pieces on average
    ends = np.minimum(drawn.cumsum(), total)
    count = int(np.searchsorted(ends, total)) + 1 if total else 0
    lengths: Pieces = np.diff(ends[:count], prepend=0)
    return lengths


def infilled(pieces: Pieces, lengths: Pieces, places: Pieces, *, mask: int) -> Pieces:
    """Replace each span by one mask: the i-th hides `lengths[i]` pieces, after `places[i]` pieces that stay."""
    hidden_before = np.concatenate([[0], lengths.cumsum()])
    parts, at = [], 0
    for place, before, length in zip(places, hidden_before, lengths, strict=False):
        start = int(place + before)
        parts += [pieces[at:start], np.array([mask])]
        at = start + int(length)
    return np.concatenate([*parts, pieces[at:]]).astype(np.int64)


def batch_of(
    passages: Sequence[Passage], random: np.random.Generator, *, length: int, marks: Marks
) -> dict[str, Tensor]:
    """Return inputs and labels of the network."""
    sources = [_framed(corrupted(passage, random, mask=marks.mask)[: length - 2], marks) for passage in passages]
    targets = [_framed(np.concatenate(passage), marks) for passage in passages]
    ids, labels = _padded(sources, marks.pad, length), _padded(targets, _IGNORED, length)
    lengths = torch.tensor([len(source) for source in sources])
    attention = (torch.arange(ids.shape[1])[None] < lengths[:, None]).long()
    return {"input_ids": ids, "attention_mask": attention, "labels": labels}


def _padded(rows: Sequence[Tensor], value: int, length: int) -> Tensor:
    """Pad to one of few lengths, because a GPU plans half-precision attention again for every new shape."""
    padded = pad_sequence(rows, batch_first=True, padding_value=value)
    target = min(length, _SHAPES * ceil(padded.shape[1] / _SHAPES))
    return pad(padded, (0, target - padded.shape[1]), value=value)


def _framed(pieces: Pieces, marks: Marks) -> Tensor:
    return torch.from_numpy(np.concatenate([[marks.begin], pieces, [marks.end]]))


# Training.


def fresh_network(plan: Plan, vocabulary: int) -> BartForConditionalGeneration:
    """Return a small BART with random weights."""
    heads = max(1, plan.width // 64)
    sizes = BartConfig(
        vocab_size=vocabulary,
        d_model=plan.width,
        encoder_layers=plan.layers,
        decoder_layers=plan.layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * plan.width,
        decoder_ffn_dim=4 * plan.width,
        max_position_embeddings=plan.length,
    )
    return BartForConditionalGeneration(sizes)


def start(documents: Iterable[Sequence[str]], plan: Plan) -> tuple[BartForConditionalGeneration, Any]:
    """Return the network and its tokenizer, before training."""
    torch.manual_seed(plan.seed)
    if not plan.encoder:
        tokenizer: Any = make_tokenizer(documents, vocabulary=plan.vocabulary, length=plan.length)
        return fresh_network(plan, len(tokenizer)), tokenizer
    source = encoder_folder(plan.encoder)
    with quiet_transformers():
        bert = load_encoder_network(source)
    tokenizer = load_tokenizer(source, options={"model_max_length": plan.length})
    network = bart_from_bert(bert, tokenizer, decoder_layers=plan.layers, length=plan.length)
    only_the_decoder_learns(network)
    return network, tokenizer


def rate_at(step: int, plan: Plan, steps: int) -> float:
    """Return the rate: it rises for `warmup` steps, whatever the number of steps, then falls to zero."""
    return plan.rate * min(1.0, (step + 1) / plan.warmup, (steps - step) / max(1, steps - plan.warmup))


def batches(passages: Sequence[Passage], plan: Plan, marks: Marks) -> Iterator[dict[str, Tensor]]:
    """Yield batches without end: every passage once per epoch, in batches of similar length, with new noise."""
    lengths = [sum(map(len, passage)) for passage in passages]
    random, epoch = np.random.default_rng(plan.seed), 0
    while True:
        for rows in length_buckets(lengths, plan.batch, f"{plan.seed}/{epoch}"):
            yield batch_of([passages[row] for row in rows], random, length=plan.length, marks=marks)
        epoch += 1


class Budget:
    """The number of steps: as planned, or as many as fit into the minutes according to the timed steps."""

    def __init__(self, plan: Plan) -> None:
        self.steps, self._plan, self._began = plan.steps, plan, 0.0

    def at(self, step: int, now: float) -> int:
        """Return the number of steps; call it before every step with the seconds of any clock."""
        if step == _UNTIMED:
            self._began = now
        if step == _UNTIMED + _TIMED and self._plan.minutes:
            affordable = int(_MARGIN * 60 * self._plan.minutes * _TIMED / (now - self._began))
            self.steps = min(self._plan.steps, max(step, affordable))
        return self.steps


def train(network: BartForConditionalGeneration, passages: Sequence[Passage], plan: Plan, marks: Marks) -> int:
    """Train in place and return the number of steps."""
    on_gpu = network.device.type == "cuda"
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=plan.rate, betas=(0.9, 0.98), fused=on_gpu)
    network.train()
    started, budget, losses = time.monotonic(), Budget(plan), list[Tensor]()
    for step, batch in enumerate(batches(passages, plan, marks)):
        if on_gpu and step in (_UNTIMED, _UNTIMED + _TIMED):
            torch.cuda.synchronize()
        steps = budget.at(step, time.monotonic())
        if step == steps:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, plan, steps)
        losses.append(_step(network, optimizer, batch))
        if (step + 1) % max(1, steps // 20) == 0:
            _say(step + 1, steps, losses, time.monotonic() - started)
            losses = []
    return budget.steps


def _step(network: BartForConditionalGeneration, optimizer: torch.optim.Optimizer, batch: dict[str, Tensor]) -> Tensor:
    optimizer.zero_grad()
    loss = _loss(network, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def _loss(network: BartForConditionalGeneration, batch: dict[str, Tensor]) -> Tensor:
    device = network.device
    mixed = torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()
    with mixed:
        loss: Tensor = network(**{name: part.to(device) for name, part in batch.items()}).loss
    return loss


@torch.inference_mode()
def held_out_loss(
    network: BartForConditionalGeneration, passages: Sequence[Passage], plan: Plan, marks: Marks
) -> float:
    """Return the mean −log p of a piece, under noise that is the same each time."""
    network.eval()  # type: ignore[no-untyped-call]
    random, total, pieces = np.random.default_rng(plan.seed + 1), 0.0, 0
    for rows in in_length_order([sum(map(len, passage)) for passage in passages], plan.batch):
        batch = batch_of([passages[row] for row in rows], random, length=plan.length, marks=marks)
        count = int((batch["labels"] != _IGNORED).sum())
        total += count * float(_loss(network, batch))
        pieces += count
    return total / pieces


def _say(step: int, steps: int, losses: Sequence[Tensor], seconds: float) -> None:
    mean = float(torch.stack(list(losses)).mean())
    print(f"step {step:,} of {steps:,}: loss {mean:.3f}, {seconds / 60:.1f} min", flush=True)


def make(texts: Sequence[Path], out: Path, plan: Plan) -> dict[str, Any]:
    """Train on the texts, write the folder, and return the content of `small_bart.json`."""
    training, evaluated = held_out(read_documents(texts), plan.seed)
    if not training:
        sys.exit("at least two documents, one per line, are needed: one to train on and one to evaluate on")
    network, tokenizer = start(training, plan)
    marks = Marks.of(tokenizer)
    passages, held_out_passages = (passages_of(part, tokenizer, length=plan.length) for part in (training, evaluated))
    network.to(torch.device(plan.device))  # type: ignore[arg-type]
    size = sum(parameter.numel() for parameter in network.parameters())
    pieces = sum(len(sentence) for passage in passages for sentence in passage)
    print(f"{size:,} parameters, {len(passages):,} passages of {pieces:,} pieces", flush=True)
    untrained, started = held_out_loss(network, held_out_passages, plan, marks), time.monotonic()
    steps = train(network, passages, plan, marks)
    trained = held_out_loss(network, held_out_passages, plan, marks)
    found = {
        **{"parameters": size, "vocabulary": len(tokenizer), "documents": len(training), "pieces": pieces},
        **{"steps": steps, "seconds": round(time.monotonic() - started, 1)},
        **{"held_out_loss": round(trained, 4), "untrained_loss": round(untrained, 4)},
        "plan": asdict(plan),
    }
    with quiet_transformers():
        network.save_pretrained(out)
        tokenizer.save_pretrained(out)
    (out / "small_bart.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"held-out loss {found['held_out_loss']} per piece; untrained {found['untrained_loss']}")
    return found


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, nargs="+", required=True, help="files with one document per line")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    for field in fields(Plan):
        kind = type(field.default)
        parser.add_argument(f"--{field.name}", type=kind, default=field.default, help=f"default {field.default}")
    given = vars(parser.parse_args())
    texts, out = given.pop("texts"), given.pop("out")
    # cuDNN plans half-precision attention again for every new shape.
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        make(texts, out, Plan(**given))
    except (ModelError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
