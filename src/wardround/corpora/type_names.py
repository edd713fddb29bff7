"""The mapping file: a site's own names for the types of a study.

    medication = "Drug"
    "adverse event" = "ADE"
    side-effect = "ADE"

TOML with one name on each line: on the left the name in the notes of the site, in quotes if it contains other
characters than letters, digits, `-` and `_`; on the right the name in the study. Several names may map to one type. A
type that is not on the left keeps its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from wardround.corpora.corpus_files import BYTE_ORDER_MARK, read_text
from wardround.errors import CorpusError, UsageError
from wardround.parsing import MalformedDataError, parse_toml
from wardround.settings import did_you_mean
from wardround.text.document import Document
from wardround.text.phi_tag_sets import PHI_TAG_SETS, type_in_tag_set
from wardround.text.tag_sets import TagSet

__all__ = ["checked_tag_set", "in_tag_set", "nearest_type", "read_type_names", "renamed"]

_A_LINE = 'each line maps a name in the notes to a type, for example medication = "Drug"'
_LINE_NUMBER = re.compile(r"at line (\d+)")


def read_type_names(path: Path, types: Sequence[str] = ()) -> dict[str, str]:
    """Return the study's type for each name of the site; it must be one of `types` unless these are empty."""
    try:
        names: dict[str, Any] = parse_toml(read_text(path).removeprefix(BYTE_ORDER_MARK))
    except MalformedDataError as error:
        # Do not repeat its message: if the file is a note and not a mapping, it could quote the note.
        place = _LINE_NUMBER.search(str(error))
        twice = "overwrite" in str(error)
        raise CorpusError(
            f"maps a name twice; remove one of the lines: {_A_LINE}" if twice else f"is not TOML; {_A_LINE}",
            path=path,
            line=int(place[1]) if place else None,
        ) from None
    for theirs, ours in names.items():
        if isinstance(ours, dict):
            raise CorpusError(f"{theirs!r} is a section; {_A_LINE}; a name with a dot must be quoted", path=path)
        if not isinstance(ours, str) or not ours:
            raise CorpusError(f"{theirs!r} is not mapped to a name; {_A_LINE}", path=path)
        if types and ours not in types:
            near = nearest_type(ours, types)
            raise CorpusError(
                f"{theirs!r} is mapped to {ours!r}, which is not a type of the study{near}; "
                f"there are {', '.join(types)}",
                path=path,
            )
    return names


def renamed(documents: Iterable[Document], names: Mapping[str, str]) -> tuple[Document, ...]:
    """Return the documents with their types renamed."""
    return tuple(TagSet.rename(document, names) for document in documents)


def in_tag_set(documents: Sequence[Document], tag_set: str) -> tuple[Document, ...]:
    """Return the documents with their types converted to those of a PHI tag set, if it has a corresponding type.

    With an empty name, the documents stay unchanged.
    """
    if not tag_set:
        return tuple(documents)
    return renamed(documents, {kind: type_in_tag_set(tag_set, kind) for kind in TagSet.of(documents).types})


def nearest_type(name: str, types: Iterable[str]) -> str:
    """Return ` – did you mean 'ADE'?` for the most similar type, ignoring case, or an empty string."""
    known = {kind.casefold(): kind for kind in types}
    near = get_close_matches(name.casefold(), list(known), n=1)
    return f" – did you mean {known[near[0]]!r}?" if near else ""


def checked_tag_set(name: str) -> str:
    """Return the name of a tag set of identifying types; raise a UsageError if it is unknown."""
    if name and name not in PHI_TAG_SETS:
        near = did_you_mean(name, PHI_TAG_SETS)
        raise UsageError(f"{name!r} is not a tag set of identifying types{near}; there are {', '.join(PHI_TAG_SETS)}")
    return name
