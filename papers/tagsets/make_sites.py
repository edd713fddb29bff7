"""The sites of the study, and who annotates what.

    python -m papers.tagsets.make_sites --data ../shared/data --out runs/tagsets/sites

    gum/SITE                    six genres of GUM; gum-tune/SITE, the same with the development part as test part
    bio/SITE                    BioRED, BioNLP13CG, BioNLP13PC, each with its own names; bio/names/SITE.toml maps them
    synthetic/SAMPLING/SITE     the built-in hospitals, written anew for each sampling, with complete annotation; in
                                the sampling `tune` they are others than in all tables
    CORPUS.npz                  the GloVe vectors of the words that occur in it
    sites.json                  types, sizes, mentions, and the samplings of tag sets

Every document of a corpus is one sentence, of a hospital a note. Every part has all annotation that there is: a study
says what a site may see of it. A built-in hospital never shows more than it annotates itself, so it is read from here
where it is to annotate something else.

GUM: `all` mentions, for of those with a name only four types occur in every genre, and six sites need six at least. A
type belongs to the complete set where five of the six genres could teach it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from papers.common.cuts import PartSizes, cut, documents_of, spellings, without_leaks, write_vectors
from papers.common.sites import PARTS, Group, Site, read_biored, read_iob
from papers.tagsets.samplings import Annotatable, Sampler, TagSets, disjoint, drawn, overlapping

from wardround.corpora.conll import Conll
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.synthetic import SyntheticSite, clinical_hospitals
from wardround.corpora.synthetic.clinical_notes import CLINICAL_TYPES
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

HERE = Path(__file__).resolve().parent
SAMPLINGS = 5
OWN = "0"  # the sampling in which the built-in hospitals annotate what they do by themselves
TUNE = "tune"  # one more sampling, to choose rates by
ALL_SAMPLINGS = (*map(str, range(SAMPLINGS)), TUNE)
FEWEST_TRAINED = 40  # training mentions of a type at a site that is to teach it to the others
# The genre of GUM that is nearest to each of OntoNotes', in the order of Table 1. GUM has neither telephone calls nor
# broadcasts: conversations face to face, speeches that were written to be heard, interviews; Wikivoyage is the web.
GENRES = {"news": "nw", "conversation": "tc", "voyage": "wb", "speech": "bn", "interview": "bc", "bio": "mz"}
GUM_TYPES = ("person", "place", "organization", "abstract", "event", "object", "time")
GUM_SIZES = PartSizes(train=1000, dev=0, test=0)
BIO_TYPES = ("Gene", "Chemical", "Organism", "Disease", "Cellular_component")
BIO_SIZES = PartSizes(train=1500, dev=300, test=1000)
Hospitals = Mapping[str, Mapping[str, SyntheticSite]]  # by sampling and name
_GUM = Conll(tag_column=2, delimiter="tab")
_DESCRIPTION = "sites.json"


# Reading.


def read_gum(folder: Path, *, seed: int) -> dict[str, Site]:
    """The six genres with their official parts, training parts cut."""
    return {genre: _genre(folder / "bio" / genre, seed=seed) for genre in GENRES}


def _genre(folder: Path, *, seed: int) -> Site:
    parts = {part: list(_GUM.read(folder / f"{part}.tsv")) for part in PARTS}
    train = cut(parts["train"], GUM_SIZES.train, f"{seed}/{folder.name}/train")
    return Site(GUM_TYPES, train, parts["dev"], parts["test"])


def read_bio(data: Path, *, seed: int) -> dict[str, Site]:
    """Three corpora with their own names for types, without a test sentence of one in the training part of another."""
    corpora = data / "mtl_bioinformatics_2016"
    whole = {
        "biored": read_biored(data / "biored"),
        "bionlp13cg": read_iob(corpora / "BioNLP13CG-IOB"),
        "bionlp13pc": read_iob(corpora / "BioNLP13PC-IOB"),
    }
    return without_leaks(whole, BIO_SIZES, seed=seed)


def in_study_names(site: str, documents: Iterable[Document]) -> list[Document]:
    """A corpus's documents as the study reads them."""
    names = tomllib.loads((HERE / "names" / f"{site}.toml").read_text(encoding="utf-8"))
    return [TagSet.rename(document, names) for document in documents]


def read_hospitals(samplings: Sequence[str]) -> Hospitals:
    """The built-in hospitals as each sampling has them, which is the seed of their notes in this order."""
    return {name: {own.name: own for own in clinical_hospitals(seed)} for seed, name in enumerate(samplings)}


def complete(hospitals: Mapping[str, SyntheticSite]) -> dict[str, Site]:
    """With the annotation that no hospital sees whole."""
    whole = {name: hospital.complete for name, hospital in hospitals.items()}
    return {name: Site(CLINICAL_TYPES, own.train, own.dev, own.test) for name, own in whole.items()}


# Counting and drawing.


def mentions(documents: Iterable[Document], types: Sequence[str]) -> dict[str, int]:
    """By type of the study."""
    counted = Counter(entity.type for document in documents for entity in document.entities)
    return {kind: counted[kind] for kind in types if counted[kind]}


def annotatable(train: Mapping[str, Sequence[Document]], types: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By site, the types that its training notes have enough of."""
    counted = {site: mentions(documents, types) for site, documents in train.items()}
    return {site: tuple(k for k, number in own.items() if number >= FEWEST_TRAINED) for site, own in counted.items()}


def samplings(sampler: Sampler, able: Annotatable, corpus: str) -> dict[str, TagSets]:
    """Those that are measured, by their seed, and the one that rates are chosen on."""
    found = drawn(sampler, [able] * len(ALL_SAMPLINGS), corpus)
    return dict(zip(ALL_SAMPLINGS, found, strict=True))


def hospital_samplings(hospitals: Hospitals) -> dict[str, TagSets]:
    """The tag sets that the hospitals have, then drawn ones; the notes of each sampling are its own."""
    first, *others = hospitals.values()
    able = [annotatable({n: h.complete.train for n, h in own.items()}, CLINICAL_TYPES) for own in others]
    found = [{name: hospital.types for name, hospital in first.items()}, *drawn(overlapping, able, "synthetic")]
    return dict(zip(hospitals, found, strict=True))


# Writing.


def write_group(group: Group, folder: Path) -> None:
    """A folder a site."""
    for name, site in group.items():
        for part, documents in site.parts.items():
            Jsonl().write(documents, folder / name / f"{part}.jsonl.gz")


def described(parts: Mapping[str, Sequence[Document]], types: Sequence[str]) -> dict[str, Any]:
    """What a site's test notes are annotated with, and how many sentences and mentions each part has."""
    own: dict[str, Any] = {
        part: {"sentences": _sentences(documents), "mentions": mentions(documents, types)}
        for part, documents in parts.items()
    }
    return {"scored": [kind for kind in types if kind in own["test"]["mentions"]], **own}


def _sentences(documents: Sequence[Document]) -> int:
    return sum(1 if document.sentences is None else len(document.sentences) for document in documents)


def write_gum(group: Group, out: Path) -> dict[str, Any]:
    """Both groups of GUM; returns what is in them."""
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
    """The three corpora and their mapping files; returns what is in them."""
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
    """The hospitals of every sampling; sizes that are returned are those of the first."""
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


@dataclass(frozen=True)
class TagSites:
    """A folder that `main` wrote."""

    path: Path
    described: Mapping[str, Mapping[str, Any]] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> TagSites:
        """What lies in the folder."""
        return cls(path.resolve(), json.loads((path / _DESCRIPTION).read_text(encoding="utf-8")))

    def names(self, corpus: str) -> list[str]:
        """The sites of a corpus."""
        return list(self.described[corpus]["sites"])

    def tag_sets(self, corpus: str, sampling: str) -> TagSets:
        """What each site annotates."""
        return {site: tuple(types) for site, types in self.described[corpus]["samplings"][sampling].items()}

    def scored(self, corpus: str, site: str) -> tuple[str, ...]:
        """What its test notes are annotated with."""
        return tuple(self.described[corpus]["sites"][site]["scored"])

    def sentences(self, corpus: str, part: str) -> int:
        """Of all sites together."""
        return sum(int(site[part]["sentences"]) for site in self.described[corpus]["sites"].values())

    def vectors(self, corpus: str) -> Path:
        """Of the words that occur in it."""
        return self.path / f"{corpus}.npz"

    def sections(self, corpus: str, sampling: str, *, complete: bool = False) -> dict[str, dict[str, Any]]:
        """The part of a study file that says who takes part; with `complete` annotation, or with what is sampled."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the corpora and the word vectors")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vectors", type=Path, help="instead of the GloVe subset below --data")
    asked = parser.parse_args()
    gum, bio = read_gum(asked.data / "gum", seed=asked.seed), read_bio(asked.data, seed=asked.seed)
    hospitals = read_hospitals(ALL_SAMPLINGS)
    said = {
        "gum": write_gum(gum, asked.out),
        "bio": write_bio(bio, asked.out),
        "synthetic": write_synthetic(hospitals, asked.out),
    }
    (asked.out / _DESCRIPTION).write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    notes = {
        "gum": documents_of([gum]),
        "bio": documents_of([bio]),
        "synthetic": documents_of(complete(own) for name, own in hospitals.items() if name != TUNE),
    }
    vectors = asked.vectors or asked.data / "word_vectors" / "glove6B_100d_subset_f16.npz"
    for corpus, documents in notes.items():
        write_vectors(vectors, asked.out / f"{corpus}.npz", spellings(documents))


if __name__ == "__main__":
    main()
