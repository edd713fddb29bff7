"""Training, development and test splits: find them, make them, and verify later that they did not change.

A corpus is split by file (`train.tsv`, `devel.tsv`, `Test.PubTator`) or by folder (`train/`, `dev/`, `test/`).
`split.json` lists the checksum of the text of each note by split. The checksums are keyed by a random salt, so that the
lists of two hospitals cannot be compared and precomputed tables do not help. Somebody who has the file can still
confirm a guessed text, so it must stay with the notes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations, islice
from operator import itemgetter
from pathlib import Path

from wardround.corpora.corpus_files import open_for_writing, read_text, refuse_links_out, unpacked_name
from wardround.errors import SplitError
from wardround.parsing import parse_json
from wardround.text.document import Document

__all__ = ["MANIFEST", "SPLITS", "Manifest", "find_splits", "shares", "split_documents", "verify"]

SPLITS = ("train", "dev", "test")
MANIFEST = "split.json"

_SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "dev": "dev",
    "devel": "dev",
    "development": "dev",
    "valid": "dev",
    "validation": "dev",
    "test": "test",
}
_SHARD = re.compile(r"-[0-9]{5}-of-[0-9]{5}$")  # how Hugging Face numbers the files of one split
_VERSION = 1


def find_splits(path: Path) -> dict[str, Path]:
    """Return the splits directly in the folder `path`, in the order of `SPLITS`; empty if it is not split.

    A single split does not count, because a single note may be named `test.txt`.
    """
    found: dict[str, Path] = {}
    for entry in sorted(path.iterdir()) if path.is_dir() else ():
        name = _SPLIT_NAMES.get(_SHARD.sub("", unpacked_name(entry).partition(".")[0].lower()))
        if name is None:
            continue
        if name in found:
            raise SplitError(
                f"{found[name].name} and {entry.name} both look like the {name} split; move one", path=path
            )
        found[name] = entry
    refuse_links_out(path, found.values())
    return {name: found[name] for name in SPLITS if name in found} if len(found) > 1 else {}


def split_documents(
    documents: Iterable[Document], fractions: Mapping[str, float], seed: int
) -> dict[str, list[Document]]:
    """Split the documents by the hash of their text: the result is reproducible, and duplicates stay together.

    Each split gets its fraction of the different texts. The order of documents is kept within a split.
    """
    groups: dict[bytes, list[tuple[int, Document]]] = {}
    for position, document in enumerate(documents):
        rank = hashlib.sha256(f"{seed}:{document.text}".encode("utf-8", "surrogatepass")).digest()
        groups.setdefault(rank, []).append((position, document))
    sizes = shares(len(groups), fractions)
    empty = [name for name, size in sizes.items() if fractions[name] > 0 and size == 0]
    if empty:
        raise SplitError(f"{len(groups)} different texts are too few to split: nothing is left for {', '.join(empty)}")
    ranks = iter(sorted(groups))
    parts = {
        name: sorted(chain.from_iterable(groups[rank] for rank in islice(ranks, n)), key=itemgetter(0))
        for name, n in sizes.items()
    }
    return {name: [document for _, document in part] for name, part in parts.items()}


def shares(total: int, fractions: Mapping[str, float]) -> dict[str, int]:
    """Divide `total` by fractions that add up to 1; what rounding leaves goes to the largest remainders."""
    if any(not 0 <= fraction <= 1 for fraction in fractions.values()) or abs(sum(fractions.values()) - 1) > 1e-6:
        raise SplitError("fractions must lie between 0 and 1 and add up to 1")
    exact = {name: total * fraction / sum(fractions.values()) for name, fraction in fractions.items()}
    # Rounding first gives 3 for 0.3 of 10, although 0.1 + 0.2 is slightly more than 0.3.
    sizes = {name: int(round(value, 6)) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: sizes[name] - exact[name])
    for name in by_remainder[: total - sum(sizes.values())]:
        sizes[name] += 1
    return sizes


@dataclass(frozen=True)
class Manifest:
    """The content of `split.json`: a salt, and for each split how often each checksum occurs."""

    checksums: Mapping[str, Counter[str]] = field(repr=False)
    salt: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    @classmethod
    def of(cls, splits: Mapping[str, Iterable[Document]]) -> Manifest:
        """Return the manifest of these splits with a new salt."""
        empty = cls({})
        return cls({name: empty.count(documents) for name, documents in splits.items()}, empty.salt)

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read a manifest that `write` wrote."""
        try:
            value = parse_json(read_text(path))
            splits: dict[str, list[str]] = value["splits"]
            manifest = cls({str(name): Counter(map(str, found)) for name, found in splits.items()}, str(value["salt"]))
            known = value["version"] == _VERSION
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SplitError("is not a split manifest; write it again with `wardround data split`", path=path) from None
        if not known:
            raise SplitError(f"is not a split manifest of version {_VERSION}", path=path)
        return manifest

    def write(self, path: Path) -> None:
        """Write one JSON object; the checksums are sorted, so that they do not reveal the order of the notes."""
        splits = {name: sorted(counts.elements()) for name, counts in self.checksums.items()}
        with open_for_writing(path) as stream:
            json.dump({"version": _VERSION, "salt": self.salt, "splits": splits}, stream, indent=1)
            stream.write("\n")

    def checksum(self, text: str) -> str:
        """Return the SHA-256 of the text, keyed by the salt."""
        return hmac.new(self.salt.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def count(self, documents: Iterable[Document]) -> Counter[str]:
        """Count how often each checksum occurs."""
        return Counter(self.checksum(document.text) for document in documents)

    def changes(self, found: Mapping[str, Counter[str]]) -> list[str]:
        """Return one sentence for each split that differs from the manifest."""
        differences = []
        for name in sorted({*self.checksums, *found}):
            before, now = self.checksums.get(name, Counter()), found.get(name, Counter())
            new, missing = (now - before).total(), (before - now).total()
            if new or missing:
                differences.append(f"{name} has changed since it was split: {new} texts are new, {missing} are missing")
        return differences


def verify(manifest: Manifest, splits: Mapping[str, Iterable[Document]]) -> None:
    """Raise `SplitError` if splits share a text or differ from the manifest."""
    found = {name: manifest.count(documents) for name, documents in splits.items()}
    differences = [
        f"{left} and {right} share {len(shared)} texts"
        for left, right in combinations(found, 2)
        if (shared := found[left].keys() & found[right].keys())
    ]
    differences += manifest.changes(found)
    if differences:
        raise SplitError("; ".join(differences))
