"""Make the sites of the FedNER study from public corpora that differ in types and genre.

    python -m papers.fedner.make_sites --data ../shared/data --out runs/fedner/sites

    five/SITE                   ade, bc5cdr, bionlp13cg, biored, anatem: a cut of each training part
    five-ratio-0.50/SITE        half of those training sentences (Figure 3)
    five-mask-0.50/SITE         half of the overlapped entities masked (Figure 5)
    bc2gm/site-01 … site-10     one corpus among ten sites, each with the official test part; bc2gm-all/all: one site
    GROUP.npz                   the GloVe vectors of the words that occur in a group of sites
    sites.json                  types, schemes and sizes

Every document is one sentence. No training sentence shares a run of eight words with a test or development sentence of
any site: corpora overlap (BioRED's training part and BC5CDR's test part share many abstracts), and a federation would
otherwise have trained on test notes of other sites.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
from papers.common.sites import (
    GLOVE,
    Group,
    PartSizes,
    Site,
    corpus_arguments,
    documents_of,
    read_biored,
    read_iob,
    site_of,
    spellings,
    without_leaks,
    write_groups,
    write_vectors,
)

from wardround.corpora.ade import Ade
from wardround.corpora.partition import by_source
from wardround.text.alignment import align
from wardround.text.document import Document, Entity, Range

__all__ = ["PLACEHOLDER", "Sizes", "all_groups", "dealt", "masked", "overlapped", "ten_sites", "thinned", "vocabulary"]

RATIOS = (0.25, 0.5, 0.75)  # of Figure 3; the group `five` has ratio 1
MASKS = (0.25, 0.5, 0.75, 1.0)  # of Figure 5; in the group `five` nothing is masked
PLACEHOLDER = "masked"  # has its own word vector, so that masking does not train the vector of unknown words
SITES_OF_ONE = 10
# The types of BioNLP13CG with more than a hundred training mentions; it has sixteen.
_CANCER_TYPES = (
    *("Gene_or_gene_product", "Cell", "Cancer", "Simple_chemical", "Organism"),
    *("Multi-tissue_structure", "Tissue", "Cellular_component", "Organ", "Organism_substance"),
)


@dataclass(frozen=True)
class Sizes(PartSizes):
    """Sentences of each part, also of one corpus among ten sites."""

    one_corpus_train: int = 4500  # of all ten sites together
    one_corpus_dev: int = 2000  # the same
    one_corpus_test: int = 0


def main() -> None:
    """Make all groups."""
    parser = corpus_arguments(__doc__)
    for name, value in vars(Sizes()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value, help="sentences; 0: all")
    parser.add_argument("--vectors", type=Path, help="instead of the GloVe vectors below --data")
    options = parser.parse_args()
    sizes = Sizes(**{name: getattr(options, name) for name in vars(Sizes())})
    groups = all_groups(options.data, sizes, seed=options.seed)
    write_groups(groups, options.out)
    for family in ("five", "bc2gm", "bc5cdr"):
        held = [groups[name] for name in groups if name == family or name.startswith(family + "-")]
        write_vectors(options.vectors or options.data / GLOVE, options.out / f"{family}.npz", vocabulary(held))


def all_groups(data: Path, sizes: Sizes, *, seed: int) -> dict[str, Group]:
    """Return every group of sites."""
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
    """Return five corpora cut to size, without a test sentence of one in the training part of another."""
    corpora = data / "mtl_bioinformatics_2016"
    whole = {
        "ade": read_ade(data / "ade_corpus_v2" / "DRUG-AE.rel", sizes, seed=seed),
        "bc5cdr": replace(read_iob(corpora / "BC5CDR-IOB", ("Chemical", "Disease")), scheme="BIOES"),
        "bionlp13cg": read_iob(corpora / "BioNLP13CG-IOB", _CANCER_TYPES),
        "biored": read_biored(data / "biored"),
        "anatem": read_iob(corpora / "AnatEM-IOB", ("Anatomy",)),
    }
    return without_leaks(whole, sizes, seed=seed)


def read_ade(path: Path, sizes: Sizes, *, seed: int) -> Site:
    """Read ADE, which has no official split: whole abstracts go to the test, development, then training part."""
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
    """Return a share of each site's training sentences; smaller shares are contained in larger ones."""
    return {
        name: replace(site, train=_first(site.train, ratio, f"{seed}/{name}/ratio")) for name, site in group.items()
    }


def _first(documents: Sequence[Document], ratio: float, seed: str) -> list[Document]:
    order = list(range(len(documents)))
    Random(seed).shuffle(order)  # noqa: S311 – a draw, not a secret
    return [documents[position] for position in sorted(order[: round(ratio * len(order))])]


def masked(group: Group, ratio: float, *, seed: int) -> dict[str, Site]:
    """Mask a share of the overlapped entities at every site (Section 4.5).

    An entity is a mention's text in lower case; it is overlapped if two sites or more train on it. The placeholder
    replaces each word of a masked entity wherever it is annotated. The annotation stays, so that sites keep their
    sizes and models still learn from the context.
    """
    order = sorted(overlapped(group))
    Random(f"{seed}/mask").shuffle(order)  # noqa: S311 – a draw, not a secret
    hidden = frozenset(order[: round(ratio * len(order))])
    return {name: replace(site, train=[_hide(d, hidden) for d in site.train]) for name, site in group.items()}


def overlapped(group: Group) -> set[str]:
    """Return the entities that two sites or more train on."""
    at = [{text for document in site.train for text in _entities(document)} for site in group.values()]
    return {text for number, texts in enumerate(at) for other in at[:number] for text in texts & other}


def _entities(document: Document) -> Iterator[str]:
    for sentence in (aligned := align(document)).sentences:
        words = aligned.texts(sentence)
        yield from (" ".join(words[start:end]).lower() for start, end, _ in sentence.spans)


def _hide(document: Document, hidden: frozenset[str]) -> Document:
    """Return the document with its hidden entities masked and words joined by spaces; unchanged if none is hidden."""
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
    """Return ten sites with neighbouring sentences, so that abstracts stay together, and one site with all of them."""
    test = corpus.test[: sizes.one_corpus_test or None]
    train, dev = dealt(corpus.train, sizes.one_corpus_train), dealt(corpus.dev, sizes.one_corpus_dev)
    split = {
        f"site-{n:02}": replace(corpus, train=t, dev=d, test=test)
        for n, (t, d) in enumerate(zip(train, dev, strict=True), 1)
    }
    together = replace(
        corpus, train=[d for part in train for d in part], dev=[d for part in dev for d in part], test=test
    )
    return {name: split, f"{name}-all": {"all": together}}


def dealt(documents: Sequence[Document], total: int) -> list[Sequence[Document]]:
    """Return the beginning of each tenth of the documents, all of one size, `total` documents together (0: all)."""
    bounds = [len(documents) * number // SITES_OF_ONE for number in range(SITES_OF_ONE + 1)]
    each = (total or len(documents)) // SITES_OF_ONE
    return [documents[start : min(end, start + each)] for start, end in pairwise(bounds)]


def vocabulary(groups: Iterable[Group]) -> set[str]:
    """Return every word that occurs at a site, and the placeholder."""
    return {PLACEHOLDER} | spellings(documents_of(groups))


if __name__ == "__main__":
    main()
