"""Terms, and how a lexicon is shared out between hospitals and between training and test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wardround.corpora.synthetic.stream import Stream, portion
from wardround.errors import TextError

__all__ = ["Divided", "Lexicon", "Term", "WordLists", "divided", "listed", "terms"]


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


Divided = Mapping[str, Mapping[str, tuple[Term, ...]]]  # list name to split to terms


def divided(lexicon: Lexicon, trained: float, seed: int) -> Divided:
    """Each list parted: a share that may be met in training, and the rest withheld, half for dev and half for test.

    Where a term goes hangs on its text, not on the list: a complaint withheld as a symptom is withheld as an adverse
    effect too.
    """
    lists: dict[str, dict[str, tuple[Term, ...]]] = {}
    for name, entries in lexicon.items():
        places = [(_place(term.text, seed, trained), term) for term in entries]
        parts = {split: tuple(term for place, term in places if place == split) for split in ("train", "dev", "test")}
        lists[name] = {**parts, "train": parts["train"] or entries}
    return lists


class WordLists:
    """The lists one hospital draws from while one of its splits is written.

    In training it has a `share` of the trained terms, decided by `names`. In dev and test it has all of them, and with
    the chance `withheld_rate` takes one that nobody has trained on.
    """

    def __init__(
        self, lists: Divided, split: str, *, names: tuple[str | int, ...], share: float, withheld_rate: float
    ) -> None:
        self._rate = 0.0 if split == "train" else withheld_rate
        self._known = {name: parts["train"] for name, parts in lists.items()}
        self._withheld = {name: parts[split] for name, parts in lists.items()}
        if split == "train":
            self._known = {name: _share(entries, share, names) for name, entries in self._known.items()}

    def draw(self, name: str, stream: Stream) -> Term:
        """One term of the list."""
        if name not in self._known:
            raise TextError(f"{name!r} is neither a rule nor a word list; correct the template")
        wants_withheld = stream.chance(self._rate)
        withheld = self._withheld[name]
        return stream.choice(withheld if wants_withheld and withheld else self._known[name])


def _share(entries: tuple[Term, ...], share: float, names: tuple[str | int, ...]) -> tuple[Term, ...]:
    ranked = sorted(entries, key=lambda term: portion(*names, term.text))
    return tuple(ranked[: max(_FEWEST, round(share * len(entries)))])


def _place(text: str, seed: int, trained: float) -> str:
    at = portion(seed, "split", text)
    if at < trained:
        return "train"
    return "dev" if at < (1 + trained) / 2 else "test"
