"""Make the sites of the study on tag sets, and draw who annotates what.

    python -m papers.tagsets.make_sites --data ../shared/data --out runs/tagsets/sites

    gum/SITE                    six genres of GUM; gum-tune/SITE, the same with the development part as test part
    bio/SITE                    BioRED, BioNLP13CG, BioNLP13PC, each with its own names; bio/names/SITE.toml maps them
    synthetic/SAMPLING/SITE     the built-in hospitals with complete annotation, with new notes for each sampling; those
                                of the sampling `tune` are in no table
    CORPUS.npz                  the GloVe vectors of the words that occur in it
    sites.json                  types, sizes, mentions, and the samplings of tag sets

A document of a corpus is one sentence, a document of a hospital is a note. Every part has complete annotation: a study
says what a site may see of it. A built-in hospital never shows more than it annotates itself, so it is read from these
files if it is to annotate something else.

GUM: `all` mentions, because only four types of named mentions occur in every genre, and six sites need six types. A
type belongs to the complete set if five of the six genres have enough of it for training.
"""

from __future__ import annotations

import shutil
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.common.sites import (
    GLOVE,
    PARTS,
    Group,
    PartSizes,
    Site,
    SiteFolder,
    corpus_arguments,
    cut,
    documents_of,
    read_biored,
    read_iob,
    spellings,
    without_leaks,
    write_description,
    write_vectors,
)
from papers.tagsets.samplings import Annotatable, Sampler, TagSets, disjoint, drawn, overlapping

from wardround.corpora.conll import Conll
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.synthetic import SyntheticSite, clinical_hospitals
from wardround.corpora.synthetic.clinical_notes import CLINICAL_TYPES
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

__all__ = ["GENRES", "SAMPLINGS", "TUNE", "TagSites", "read_bio", "read_gum", "read_hospitals"]

HERE = Path(__file__).resolve().parent
SAMPLINGS = 5
OWN = "0"  # in this sampling the built-in hospitals annotate their own types
TUNE = "tune"  # one more sampling, to choose rates on
ALL_SAMPLINGS = (*map(str, range(SAMPLINGS)), TUNE)
FEWEST_TRAINED = 40  # training mentions of a type at a site that may annotate it
# The genre of GUM that is nearest to each of OntoNotes', in the order of Table 1. GUM has neither telephone calls nor
# broadcasts: conversations face to face, speeches that were written to be heard, interviews; Wikivoyage is the web.
GENRES = {"news": "nw", "conversation": "tc", "voyage": "wb", "speech": "bn", "interview": "bc", "bio": "mz"}
GUM_TYPES = ("person", "place", "organization", "abstract", "event", "object", "time")
GUM_TRAINING = 1000  # sentences of a genre
BIO_TYPES = ("Gene", "Chemical", "Organism", "Disease", "Cellular_component")
BIO_SIZES = PartSizes(train=1500, dev=300, test=1000)
Hospitals = Mapping[str, Mapping[str, SyntheticSite]]  # by sampling and name


# Reading.


def read_gum(folder: Path, *, seed: int) -> dict[str, Site]:
    """Read the six genres with their official parts; training parts are cut."""
    found = {}
    for genre in GENRES:
        reader = Conll(tag_column=2, delimiter="tab")
        parts = {part: list(reader.read(folder / "bio" / genre / f"{part}.tsv")) for part in PARTS}
        train = cut(parts["train"], GUM_TRAINING, f"{seed}/{genre}/train")
        found[genre] = Site(GUM_TYPES, train, parts["dev"], parts["test"])
    return found


def read_bio(data: Path, *, seed: int) -> dict[str, Site]:
    """Read three corpora with their own type names, without a test sentence of one in another's training part."""
    corpora = data / "mtl_bioinformatics_2016"
    whole = {
        "biored": read_biored(data / "biored"),
        "bionlp13cg": read_iob(corpora / "BioNLP13CG-IOB"),
        "bionlp13pc": read_iob(corpora / "BioNLP13PC-IOB"),
    }
    return without_leaks(whole, BIO_SIZES, seed=seed)


def in_study_names(site: str, documents: Iterable[Document]) -> list[Document]:
    """Rename the types of a corpus as a study does when it reads it."""
    names = tomllib.loads((HERE / "names" / f"{site}.toml").read_text(encoding="utf-8"))
    return [TagSet.rename(document, names) for document in documents]


def read_hospitals(samplings: Sequence[str]) -> Hospitals:
    """Return the built-in hospitals of each sampling; the place of a sampling is the seed of its notes."""
    return {name: {own.name: own for own in clinical_hospitals(seed)} for seed, name in enumerate(samplings)}


def complete(hospitals: Mapping[str, SyntheticSite]) -> dict[str, Site]:
    """Return the hospitals with complete annotation."""
    whole = {name: hospital.complete for name, hospital in hospitals.items()}
    return {name: Site(CLINICAL_TYPES, own.train, own.dev, own.test) for name, own in whole.items()}


# Counting and drawing.


def mentions(documents: Iterable[Document], types: Sequence[str]) -> dict[str, int]:
    """Count the mentions of each type of the study."""
    counted = Counter(entity.type for document in documents for entity in document.entities)
    return {kind: counted[kind] for kind in types if counted[kind]}


def annotatable(train: Mapping[str, Sequence[Document]], types: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return by site the types that its training notes have enough of."""
    counted = {site: mentions(documents, types) for site, documents in train.items()}
    return {site: tuple(k for k, number in own.items() if number >= FEWEST_TRAINED) for site, own in counted.items()}


def samplings(sampler: Sampler, able: Annotatable, corpus: str) -> dict[str, TagSets]:
    """Draw the samplings that are measured, by their seed, and the one that rates are chosen on."""
    found = drawn(sampler, [able] * len(ALL_SAMPLINGS), corpus)
    return dict(zip(ALL_SAMPLINGS, found, strict=True))


def hospital_samplings(hospitals: Hospitals) -> dict[str, TagSets]:
    """Return the hospitals' own tag sets, then drawn ones; each sampling has its own notes."""
    first, *others = hospitals.values()
    able = [annotatable({n: h.complete.train for n, h in own.items()}, CLINICAL_TYPES) for own in others]
    found = [{name: hospital.types for name, hospital in first.items()}, *drawn(overlapping, able, "synthetic")]
    return dict(zip(hospitals, found, strict=True))


# Writing.


def write_group(group: Group, folder: Path) -> None:
    """Write a folder per site."""
    for name, site in group.items():
        for part, documents in site.parts.items():
            Jsonl().write(documents, folder / name / f"{part}.jsonl.gz")


def described(parts: Mapping[str, Sequence[Document]], types: Sequence[str]) -> dict[str, Any]:
    """Return the types of a site's test notes, and the sentences and mentions of each part."""
    own: dict[str, Any] = {}
    for part, documents in parts.items():
        sentences = sum(1 if document.sentences is None else len(document.sentences) for document in documents)
        own[part] = {"sentences": sentences, "mentions": mentions(documents, types)}
    return {"scored": [kind for kind in types if kind in own["test"]["mentions"]], **own}


def write_gum(group: Group, out: Path) -> dict[str, Any]:
    """Write both groups of GUM and return their description."""
    write_group(group, out / "gum")
    tuned = {name: Site(site.types, site.train, site.dev, site.dev) for name, site in group.items()}
    write_group(tuned, out / f"gum-{TUNE}")
    able = annotatable({name: site.train for name, site in group.items()}, GUM_TYPES)
    return {
        "types": list(GUM_TYPES),
        "sites": {name: described(site.parts, GUM_TYPES) for name, site in group.items()},
        "samplings": samplings(disjoint, able, "gum"),
    }


def write_bio(group: Group, out: Path) -> dict[str, Any]:
    """Write the three corpora and their mapping files, and return their description."""
    write_group(group, out / "bio")
    shutil.copytree(HERE / "names", out / "bio" / "names", dirs_exist_ok=True)
    renamed = {n: {part: in_study_names(n, found) for part, found in s.parts.items()} for n, s in group.items()}
    able = annotatable({name: parts["train"] for name, parts in renamed.items()}, BIO_TYPES)
    return {
        "types": list(BIO_TYPES),
        "names": {name: f"bio/names/{name}.toml" for name in group},
        "sites": {name: described(parts, BIO_TYPES) for name, parts in renamed.items()},
        "samplings": samplings(overlapping, able, "bio"),
    }


def write_synthetic(hospitals: Hospitals, out: Path) -> dict[str, Any]:
    """Write the hospitals of every sampling and return their description, with the sizes of the first sampling."""
    groups = {name: complete(own) for name, own in hospitals.items()}
    for name, group in groups.items():
        write_group(group, out / "synthetic" / name)
    first = next(iter(groups.values()))
    return {
        "types": list(CLINICAL_TYPES),
        "sites": {name: described(site.parts, CLINICAL_TYPES) for name, site in first.items()},
        "samplings": hospital_samplings(hospitals),
    }


# What was written.


class TagSites(SiteFolder):
    """The folder that `main` wrote."""

    def names(self, corpus: str) -> list[str]:
        """Return the sites of a corpus."""
        return list(self.described[corpus]["sites"])

    def tag_sets(self, corpus: str, sampling: str) -> TagSets:
        """Return the types that each site annotates."""
        return {site: tuple(types) for site, types in self.described[corpus]["samplings"][sampling].items()}

    def scored(self, corpus: str, site: str) -> tuple[str, ...]:
        """Return the types that a site's test notes are annotated with."""
        return tuple(self.described[corpus]["sites"][site]["scored"])

    def sentences(self, corpus: str, part: str) -> int:
        """Return the sentences of all sites together."""
        return sum(int(site[part]["sentences"]) for site in self.described[corpus]["sites"].values())

    def vectors(self, corpus: str) -> Path:
        """Return the word vectors of a corpus."""
        return self.path / f"{corpus}.npz"

    def sections(self, corpus: str, sampling: str, *, complete: bool = False) -> dict[str, dict[str, Any]]:
        """Return the section [sites] of a study file, with `complete` annotation or with the sampled types."""
        found = {}
        for site, types in self.tag_sets(corpus, sampling).items():
            scored = self.scored(corpus, site)
            annotated = scored if complete else types
            built_in = corpus == "synthetic" and sampling == OWN and not complete
            place = {"built_in": site} if built_in else self._place(corpus, sampling, site)
            found[site] = {**place, "types": list(annotated), "scored": list(scored)}
        return found

    def _place(self, corpus: str, sampling: str, site: str) -> dict[str, str]:
        folder = self.path / (f"{corpus}-{TUNE}" if sampling == TUNE else corpus)
        if corpus == "synthetic":
            folder = self.path / corpus / sampling
        names = self.described[corpus].get("names", {})
        mapped = {"names": str(self.path / names[site])} if site in names else {}
        return {"data": str(folder / site), "format": "jsonl", **mapped}


def main() -> None:
    """Make all groups."""
    parser = corpus_arguments(__doc__)
    parser.add_argument("--vectors", type=Path, help="instead of the GloVe vectors below --data")
    options = parser.parse_args()
    gum, bio = read_gum(options.data / "gum", seed=options.seed), read_bio(options.data, seed=options.seed)
    hospitals = read_hospitals(ALL_SAMPLINGS)
    described_corpora = {
        "gum": write_gum(gum, options.out),
        "bio": write_bio(bio, options.out),
        "synthetic": write_synthetic(hospitals, options.out),
    }
    write_description(described_corpora, options.out)
    notes = {
        "gum": documents_of([gum]),
        "bio": documents_of([bio]),
        "synthetic": documents_of(complete(own) for name, own in hospitals.items() if name != TUNE),
    }
    for corpus, documents in notes.items():
        write_vectors(options.vectors or options.data / GLOVE, options.out / f"{corpus}.npz", spellings(documents))


if __name__ == "__main__":
    main()
