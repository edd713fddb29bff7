"""Templates to sentences, sentences to a `Document` whose offsets are exact by construction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from wardround.corpora.synthetic.stream import Stream, portion
from wardround.corpora.synthetic.template import Choice, Mention, Pattern, Reference, parse
from wardround.corpora.synthetic.terms import Term
from wardround.errors import TextError
from wardround.text.document import Attributes, Document, Entity, Range, Relation

__all__ = ["Grammar", "NoteBuilder", "Piece", "SentenceWriter", "Vocabulary", "with_articles"]

_ATTRIBUTES: Mapping[str, Attributes] = {"": (), "!": (("negated", "true"),), "?": (("speculated", "true"),)}
_ARTICLE = "a(n) "  # settled once the next word is known
_VOWEL_SOUND = re.compile(r"[aeioAEIO]|[uU][^nrst]|un[^i]|[FHLMNRSX][A-Z]|8|1[18]\b")
_DRAWS = 6  # how often a term the note already has is drawn again before it is repeated


class Vocabulary(Protocol):
    """Where the words come from."""

    @property
    def lookalike_rate(self) -> float:
        """How often a look-alike takes the place of a mention that allows one."""

    def draw(self, source: str, stream: Stream) -> Term:
        """A term of the list `source`."""

    def say(self, term: Term, form: str, stream: Stream) -> str:
        """The term in the given form, or in one that suits the note where `form` is empty."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text, annotated where it stands for a mention."""

    text: str
    mention: Mention | None = None


@dataclass(frozen=True)
class Grammar:
    """Rules: a name, and the templates it may stand for with the patterns they describe."""

    templates: Mapping[str, tuple[str, ...]]
    patterns: Mapping[str, tuple[Pattern, ...]]

    @classmethod
    def written(cls, rules: Mapping[str, str]) -> Grammar:
        """The grammar of these rules; a rule's templates are parted by line ends or by ` / `."""
        templates = {rule: _alternatives(text) for rule, text in rules.items()}
        return cls(templates, {rule: tuple(map(parse, each)) for rule, each in templates.items()})

    def narrowed(self, share: float, *names: str | int) -> Grammar:
        """The grammar with only a share of each rule's templates: `names` decides which, at least two stay."""
        kept = {rule: _share(rule, templates, share, names) for rule, templates in self.templates.items()}
        return Grammar(
            {rule: tuple(self.templates[rule][at] for at in places) for rule, places in kept.items()},
            {rule: tuple(self.patterns[rule][at] for at in places) for rule, places in kept.items()},
        )


def _alternatives(text: str) -> tuple[str, ...]:
    parts = (" ".join(part.split()) for line in text.splitlines() for part in line.split(" / "))
    return tuple(filter(None, parts))


def _share(rule: str, templates: Sequence[str], share: float, names: tuple[str | int, ...]) -> list[int]:
    ranked = sorted(range(len(templates)), key=lambda at: portion(*names, rule, templates[at]))
    return sorted(ranked[: max(2, round(share * len(templates)))])


class SentenceWriter:
    """Writes the sentences of one note; remembers its terms, so that the note speaks of the same things throughout."""

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, *, facts: Mapping[str, str], stream: Stream) -> None:
        self._grammar, self._vocabulary, self._facts, self._stream = grammar, vocabulary, facts, stream
        self._memory: dict[str, Term] = {}
        self._texts: set[str] = set()
        self._fresh: dict[str, list[Pattern]] = {}

    def sentence(self, rule: str) -> list[Piece]:
        """One sentence by the rule; a pattern comes twice in a note only when all have come."""
        fresh = self._fresh.setdefault(rule, [])
        if not fresh:
            fresh.extend(self._stream.shuffled(self._grammar.patterns[rule]))
        pieces = list(self._expand(fresh.pop()))
        # A key of one letter holds for one sentence.
        self._memory = {key: term for key, term in self._memory.items() if len(key) > 1}
        return with_articles(pieces)

    def _expand(self, pattern: Pattern) -> Iterator[Piece]:
        for node in pattern:
            match node:
                case str():
                    yield Piece(node)
                case Choice(options):
                    yield from self._expand(self._stream.choice(options))
                case Reference(name):
                    yield from self._refer(name)
                case Mention():
                    yield from self._mention(node)

    def _refer(self, name: str) -> Iterator[Piece]:
        if name[0] == "#":
            low, high = name[1:].split("-")
            yield Piece(str(self._stream.between(int(low), int(high))))
        elif name in self._facts:
            yield Piece(self._facts[name])
        elif name in self._grammar.patterns:
            yield from self._expand(self._stream.choice(self._grammar.patterns[name]))
        else:
            term = self._new_term(name)
            yield Piece(self._vocabulary.say(term, "", self._stream))

    def _mention(self, mention: Mention) -> Iterator[Piece]:
        if mention.lookalike and self._stream.chance(self._vocabulary.lookalike_rate):
            yield from self._refer(mention.lookalike)
            return
        term = Term(mention.words) if mention.words else self._remembered(mention)
        if mention.article and term.countable:
            yield Piece(_ARTICLE)
        if mention.before:
            yield from self._refer(mention.before)
            yield Piece(" ")
        yield Piece(self._vocabulary.say(term, mention.form, self._stream), mention)

    def _remembered(self, mention: Mention) -> Term:
        if not mention.key:
            return self._new_term(mention.source)
        if mention.key not in self._memory:
            self._memory[mention.key] = self._new_term(mention.source)
        return self._memory[mention.key]

    def _new_term(self, source: str) -> Term:
        for _ in range(_DRAWS):
            term = self._drawn(source)
            if term.text not in self._texts:
                break
        self._texts.add(term.text)
        return term

    def _drawn(self, source: str) -> Term:
        if source in self._facts:
            return Term(self._facts[source])
        if source not in self._grammar.patterns:
            return self._vocabulary.draw(source, self._stream)
        return Term("".join(piece.text for piece in self._expand(self._stream.choice(self._grammar.patterns[source]))))


def with_articles(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with every `a(n)` settled by the word after it."""
    settled: list[Piece] = []
    following = ""
    for piece in reversed(pieces):
        parts = piece.text.split(_ARTICLE)
        for at in range(len(parts) - 2, -1, -1):
            word = (parts[at + 1] or following).lstrip()
            parts[at] += "an " if _VOWEL_SOUND.match(word) else "a "
        text = "".join(parts)
        settled.append(Piece(text, piece.mention))
        following = text or following
    return settled[::-1]


class NoteBuilder:
    """Collects sentences into a note; offsets are counted while the text grows."""

    def __init__(self, relations: Mapping[str, str]) -> None:
        self._relation_types = relations  # by the type of the tail
        self._parts: list[str] = []
        self._length = 0
        self._entities: list[Entity] = []
        self._relations: list[Relation] = []
        self.sentences: list[Range] = []

    def gap(self, text: str) -> None:
        """Text between sentences."""
        self._parts.append(text)
        self._length += len(text)

    def sentence(self, pieces: Iterable[Piece]) -> None:
        """A sentence, its mentions and the relations among them."""
        start = self._length
        here: list[tuple[Entity, Mention]] = []
        for piece in pieces:
            if piece.mention is not None and piece.text:
                here.append((self._entity(piece.text, piece.mention), piece.mention))
            self.gap(piece.text)
        self._relate(here)
        self.sentences.append(Range(start, self._length))

    def document(self, identifier: str, attributes: Attributes) -> Document:
        """The finished note."""
        return Document(
            id=identifier,
            text="".join(self._parts),
            entities=tuple(self._entities),
            relations=tuple(self._relations),
            sentences=tuple(self.sentences),
            attributes=attributes,
        )

    def _entity(self, text: str, mention: Mention) -> Entity:
        if text != text.strip():
            raise TextError(f"a {mention.type} term begins or ends with a blank; trim it in its word list")
        where = (Range(self._length, self._length + len(text)),)
        name = f"T{1 + len(self._entities)}"
        self._entities.append(Entity(name, mention.type, where, attributes=_ATTRIBUTES[mention.mark]))
        return self._entities[-1]

    def _relate(self, here: Sequence[tuple[Entity, Mention]]) -> None:
        # A head that gave way to a look-alike has no entry, and the relation falls with it.
        by_key = {mention.key: entity for entity, mention in here if mention.key}
        for tail, mention in here:
            for head in filter(None, map(by_key.get, mention.heads)):
                kind = self._relation_types[mention.type]
                self._relations.append(Relation(f"R{1 + len(self._relations)}", kind, head.id, tail.id))
