"""The mapping file: what a site calls the types of a study.

    medication = "Drug"
    "adverse event" = "ADE"
    side-effect = "ADE"

TOML, a line a name: on the left what the notes of the site say, in quotes where it holds more than letters, digits,
`-` and `_`; on the right the name in the study, which several may share. A type that is not on the left keeps its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from wardround.corpora.source import BYTE_ORDER_MARK, read_text
from wardround.errors import CorpusError
from wardround.parsing import MalformedDataError, parse_toml
from wardround.text.document import Document
from wardround.text.phi_tag_sets import type_in_tag_set
from wardround.text.tag_sets import TagSet

__all__ = ["in_tag_set", "nearest_type", "read_type_names", "renamed"]

_A_LINE = 'a line is what the notes call a type, as medication = "Drug"'
_LINE_NUMBER = re.compile(r"at line (\d+)")


def read_type_names(path: Path, types: Sequence[str] = ()) -> dict[str, str]:
    """By the site's name the study's; where `types` of the study are given, it must be one of them."""
    names = _table(path)
    for theirs, ours in names.items():
        if isinstance(ours, dict):
            raise CorpusError(f"{theirs!r} is a section; {_A_LINE}, and a name with a dot is quoted", path=path)
        if not isinstance(ours, str) or not ours:
            raise CorpusError(f"{theirs!r} is mapped onto something that is no name; {_A_LINE}", path=path)
        if types and ours not in types:
            near = nearest_type(ours, types)
            raise CorpusError(
                f"{theirs!r} is mapped onto {ours!r}, which is no type of the study{near}; "
                f"there are {', '.join(types)}",
                path=path,
            )
    return names


def renamed(documents: Iterable[Document], names: Mapping[str, str]) -> tuple[Document, ...]:
    """The documents with the study's names for their types."""
    return tuple(TagSet.rename(document, names) for document in documents)


def in_tag_set(documents: Sequence[Document], tag_set: str) -> tuple[Document, ...]:
    """The documents as a tag set of what identifies people names their types, where it has a place for them.

    Without a name of a tag set they stay as they are.
    """
    if not tag_set:
        return tuple(documents)
    return renamed(documents, {kind: type_in_tag_set(tag_set, kind) for kind in TagSet.of(documents).types})


def nearest_type(name: str, types: Iterable[str]) -> str:
    """` – did you mean 'ADE'?`, or nothing; who names types writes them small or large as he likes."""
    known = {kind.casefold(): kind for kind in types}
    near = get_close_matches(name.casefold(), list(known), n=1)
    return f" – did you mean {known[near[0]]!r}?" if near else ""


def _table(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_text(path).removeprefix(BYTE_ORDER_MARK))
    except MalformedDataError as error:
        # Its words are not passed on: where somebody named a note in place of a mapping, they could quote it.
        place = _LINE_NUMBER.search(str(error))
        twice = "overwrite" in str(error)
        raise CorpusError(
            f"maps a name twice; leave one of them out: {_A_LINE}" if twice else f"is no TOML; {_A_LINE}",
            path=path,
            line=int(place[1]) if place else None,
        ) from None
