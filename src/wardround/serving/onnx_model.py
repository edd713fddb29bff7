"""A model exported to ONNX: loaded from plain files with digests, and run without torch.

    network.onnx     from words or word pieces to a score for each tag
    crf.safetensors  the scores of the CRF, if the model has one
    tokenizer.json   the word pieces of an encoder; words.json: the words of pretrained vectors
    wardround.json   the card, with the SHA-256 of every other file

Loading runs nothing but the operators of ONNX Runtime itself. A network that refers to data in another file is
refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wardround.errors import ModelError, TextError
from wardround.models.arrays import Mask, PieceTable, word_arrays, word_mask
from wardround.models.cards import CARD, ONNX
from wardround.models.vocabulary import HashedWords, ListedWords, WordIndex
from wardround.parsing import MalformedDataError, parse_json, read_limited
from wardround.serving.onnx_decoding import Transitions, decode, marginals
from wardround.tasks.mentions import predict_mentions
from wardround.text.document import Document
from wardround.text.tag_schemes import SCHEMES, ScoredTags, TagScheme
from wardround.text.tag_sets import TagSet

if TYPE_CHECKING:
    from wardround.tasks.task import Task

__all__ = ["CRF", "NETWORK", "TOKENIZER", "WORDS", "OnnxPredictor", "OnnxTagger", "import_runtime", "load_onnx"]

NETWORK, CRF, TOKENIZER, WORDS = "network.onnx", "crf.safetensors", "tokenizer.json", "words.json"
_CHUNK = 1_000_000  # bytes
_LARGEST_SIZE = 100_000_000  # of a setting
# A tensor whose data is in another file has an entry with this key; the key is never part of our own networks.
_ELSEWHERE = b"location"


class Reader(Protocol):
    """What turns sentences into the inputs of a network."""

    def __call__(self, sentences: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Return the inputs by name."""


@dataclass(frozen=True)
class WordReader:
    """Reads words."""

    index: WordIndex
    with_spellings: bool

    def __call__(self, sentences: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Return the rows of words, and their spellings if the network reads characters."""
        return word_arrays(sentences, self.index, with_spellings=self.with_spellings)._asdict()


@dataclass(frozen=True)
class PieceReader:
    """Reads word pieces."""

    table: PieceTable

    def __call__(self, sentences: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Return the pieces in windows."""
        return self.table.encode(sentences)._asdict()


class OnnxTagger:
    """A network in ONNX with its decoder."""

    kind = ONNX
    scores_tags = True

    def __init__(
        self, network: Path, reader: Reader, transitions: Transitions, *, tag_set: TagSet, scheme: TagScheme
    ) -> None:
        """Open the network in a file."""
        self.tag_set, self.scheme = tag_set, scheme
        self.tags = tag_set.tags(scheme)
        self._reader, self._transitions, self._session = reader, transitions, _session(network)
        self._inputs = [one.name for one in self._session.get_inputs()]

    def tag_sentences(self, sentences: Sequence[Sequence[str]], *, scored: bool) -> list[ScoredTags]:
        """Return the best legal tags of each sentence; if `scored`, with the probabilities of their mentions."""
        emissions, mask = self._emissions(sentences)
        return decode(emissions, mask, self._transitions, tags=self.tags, scheme=self.scheme, scored=scored)

    def tag_probabilities(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Return p(tag) of each word, [batch, words, tags]; zero at padding."""
        return marginals(*self._emissions(sentences), self._transitions)

    def _emissions(self, sentences: Sequence[Sequence[str]]) -> tuple[NDArray[np.float32], Mask]:
        """Return a score for each word and tag, and which places are words."""
        mask = word_mask(sentences)
        given = {"mask": mask, **self._reader(sentences)}
        (emissions,) = self._session.run(None, {name: given[name] for name in self._inputs})
        if emissions.shape != (*mask.shape, len(self.tags)):
            raise ModelError("the network does not fit the model card: it has another number of tags")
        return emissions, mask


class OnnxPredictor:
    """Named entities by a network in ONNX."""

    finds_entities, finds_relations = True, False

    def __init__(self, model: OnnxTagger) -> None:
        self.model = model

    @property
    def entity_types(self) -> tuple[str, ...]:
        """Return the types of the model."""
        return self.model.tag_set.types

    def predict(self, documents: Iterable[Document], *, scored: bool = False) -> Iterator[Document]:
        """Yield each document with predictions instead of its annotation, in order, in constant memory."""
        return predict_mentions(self.model, documents, scored=scored)

    def scoring_task(self, *, leakage: bool | None = None) -> Task:
        """Return a task that scores the predictions, as `task_of` does for a network in PyTorch; it needs torch."""
        from wardround.tasks.deidentify import DEIDENTIFY
        from wardround.tasks.ner import NER
        from wardround.tasks.task import TaskSettings
        from wardround.text.phi_tag_sets import are_phi

        identifies = are_phi(self.entity_types) if leakage is None else leakage
        return (DEIDENTIFY if identifies else NER).bind(self.model, TaskSettings())


def load_onnx(folder: Path, card: Mapping[str, Any]) -> OnnxPredictor:
    """Load an ONNX model; raise `ModelError` if a file is missing, was changed, or does not fit the card."""
    files = _checked_files(folder, card)
    config = card["config"]
    scheme = config.get("scheme")
    if scheme not in SCHEMES:
        raise ModelError(f"{folder.name}/{CARD}: the scheme is none of {', '.join(SCHEMES)}")
    try:
        tag_set = TagSet(tuple(card["types"]))
    except TextError as error:
        raise ModelError(f"{folder.name}/{CARD}: {error}") from error
    tags = tag_set.tags(SCHEMES[scheme])
    transitions = (
        _crf(folder, files[CRF], len(tags)).limited(tags, SCHEMES[scheme])
        if CRF in files
        else Transitions.legal(tags, SCHEMES[scheme])
    )
    reader = _reader(folder, config, files)
    return OnnxPredictor(OnnxTagger(folder / NETWORK, reader, transitions, tag_set=tag_set, scheme=SCHEMES[scheme]))


def _checked_files(folder: Path, card: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the contents of the small files that the card lists; every file must be as the card's digest says.

    The network is opened by its path, because ONNX Runtime would keep a second copy of its bytes. Whoever can replace
    it after this check could have replaced the card too.
    """
    listed = card.get("files")
    if not isinstance(listed, Mapping) or NETWORK not in listed or set(listed) - {NETWORK, CRF, TOKENIZER, WORDS}:
        raise ModelError(f"{folder.name}/{CARD} does not list the files of an ONNX model")
    files = {}
    for name, digest in listed.items():
        if (folder / name).is_symlink():
            raise ModelError(f"{folder.name}/{name} is a link; copy the file itself")
        try:
            if name == NETWORK:
                found = _digest_of_network(folder / name)
            else:
                files[name] = read_limited(folder / name)
                found = sha256(files[name]).hexdigest()
        except (OSError, MalformedDataError) as error:
            raise ModelError(f"{folder.name}/{name} is missing or cannot be read") from error
        if found != digest:
            raise ModelError(f"{folder.name}/{name} was changed: its SHA-256 is not that of the card; export it again")
    return files


def _digest_of_network(path: Path) -> str:
    """Return the SHA-256; raise `ModelError` if the network may refer to data in another file."""
    digest, end = sha256(), b""
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            if _ELSEWHERE in end + chunk:
                raise ModelError(f"{path.parent.name}/{NETWORK} refers to data in another file, which is never read")
            end = chunk[-len(_ELSEWHERE) :]
    return digest.hexdigest()


def _reader(folder: Path, config: Mapping[str, Any], files: Mapping[str, bytes]) -> Reader:
    if TOKENIZER in files:
        return PieceReader(_piece_table(folder, config, files[TOKENIZER]))
    if WORDS in files:
        try:
            words = parse_json(files[WORDS])
        except MalformedDataError as error:
            raise ModelError(f"{folder.name}/{WORDS} {error}") from error
        if not isinstance(words, list):
            raise ModelError(f"{folder.name}/{WORDS} is not a list of words")
        index: WordIndex = ListedWords(map(str, words))
    else:
        index = HashedWords(_size(folder, config, "word_buckets", least=1))
    return WordReader(index, config.get("spellings") is True)


def _piece_table(folder: Path, config: Mapping[str, Any], content: bytes) -> PieceTable:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises its base class
        raise ModelError(f"{folder.name}/{TOKENIZER} is not a tokenizer") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    limit = _size(folder, config, "limit", least=2)
    overlap = _size(folder, config, "overlap", least=0)
    special = [config.get(name) for name in ("prefix", "suffix")]
    are_pieces = all(isinstance(pieces, list) and all(type(piece) is int for piece in pieces) for pieces in special)
    if overlap >= limit or not are_pieces:
        raise ModelError(f"{folder.name}/{CARD}: the settings of word pieces cannot be used")
    return PieceTable(
        lambda words: [one.ids for one in tokenizer.encode_batch(words, add_special_tokens=False)],
        prefix=config["prefix"],
        suffix=config["suffix"],
        limit=limit,
        overlap=overlap,
        padding=_size(folder, config, "padding", least=0),
    )


def _size(folder: Path, config: Mapping[str, Any], name: str, *, least: int) -> int:
    value = config.get(name)
    if type(value) is not int or not least <= value <= _LARGEST_SIZE:
        raise ModelError(f"{folder.name}/{CARD}: {name} is not a number of at least {least}")
    return value


def _crf(folder: Path, content: bytes, tags: int) -> Transitions:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        scores = load(content)
        start, step, end = (np.asarray(scores[name], dtype=np.float32) for name in ("start", "step", "end"))
    except (SafetensorError, KeyError) as error:
        raise ModelError(f"{folder.name}/{CRF} is damaged") from error
    if (start.shape, step.shape, end.shape) != ((tags,), (tags, tags), (tags,)):
        raise ModelError(f"{folder.name}/{CRF} does not fit the types of the model card")
    return Transitions(start, step, end)


def import_runtime() -> Any:
    """Import ONNX Runtime with its telemetry off: its official builds send events to their maker by default.

    The variable is read when the library is imported; the call turns it off where another package imported it before.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise ModelError("an ONNX model needs ONNX Runtime: pip install 'wardround[onnx]'") from None
    onnxruntime.disable_telemetry_events()
    return onnxruntime


def _session(network: Path) -> Any:
    onnxruntime = import_runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its messages may name paths; errors are raised
    options.enable_cpu_mem_arena = False  # lengths vary: the arena would keep the memory of the longest batch
    if threads := os.environ.get("OMP_NUM_THREADS", ""):  # as torch does
        options.intra_op_num_threads = int(threads) if threads.isdecimal() else 0
    try:
        return onnxruntime.InferenceSession(str(network), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library has a class for each of its codes, all of them below Exception
        raise ModelError(f"{NETWORK} cannot be opened by this version of ONNX Runtime") from error
