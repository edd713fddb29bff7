"""Make the sites of the transfer study: for each corpus a large source and a small target.

    python -m papers.transfer.make_sites --data ../shared/data --out runs/transfer/sites

    meddocan/source, target     MEDDOCAN by journal: the target is the two of urology, the source all others
    meddocan/official           MEDDOCAN as its shared task split it
    synthetic/source, target    the built-in hospitals for de-identification
    presidio/target             presidio-research's English texts; its source is that of the synthetic hospitals
    english.npz                 the GloVe vectors of the words that occur in the English notes
    sites.json                  sizes, and the types of each site

Notes stay whole: a fraction of a training part is a fraction of its notes. The parts of MEDDOCAN are the official ones;
an abbreviation such as "Km." does not end a sentence in its notes. Texts of presidio made from one template are in one
part. Its types have i2b2's names, like those of the hospitals, so that labels with one meaning have one name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from papers.common.sites import (
    GLOVE,
    PARTS,
    SiteFolder,
    corpus_arguments,
    cut,
    spellings,
    write_description,
    write_vectors,
)

from wardround.corpora.brat import Brat
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.synthetic import PhiConfig, SyntheticSite, phi_hospitals
from wardround.text.document import Document, Range
from wardround.text.phi_tag_sets import to_i2b2
from wardround.text.segmentation import sentences_of, words_of
from wardround.text.tag_sets import TagSet

Parts: TypeAlias = Mapping[str, Sequence[Document]]
Sites: TypeAlias = Mapping[str, Parts]  # by name: source, target, official

__all__ = ["SOURCE_OF", "TransferSites", "read_meddocan", "read_presidio", "write_sites"]

SOURCE_OF = {"meddocan": "meddocan", "synthetic": "synthetic", "presidio": "synthetic"}
ENGLISH = ("synthetic", "presidio")
# Archivos Españoles de Urología and Actas Urológicas Españolas, by the ISSN at the beginning of a note's name.
UROLOGY = ("S0004-0614", "S0210-4806")
HOSPITALS = PhiConfig(target_notes=(200, 40, 120))  # more than by default: a twentieth of fewer is three notes
SCORED_EACH_EPOCH = {"source": 60, "target": 20}  # development notes of MEDDOCAN that are kept
_PRESIDIO_PARTS = {"train": 0.6, "dev": 0.1}  # of the templates; the rest is the test part
# Abbreviations in addresses, beyond those that end no sentence in any language.
_ABBREVIATED = re.compile(r"\b(?:av|crt|cra|pl|urb|edf|esc|km|col|nnal)\.\Z", re.IGNORECASE)
_VECTORS = "english.npz"


# Reading.


def read_meddocan(folder: Path, *, seed: int) -> dict[str, Parts]:
    """Read MEDDOCAN, split by journal and as in its shared task."""
    read = {part: Brat().read(folder / "corpus" / part / "brat") for part in PARTS}
    whole = {part: [with_spanish_sentences(note) for note in notes] for part, notes in read.items()}
    sites: dict[str, Parts] = {}
    for name, urology in (("source", False), ("target", True)):
        own = {part: [note for note in notes if is_urology(note) is urology] for part, notes in whole.items()}
        sites[name] = {**own, "dev": cut(own["dev"], SCORED_EACH_EPOCH[name], f"{seed}/{name}/dev")}
    return {**sites, "official": whole}


def is_urology(note: Document) -> bool:
    """Return whether a case comes from a journal of urology."""
    return Path(note.id).name.startswith(UROLOGY)


def with_spanish_sentences(note: Document) -> Document:
    """Return the note with its sentences, none of which ends in an abbreviation of an address."""
    sentences: list[Range] = []
    for sentence in sentences_of(note):
        on_one_line = sentences and "\n" not in note.text[sentences[-1].end : sentence.start]
        if on_one_line and _ABBREVIATED.search(note.text, *sentences[-1]):
            sentence = Range(sentences.pop().start, sentence.end)
        sentences.append(sentence)
    return replace(note, sentences=tuple(sentences))


def read_presidio(file: Path, *, seed: int) -> dict[str, Parts]:
    """Read presidio's texts, split by template, with i2b2's names for types where it has one."""
    texts = [with_names_of_i2b2(text) for text in Jsonl(shape="presidio").read(file)]
    return {"target": split_by_group(texts, template_of, seed=seed)}


def with_names_of_i2b2(text: Document) -> Document:
    """Rename the types; a type without a name in i2b2 keeps its own."""
    return TagSet.rename(text, {entity.type: to_i2b2(entity.type) or entity.type for entity in text.entities})


def template_of(text: Document) -> str:
    """Return the template of a text."""
    return dict(text.attributes)["template_id"]


def split_by_group(
    texts: Sequence[Document], group_of: Callable[[Document], str], *, seed: int
) -> dict[str, list[Document]]:
    """Split texts into three parts; the texts of a group are all in one part."""
    groups = sorted(set(map(group_of, texts)), key=lambda group: sha256(f"{seed}:{group}".encode()).digest())
    ends = [round(sum(list(_PRESIDIO_PARTS.values())[:count]) * len(groups)) for count in (1, 2)]
    members = dict(zip(PARTS, (groups[: ends[0]], groups[ends[0] : ends[1]], groups[ends[1] :]), strict=True))
    return {part: [text for text in texts if group_of(text) in set(own)] for part, own in members.items()}


def hospital_parts(hospital: SyntheticSite) -> Parts:
    """Return the parts of a built-in hospital."""
    return {"train": hospital.train, "dev": hospital.dev, "test": hospital.test}


# Writing.


def described(parts: Parts) -> dict[str, Any]:
    """Return the types of the training notes and the sizes of each part."""
    return {"types": list(TagSet.of(parts["train"]).types), **{part: sizes(parts[part]) for part in PARTS}}


def sizes(notes: Iterable[Document]) -> dict[str, int]:
    """Count notes, sentences, words and mentions."""
    held = list(notes)
    return {
        "notes": len(held),
        "sentences": sum(len(sentences_of(note)) for note in held),
        "words": sum(len(words_of(note)) for note in held),
        "mentions": sum(len(note.entities) for note in held),
    }


def write_sites(corpora: Mapping[str, Sites], out: Path) -> None:
    """Write a folder per site, and their description."""
    for corpus, sites in corpora.items():
        for name, parts in sites.items():
            for part in PARTS:
                Jsonl().write(parts[part], out / corpus / name / f"{part}.jsonl.gz")
    write_description({c: {n: described(parts) for n, parts in sites.items()} for c, sites in corpora.items()}, out)


# What was written.


class TransferSites(SiteFolder):
    """The folder that `main` wrote."""

    def data(self, corpus: str, site: str) -> Path:
        """Return the folder of a site's notes."""
        return self.path / corpus / site

    def vectors(self, corpus: str) -> Path | None:
        """Return the word vectors of a corpus, if there are any in its language."""
        return self.path / _VECTORS if corpus in ENGLISH else None

    def count(self, corpus: str, site: str, part: str, what: str = "sentences") -> int:
        """Return a size of a part: notes, sentences, words or mentions."""
        return int(self.described[corpus][site][part][what])


def main() -> None:
    """Make all sites."""
    options = corpus_arguments(__doc__).parse_args()
    source, target = phi_hospitals(options.seed, config=HOSPITALS)
    corpora: dict[str, Sites] = {
        "meddocan": read_meddocan(options.data / "meddocan", seed=options.seed),
        "synthetic": {"source": hospital_parts(source), "target": hospital_parts(target)},
        "presidio": read_presidio(options.data / "presidio_synth" / "synth_dataset_v2.json", seed=options.seed),
    }
    write_sites(corpora, options.out)
    english = (note for c in ENGLISH for parts in corpora[c].values() for notes in parts.values() for note in notes)
    write_vectors(options.data / GLOVE, options.out / _VECTORS, spellings(english))


if __name__ == "__main__":
    main()
