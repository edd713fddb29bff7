"""Hospitals that write about drugs, diseases and adverse effects, each in its own style and with its own tag set.

The notes are annotated with all types; a hospital sees only the types of its tag set. The settings of `ClinicalConfig`
control the difficulty: how much of the test vocabulary occurs in a hospital's training notes, how often a lookalike
replaces a mention, and how often words are misspelt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import overload

from wardround.corpora.synthetic.formal_styles import LETTERS, REPORTS
from wardround.corpora.synthetic.informal_styles import JOTTINGS, POSTS
from wardround.corpora.synthetic.lexicon import DividedLexicon, Term, WordLists, clinical_lexicon, divide
from wardround.corpora.synthetic.notes import SYNTHETIC, Splits, SyntheticSite, Typing, patient_facts, write_note
from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.templates import Grammar, NoteBuilder, SentenceWriter
from wardround.errors import UsageError
from wardround.text.document import Document

__all__ = ["CLINICAL_TYPES", "ClinicalConfig", "ManyHospitals", "SitePlan", "clinical_hospitals", "many_hospitals"]

CLINICAL_TYPES = ("Drug", "ADE", "Disease", "Symptom", "Finding", "Dosage")
RELATION_TYPES: Mapping[str, str] = {  # by the type of the tail; the head is always a drug
    "ADE": "causes",
    "Disease": "treats",
    "Symptom": "treats",
    "Dosage": "has_dosage",
}
_STYLES = {style.name: style for style in (LETTERS, REPORTS, POSTS, JOTTINGS)}


@dataclass(frozen=True, slots=True)
class SitePlan:
    """One hospital: its name, its style, the types it annotates, and its number of sentences."""

    name: str
    style: str
    types: tuple[str, ...]
    train_sentences: int
    dev_sentences: int = 120
    test_sentences: int = 300


# At least two hospitals annotate each type; no hospital annotates all.
HARBOUR = SitePlan("harbour", LETTERS.name, ("Drug", "Disease", "Dosage"), 420)
HILLSIDE = SitePlan("hillside", REPORTS.name, ("Drug", "ADE", "Finding"), 360)
RIVERSIDE = SitePlan("riverside", POSTS.name, ("Drug", "ADE", "Symptom"), 300)
LAKESIDE = SitePlan("lakeside", JOTTINGS.name, ("Disease", "Symptom", "Finding", "Dosage"), 340)


@dataclass(frozen=True, slots=True)
class ClinicalConfig:
    """Number and difficulty of the notes."""

    sites: tuple[SitePlan, ...] = (HARBOUR, HILLSIDE, RIVERSIDE, LAKESIDE)
    scale: float = 1.0  # multiplies every hospital's number of sentences
    trained_share: float = 0.6  # of each word list, used in training notes; the rest is kept for dev and test
    site_share: float = 0.3  # of the training words, used in one hospital; a lower share makes pooling help more
    withheld_rate: float = 0.25  # probability that a dev or test note uses a word outside all training notes
    phrasing_share: float = 0.55  # of each rule's templates, used in one hospital's training notes
    lookalike_rate: float = 0.4  # probability that a lookalike replaces a mention that allows one
    slips: float = 1.0  # multiplies each style's rate of misspelling

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise UsageError(f"scale is {self.scale}: use a number above 0")
        for name in ("trained_share", "site_share", "withheld_rate", "phrasing_share", "lookalike_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}: use a number from 0 to 1")


DEFAULT = ClinicalConfig()
SMALL = ClinicalConfig(scale=1 / 15)  # a few notes in each split


def clinical_hospitals(seed: int = 0, *, config: ClinicalConfig = DEFAULT) -> tuple[SyntheticSite, ...]:
    """Return the built-in hospitals; each depends only on the seed and its own plan, not on the others."""
    return tuple(_hospital(plan, config, seed) for plan in config.sites)


class ManyHospitals(Sequence[SyntheticSite]):
    """Many small hospitals; each is generated when it is accessed and not kept."""

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
        """Generate the hospital, or all hospitals of a slice."""
        if isinstance(index, slice):
            return tuple(self._generate(number) for number in self._numbers[index])
        return self._generate(self._numbers[index])

    def _generate(self, number: int) -> SyntheticSite:
        model = self._config.sites[number % len(self._config.sites)]
        plan = replace(model, name=f"{model.name}-{number:04d}")
        return _hospital(plan, self._config, self._seed)


def many_hospitals(count: int, seed: int = 0, *, config: ClinicalConfig = SMALL) -> ManyHospitals:
    """Return `count` small hospitals of alternating styles; accessing one takes milliseconds and no memory."""
    return ManyHospitals(count, seed, config=config)


def _hospital(plan: SitePlan, config: ClinicalConfig, seed: int) -> SyntheticSite:
    if plan.style not in _STYLES:
        raise UsageError(f"hospital {plan.name!r}: {plan.style!r} is not a style; choose from {', '.join(_STYLES)}")
    complete = Splits(
        train=_notes(plan, "train", plan.train_sentences, config=config, seed=seed),
        dev=_notes(plan, "dev", plan.dev_sentences, config=config, seed=seed),
        test=_notes(plan, "test", plan.test_sentences, config=config, seed=seed),
    )
    return SyntheticSite.annotating(plan.types, complete, name=plan.name, style=plan.style)


def _notes(plan: SitePlan, split: str, sentences: int, *, config: ClinicalConfig, seed: int) -> tuple[Document, ...]:
    """Write whole notes of one split until there are enough sentences."""
    site, style = plan.name, _STYLES[plan.style]
    typing = replace(style.typing, slips=style.typing.slips * config.slips)
    words = WordLists(
        _divided_lexicon(config.trained_share, seed),
        split,
        names=(seed, "site", site),
        share=config.site_share,
        withheld_rate=config.withheld_rate,
    )
    vocabulary = _ClinicalVocabulary(words, typing, config.lookalike_rate)
    grammar = _grammar(style.name)
    if split == "train":
        grammar = grammar.narrowed(config.phrasing_share, seed, site)
    missing = max(1, round(sentences * config.scale))
    notes: list[Document] = []
    while missing > 0:
        number = len(notes) + 1
        stream = Stream(seed, "note", site, split, number)
        writer = SentenceWriter(grammar, vocabulary, facts=patient_facts(stream), stream=stream)
        builder = NoteBuilder(RELATION_TYPES)
        write_note(builder, style, writer, typing=typing, stream=stream)
        notes.append(builder.document(f"{site}-{split}-{number:04d}", (*SYNTHETIC, ("style", style.name))))
        missing -= len(builder.sentences)
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class _ClinicalVocabulary:
    words: WordLists
    typing: Typing
    lookalike_rate: float

    def draw(self, source: str, stream: Stream) -> Term:
        return self.words.draw(source, stream)

    def say(self, term: Term, form: str, stream: Stream) -> str:
        if form or not term.forms:
            return term.form(form)
        for name, rate in (("short", self.typing.short), ("lay", self.typing.lay)):
            if stream.chance(rate):
                return term.form(name)
        return term.text


@lru_cache(maxsize=8)
def _divided_lexicon(trained_share: float, seed: int) -> DividedLexicon:
    return divide(clinical_lexicon(), trained_share, seed)


@cache
def _grammar(style: str) -> Grammar:
    return Grammar.parse(_STYLES[style].rules)
