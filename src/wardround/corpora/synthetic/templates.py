"""The template language of the synthetic notes, and how its templates become annotated documents.

    {he} was started on {Drug:a} {Dosage<a}[ for {+Disease<a}|, with good effect].

- `[x|y|z]` is one of the three alternatives. An alternative may be empty, and brackets nest.
- `{name}` in small letters refers to a rule, a word list or a fact of the note; `{#2-9}` is a number.
- `{Type...}` is a mention. These optional parts follow the type, in this order:
  `/name` of the list, rule or fact that it is drawn from; `=words` that are fixed; `~list` of lookalikes that may
  replace it; `.form` of the term; `:key` under which the same term is used again (one letter: in the sentence; longer:
  in the note); `<keys` of the heads it depends on; `!` for negated or `?` for speculated.
  A `+` before the type adds the article that the term takes; `+rule ` adds the article and then a word from that rule:
  `{+degree ADE}` is `a severe rash` or `severe nausea`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from wardround.corpora.synthetic.lexicon import Term
from wardround.corpora.synthetic.stream import Stream, portion
from wardround.errors import TextError
from wardround.text.document import Attributes, Document, Entity, Range, Relation

__all__ = [
    "Choice",
    "Grammar",
    "Mention",
    "NoteBuilder",
    "Pattern",
    "Piece",
    "Reference",
    "SentenceWriter",
    "Vocabulary",
    "parse",
    "with_articles",
]

_ATTRIBUTES: Mapping[str, Attributes] = {"": (), "!": (("negated", "true"),), "?": (("speculated", "true"),)}
_ARTICLE = "a(n) "  # becomes `a` or `an` when the next word is known
_VOWEL_SOUND = re.compile(r"[aeioAEIO]|[uU][^nrst]|un[^i]|[FHLMNRSX][A-Z]|8|1[18]\b")
_MOST_DRAWS = 6  # attempts to draw a term that the note does not have yet


@dataclass(frozen=True, slots=True)
class Reference:
    """A placeholder for a rule, a word list, a fact or a number."""

    name: str


@dataclass(frozen=True, slots=True)
class Mention:
    """A placeholder for an annotated term."""

    type: str
    source: str  # the list that the term is drawn from
    words: str = ""
    lookalike: str = ""
    form: str = ""
    key: str = ""
    heads: tuple[str, ...] = ()
    mark: str = ""
    article: bool = False
    before: str = ""  # a rule for the words between the article and the mention


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice between several patterns."""

    options: tuple[Pattern, ...]


Pattern: TypeAlias = "tuple[str | Reference | Mention | Choice, ...]"

_PART = re.compile(r"(\{[^{}]*\}|[\[\]|])")
_REFERENCE = re.compile(r"[a-z][a-z_]*|#\d+-\d+")
_MENTION = re.compile(
    r"(?P<article>\+(?:(?P<before>[a-z_]+) )?)?(?P<type>[A-Z]\w*)(?:/(?P<source>\w+))?(?:=(?P<words>[^~.:<!?]+))?"
    r"(?:~(?P<lookalike>\w+))?(?:\.(?P<form>\w+))?(?::(?P<key>\w+))?(?:<(?P<heads>[\w,]+))?(?P<mark>[!?]?)"
)


def parse(template: str) -> Pattern:
    """Parse a template; raise `TextError` if it is malformed."""
    # One entry for each open bracket, with its alternatives so far; the outermost is the template itself.
    open_choices: list[list[list[str | Reference | Mention | Choice]]] = [[[]]]
    for part in filter(None, _PART.split(template)):
        if part == "[":
            open_choices.append([[]])
        elif part in "]|" and len(open_choices) == 1:
            raise TextError(f"template {template!r}: {part!r} is outside brackets")
        elif part == "|":
            open_choices[-1].append([])
        elif part == "]":
            options = open_choices.pop()
            open_choices[-1][-1].append(Choice(tuple(tuple(option) for option in options)))
        else:
            open_choices[-1][-1].append(_placeholder(part[1:-1], template) if part[0] == "{" else part)
    if len(open_choices) > 1:
        raise TextError(f"template {template!r}: a bracket is not closed")
    return tuple(open_choices[0][0])


def _placeholder(inside: str, template: str) -> Reference | Mention:
    if _REFERENCE.fullmatch(inside):
        return Reference(inside)
    match = _MENTION.fullmatch(inside)
    if match is None:
        raise TextError(f"template {template!r}: {inside!r} is neither a name nor a mention")
    return Mention(
        type=match["type"],
        source=match["source"] or match["type"],
        words=match["words"] or "",
        lookalike=match["lookalike"] or "",
        form=match["form"] or "",
        key=match["key"] or "",
        heads=tuple(match["heads"].split(",")) if match["heads"] else (),
        mark=match["mark"],
        article=bool(match["article"]),
        before=match["before"] or "",
    )


class Vocabulary(Protocol):
    """A source of words for the templates."""

    @property
    def lookalike_rate(self) -> float:
        """Probability that a lookalike replaces a mention that allows one."""

    def draw(self, source: str, stream: Stream) -> Term:
        """Draw a term from the list `source`."""

    def say(self, term: Term, form: str, stream: Stream) -> str:
        """Return the term in the given form, or, if `form` is empty, in one that suits the note."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a sentence, with its mention if it is one."""

    text: str
    mention: Mention | None = None


@dataclass(frozen=True)
class Grammar:
    """Rules by name: the templates of each rule and their parsed patterns."""

    templates: Mapping[str, tuple[str, ...]]
    patterns: Mapping[str, tuple[Pattern, ...]]

    @classmethod
    def parse(cls, rules: Mapping[str, str]) -> Grammar:
        """Parse rules; the templates of a rule are separated by line ends or ` / `."""
        templates = {
            rule: tuple(
                template
                for line in text.splitlines()
                for part in line.split(" / ")
                if (template := " ".join(part.split()))
            )
            for rule, text in rules.items()
        }
        return cls(templates, {rule: tuple(map(parse, each)) for rule, each in templates.items()})

    def narrowed(self, share: float, *names: str | int) -> Grammar:
        """Return the grammar with a share of each rule's templates, at least two; `names` decides which."""
        kept = {}
        for rule, templates in self.templates.items():
            order = {at: portion(*names, rule, template) for at, template in enumerate(templates)}
            ranked = sorted(order, key=order.__getitem__)
            kept[rule] = sorted(ranked[: max(2, round(share * len(templates)))])
        return Grammar(
            {rule: tuple(self.templates[rule][at] for at in places) for rule, places in kept.items()},
            {rule: tuple(self.patterns[rule][at] for at in places) for rule, places in kept.items()},
        )


class SentenceWriter:
    """Write the sentences of one note; remember its terms, so that the note mentions the same things again."""

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, *, facts: Mapping[str, str], stream: Stream) -> None:
        self._grammar, self._vocabulary, self._facts, self._stream = grammar, vocabulary, facts, stream
        self._terms_by_key: dict[str, Term] = {}
        self._used_texts: set[str] = set()
        self._unused: dict[str, list[Pattern]] = {}

    def sentence(self, rule: str) -> list[Piece]:
        """Write one sentence from the rule; a pattern repeats in a note only after all others were used."""
        unused = self._unused.setdefault(rule, [])
        if not unused:
            unused.extend(self._stream.shuffled(self._grammar.patterns[rule]))
        pieces = list(self._expand(unused.pop()))
        # A key of one letter is valid in one sentence.
        self._terms_by_key = {key: term for key, term in self._terms_by_key.items() if len(key) > 1}
        return with_articles(pieces)

    def _expand(self, pattern: Pattern) -> Iterator[Piece]:
        for node in pattern:
            match node:
                case str():
                    yield Piece(node)
                case Choice(options):
                    yield from self._expand(self._stream.choice(options))
                case Reference(name):
                    yield from self._expand_reference(name)
                case Mention():
                    yield from self._expand_mention(node)

    def _expand_reference(self, name: str) -> Iterator[Piece]:
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

    def _expand_mention(self, mention: Mention) -> Iterator[Piece]:
        if mention.lookalike and self._stream.chance(self._vocabulary.lookalike_rate):
            yield from self._expand_reference(mention.lookalike)
            return
        if mention.words:
            term = Term(mention.words)
        elif mention.key in self._terms_by_key:
            term = self._terms_by_key[mention.key]
        else:
            term = self._new_term(mention.source)
            if mention.key:
                self._terms_by_key[mention.key] = term
        if mention.article and term.countable:
            yield Piece(_ARTICLE)
        if mention.before:
            yield from self._expand_reference(mention.before)
            yield Piece(" ")
        yield Piece(self._vocabulary.say(term, mention.form, self._stream), mention)

    def _new_term(self, source: str) -> Term:
        for _ in range(_MOST_DRAWS):
            if source in self._facts:
                term = Term(self._facts[source])
            elif source in self._grammar.patterns:
                pattern = self._stream.choice(self._grammar.patterns[source])
                term = Term("".join(piece.text for piece in self._expand(pattern)))
            else:
                term = self._vocabulary.draw(source, self._stream)
            if term.text not in self._used_texts:
                break
        self._used_texts.add(term.text)
        return term


def with_articles(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces with each `a(n)` replaced by `a` or `an`, depending on the next word."""
    resolved: list[Piece] = []
    following = ""
    for piece in reversed(pieces):
        parts = piece.text.split(_ARTICLE)
        for at in range(len(parts) - 2, -1, -1):
            word = (parts[at + 1] or following).lstrip()
            parts[at] += "an " if _VOWEL_SOUND.match(word) else "a "
        text = "".join(parts)
        resolved.append(Piece(text, piece.mention))
        following = text or following
    return resolved[::-1]


class NoteBuilder:
    """Collect sentences into a note, counting offsets while the text grows."""

    def __init__(self, relations: Mapping[str, str]) -> None:
        self._relation_types = relations  # by the type of the tail
        self._parts: list[str] = []
        self._length = 0
        self._entities: list[Entity] = []
        self._relations: list[Relation] = []
        self.sentences: list[Range] = []

    def add_text(self, text: str) -> None:
        """Add text between sentences."""
        self._parts.append(text)
        self._length += len(text)

    def sentence(self, pieces: Iterable[Piece]) -> None:
        """Add a sentence, its mentions and the relations between them."""
        start = self._length
        mentions: list[tuple[Entity, Mention]] = []
        for piece in pieces:
            if piece.mention is not None and piece.text:
                mention = piece.mention
                if piece.text != piece.text.strip():
                    raise TextError(f"a {mention.type} term begins or ends with white space; trim it in its word list")
                where = (Range(self._length, self._length + len(piece.text)),)
                name = f"T{1 + len(self._entities)}"
                self._entities.append(Entity(name, mention.type, where, attributes=_ATTRIBUTES[mention.mark]))
                mentions.append((self._entities[-1], mention))
            self.add_text(piece.text)
        # A head that was replaced by a lookalike has no entry; then there is no relation.
        by_key = {mention.key: entity for entity, mention in mentions if mention.key}
        for tail, mention in mentions:
            for head in filter(None, map(by_key.get, mention.heads)):
                kind = self._relation_types[mention.type]
                self._relations.append(Relation(f"R{1 + len(self._relations)}", kind, head.id, tail.id))
        self.sentences.append(Range(start, self._length))

    def document(self, identifier: str, attributes: Attributes) -> Document:
        """Return the finished note."""
        return Document(
            id=identifier,
            text="".join(self._parts),
            entities=tuple(self._entities),
            relations=tuple(self._relations),
            sentences=tuple(self.sentences),
            attributes=attributes,
        )
