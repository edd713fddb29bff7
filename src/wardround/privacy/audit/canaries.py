"""Canaries: invented notes that are planted among training notes, to measure afterwards what a model remembers of them.

Each canary names an invented person or thing in letters that no other note has. Half of the canaries are planted, the
other half are kept; whoever can tell the halves apart by a model, learned it from the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from wardround.text.document import Document, Entity, Range

__all__ = ["make_canaries"]

_SENTENCES = (
    "The code {name} was noted on the ward.",
    "On review {name} was recorded again.",
    "The letter mentions {name} twice.",
    "{name} was added to the list today.",
)
_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxz", "aeiou"


def make_canaries(types: Sequence[str], count: int, *, seed: int = 0) -> tuple[tuple[Document, ...], ...]:
    """Return `count` canaries to plant and as many to keep; each annotates its invented name with one of the types."""
    random = Random(f"canaries/{seed}")  # noqa: S311 – invented names, no secret
    found = []
    for number in range(2 * count):
        name = "".join(random.choice(_CONSONANTS) + random.choice(_VOWELS) for _ in range(5)).capitalize()
        before, after = random.choice(_SENTENCES).split("{name}")
        entity = Entity("T1", types[number % len(types)], (Range(len(before), len(before) + len(name)),))
        found.append(Document(f"canary-{number:04}", f"{before}{name}{after}", (entity,)))
    random.shuffle(found)
    return tuple(found[:count]), tuple(found[count:])
