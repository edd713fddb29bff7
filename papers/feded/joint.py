"""Extract entities and relations together on ADE and BioRED among three sites: the paper leaves it as future work.

    python -m papers.feded.joint make --data ../shared/data --sites runs/feded/joint-sites
    python -m papers.feded.joint measure --sites runs/feded/joint-sites --out runs/feded/joint --device cuda
    python -m papers.feded.joint table runs/feded/joint/results.json

Sentences of one abstract stay together. 15% of the abstracts of ADE are the test part, BioRED has its own; 15% are the
public set, and three sites share the rest. Each site is scored on its third of the test part, and the counts are added.
Every method trains for eight epochs: each site alone, the three together by averaging or by distilling both heads, and
all notes in one place.
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

__all__ = ["CORPORA", "METHODS", "condensed", "drawn", "joint_table", "main", "study_of"]

SEEDS = range(3)
SITES = ("one", "two", "three")
CORPORA = {"ade": "ADE", "biored": "BioRED"}
METHODS = {
    "single": "each site alone",
    "fedavg": "FedAvg of the whole network",
    "feded": "FedED, both heads distilled",
    "pooled": "all notes in one place",
}
MODES = {
    "entities": "entities",
    "given": "relations among given entities",
    "relations": "relations, strict: both entities and the type right",
}
HERE = Path(__file__).resolve().parent
ROUNDS = 8
_TEST, _PUBLIC = 0.15, 0.15


@dataclass(frozen=True)
class Notes:
    """A corpus: its notes, its own test part if it has one, and its relations."""

    drawn: Sequence[Document]
    test: Sequence[Document]
    task: Mapping[str, Any]


def read(data: Path, corpus: str) -> Notes:
    """Read a corpus."""
    if corpus == "ade":
        relations = {"drug-effect": [["Drug", "Adverse-Effect"]], "drug-dose": [["Drug", "Dosage"]]}
        documents = [document for document in Ade().read(data / "ade_corpus_v2") if document.entities]
        return Notes(documents, [], {"relations": relations})
    train, test = (list(Pubtator().read(data / "biored" / f"{part}.PubTator")) for part in ("Train", "Test"))
    return Notes(train, test, task_section(RelationSet.of(train, directed=False)))


def make(data: Path, out: Path) -> None:
    """Draw and write the parts of every corpus and seed."""
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
        # Nothing is chosen on the development part.
        for part, found in (("train", train), ("dev", test[:1]), ("test", test)):
            Jsonl().write(found, place / f"{part}.jsonl")
    Jsonl().write(parts["public"], folder / "public.jsonl")
    print(f"{folder.parent.name}, {folder.name}: {', '.join(f'{len(f)} {part}' for part, f in parts.items())}")


def drawn(notes: Notes, seed: int) -> dict[str, Sequence[Document]]:
    """Draw the parts by abstract."""
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
    """Yield each site's training and test part, then all of them as one site."""
    for number, name in enumerate(SITES):
        yield name, (_third(train, number), _third(test, number))
    yield "all", (train, test)


def _third(documents: Sequence[Document], number: int) -> Sequence[Document]:
    ends = [round(len(documents) * share / len(SITES)) for share in (number, number + 1)]
    return documents[slice(*ends)]


def study_of(method: str, seed: int, sites: Path, *, encoder: str, rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the study file as tables; `sites` is the folder of one corpus."""
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
    """Return the counts over all sites by corpus, method, mode and seed."""
    kept: dict[str, Any] = {c: {m: {mode: {} for mode in MODES} for m in METHODS} for c in CORPORA}
    for run in results["runs"]:
        _, corpus, method = run["variation"].split("-")
        for mode in MODES:
            kept[corpus][method][mode][str(run["seed"])] = counted(run, mode)
    return kept


def counted(run: Mapping[str, Any], mode: str) -> list[int]:
    """Return tp, fp and fn over all sites of a run."""
    return [sum(site[mode][count] for site in run["sites"].values()) for count in ("tp", "fp", "fn")]


def joint_table(kept: Mapping[str, Any]) -> str:
    """Return F1 in percent of each method and mode: the mean over seeds, the lowest and the highest."""
    rows = [
        [CORPORA[corpus], METHODS[method], *(_with_range(found[mode]) for mode in MODES)]
        for corpus, methods in kept.items()
        for method, found in methods.items()
        if found[next(iter(MODES))]
    ]
    return table(["", "", *MODES.values()], rows)


def _with_range(by_seed: Mapping[str, Sequence[int]]) -> str:
    return with_range([100 * SpanCounts(*counts).f1 for counts in by_seed.values()])


def write_table(results: Sequence[Path]) -> None:
    """Write the counts beside this file, and the table into the page."""
    runs = [run for path in results for run in json.loads(path.read_text(encoding="utf-8"))["runs"]]
    kept = condensed({"runs": runs})
    (HERE / "joint.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    page = HERE / "README.md"
    page.write_text(fill(page.read_text(encoding="utf-8"), "joint", joint_table(kept)), encoding="utf-8")


def main() -> None:
    """Make the sites, measure, or write the table."""
    options = arguments()
    if options.what == "make":
        make(options.data, options.sites)
        return
    if options.what == "table":
        write_table(options.results)
        return
    runs = []
    for corpus, seed, method in product(options.corpora, options.seeds, METHODS):
        study = study_of(method, seed, options.sites / corpus, encoder=options.encoder, rounds=options.rounds)
        runs.append(Run(f"joint-{corpus}-{method}", seed, study, guess=100.0))
    sys.exit(measure(runs, {"encoder": options.encoder, "rounds": options.rounds}, options))


def arguments() -> argparse.Namespace:
    """Parse the command line."""
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
