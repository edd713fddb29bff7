"""Make the sites of the measurements of private learning: a corpus dealt among ten sites.

python -m papers.private_learning.make_sites --data ../shared/data --out runs/private_learning/sites

bc5cdr/site-01 … site-10    notes of nine consecutive sentences: the corpus has no other borders between notes
bc2gm/site-01 … site-10     the same; its sentences come from different abstracts
sites.json                  types, schemes and sizes

Every part is dealt by notes, so that the sites have about as many of each part. A note has nine sentences because the
abstracts of BC5CDR have 9.1 on average (4,560 training sentences of 500 abstracts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from papers.common.sites import Group, Site, corpus_arguments, described, read_iob, write_description, write_groups

from wardround.corpora.partition import by_size
from wardround.text.document import Document, Entity, Range
from wardround.text.segmentation import words_of

__all__ = ["dealt", "joined", "main", "notes_of"]

CORPORA = {"bc5cdr": ("Chemical", "Disease"), "bc2gm": ("GENE",)}
SITES = 10
SENTENCES = 9  # of a note


def main() -> None:
    """Make all groups."""
    options = corpus_arguments(__doc__).parse_args()
    groups = {}
    for name, types in CORPORA.items():
        corpus = read_iob(options.data / "mtl_bioinformatics_2016" / f"{name.upper()}-IOB", types)
        groups[name] = dealt(corpus, seed=options.seed)
    write_groups(groups, options.out)
    write_description({name: _with_notes(group) for name, group in groups.items()}, options.out)


def _with_notes(group: Group) -> dict[str, Any]:
    return {name: {**described(site), "notes": len(site.train)} for name, site in group.items()}


def dealt(corpus: Site, *, seed: int) -> Group:
    """Join the sentences of each part to notes, and deal the notes at random into equal shares."""
    names = [f"site-{number:02}" for number in range(1, SITES + 1)]
    parts = {
        part: by_size(notes_of(documents), dict.fromkeys(names, 1 / SITES), seed)
        for part, documents in corpus.parts.items()
    }
    return {
        name: replace(corpus, train=parts["train"][name], dev=parts["dev"][name], test=parts["test"][name])
        for name in names
    }


def notes_of(sentences: Sequence[Document]) -> list[Document]:
    """Join consecutive sentences to notes."""
    return [joined(sentences[start : start + SENTENCES]) for start in range(0, len(sentences), SENTENCES)]


def joined(sentences: Sequence[Document]) -> Document:
    """Return sentences, one below the other, as one note that keeps their words and their borders."""
    text, entities, words, borders = "", list[Entity](), list[Range](), list[Range]()
    for sentence in sentences:
        text += "\n" if text else ""
        shift = len(text)
        text += sentence.text
        borders.append(Range(shift, len(text)))
        words += [Range(start + shift, end + shift) for start, end in words_of(sentence)]
        for entity in sentence.entities:
            ranges = tuple(Range(start + shift, end + shift) for start, end in entity.ranges)
            entities.append(Entity(f"T{len(entities) + 1}", entity.type, ranges))
    return Document(sentences[0].id, text, tuple(entities), words=tuple(words), sentences=tuple(borders))


if __name__ == "__main__":
    main()
