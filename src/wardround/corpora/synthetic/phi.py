"""Two hospitals whose notes are full of names, dates and numbers, for de-identification.

The source is large and writes headed discharge summaries; the target is small and writes free nursing notes with
other formats for dates, telephone numbers and record numbers. Nobody named in them ever lived: names are composed,
telephone numbers come from the ranges kept for fiction, mail domains from those kept for examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from wardround.corpora.synthetic.grammar import Grammar, NoteBuilder, SentenceWriter
from wardround.corpora.synthetic.note import SYNTHETIC, patient_facts, write_note
from wardround.corpora.synthetic.phi_styles import NURSING, SUMMARIES
from wardround.corpora.synthetic.phi_words import person, phi_lists
from wardround.corpora.synthetic.site import Splits, SyntheticSite
from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.style import Style
from wardround.corpora.synthetic.style_common import MONTHS
from wardround.corpora.synthetic.terms import Term, WordLists, divided
from wardround.errors import UsageError
from wardround.text.document import Document

__all__ = ["PHI_TYPES", "PhiConfig", "phi_hospitals"]

PHI_TYPES = (
    "PATIENT",
    "DOCTOR",
    "HOSPITAL",
    "DATE",
    "AGE",
    "PHONE",
    "EMAIL",
    "ID",
    "STREET",
    "CITY",
    "STATE",
    "ZIP",
    "PROFESSION",
)

_VERY_OLD_RATE = 0.08  # of patients older than 89, whose age HIPAA counts as identifying by itself


@dataclass(frozen=True, slots=True)
class PhiConfig:
    """How many notes the two hospitals have, and how many of their names are new in the test."""

    source_notes: tuple[int, int, int] = (600, 60, 140)  # train, dev, test
    target_notes: tuple[int, int, int] = (70, 20, 60)
    scale: float = 1.0  # multiplies all of them
    trained_share: float = 0.6  # of each list of names, met in some training; the rest is kept for dev and test
    site_share: float = 0.5  # of that, met in one hospital's training
    withheld_rate: float = 0.5  # chance that a dev or test note takes a name nobody has trained on
    phrasing_share: float = 0.8  # of each rule's phrasings, used in a hospital's training notes

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise UsageError(f"scale is {self.scale}: give a number above 0")


DEFAULT = PhiConfig()


def phi_hospitals(seed: int = 0, *, config: PhiConfig = DEFAULT) -> tuple[SyntheticSite, SyntheticSite]:
    """The large source and the small target; every note is annotated with all of `PHI_TYPES`."""
    source = _hospital("northgate", SUMMARIES, config.source_notes, config=config, seed=seed)
    target = _hospital("southmere", NURSING, config.target_notes, config=config, seed=seed)
    return source, target


def _hospital(name: str, style: Style, notes: tuple[int, int, int], *, config: PhiConfig, seed: int) -> SyntheticSite:
    train, dev, test = (
        tuple(islice(_notes(name, style, split, config=config, seed=seed), max(1, round(number * config.scale))))
        for split, number in zip(("train", "dev", "test"), notes, strict=True)
    )
    return SyntheticSite.seeing(PHI_TYPES, Splits(train, dev, test), name=name, style=style.name)


def _notes(name: str, style: Style, split: str, *, config: PhiConfig, seed: int) -> Iterator[Document]:
    words = WordLists(
        divided(phi_lists(), config.trained_share, seed),
        split,
        names=(seed, "site", name),
        share=config.site_share,
        withheld_rate=config.withheld_rate,
    )
    grammar = Grammar.written(style.rules)
    if split == "train":
        grammar = grammar.narrowed(config.phrasing_share, seed, name)
    number = 0
    while True:
        number += 1
        stream = Stream(seed, "note", name, split, number)
        facts = _facts(stream)
        vocabulary = _Names(words, patient="her_name" if facts["sex"] == "F" else "his_name")
        writer = SentenceWriter(grammar, vocabulary, facts=facts, stream=stream)
        builder = NoteBuilder({})
        write_note(builder, style, writer, hand=style.hand, stream=stream)
        yield builder.document(f"{name}-{split}-{number:04d}", (*SYNTHETIC, ("style", style.name)))


@dataclass(frozen=True, slots=True)
class _Names:
    """People put together from first and last names; everything else from its list."""

    words: WordLists
    patient: str  # the list of first names that suits the patient
    lookalike_rate: float = 0.0

    def draw(self, source: str, stream: Stream) -> Term:
        somebody = stream.choice(("her_name", "his_name"))
        people = {"PATIENT": self.patient, "DOCTOR": somebody, "she_person": "her_name", "he_person": "his_name"}
        if source not in people:
            return self.words.draw(source, stream)
        first = self.words.draw(people[source], stream)
        return person(first.text, self.words.draw("surname", stream).text)

    def say(self, term: Term, form: str, stream: Stream) -> str:
        return term.form(form)


def _facts(stream: Stream) -> dict[str, str]:
    """Who is written about and when: far enough ahead that no date can be anybody's."""
    facts = patient_facts(stream)
    if stream.chance(_VERY_OLD_RATE):
        facts["age"] = str(stream.between(90, 104))
    year, month = stream.between(2061, 2099), stream.below(11)
    return {
        **facts,
        "title": "Mr" if facts["sex"] == "M" else "Mrs",
        "year": str(year),
        "short_year": str(year)[2:],
        "birth_year": str(year - int(facts["age"])),
        "past_year": str(year - stream.between(2, 15)),
        "this_month": MONTHS[month],
        "this_two": f"{month + 1:02d}",
        "next_month": MONTHS[month + 1],
        "next_two": f"{month + 2:02d}",
    }
