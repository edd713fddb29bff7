"""Pseudo-complete annotation: what a site annotated, completed with what a model finds of other types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wardround.text.tag_schemes import WordSpan
from wardround.text.tag_sets import TagSet

__all__ = ["completed"]


def completed(local: Sequence[WordSpan], found: Iterable[WordSpan], annotated: TagSet) -> list[WordSpan]:
    """The local mentions and, of those found, what is of other types and touches none of their words.

    What the annotators marked stands, whatever a model says of it: where both lie on a word, the local mention wins.
    Of two found ones on a word, the first.
    """
    taken = {word for mention in local for word in range(mention.start, mention.end)}
    kept = list(local)
    for mention in found:
        words = range(mention.start, mention.end)
        if mention.type not in annotated and taken.isdisjoint(words):
            taken.update(words)
            kept.append(mention)
    return kept
