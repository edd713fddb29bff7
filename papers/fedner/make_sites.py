"""The sites of the FedNER study, made of public corpora that differ in types and genre.

    python -m papers.fedner.make_sites --data ../shared/data --out runs/fedner/sites

    five/SITE                   ade, bc5cdr, bionlp13cg, biored, anatem: a cut of each training part
    five-ratio-0.50/SITE        half of those training sentences (Figure 3)
    five-mask-0.50/SITE         half of the overlapped entities masked (Figure 5)
    bc2gm/site-01 … site-10     one corpus among ten sites, the official test part at each; bc2gm-all/all has all of it
    GROUP.npz                   the GloVe vectors of the words that occur in a group of sites
    sites.json                  types, schemes and sizes

Every document is one sentence. No training sentence shares a run of eight words with a test or development sentence of
any site: corpora overlap (BioRED's training part and BC5CDR's test part hold many of the same abstracts), and a
federation would otherwise have seen its neighbours' test notes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
from papers.common.cuts import PartSizes, documents_of, without_leaks, write_vectors
from papers.common.cuts import spellings as words_in
from papers.common.sites import Group, Site, read_biored, read_iob, site_of, write_groups

from wardround.corpora.ade import Ade
from wardround.corpora.partition import by_source
from wardround.text.alignment import align
from wardround.text.document import Document, Entity, Range

RATIOS = (0.25, 0.5, 0.75)  # of Figure 3; 1 is `five` itself
MASKS = (0.25, 0.5, 0.75, 1.0)  # of Figure 5; 0 is `five` itself
PLACEHOLDER = "masked"  # a word with a vector of its own, so that masking does not train the row of unknown words
SITES_OF_ONE = 10
# Of BioNLP13CG's sixteen types, those with more than a hundred training mentions.
_CANCER_TYPES = (
    *("Gene_or_gene_product", "Cell", "Cancer", "Simple_chemical", "Organism"),
    *("Multi-tissue_structure", "Tissue", "Cellular_component", "Organ", "Organism_substance"),
)


@dataclass(frozen=True)
class Sizes(PartSizes):
    """The same of one corpus among many sites."""

    one_corpus_train: int = 4500  # over all ten sites
    one_corpus_dev: int = 2000  # the same
    one_corpus_test: int = 0


def main() -> None:
    """Make all groups, or those asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the corpora and the word vectors")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    for name, value in vars(Sizes()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value, help="sentences; 0 is all")
    parser.add_argument("--vectors", type=Path, help="instead of the GloVe subset below --data")
    asked = parser.parse_args()
    sizes = Sizes(**{name: getattr(asked, name) for name in vars(Sizes())})
    vectors = asked.vectors or asked.data / "word_vectors" / "glove6B_100d_subset_f16.npz"
    groups = all_groups(asked.data, sizes, seed=asked.seed)
    write_groups(groups, asked.out)
    for family in ("five", "bc2gm", "bc5cdr"):
        held = [groups[name] for name in groups if name == family or name.startswith(family + "-")]
        write_vectors(vectors, asked.out / f"{family}.npz", spellings(held))


def all_groups(data: Path, sizes: Sizes, *, seed: int) -> dict[str, Group]:
    """Every group of sites the study has."""
    five = five_sites(data, sizes, seed=seed)
    groups: dict[str, Group] = {"five": five}
    groups |= {f"five-ratio-{ratio:.2f}": thinned(five, ratio, seed=seed) for ratio in RATIOS}
    groups |= {f"five-mask-{ratio:.2f}": masked(five, ratio, seed=seed) for ratio in MASKS}
    corpora = data / "mtl_bioinformatics_2016"
    for name, types in {"bc2gm": ("GENE",), "bc5cdr": ("Chemical", "Disease")}.items():
        groups |= ten_sites(name, read_iob(corpora / f"{name.upper()}-IOB", types), sizes)
    return groups


# The five sites.


def five_sites(data: Path, sizes: Sizes, *, seed: int) -> dict[str, Site]:
    """Corpora cut to the size of a hospital's, without a test sentence of one in the training part of another."""
    corpora = data / "mtl_bioinformatics_2016"
    whole = {
        "ade": read_ade(data / "ade_corpus_v2" / "DRUG-AE.rel", sizes, seed=seed),
        "bc5cdr": replace(read_iob(corpora / "BC5CDR-IOB", ("Chemical", "Disease")), scheme="BIOES"),
        "bionlp13cg": read_iob(corpora / "BioNLP13CG-IOB", _CANCER_TYPES),
        "biored": read_biored(data / "biored"),
        "anatem": read_iob(corpora / "AnatEM-IOB", ("Anatomy",)),
    }
    return without_leaks(whole, sizes, seed=seed)


# Reading, a corpus each.


def read_ade(path: Path, sizes: Sizes, *, seed: int) -> Site:
    """ADE has no official split: abstracts are dealt out whole, to the test part, the development part, the rest."""
    abstracts = by_source(Ade().read(path), "source")
    order = sorted(abstracts)
    Random(f"{seed}/ade").shuffle(order)  # noqa: S311 – a draw, not a secret
    parts: dict[str, list[Document]] = {"test": [], "dev": [], "train": []}
    for source in order:
        name = "test" if len(parts["test"]) < sizes.test else "dev" if len(parts["dev"]) < sizes.dev else "train"
        parts[name] += abstracts[source]
    return site_of(parts, ("Drug", "Adverse-Effect"))


# Figures 3 and 5.


def thinned(group: Group, ratio: float, *, seed: int) -> dict[str, Site]:
    """The first part of each site's training sentences in an order drawn once, so that smaller parts lie in larger."""
    return {
        name: replace(site, train=_first(site.train, ratio, f"{seed}/{name}/ratio")) for name, site in group.items()
    }


def _first(documents: Sequence[Document], ratio: float, seed: str) -> list[Document]:
    order = list(range(len(documents)))
    Random(seed).shuffle(order)  # noqa: S311 – a draw, not a secret
    return [documents[position] for position in sorted(order[: round(ratio * len(order))])]


def masked(group: Group, ratio: float, *, seed: int) -> dict[str, Site]:
    """A part of the overlapped entities hidden at every site (Section 4.5).

    An entity is a mention's text in small letters; overlapped are those in the training parts of two sites or more.
    Each word of a masked one gives way to the placeholder wherever the entity is annotated; the annotation stays, so
    that sites keep their sizes and the words around it still teach.
    """
    order = sorted(overlapped(group))
    Random(f"{seed}/mask").shuffle(order)  # noqa: S311 – a draw, not a secret
    hidden = frozenset(order[: round(ratio * len(order))])
    return {name: replace(site, train=[_hide(d, hidden) for d in site.train]) for name, site in group.items()}


def overlapped(group: Group) -> set[str]:
    """The entities that two sites or more train on."""
    at = [{text for document in site.train for text in _entities(document)} for site in group.values()]
    return {text for number, texts in enumerate(at) for other in at[:number] for text in texts & other}


def _entities(document: Document) -> Iterator[str]:
    for sentence in (aligned := align(document)).sentences:
        words = aligned.texts(sentence)
        yield from (" ".join(words[start:end]).lower() for start, end, _ in sentence.spans)


def _hide(document: Document, hidden: frozenset[str]) -> Document:
    """The document over words joined by blanks, where anything in it is hidden; otherwise as it was."""
    if hidden.isdisjoint(_entities(document)):
        return document
    aligned = align(document)
    (sentence,) = aligned.sentences
    words = aligned.texts(sentence)
    for start, end, _ in sentence.spans:
        if " ".join(words[start:end]).lower() in hidden:
            words[start:end] = [PLACEHOLDER] * (end - start)
    ends = np.cumsum([len(word) + 1 for word in words]).tolist()
    ranges = tuple(Range(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True))
    spans = [(kind, Range(ranges[start].start, ranges[end - 1].end)) for start, end, kind in sentence.spans]
    entities = tuple(Entity(f"T{n}", kind, (range_,)) for n, (kind, range_) in enumerate(spans, start=1))
    text = " ".join(words)
    return Document(document.id, text, entities, words=ranges, sentences=(Range(0, len(text)),))


# One corpus among ten sites.


def ten_sites(name: str, corpus: Site, sizes: Sizes) -> dict[str, Group]:
    """Ten neighbouring stretches, so that an abstract's sentences stay at a site; and one site that has them all."""
    test = corpus.test[: sizes.one_corpus_test or None]
    train, dev = dealt(corpus.train, sizes.one_corpus_train), dealt(corpus.dev, sizes.one_corpus_dev)
    parted = {
        f"site-{n:02}": replace(corpus, train=t, dev=d, test=test)
        for n, (t, d) in enumerate(zip(train, dev, strict=True), 1)
    }
    together = replace(
        corpus, train=[d for part in train for d in part], dev=[d for part in dev for d in part], test=test
    )
    return {name: parted, f"{name}-all": {"all": together}}


def dealt(documents: Sequence[Document], total: int) -> list[Sequence[Document]]:
    """Ten stretches of equal size, `total` documents together (0: all), each the beginning of its tenth."""
    bounds = [len(documents) * number // SITES_OF_ONE for number in range(SITES_OF_ONE + 1)]
    each = (total or len(documents)) // SITES_OF_ONE
    return [documents[start : min(end, start + each)] for start, end in pairwise(bounds)]


# Word vectors.


def spellings(groups: Iterable[Group]) -> set[str]:
    """Every word that occurs at a site, and the one that stands for a masked one."""
    return {PLACEHOLDER} | words_in(documents_of(groups))


if __name__ == "__main__":
    main()
