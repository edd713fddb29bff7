"""Hospitals that write about drugs, diseases and adverse effects, each in its own style and with its own tag set.

One annotation over all types lies under the notes; a hospital sees the part that its tag set names. The knobs of
`ClinicalConfig` say how hard the corpus is: how much of the vocabulary of the test a hospital has met, how often a
look-alike stands where a mention could, how badly people spell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import count
from typing import overload

from wardround.corpora.synthetic.grammar import Grammar, NoteBuilder, SentenceWriter
from wardround.corpora.synthetic.note import SYNTHETIC, patient_facts, write_note
from wardround.corpora.synthetic.site import Splits, SyntheticSite
from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.style import Hand
from wardround.corpora.synthetic.style_jottings import JOTTINGS
from wardround.corpora.synthetic.style_letters import LETTERS
from wardround.corpora.synthetic.style_posts import POSTS
from wardround.corpora.synthetic.style_reports import REPORTS
from wardround.corpora.synthetic.terms import Divided, Term, WordLists, divided
from wardround.corpora.synthetic.words_drugs import drug_lists
from wardround.corpora.synthetic.words_findings import finding_lists, lookalike_lists
from wardround.corpora.synthetic.words_problems import problem_lists
from wardround.errors import UsageError
from wardround.text.document import Document

__all__ = ["CLINICAL_TYPES", "ClinicalConfig", "ManyHospitals", "SitePlan", "clinical_hospitals", "many_hospitals"]

CLINICAL_TYPES = ("Drug", "ADE", "Disease", "Symptom", "Finding", "Dosage")
RELATION_TYPES: Mapping[str, str] = {  # by the type of the tail; the head is the drug
    "ADE": "causes",
    "Disease": "treats",
    "Symptom": "treats",
    "Dosage": "has_dosage",
}
_STYLES = {style.name: style for style in (LETTERS, REPORTS, POSTS, JOTTINGS)}


@dataclass(frozen=True, slots=True)
class SitePlan:
    """One hospital: its name, what it writes, what it annotates, and how many sentences it has."""

    name: str
    style: str
    types: tuple[str, ...]
    train_sentences: int
    dev_sentences: int = 120
    test_sentences: int = 300


# Every type is annotated by at least two hospitals, no hospital annotates all.
HARBOUR = SitePlan("harbour", LETTERS.name, ("Drug", "Disease", "Dosage"), 420)
HILLSIDE = SitePlan("hillside", REPORTS.name, ("Drug", "ADE", "Finding"), 360)
RIVERSIDE = SitePlan("riverside", POSTS.name, ("Drug", "ADE", "Symptom"), 300)
LAKESIDE = SitePlan("lakeside", JOTTINGS.name, ("Disease", "Symptom", "Finding", "Dosage"), 340)


@dataclass(frozen=True, slots=True)
class ClinicalConfig:
    """How many notes there are, and how hard they are."""

    sites: tuple[SitePlan, ...] = (HARBOUR, HILLSIDE, RIVERSIDE, LAKESIDE)
    scale: float = 1.0  # multiplies every hospital's number of sentences
    trained_share: float = 0.6  # of each word list, met in some hospital's training; the rest is kept for dev and test
    site_share: float = 0.3  # of that, met in one hospital's training: the lower, the more pooling helps
    withheld_rate: float = 0.25  # chance that a dev or test note takes a word nobody has trained on
    phrasing_share: float = 0.55  # of each rule's phrasings, used in one hospital's training notes
    lookalike_rate: float = 0.4  # chance that a slot with look-alikes is filled by one instead of a mention
    slips: float = 1.0  # multiplies each style's rate of misspelling

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise UsageError(f"scale is {self.scale}: give a number above 0")
        for name in ("trained_share", "site_share", "withheld_rate", "phrasing_share", "lookalike_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}: give a number from 0 to 1")


DEFAULT = ClinicalConfig()
SMALL = ClinicalConfig(scale=1 / 15)  # a handful of notes a split


def clinical_hospitals(seed: int = 0, *, config: ClinicalConfig = DEFAULT) -> tuple[SyntheticSite, ...]:
    """The built-in hospitals; each depends on the seed and its own plan alone, never on the others."""
    return tuple(_hospital(plan, config, seed) for plan in config.sites)


class ManyHospitals(Sequence[SyntheticSite]):
    """Many small hospitals, each written when it is asked for and not kept."""

    def __init__(self, count: int, seed: int, *, config: ClinicalConfig) -> None:
        self._numbers = range(count)
        self._seed, self._config = seed, config

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> SyntheticSite: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SyntheticSite, ...]: ...
    def __getitem__(self, index: int | slice) -> SyntheticSite | tuple[SyntheticSite, ...]:
        """The hospitals of a slice are written at once."""
        if isinstance(index, slice):
            return tuple(self._written(number) for number in self._numbers[index])
        return self._written(self._numbers[index])

    def _written(self, number: int) -> SyntheticSite:
        model = self._config.sites[number % len(self._config.sites)]
        plan = replace(model, name=f"{model.name}-{number:04d}")
        return _hospital(plan, self._config, self._seed)


def many_hospitals(count: int, seed: int = 0, *, config: ClinicalConfig = SMALL) -> ManyHospitals:
    """`count` small hospitals that take turns in style; asking for one costs milliseconds and no memory."""
    return ManyHospitals(count, seed, config=config)


def _hospital(plan: SitePlan, config: ClinicalConfig, seed: int) -> SyntheticSite:
    if plan.style not in _STYLES:
        raise UsageError(f"hospital {plan.name!r}: {plan.style!r} is no style; choose from {', '.join(_STYLES)}")
    writer = _NoteWriter(plan, config, seed)
    complete = Splits(
        train=writer.split("train", plan.train_sentences),
        dev=writer.split("dev", plan.dev_sentences),
        test=writer.split("test", plan.test_sentences),
    )
    return SyntheticSite.seeing(plan.types, complete, name=plan.name, style=plan.style)


class _NoteWriter:
    """Writes the splits of one hospital."""

    def __init__(self, plan: SitePlan, config: ClinicalConfig, seed: int) -> None:
        self._plan, self._config, self._seed = plan, config, seed
        self._style = _STYLES[plan.style]
        self._hand = replace(self._style.hand, slips=self._style.hand.slips * config.slips)

    def split(self, split: str, sentences: int) -> tuple[Document, ...]:
        """Whole notes until there are enough sentences."""
        wanted = max(1, round(sentences * self._config.scale))
        notes: list[Document] = []
        for note in self._notes(split):
            notes.append(note)
            wanted -= len(note.sentences or ())
            if wanted <= 0:
                break
        return tuple(notes)

    def _notes(self, split: str) -> Iterator[Document]:
        config, seed, site = self._config, self._seed, self._plan.name
        words = WordLists(
            _divided(config.trained_share, seed),
            split,
            names=(seed, "site", site),
            share=config.site_share,
            withheld_rate=config.withheld_rate,
        )
        vocabulary = _ClinicalVocabulary(words, self._hand, config.lookalike_rate)
        grammar = _grammar(self._style.name)
        if split == "train":
            grammar = grammar.narrowed(config.phrasing_share, seed, site)
        for number in count(1):
            stream = Stream(seed, "note", site, split, number)
            writer = SentenceWriter(grammar, vocabulary, facts=patient_facts(stream), stream=stream)
            builder = NoteBuilder(RELATION_TYPES)
            write_note(builder, self._style, writer, hand=self._hand, stream=stream)
            yield builder.document(f"{site}-{split}-{number:04d}", (*SYNTHETIC, ("style", self._style.name)))


@dataclass(frozen=True, slots=True)
class _ClinicalVocabulary:
    words: WordLists
    hand: Hand
    lookalike_rate: float

    def draw(self, source: str, stream: Stream) -> Term:
        return self.words.draw(source, stream)

    def say(self, term: Term, form: str, stream: Stream) -> str:
        if form or not term.forms:
            return term.form(form)
        for name, rate in (("short", self.hand.short), ("lay", self.hand.lay)):
            if stream.chance(rate):
                return term.form(name)
        return term.text


@lru_cache(maxsize=8)
def _divided(trained: float, seed: int) -> Divided:
    problems = problem_lists()
    lexicon = {**drug_lists(), **problems, **finding_lists(problems), **lookalike_lists()}
    return divided(lexicon, trained, seed)


@cache
def _grammar(style: str) -> Grammar:
    return Grammar.written(_STYLES[style].rules)
