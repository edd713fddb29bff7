"""Terms, and how a lexicon is shared out between hospitals and between training and test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wardround.corpora.synthetic.stream import Stream, portion

__all__ = ["Lexicon", "Shares", "Term", "WordLists", "listed", "terms"]


_FEWEST = 6  # of a short list a hospital gets so many terms, whatever its share


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that can be named, and the ways to name it."""

    text: str
    countable: bool = False  # takes `a` or `an`
    forms: tuple[tuple[str, str], ...] = ()  # other ways to say it: `short`, `lay`, `last`

    def form(self, name: str) -> str:
        """The form of this name, or the plain text where the term has none."""
        return dict(self.forms).get(name, self.text)


def terms(texts: Iterable[str], *, countable: bool = False) -> tuple[Term, ...]:
    """A term a text, each once, in the order given."""
    return tuple(Term(text, countable) for text in dict.fromkeys(texts))


def listed(text: str) -> list[str]:
    """The items of a list written with semicolons, over as many lines as it takes."""
    return [" ".join(item.split()) for item in text.split(";")]


Lexicon = Mapping[str, tuple[Term, ...]]  # list name to terms


@dataclass(frozen=True, slots=True)
class Shares:
    """How much of every word list is met where."""

    trained: float  # of a list, met in somebody's training; the rest is withheld, half for dev and half for test
    site: float  # of the trained part, met in one hospital's training
    withheld_rate: float  # how often a dev or test note takes a withheld term rather than any trained one


class WordLists:
    """The lists one hospital draws from while one of its splits is written.

    Membership hangs on the term's text, not on the list: a complaint withheld as a symptom is withheld as an
    adverse effect too.
    """

    def __init__(self, lexicon: Lexicon, shares: Shares, *, seed: int, site: str, split: str) -> None:
        self._rate = 0.0 if split == "train" else shares.withheld_rate
        self._known: dict[str, tuple[Term, ...]] = {}
        self._withheld: dict[str, tuple[Term, ...]] = {}
        for name, entries in lexicon.items():
            places = [(term, _place(term.text, seed, shares.trained)) for term in entries]
            trained = [term for term, place in places if place == "train"]
            if split == "train":
                trained.sort(key=lambda term: portion(seed, "site", site, term.text))
                del trained[max(_FEWEST, round(shares.site * len(trained))) :]
            self._known[name] = tuple(trained) or entries
            self._withheld[name] = tuple(term for term, place in places if place == split)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def draw(self, name: str, stream: Stream) -> Term:
        """One term of the list."""
        wants_withheld = stream.chance(self._rate)
        withheld = self._withheld[name]
        return stream.choice(withheld if wants_withheld and withheld else self._known[name])


def _place(text: str, seed: int, trained: float) -> str:
    at = portion(seed, "split", text)
    if at < trained:
        return "train"
    return "dev" if at < (1 + trained) / 2 else "test"
