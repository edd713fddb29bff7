"""Warn about annotation that would be empty or ignored, before a training or a score means nothing because of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from wardround.corpora.stats import count
from wardround.corpora.type_names import nearest_type
from wardround.text.document import Document

__all__ = ["gold_warnings"]


def gold_warnings(
    parts: Mapping[str, Sequence[Document]], types: Collection[str], *, types_are_chosen: bool
) -> Iterator[str]:
    """Yield a sentence for each type without a mention in a part, and for entities of types that are not used.

    Args:
        parts: the notes by part, such as train and test; a part without notes is not mentioned.
        types: the entity types that are learned or scored.
        types_are_chosen: whether the user named the types; further types are then mentioned only if one is missing.
    """
    for part, documents in parts.items():
        found = count(documents).entities if documents else None
        if found is None:
            continue
        if not found:
            yield f"the {part} notes have no entity at all: nothing can be learned from them, and every score is 0"
            continue
        missing = [kind for kind in types if not found[kind]]
        for kind in missing:
            near = nearest_type(kind, [name for name in found if name not in types])
            yield f"the {part} notes have no entity of the type {kind!r}{near}"
        ignored = {kind: number for kind, number in sorted(found.items()) if kind not in types}
        if ignored and (missing or not types_are_chosen):
            listed = ", ".join(f"{number:,} of {kind!r}" for kind, number in ignored.items())
            yield f"entities of the {part} notes are ignored, because their type is not used: {listed}"
