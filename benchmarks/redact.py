"""Redaction beside Presidio's analyser, the same notes, one run: notes a second and what is missed; then its memory.

Ours is trained here, by `wardround train` on some of a corpus's training notes, and finds with its patterns added; the
test notes share no text with these, those of presidio-research not even a template. Presidio has its own recognisers of
the language and a model of spaCy that comes as a wheel: the Spanish one learned from newspapers and Wikipedia, the
English one does not say from what. All run on one thread and take turns, each in a process of its own; seconds are the
processor's, so that what else the machine does counts little.

Recall is that of hiding, whatever type a word was given: over all annotated mentions, and over those of types that
Presidio says it finds. Memory is that of the whole command: over some notes, over the same again and again, each time
with a word never seen before, and over as many different ones, which meet longer sentences too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from common import ROOT, Bar, arguments, finish, peer_python, run_json
from rich.console import Console

from wardround.corpora.brat import Brat
from wardround.corpora.jsonl import Jsonl
from wardround.evaluation.leakage import LeakageScore, score_leakage
from wardround.reports.tables import Row, Table
from wardround.text.document import Document, Entity, Range

DATA = ROOT.parent / "shared" / "data"
PEERS = Path(__file__).parent / "peers"
PRESIDIO = ("spacy==3.8.18", "presidio-analyzer==2.2.366")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
THRESHOLD = 0.05
OURS, RECALL_FIRST = "Wardround", f"Wardround {THRESHOLD}"
THEIRS, TUNED = "Presidio", "Presidio tuned"
WARM_UP = 3  # notes
EVERY = 3  # of presidio-research's templates, one is for the test

MOST_GROWTH = 1.1  # of peak memory, the same notes again and again over once
FEW = 100  # notes of the least redaction
COLUMNS = ("finder", "notes/s", "×", "words", "claimed", "chars", "precise", "leaks")
NOTE = (
    "words, chars: recall of all annotated; claimed: of words of types that Presidio says it finds; precise: precision "
    "of words; leaks: share of notes with a word missed. Tuned: organisations and the country's telephone numbers too, "
    "no parser"
)


@dataclass(frozen=True)
class Parts:
    """The notes a model learns from, and those on which all are measured."""

    train: Sequence[Document] = field(repr=False)
    test: Sequence[Document] = field(repr=False)


@dataclass(frozen=True)
class Size:
    """How much of a corpus."""

    train: int
    test: int
    epochs: int


@dataclass(frozen=True)
class Corpus:
    """Annotated notes, and what Presidio has for their language."""

    name: str
    language: str
    read: Callable[[], Parts]
    model: str  # of spaCy
    claimed: frozenset[str]  # types of the corpus that Presidio says it finds
    vectors: Path | None  # of words, for ours
    full: Size
    quick: Size


@dataclass(frozen=True)
class Finder:
    """A way to find what identifies: a script, and the settings it is given beside the texts."""

    name: str
    python: Path | str
    script: str
    settings: dict[str, Any]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """In a process of its own."""
        return run_json(self.python, PEERS / self.script, request | self.settings)


@dataclass(frozen=True)
class Measured:
    """What a finder did on the test notes of a corpus."""

    corpus: str
    finder: str
    notes_a_second: float  # of the processor
    elapsed: float  # notes in a second of the clock
    peak_mb: float
    score: LeakageScore
    claimed: LeakageScore

    def row(self, fastest_peer: float) -> Row:
        """In the table."""
        hiding = self.score.hiding
        speed = (f"{self.notes_a_second:.1f}", f"{self.notes_a_second / fastest_peer:.2f}")
        recall = (hiding.words.recall, self.claimed.hiding.words.recall, hiding.characters.recall)
        return (self.finder, *speed, *recall, hiding.words.precision, hiding.leakage)

    def figures(self) -> dict[str, Any]:
        """For the JSON line."""
        return {
            "corpus": self.corpus,
            "finder": self.finder,
            "notes_a_processor_second": self.notes_a_second,
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
    asked = arguments(__doc__)
    if not DATA.is_dir():
        print("the corpora of ../shared/data are not here: nothing was measured")
        return int(asked.check)
    os.environ |= ONE_THREAD
    presidio = presidio_python()
    measured: list[Measured] = []
    with TemporaryDirectory() as scratch:
        for corpus in CORPORA:
            found = measured_on(corpus, presidio, Path(scratch) / corpus.language, quick=asked.quick)
            Console().print(table_of(corpus.name, found).to_rich())
            measured += found
        memory = memory_of(Path(scratch), again=3 if asked.quick else 10)
    bars = [*(bar for corpus in CORPORA for bar in bars_of(corpus.name, measured)), growth(memory)]
    figures = [*(found.figures() for found in measured), *memory]
    return finish("redact", memory_table(memory), figures, bars, check=asked.check)


def measured_on(corpus: Corpus, presidio: Path, scratch: Path, *, quick: bool) -> list[Measured]:
    """Train, then every finder on the test notes."""
    size = corpus.quick if quick else corpus.full
    parts = corpus.read()
    model = trained(parts.train[: size.train], size.epochs, scratch, vectors=corpus.vectors)
    finders = finders_for(corpus, model, presidio)
    return compared(corpus, finders, parts.test[: size.test], turns=1 if quick else 2)


def presidio_python() -> Path:
    """Presidio's environment, with models whose wheels ask for a spaCy that has none for this Python."""
    python = peer_python("presidio", *PRESIDIO)
    models = str(PEERS / "presidio_models.txt")
    install = ["install", "--quiet", "--no-deps", "--require-hashes", "--requirement", models]
    subprocess.run([str(python), "-m", "pip", *install], check=True)
    return python


def meddocan() -> Parts:
    """The official parts, in the order of their file names."""
    return Parts(meddocan_notes("train"), meddocan_notes("test"))


def meddocan_notes(*parts: str) -> tuple[Document, ...]:
    """The notes of some parts."""
    return tuple(note for part in parts for note in Brat().read(DATA / "meddocan" / "corpus" / part / "brat"))


def presidio_research() -> Parts:
    """Parted by template: a text made from one that was trained on would be known but for the names in it."""
    texts = tuple(Jsonl("presidio").read(DATA / "presidio_synth" / "synth_dataset_v2.json"))
    tested = [int(dict(text.attributes)["template_id"]) % EVERY == 0 for text in texts]
    train = tuple(text for text, is_tested in zip(texts, tested, strict=True) if not is_tested)
    return Parts(train, tuple(text for text, is_tested in zip(texts, tested, strict=True) if is_tested))


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
        full=Size(train=200, test=250, epochs=10),
        quick=Size(train=100, test=40, epochs=4),
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
        full=Size(train=1_500, test=1_500, epochs=15),
        quick=Size(train=1_500, test=1_500, epochs=8),
    ),
)


def trained(notes: Sequence[Document], epochs: int, folder: Path, *, vectors: Path | None) -> Path:
    """The transfer paper's network, by the command that a hospital would give."""
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


def finders_for(corpus: Corpus, model: Path, presidio: Path) -> list[Finder]:
    """Presidio as it comes and tuned; ours as it comes and with recall put first."""
    theirs = {"language": corpus.language, "model": corpus.model}
    ours = {"language": corpus.language, "model": str(model)}
    return [
        Finder(THEIRS, presidio, "presidio_analyser.py", theirs | {"tuned": False}),
        Finder(TUNED, presidio, "presidio_analyser.py", theirs | {"tuned": True}),
        Finder(OURS, sys.executable, "our_redaction.py", ours | {"threshold": None}),
        Finder(RECALL_FIRST, sys.executable, "our_redaction.py", ours | {"threshold": THRESHOLD}),
    ]


def compared(corpus: Corpus, finders: Sequence[Finder], notes: Sequence[Document], turns: int) -> list[Measured]:
    """Each finder in its turn over the same notes."""
    texts = [note.text for note in notes]
    request = {"texts": texts, "warm_up": texts[:WARM_UP]}
    answers = [[finder.answer(request) for finder in finders] for _ in range(turns)]
    return [
        measure(corpus, finder.name, notes, of_finder)
        for finder, of_finder in zip(finders, zip(*answers, strict=True), strict=True)
    ]


def measure(corpus: Corpus, finder: str, notes: Sequence[Document], answers: Sequence[dict[str, Any]]) -> Measured:
    """The middle one of its turns; what is found is the same in all."""
    found = [with_ranges(note, ranges) for note, ranges in zip(notes, answers[0]["found"], strict=True)]
    claimed = [note.with_entities(e for e in note.entities if e.type in corpus.claimed) for note in notes]
    return Measured(
        corpus.name,
        finder,
        notes_a_second=len(notes) / median(answer["cpu_seconds"] for answer in answers),
        elapsed=len(notes) / median(answer["seconds"] for answer in answers),
        peak_mb=max(answer["peak_mb"] for answer in answers),
        score=score_leakage(zip(notes, found, strict=True)),
        claimed=score_leakage(zip(claimed, found, strict=True)),
    )


def with_ranges(note: Document, ranges: Iterable[tuple[int, int]]) -> Document:
    """What was found as entities; their type does not count."""
    return note.with_entities(Entity(f"T{n}", "PHI", (Range(*range_),)) for n, range_ in enumerate(ranges))


def memory_of(scratch: Path, again: int) -> list[dict[str, Any]]:
    """Some notes of MEDDOCAN once, the same again and again, and as many different ones."""
    notes = [note.text for note in meddocan_notes("train", "dev", "test")]
    model = scratch / "es" / "run" / "model"
    repeated = [f"{text}\nx{number}y\n" for number, text in enumerate(notes[:FEW] * again)]
    texts = {"once": repeated[:FEW], f"the same {again} times": repeated, "different": notes[: FEW * again]}
    return [redacted(name, some, model, scratch / f"{n}") for n, (name, some) in enumerate(texts.items())]


def redacted(name: str, texts: Sequence[str], model: Path, folder: Path) -> dict[str, Any]:
    """`wardround redact` over the texts, in a process of its own."""
    folder.mkdir()
    Jsonl().write((Document(str(number), text) for number, text in enumerate(texts)), folder / "notes.jsonl")
    command = ["redact", str(folder / "notes.jsonl"), "--format", "jsonl", "--out", str(folder / "redacted")]
    command += ["--model", str(model), "--language", "es", "--how", "surrogate", "--device", "cpu"]
    answer = run_json(sys.executable, PEERS / "command_memory.py", {"arguments": command})
    return {"redacted": name, "notes": len(texts)} | answer


def table_of(corpus: str, measured: Sequence[Measured]) -> Table:
    """A row a finder; speed beside the faster Presidio."""
    fastest = best_peer(corpus, measured, lambda peer: peer.notes_a_second)
    rows = tuple(found.row(fastest) for found in measured)
    return Table(f"{corpus}: what identifies, found", COLUMNS, rows, note=NOTE)


def memory_table(memory: Sequence[dict[str, Any]]) -> Table:
    """A row a redaction."""
    rows = tuple((f["redacted"], f["notes"], round(f["peak_mb"]), round(f["seconds"])) for f in memory)
    return Table("wardround redact, whole", ("MEDDOCAN's notes", "notes", "peak MB", "seconds"), rows)


def bars_of(corpus: str, measured: Sequence[Measured]) -> Iterator[Bar]:
    """Ours as it comes, each figure over the better Presidio's."""
    ours = next(found for found in measured if (found.corpus, found.finder) == (corpus, OURS))
    for name, figure in FIGURES.items():
        yield Bar(f"{corpus}: {name} over Presidio's", figure(ours) / best_peer(corpus, measured, figure), least=1.0)


FIGURES: dict[str, Callable[[Measured], float]] = {
    "notes a second": lambda found: found.notes_a_second,
    "recall of words": lambda found: found.score.hiding.words.recall,
    "recall of characters": lambda found: found.score.hiding.characters.recall,
    "recall of words that Presidio claims": lambda found: found.claimed.hiding.words.recall,
}


def best_peer(corpus: str, measured: Sequence[Measured], figure: Callable[[Measured], float]) -> float:
    """The better of Presidio as it comes and tuned."""
    return max(figure(found) for found in measured if found.corpus == corpus and found.finder in (THEIRS, TUNED))


def growth(memory: Sequence[dict[str, Any]]) -> Bar:
    """Of peak memory, the same notes again and again."""
    once, again, _ = memory
    name = f"peak memory, {again['notes']:,} notes over {once['notes']}"
    return Bar(name, again["peak_mb"] / once["peak_mb"], most=MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
