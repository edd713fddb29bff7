"""The sites of the study: for each corpus a large source and a small target.

    python -m papers.transfer.make_sites --data ../shared/data --out runs/transfer/sites

    meddocan/source, target     MEDDOCAN by journal: the target is the two of urology, the source all others
    meddocan/official           MEDDOCAN as its shared task parted it
    synthetic/source, target    the built-in hospitals for de-identification
    presidio/target             presidio-research's English texts; its source is that of the synthetic hospitals
    english.npz                 the GloVe vectors of the words that occur in the English notes
    sites.json                  sizes, and the types of each site

Notes stay whole: a fraction of a training part is a fraction of its notes. Parts of MEDDOCAN are the official ones; in
its notes an abbreviation as "Km." ends no sentence. Texts of presidio that were made from one template are in one
part. Its types have i2b2's names, as those of the hospitals have, so that labels which mean the same are the same.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from papers.common.cuts import cut, spellings, write_vectors
from papers.common.sites import PARTS

from wardround.corpora.brat import Brat
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.synthetic import PhiConfig, SyntheticSite, phi_hospitals
from wardround.text.document import Document, Range
from wardround.text.phi_tag_sets import to_i2b2
from wardround.text.segmentation import sentences_of, words_of
from wardround.text.tag_sets import TagSet

Parts: TypeAlias = Mapping[str, Sequence[Document]]
Sites: TypeAlias = Mapping[str, Parts]  # by name: source, target, official

CORPORA = ("meddocan", "synthetic", "presidio")
SOURCE_OF = {"meddocan": "meddocan", "synthetic": "synthetic", "presidio": "synthetic"}
ENGLISH = ("synthetic", "presidio")
# Archivos Españoles de Urología and Actas Urológicas Españolas, by the ISSN that a note's name begins with.
UROLOGY = ("S0004-0614", "S0210-4806")
HOSPITALS = PhiConfig(target_notes=(200, 40, 120))  # more than by default: of fewer, a twentieth is three notes
SCORED_EACH_EPOCH = {"source": 60, "target": 20}  # development notes of MEDDOCAN that are kept
_PRESIDIO_PARTS = {"train": 0.6, "dev": 0.1}  # of the templates; the rest is the test part
# Of streets, roads and buildings, beyond those that end no sentence in any language.
_ABBREVIATED = re.compile(r"\b(?:av|crt|cra|pl|urb|edf|esc|km|col|nnal)\.\Z", re.IGNORECASE)
_DESCRIPTION, _VECTORS = "sites.json", "english.npz"


# Reading.


def read_meddocan(folder: Path, *, seed: int) -> dict[str, Parts]:
    """By journal, and as the shared task had it."""
    read = {part: Brat().read(folder / "corpus" / part / "brat") for part in PARTS}
    whole = {part: [with_spanish_sentences(note) for note in notes] for part, notes in read.items()}
    sites: dict[str, Parts] = {}
    for name, wanted in (("source", False), ("target", True)):
        own = {part: [note for note in notes if is_urology(note) is wanted] for part, notes in whole.items()}
        sites[name] = {**own, "dev": cut(own["dev"], SCORED_EACH_EPOCH[name], f"{seed}/{name}/dev")}
    return {**sites, "official": whole}


def is_urology(note: Document) -> bool:
    """Whether a case comes from a journal of urology."""
    return Path(note.id).name.startswith(UROLOGY)


def with_spanish_sentences(note: Document) -> Document:
    """The note with sentences of its own: those that are found, but none ends in an abbreviation of an address."""
    sentences: list[Range] = []
    for sentence in sentences_of(note):
        on_one_line = sentences and "\n" not in note.text[sentences[-1].end : sentence.start]
        if on_one_line and _ABBREVIATED.search(note.text, *sentences[-1]):
            sentence = Range(sentences.pop().start, sentence.end)
        sentences.append(sentence)
    return replace(note, sentences=tuple(sentences))


def read_presidio(file: Path, *, seed: int) -> dict[str, Parts]:
    """The texts parted by template, under i2b2's names where it has one."""
    texts = [with_names_of_i2b2(text) for text in Jsonl(shape="presidio").read(file)]
    return {"target": parted(texts, template_of, seed=seed)}


def with_names_of_i2b2(text: Document) -> Document:
    """A type that i2b2 has no name for keeps its own."""
    return TagSet.rename(text, {entity.type: to_i2b2(entity.type) or entity.type for entity in text.entities})


def template_of(text: Document) -> str:
    """What the text was made from."""
    return dict(text.attributes)["template_id"]


def parted(texts: Sequence[Document], group_of: Callable[[Document], str], *, seed: int) -> dict[str, list[Document]]:
    """Texts in three parts so that those of one group are in one of them."""
    groups = sorted(set(map(group_of, texts)), key=lambda group: sha256(f"{seed}:{group}".encode()).digest())
    ends = [round(sum(list(_PRESIDIO_PARTS.values())[:count]) * len(groups)) for count in (1, 2)]
    members = dict(zip(PARTS, (groups[: ends[0]], groups[ends[0] : ends[1]], groups[ends[1] :]), strict=True))
    return {part: [text for text in texts if group_of(text) in set(own)] for part, own in members.items()}


def hospital_parts(hospital: SyntheticSite) -> Parts:
    """Of a hospital that is built in."""
    return {"train": hospital.train, "dev": hospital.dev, "test": hospital.test}


# Writing.


def described(parts: Parts) -> dict[str, Any]:
    """The types of the training notes, and how much there is in each part."""
    return {"types": list(TagSet.of(parts["train"]).types), **{part: sizes(parts[part]) for part in PARTS}}


def sizes(notes: Iterable[Document]) -> dict[str, int]:
    """Notes, sentences, words and mentions."""
    held = list(notes)
    return {
        "notes": len(held),
        "sentences": sum(len(sentences_of(note)) for note in held),
        "words": sum(len(words_of(note)) for note in held),
        "mentions": sum(len(note.entities) for note in held),
    }


def write_sites(corpora: Mapping[str, Sites], out: Path) -> None:
    """A folder a site, and what is in all of them."""
    for corpus, sites in corpora.items():
        for name, parts in sites.items():
            for part in PARTS:
                Jsonl().write(parts[part], out / corpus / name / f"{part}.jsonl.gz")
    said = {corpus: {name: described(parts) for name, parts in sites.items()} for corpus, sites in corpora.items()}
    (out / _DESCRIPTION).write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


# What was written.


@dataclass(frozen=True)
class TransferSites:
    """A folder that `main` wrote."""

    path: Path
    described: Mapping[str, Mapping[str, Mapping[str, Any]]]

    @classmethod
    def read(cls, path: Path) -> TransferSites:
        """What lies in the folder."""
        return cls(path.resolve(), json.loads((path / _DESCRIPTION).read_text(encoding="utf-8")))

    def data(self, corpus: str, site: str) -> Path:
        """Where a site's notes are."""
        return self.path / corpus / site

    def vectors(self, corpus: str) -> Path | None:
        """Of the words of a corpus, where there are any in its language."""
        return self.path / _VECTORS if corpus in ENGLISH else None

    def count(self, corpus: str, site: str, part: str, what: str = "sentences") -> int:
        """How much of something a part has."""
        return int(self.described[corpus][site][part][what])


def main() -> None:
    """Make all sites."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the corpora and the word vectors")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    source, target = phi_hospitals(asked.seed, config=HOSPITALS)
    corpora: dict[str, Sites] = {
        "meddocan": read_meddocan(asked.data / "meddocan", seed=asked.seed),
        "synthetic": {"source": hospital_parts(source), "target": hospital_parts(target)},
        "presidio": read_presidio(asked.data / "presidio_synth" / "synth_dataset_v2.json", seed=asked.seed),
    }
    write_sites(corpora, asked.out)
    english = (note for c in ENGLISH for parts in corpora[c].values() for notes in parts.values() for note in notes)
    vectors = asked.data / "word_vectors" / "glove6B_100d_subset_f16.npz"
    write_vectors(vectors, asked.out / _VECTORS, spellings(english))


if __name__ == "__main__":
    main()
