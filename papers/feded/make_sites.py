"""Make the sites of the FedED study: one corpus among many sites, and a public set.

python -m papers.feded.make_sites --data ../shared/data --out runs/feded/sites

CORPUS/DRAW/public.jsonl               a fifth of the training part, which all sites and the coordinator read
CORPUS/DRAW/sites/site-001/train.jsonl the rest, dealt out at random
CORPUS/DRAW/all/all/train.jsonl        the whole training part at one site
CORPUS/DRAW/test.jsonl                 what the central model is scored on
sites.json                             relations and sizes

A draw is `seed-N` (GAD: fold N mod 5 + 1; EU-ADR: fold N mod 10 + 1; BioRED: documents drawn from its training part),
or `tune`, which is scored on a tenth of the training part. Nothing is chosen on the development part of a site; as a
study needs one, it is the site's first document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from papers.common.sites import SiteFolder, corpus_arguments, write_description

from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pair_tsv import PairTsv
from wardround.corpora.partition import by_size
from wardround.corpora.pubtator import Pubtator
from wardround.tasks.relation_instances import PairRules, labelled_instances
from wardround.text.document import Document, Level
from wardround.text.relation_sets import RelationSet, RelationType

__all__ = ["SITES", "TUNE", "Draws", "Parts", "pairs", "read", "site_names", "task_section", "tuning", "write_draw"]

SITES = {"gad": 50, "euadr": 50, "biored": 100}  # K
SEEDS = {"gad": 5, "euadr": 10, "biored": 3}  # number of draws
PUBLIC = 0.2
HELD_OUT = 0.1  # of the training part, to choose rates on
TUNED_ON, TUNE = "gad", "tune"
DRAWN = 240  # training documents of BioRED: about as many pairs as the paper's third corpus has, 10,231
_FOLDS = {"gad": ("GAD", 5), "euadr": ("euadr", 10)}
_TUNING_SEED = 1000  # no measured run has it
_ASSOCIATION = RelationSet((RelationType("association", ()),), directed=False)


@dataclass(frozen=True)
class Parts:
    """One draw of a corpus."""

    relations: RelationSet
    train: Sequence[Document] = field(repr=False)
    test: Sequence[Document] = field(repr=False)


# Reading.


def read(data: Path, corpus: str, seed: int) -> Parts:
    """Read the training and test part that go with a seed."""
    if corpus == "biored":
        return _biored(data / "biored", seed)
    name, folds = _FOLDS[corpus]
    folder = data / "biobert_re" / name / str(seed % folds + 1)
    train, test = (list(PairTsv().read(folder / f"{part}.tsv")) for part in ("train", "test"))
    return Parts(_ASSOCIATION, train, test)


def _biored(folder: Path, seed: int) -> Parts:
    """Draw training documents; relations join the types that they join in the whole training part."""
    train, test = (list(Pubtator().read(folder / f"{part}.PubTator")) for part in ("Train", "Test"))
    relations = RelationSet.of(train, directed=False)
    assert relations.level is Level.CONCEPT
    drawn = by_size(train, {"drawn": DRAWN / len(train), "left": 1 - DRAWN / len(train)}, seed)["drawn"]
    return Parts(relations, [document for document in drawn if pairs([document], relations)], test)


def tuning(parts: Parts) -> Parts:
    """Return the parts with a tenth of the training part in place of the test part."""
    cut = by_size(parts.train, {"kept": 1 - HELD_OUT, "held out": HELD_OUT}, _TUNING_SEED)
    return Parts(parts.relations, cut["kept"], cut["held out"])


def pairs(documents: Sequence[Document], relations: RelationSet) -> int:
    """Count the candidate pairs, with and without a relation."""
    return len(labelled_instances(documents, PairRules(relations)).instances)


# Writing.


def write_draw(parts: Parts, out: Path, *, sites: int, seed: int) -> dict[str, Any]:
    """Write the folder of one draw and return its sizes."""
    cut = by_size(parts.train, {"public": PUBLIC, "rest": 1 - PUBLIC}, seed)
    names = site_names(sites)
    dealt = by_size(cut["rest"], dict.fromkeys(names, 1 / sites), seed + 1)
    for name in names:
        _write_site(dealt[name], out / "sites" / name)
    _write_site(parts.train, out / "all" / "all")
    Jsonl().write(cut["public"], out / "public.jsonl")
    Jsonl().write(parts.test, out / "test.jsonl")
    counted = {"train": parts.train, "public": cut["public"], "test": parts.test}
    return {name: _described(documents, parts.relations) for name, documents in counted.items()}


def _write_site(train: Sequence[Document], folder: Path) -> None:
    Jsonl().write(train, folder / "train.jsonl")
    Jsonl().write(train[:1], folder / "dev.jsonl")


def _described(documents: Sequence[Document], relations: RelationSet) -> dict[str, int]:
    return {"documents": len(documents), "pairs": pairs(documents, relations)}


def site_names(sites: int) -> list[str]:
    """Return `site-001` and so on."""
    return [f"site-{number:03}" for number in range(1, sites + 1)]


def task_section(relations: RelationSet) -> dict[str, Any]:
    """Return the section [task] of a study file."""
    return {
        "kind": "relations",
        "directed": relations.directed,
        "level": relations.level.value,
        "relations": {kind.name: [list(ends) for ends in kind.ends] for kind in relations.types},
    }


def write_corpus(data: Path, corpus: str, out: Path, *, seeds: int) -> dict[str, Any]:
    """Write all draws of a corpus and return their description."""
    draws = {f"seed-{seed}": (read(data, corpus, seed), seed) for seed in range(seeds)}
    if corpus == TUNED_ON:
        draws[TUNE] = (tuning(read(data, corpus, 0)), _TUNING_SEED)
    written = {
        name: write_draw(parts, out / corpus / name, sites=SITES[corpus], seed=seed)
        for name, (parts, seed) in draws.items()
    }
    task = task_section(next(iter(draws.values()))[0].relations)
    return {"task": task, "sites": SITES[corpus], "draws": written}


# What was written.


class Draws(SiteFolder):
    """The folder that `main` wrote."""

    def task(self, corpus: str) -> dict[str, Any]:
        """Return the section [task] of a study file."""
        return dict(self.described[corpus]["task"])

    def pairs(self, corpus: str, draw: str, part: str) -> int:
        """Return the pairs of the `train`, `public` or `test` part."""
        return int(self.described[corpus]["draws"][draw][part]["pairs"])

    def public(self, corpus: str, draw: str) -> dict[str, Any]:
        """Return the section [public] of a study file."""
        return {"data": str(self.path / corpus / draw / "public.jsonl"), "format": "jsonl"}

    def test(self, corpus: str, draw: str) -> Path:
        """Return the file that a central model is scored on."""
        return self.path / corpus / draw / "test.jsonl"

    def sites(self, corpus: str, draw: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the section [sites] of a study file; the site `all` has all notes."""
        groups = {name: "all" if name == "all" else "sites" for name in names}
        return {
            name: {"data": str(self.path / corpus / draw / group / name), "format": "jsonl"}
            for name, group in groups.items()
        }


def main() -> None:
    """Make all draws."""
    parser = corpus_arguments(__doc__, seed=False)
    parser.add_argument("--seeds", type=int, default=0, help="draws of each corpus; 0: as many as are measured")
    options = parser.parse_args()
    described = {
        corpus: write_corpus(options.data, corpus, options.out, seeds=options.seeds or seeds)
        for corpus, seeds in SEEDS.items()
    }
    write_description(described, options.out)


if __name__ == "__main__":
    main()
