"""Write the texts that a small BART is trained on: the training parts of the English corpora, without test sentences.

    python -m papers.tagsets.bart_texts --data ../shared/data --sites runs/tagsets/sites --out runs/tagsets/texts.txt

A line has up to eight consecutive sentences of a corpus. A sentence that shares eight consecutive words with a test or
development sentence of a site is left out. Notes of the synthetic hospitals are not used.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from papers.common.sites import runs_of, sentences, unseen
from papers.tagsets.make_sites import TagSites

from wardround.corpora.conll import Conll
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pubtator import Pubtator
from wardround.text.document import Document

__all__ = ["held_out", "lines_of", "main", "read_texts"]

CORPORA = ("gum", "bio")  # no sentence of their test and development notes is used
_TOGETHER = 8  # sentences


def read_texts(data: Path) -> Iterator[list[Document]]:
    """Yield the sentences of each corpus, in their order."""
    for path in sorted((data / "gum" / "bio").glob("*/train.tsv")):
        yield list(Conll(tag_column=2, delimiter="tab").read(path))
    for path in sorted((data / "mtl_bioinformatics_2016").glob("*-IOB/train.tsv")):
        yield list(Conll(delimiter="tab").read(path))
    yield [s for document in Pubtator().read(data / "biored" / "Train.PubTator") for s in sentences(document)]
    yield list(_case_reports(data / "ade_corpus_v2" / "ADE-NEG.txt"))


def _case_reports(path: Path) -> Iterator[Document]:
    """Read lines of the form `PMID NEG sentence`."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition(" NEG ")[2].strip()
        if text:
            yield Document(f"ade-{number}", text)


def held_out(sites: TagSites) -> Iterator[Iterator[Document]]:
    """Yield the test and development notes of the study."""
    for corpus in CORPORA:
        for site in sites.names(corpus):
            for part in ("dev", "test"):
                yield Jsonl().read(sites.path / corpus / site / f"{part}.jsonl.gz")


def lines_of(documents: Sequence[Document]) -> Iterator[str]:
    """Yield lines of consecutive sentences."""
    for start in range(0, len(documents), _TOGETHER):
        yield " ".join(" ".join(document.text.split()) for document in documents[start : start + _TOGETHER])


def main() -> None:
    """Write the texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the corpora")
    parser.add_argument("--sites", type=Path, required=True, help="the folder make_sites wrote")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    options = parser.parse_args()
    seen = runs_of(held_out(TagSites.read(options.sites)))
    lines = [line for documents in read_texts(options.data) for line in lines_of(unseen(documents, seen))]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines):,} lines, {sum(len(line.split()) for line in lines):,} words")


if __name__ == "__main__":
    main()
