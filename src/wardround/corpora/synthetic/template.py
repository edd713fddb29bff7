"""The little language the notes are written in.

    {he} was started on {Drug:a} {Dosage<a}[ for {+Disease<a}|, with good effect].

- `[x|y|z]` is one of the three; an alternative may be empty, and they nest.
- `{name}` in small letters stands for a rule, a word list or a fact of the note; `{#2-9}` for a number.
- `{Type...}` is a mention. After the type come, in this order and each left out at will: `/name` of the list, rule or
  fact it is drawn from, `=words` that are fixed, `~list` of look-alikes that may stand here instead, `.form` of the
  term, `:key` by which the same term is meant again (one letter: in the sentence; longer: in the note), `<keys` of
  the heads it depends on, and `!` for negated or `?` for speculated. A `+` before the type asks for the article that
  the term takes, `+rule ` for the article and then for a word by that rule: `{+degree ADE}` is `a severe rash` or
  `severe nausea`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from wardround.errors import TextError

__all__ = ["Choice", "Mention", "Pattern", "Reference", "parse"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A hole filled by a rule, a word list, a fact or a number."""

    name: str


@dataclass(frozen=True, slots=True)
class Mention:
    """A hole filled by an annotated term."""

    type: str
    source: str  # the list the term is drawn from
    words: str = ""
    lookalike: str = ""
    form: str = ""
    key: str = ""
    heads: tuple[str, ...] = ()
    mark: str = ""
    article: bool = False
    before: str = ""  # a rule whose words stand between the article and the mention


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several patterns."""

    options: tuple[Pattern, ...]


Pattern: TypeAlias = "tuple[str | Reference | Mention | Choice, ...]"

_PART = re.compile(r"(\{[^{}]*\}|[\[\]|])")
_REFERENCE = re.compile(r"[a-z][a-z_]*|#\d+-\d+")
_MENTION = re.compile(
    r"(?P<article>\+(?:(?P<before>[a-z_]+) )?)?(?P<type>[A-Z]\w*)(?:/(?P<source>\w+))?(?:=(?P<words>[^~.:<!?]+))?"
    r"(?:~(?P<lookalike>\w+))?(?:\.(?P<form>\w+))?(?::(?P<key>\w+))?(?:<(?P<heads>[\w,]+))?(?P<mark>[!?]?)"
)


def parse(template: str) -> Pattern:
    """The pattern a template describes; a template that makes no sense is a `TextError`."""
    # One entry a bracket still open, each the alternatives met so far; the outermost is the template itself.
    open_choices: list[list[list[str | Reference | Mention | Choice]]] = [[[]]]
    for part in filter(None, _PART.split(template)):
        if part == "[":
            open_choices.append([[]])
        elif part in "]|" and len(open_choices) == 1:
            raise TextError(f"template {template!r}: {part!r} stands outside brackets")
        elif part == "|":
            open_choices[-1].append([])
        elif part == "]":
            options = open_choices.pop()
            open_choices[-1][-1].append(Choice(tuple(tuple(option) for option in options)))
        else:
            open_choices[-1][-1].append(_hole(part[1:-1], template) if part[0] == "{" else part)
    if len(open_choices) > 1:
        raise TextError(f"template {template!r}: a bracket is not closed")
    return tuple(open_choices[0][0])


def _hole(inside: str, template: str) -> Reference | Mention:
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
