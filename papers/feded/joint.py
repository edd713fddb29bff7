"""Entities and relations together on ADE and on BioRED, among three sites: what the paper leaves as future work.

    python -m papers.feded.joint make --data ../shared/data --sites runs/feded/joint-sites
    python -m papers.feded.joint measure --sites runs/feded/joint-sites --out runs/feded/joint --device cuda
    python -m papers.feded.joint table runs/feded/joint/results.json

Sentences of one abstract stay together. Of the abstracts of ADE 15% are test, those of BioRED have a test part of their
own; 15% are the public set, the rest is dealt out among three sites; each is scored on its own third of the test part,
and the counts are added. Every method passes eight times over the notes: each site alone, the three together by
averaging or by distilling both heads, and all notes in one place.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from papers.common.cells import fill, table, with_range
from papers.common.runs import Run, add_arguments, integers, measure
from papers.feded.make_sites import task_section

from wardround.corpora.ade import Ade
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pubtator import Pubtator
from wardround.evaluation.counts import SpanCounts
from wardround.text.document import Document
from wardround.text.relation_sets import RelationSet

SEEDS = range(3)
SITES = ("one", "two", "three")
CORPORA = {"ade": "ADE", "biored": "BioRED"}
METHODS = {
    "single": "each site alone",
    "fedavg": "FedAvg of the whole network",
    "feded": "FedED, both heads distilled",
    "pooled": "all notes in one place",
}
READINGS = {
    "entities": "entities",
    "given": "relations among given entities",
    "relations": "relations, strict: both entities and the type right",
}
HERE = Path(__file__).resolve().parent
ROUNDS = 8
_TEST, _PUBLIC = 0.15, 0.15


@dataclass(frozen=True)
class Notes:
    """A corpus: notes to be drawn from, its own test part if it has one, and what may be related."""

    drawn: Sequence[Document]
    test: Sequence[Document]
    task: Mapping[str, Any]


def read(data: Path, corpus: str) -> Notes:
    """A corpus from the folder of all."""
    if corpus == "ade":
        relations = {"drug-effect": [["Drug", "Adverse-Effect"]], "drug-dose": [["Drug", "Dosage"]]}
        documents = [document for document in Ade().read(data / "ade_corpus_v2") if document.entities]
        return Notes(documents, [], {"relations": relations})
    train, test = (list(Pubtator().read(data / "biored" / f"{part}.PubTator")) for part in ("Train", "Test"))
    return Notes(train, test, task_section(RelationSet.of(train, directed=False)))


def make(data: Path, out: Path) -> None:
    """Draw the parts of every corpus and seed and write them."""
    for corpus in CORPORA:
        notes = read(data, corpus)
        (out / corpus).mkdir(parents=True, exist_ok=True)
        task = json.dumps({**notes.task, "kind": "joint"}, indent=1)
        (out / corpus / "task.json").write_text(task + "\n", encoding="utf-8")
        for seed in SEEDS:
            _write_draw(drawn(notes, seed), out / corpus / f"seed-{seed}")


def _write_draw(parts: Mapping[str, Sequence[Document]], folder: Path) -> None:
    for name, (train, test) in _sites(parts["train"], parts["test"]):
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        for part, found in (("train", train), ("dev", test[:1]), ("test", test)):  # nothing is chosen on dev
            Jsonl().write(found, place / f"{part}.jsonl")
    Jsonl().write(parts["public"], folder / "public.jsonl")
    print(f"{folder.parent.name}, {folder.name}: {', '.join(f'{len(f)} {part}' for part, f in parts.items())}")


def drawn(notes: Notes, seed: int) -> dict[str, Sequence[Document]]:
    """The parts, by abstract."""
    abstracts: dict[str, list[Document]] = {}
    for document in notes.drawn:
        abstracts.setdefault(dict(document.attributes).get("source", document.id), []).append(document)
    names = sorted(abstracts)
    Random(f"joint/{seed}").shuffle(names)  # noqa: S311 – order, not secrecy
    held_out = 0.0 if notes.test else _TEST
    test, public = (round(share * len(names)) for share in (held_out, held_out + _PUBLIC))
    cut = {"test": names[:test], "public": names[test:public], "train": names[public:]}
    parts = {part: [document for name in chosen for document in abstracts[name]] for part, chosen in cut.items()}
    return {**parts, **({"test": notes.test} if notes.test else {})}


def _sites(
    train: Sequence[Document], test: Sequence[Document]
) -> Iterator[tuple[str, tuple[Sequence[Document], Sequence[Document]]]]:
    """Each site's training and test part, and all of them as one."""
    for number, name in enumerate(SITES):
        yield name, (_third(train, number), _third(test, number))
    yield "all", (train, test)


def _third(documents: Sequence[Document], number: int) -> Sequence[Document]:
    ends = [round(len(documents) * share / len(SITES)) for share in (number, number + 1)]
    return documents[slice(*ends)]


def study_of(method: str, seed: int, sites: Path, *, encoder: str, rounds: int = ROUNDS) -> dict[str, Any]:
    """The study file as tables; `sites` is the folder of one corpus."""
    place = sites.resolve() / f"seed-{seed}"
    names = ("all",) if method == "pooled" else SITES
    public = {"data": str(place / "public.jsonl"), "format": "jsonl"}
    return {
        "study": {"name": f"joint {method}", "seed": seed},
        "task": json.loads((sites / "task.json").read_text(encoding="utf-8")),
        **({"public": public} if method == "feded" else {}),
        "model": {"encoder": encoder},
        "algorithm": {"name": "single" if method == "pooled" else method, "rounds": rounds, "local_epochs": 1},
        "training": {"batch_size": 16, "learning_rate": 1e-4, "output_learning_rate": 1e-3},
        "evaluation": {"every": rounds},
        "sites": {name: {"data": str(place / name), "format": "jsonl"} for name in names},
    }


def condensed(results: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of the runs: right, wrong and missed over all sites, by corpus, method, reading and seed."""
    kept: dict[str, Any] = {c: {m: {reading: {} for reading in READINGS} for m in METHODS} for c in CORPORA}
    for run in results["runs"]:
        _, corpus, method = run["variation"].split("-")
        for reading in READINGS:
            kept[corpus][method][reading][str(run["seed"])] = counted(run, reading)
    return kept


def counted(run: Mapping[str, Any], reading: str) -> list[int]:
    """Right, wrong and missed over all sites of a run."""
    return [sum(site[reading][count] for site in run["sites"].values()) for count in ("tp", "fp", "fn")]


def joint_table(kept: Mapping[str, Any]) -> str:
    """F1 in percent of each method under each reading, the mean over seeds with the lowest and the highest."""
    rows = [
        [CORPORA[corpus], METHODS[method], *(_with_range(found[reading]) for reading in READINGS)]
        for corpus, methods in kept.items()
        for method, found in methods.items()
        if found[next(iter(READINGS))]
    ]
    return table(["", "", *READINGS.values()], rows)


def _with_range(by_seed: Mapping[str, Sequence[int]]) -> str:
    return with_range([100 * SpanCounts(*counts).f1 for counts in by_seed.values()])


def write_table(results: Sequence[Path]) -> None:
    """Keep the counts beside this file and fill the page."""
    runs = [run for path in results for run in json.loads(path.read_text(encoding="utf-8"))["runs"]]
    kept = condensed({"runs": runs})
    (HERE / "joint.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    page = HERE / "README.md"
    page.write_text(fill(page.read_text(encoding="utf-8"), "joint", joint_table(kept)), encoding="utf-8")


def main() -> None:
    """Make the sites, or measure."""
    asked = arguments()
    if asked.what == "make":
        make(asked.data, asked.sites)
        return
    if asked.what == "table":
        write_table(asked.results)
        return
    runs = []
    for corpus, seed, method in product(asked.corpora, asked.seeds, METHODS):
        study = study_of(method, seed, asked.sites / corpus, encoder=asked.encoder, rounds=asked.rounds)
        runs.append(Run(f"joint-{corpus}-{method}", seed, study, guess=100.0))
    sys.exit(measure(runs, {"encoder": asked.encoder, "rounds": asked.rounds}, asked))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    made = commands.add_parser("make", help="draw the sites")
    made.add_argument("--data", type=Path, required=True)
    made.add_argument("--sites", type=Path, required=True)
    written = commands.add_parser("table", help="write what was measured into the page")
    written.add_argument("results", type=Path, nargs="+")
    measured = commands.add_parser("measure", help="run the studies")
    add_arguments(measured)
    measured.add_argument("--encoder", default="minilm")
    measured.add_argument("--rounds", type=int, default=ROUNDS)
    measured.add_argument("--corpora", type=lambda text: text.split(","), default=list(CORPORA))
    measured.add_argument("--seeds", type=integers, default=SEEDS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
