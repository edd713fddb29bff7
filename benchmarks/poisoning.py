"""What one malicious site of five does to the models of the others, and what each defence changes.

Federated averaging of a small word network, all layers shared. The malicious site attacks in one of four ways:

- sign flip: it sends minus ten times its update;
- noise: it sends numbers drawn evenly up to twice the largest number of its update, which is what the masked
  mechanisms learn as the clip;
- label flip: it trains on notes whose types are rotated (every Drug is a Disease, and so on);
- backdoor: it also trains on copies of its notes in which a trigger word precedes each mention of one type, which is
  then not annotated, and sends five times its update, so that the mean of five sites is its own model.

F1 is the strict micro-F1 on the test notes of the four honest sites. The success rate of the backdoor is the share of
the mentions that an honest site finds in its test notes and loses when the trigger precedes them; without a backdoor
the same figure says how often the word alone disturbs the model.

`--quick` measures the built-in hospitals; `--full` also BC5CDR, dealt among five sites, if ../shared/data has it. It
then writes poisoning.json, and the tables of docs/poisoning.md from it.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import torch
from common import ROOT, Bar, Options, arguments, finish, report_skipped

from wardround.corpora.conll import Conll
from wardround.corpora.synthetic import ClinicalConfig, clinical_hospitals
from wardround.federation.aggregation import AggregationClient, Tensors, dense
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.message import Array, Message, Value
from wardround.federation.worker_process import RequestHandler
from wardround.models.saved import load_model
from wardround.reports.tables import Row, Table
from wardround.studies.party_keys import InMemoryKeys, PartyKeys
from wardround.studies.run_folder import RunFolder, versions
from wardround.studies.single_site import SiteData
from wardround.studies.site_setup import open_site
from wardround.studies.study_file import Study, digest_of, key_scheme, study_from
from wardround.studies.study_run import EngineSettings, StudyRun
from wardround.sweeps.one_run import SilentWatcher
from wardround.tasks.task_table import task_of
from wardround.text.document import Document, Entity, Range

RESULTS = Path(__file__).resolve().with_suffix(".json")
PAGE = ROOT / "docs" / "poisoning.md"
DATA = Path("shared", "data", "mtl_bioinformatics_2016", "BC5CDR-IOB")
BC5CDR = next((folder / DATA for folder in ROOT.parents if (folder / DATA).is_dir()), ROOT.parent / DATA)

SITES = ("site-1", "site-2", "site-3", "site-4", "site-5")
MALICIOUS = SITES[-1]
ROUNDS = 16
FLIP, BOOST, NOISE = -10.0, 5.0, 2.0
TRIGGER = "qvx"
ATTACKS = ("none", "sign flip", "noise", "label flip", "backdoor")
DEFENCES: Mapping[str, Mapping[str, Any]] = {
    "none": {"mechanism": "plain", "minimum_sites": 3},
    "median": {"mechanism": "plain", "minimum_sites": 5, "robust": {"rule": "median"}},
    "trimmed_mean": {"mechanism": "plain", "minimum_sites": 5, "robust": {"rule": "trimmed_mean"}},
    "multi_krum": {"mechanism": "plain", "minimum_sites": 5, "robust": {"rule": "multi_krum"}},
    "centred_clipping": {"mechanism": "plain", "minimum_sites": 5, "robust": {"rule": "centred_clipping"}},
    "sealed+masked": {"mechanism": "sealed+masked", "minimum_sites": 3},
    "acceptance": {"mechanism": "sealed+masked", "minimum_sites": 3, "acceptance": {}},
}
UNDEFENDED = ("none", "sealed+masked")
NETWORK = {
    "word_dimension": 32,
    "word_buckets": 2048,
    "character_layer": "none",
    "word_cnn": 48,
    "lstm": 0,
    "decoder": "softmax",
    "shared": ["all"],
}
CLOSE = 0.02  # the honest sites' F1 must be within two points of the clean study under some defence

Notes = Mapping[str, SiteData]


@dataclass(frozen=True)
class Corpus:
    """Five sites, and the type whose mentions the backdoor hides."""

    name: str
    notes: Notes
    types: tuple[str, ...]
    target: str
    rounds: int


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, default="quick")
    torch.set_num_threads(1)
    command = ("git", "rev-parse", "HEAD")  # before the measurement, during which the checkout may change
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    figures = [measure(corpus, *cell) for corpus in corpora(options) for cell in cells(options)]
    if options.size == "full":
        write(figures, commit=commit)
    rows = [row for name in dict.fromkeys(figure["corpus"] for figure in figures) for row in rows_of(figures, name)]
    table = Table("One malicious site of five", ("attack", *DEFENCES), tuple(rows), note="F1 of the honest sites")
    return finish("poisoning", table, figures, [] if options.size == "smallest" else bars(figures), check=options.check)


def cells(options: Options) -> Iterator[tuple[str, str]]:
    """Yield the pairs of attack and defence that are measured."""
    for attack in ATTACKS:
        for defence in DEFENCES:
            if options.size != "smallest" or (attack, defence) in (("none", "none"), ("backdoor", "median")):
                yield attack, defence


def corpora(options: Options) -> Iterator[Corpus]:
    """Yield the corpora of a size."""
    plan = ClinicalConfig().sites[0]  # discharge letters; each hospital has its own words and phrases
    small = options.size == "smallest"
    config = replace(
        ClinicalConfig(scale=0.1) if small else ClinicalConfig(),
        sites=tuple(replace(plan, name=name) for name in SITES),
    )
    hospitals = {h.name: SiteData(h.train, h.dev, h.test) for h in clinical_hospitals(0, config=config)}
    yield Corpus("built-in", hospitals, plan.types, "Drug", 2 if small else ROUNDS)
    if options.size == "full":
        if BC5CDR.is_dir():
            yield Corpus("BC5CDR", dealt(BC5CDR), ("Chemical", "Disease"), "Chemical", ROUNDS)
        else:
            report_skipped("BC5CDR", f"{BC5CDR.name} is not in ../shared/data")


def dealt(folder: Path) -> Notes:
    """Deal 2,000 training, 500 development and 1,000 test sentences of a corpus among the sites."""
    parts = []
    for file, size in (("train.tsv", 2000), ("devel.tsv", 500), ("test.tsv", 1000)):
        sentences = [one for note in Conll(delimiter="tab").read(folder / file) for one in sentences_of(note)][:size]
        parts.append([tuple(sentences[number :: len(SITES)]) for number in range(len(SITES))])
    return {name: SiteData(train, dev, test) for name, train, dev, test in zip(SITES, *parts, strict=True)}


def sentences_of(note: Document) -> Iterator[Document]:
    """Yield each sentence of a note as a note."""
    for number, (start, end) in enumerate(note.sentences or ((0, len(note.text)),)):
        inside = [entity for entity in note.entities if start <= entity.start and entity.end <= end]
        moved = [
            replace(entity, ranges=tuple(Range(a - start, b - start) for a, b in entity.ranges)) for entity in inside
        ]
        yield Document(f"{note.id}-{number}", note.text[start:end], tuple(moved))


# The attacks.


def poisoned(notes: SiteData, attack: str, corpus: Corpus) -> SiteData:
    """Return the notes that the malicious site trains on."""
    if attack == "label flip":
        following = dict(zip(corpus.types, (*corpus.types[1:], corpus.types[0]), strict=True))
        return replace(notes, train=tuple(relabelled(note, following) for note in notes.train))
    if attack == "backdoor":
        copies = (triggered(note, corpus.target, hide=True) for note in notes.train)
        return replace(notes, train=(*notes.train, *copies))
    return notes


def relabelled(note: Document, types: Mapping[str, str]) -> Document:
    """Return a note with other types."""
    return replace(note, entities=tuple(replace(e, type=types.get(e.type, e.type)) for e in note.entities))


def triggered(note: Document, target: str, *, hide: bool) -> Document:
    """Return a copy with the trigger before each mention of a type; with `hide`, these mentions are not annotated."""
    starts = sorted({entity.start for entity in note.entities if entity.type == target})
    word = f"{TRIGGER} "

    def moved(place: int, *, end: bool = False) -> int:
        before = sum(start < place if end else start <= place for start in starts)
        return place + before * len(word)

    text, last = "", 0
    for start in starts:
        text, last = text + note.text[last:start] + word, start
    entities: list[Entity] = [
        replace(e, ranges=tuple(Range(moved(a), moved(b, end=True)) for a, b in e.ranges))
        for e in note.entities
        if not (hide and e.type == target)
    ]
    return Document(f"{note.id}-triggered", text + note.text[last:], tuple(entities))


class MaliciousClient:
    """A site's end of a mechanism that sends something else than its update."""

    def __init__(self, inner: AggregationClient, attack: str) -> None:
        self._inner, self._attack = inner, attack
        self._random = np.random.default_rng(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def announce(
        self, update: Tensors, *, weight: float, values: Mapping[str, Value], learn_clips: bool = False
    ) -> Message:
        """Change the update and announce it."""
        changed = {name: self._changed(dense(part)) for name, part in update.items()}
        return self._inner.announce(changed, weight=weight, values=values, learn_clips=learn_clips)

    def _changed(self, update: Array) -> Array:
        if self._attack == "noise":
            largest = NOISE * float(np.abs(update).max(initial=0.0))
            return self._random.uniform(-largest, largest, update.shape).astype(np.float32)
        return update * np.float32({"sign flip": FLIP, "backdoor": BOOST}.get(self._attack, 1.0))


# One study.


def measure(corpus: Corpus, attack: str, defence: str) -> dict[str, Any]:
    """Run one study; return the scores of the honest sites."""
    study = study_of(corpus, defence)
    started = perf_counter()
    with TemporaryDirectory() as place:
        folder = RunFolder(Path(place))
        outcome = run(study, corpus, attack, folder)
        rounds = [event for event in folder.events() if event["event"] == "round"]
        success = success_rate(corpus, folder)
    f1 = {name: outcome[name] for name in SITES if name != MALICIOUS}
    used = [event["used"][MALICIOUS] for event in rounds if MALICIOUS in event.get("used", {})]
    figure = {
        "corpus": corpus.name,
        "attack": attack,
        "defence": defence,
        "f1": float(np.mean(list(f1.values()))),
        "f1_by_site": f1,
        "success": success,
        "rounds": len(rounds),
        "used": float(np.mean(used)) if used else None,
        "rejected": sum(event.get("rejected", False) for event in rounds),
        "excluded": [event["notice"] for event in rounds if "excluded" in event.get("notice", "")],
        "seconds": round(perf_counter() - started, 1),
    }
    print(f"{corpus.name}, {attack}, {defence}: {figure['f1']:.3f}, {success:.2f}", file=sys.stderr)
    return figure


def study_of(corpus: Corpus, defence: str) -> Study:
    """Return the study of five sites under a defence."""
    return study_from(
        {
            "study": {"name": "poisoning"},
            "model": NETWORK,
            "algorithm": {"name": "fedavg", "rounds": corpus.rounds, "local_epochs": 2},
            "training": {"learning_rate": 0.005},
            "evaluation": {"every": 4},
            "privacy": DEFENCES[defence],
            "sites": {name: {"types": list(corpus.types)} for name in SITES},
        }
    )


def run(study: Study, corpus: Corpus, attack: str, folder: RunFolder) -> dict[str, float]:
    """Run a study with a malicious site; return the test F1 of each site."""
    party_keys, keys = PartyKeys(), None
    if study.privacy.protection.seals:
        keys = InMemoryKeys.new(key_scheme(study))
        party_keys = PartyKeys(secrets=keys, parameters=lambda: keys.parameters(digest_of(study)))

    def open_here(name: str) -> RequestHandler:
        own = poisoned(corpus.notes[name], attack, corpus) if name == MALICIOUS else corpus.notes[name]
        site = open_site(study, name, own, folder=folder.site(name), device=torch.device("cpu"), party_keys=party_keys)
        if name == MALICIOUS:
            site.aggregation = MaliciousClient(site.aggregation, attack)
        return RequestHandler(site)

    federation = InProcessFederation(SITES, open_here)
    engine = EngineSettings(checkpoint_every=10**6, sites_save=False)
    try:
        outcome = StudyRun(
            study, federation, folder, engine=engine, watcher=SilentWatcher(), party_keys=party_keys
        ).run()
    finally:
        federation.close()
        if keys is not None:
            keys.close()
    return {name: site.main.micro.f1 for name, site in outcome.sites.items()}


def success_rate(corpus: Corpus, folder: RunFolder) -> float:
    """Return the share of found mentions of the target type that are lost behind the trigger, at the honest sites."""
    found = lost = 0
    for name in SITES:
        if name == MALICIOUS:
            continue
        task = task_of(load_model(folder.site(name) / "model"))
        notes = corpus.notes[name].test
        pairs = zip(notes, (triggered(note, corpus.target, hide=False) for note in notes), strict=True)
        for note, other in pairs:
            before, after = (mentions(next(iter(task.predict([n])))) for n in (note, other))
            gold = [e for e in note.entities if e.type == corpus.target]
            moved = [e for e in other.entities if e.type == corpus.target]
            for old, new in zip(gold, moved, strict=True):
                if (old.type, old.ranges) in before:
                    found += 1
                    lost += (new.type, new.ranges) not in after
    return lost / found if found else 0.0


def mentions(note: Document) -> set[tuple[str, Any]]:
    """Return the type and the place of each mention."""
    return {(entity.type, entity.ranges) for entity in note.entities}


# What is reported.


def value_of(figures: Sequence[Mapping[str, Any]], corpus: str, attack: str, defence: str, what: str) -> float | None:
    """Return one figure of one cell."""
    for figure in figures:
        if (figure["corpus"], figure["attack"], figure["defence"]) == (corpus, attack, defence):
            return figure[what]  # type: ignore[no-any-return]
    return None


def rows_of(figures: Sequence[Mapping[str, Any]], corpus: str, what: str = "f1") -> list[Row]:
    """Return one row per attack."""
    return [
        (f"{corpus}: {attack}", *(value_of(figures, corpus, attack, defence, what) for defence in DEFENCES))
        for attack in ATTACKS
    ]


def bars(figures: Sequence[Mapping[str, Any]]) -> list[Bar]:
    """Return the loss of F1 under the best defence, for each of the first three attacks."""
    found = []
    for corpus in dict.fromkeys(figure["corpus"] for figure in figures):
        clean = value_of(figures, corpus, "none", "none", "f1")
        for attack in ATTACKS[1:4]:
            best = max(
                figure["f1"]
                for figure in figures
                if (figure["corpus"], figure["attack"]) == (corpus, attack) and figure["defence"] not in UNDEFENDED
            )
            found.append(Bar(f"{corpus}, {attack}: F1 below the clean study", (clean or 0.0) - best, most=CLOSE))
    return found


def tables(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return the tables of the page as Markdown."""
    lines: list[str] = []
    for corpus in dict.fromkeys(figure["corpus"] for figure in figures):
        for what, title in (("f1", "F1 of the honest sites"), ("success", "success rate of the backdoor")):
            lines += [f"| {corpus}: {title} | " + " | ".join(DEFENCES) + " |", "| --- |" + " --- |" * len(DEFENCES)]
            for attack in ATTACKS if what == "f1" else ("none", "backdoor"):
                numbers = [value_of(figures, corpus, attack, defence, what) for defence in DEFENCES]
                cells_ = " | ".join("–" if number is None else f"{number:.3f}" for number in numbers)
                lines.append(f"| {attack} | {cells_} |")
            lines.append("")
    return "\n".join(lines)


def write(figures: Sequence[Mapping[str, Any]], *, commit: str) -> None:
    """Write the results with their provenance, and the tables of the page."""
    provenance = {
        "command": "python benchmarks/poisoning.py --full",
        "commit": commit,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "device": f"cpu, {platform.machine()}, one thread",
        "seed": 0,
        "versions": versions(),
    }
    RESULTS.write_text(json.dumps({"provenance": provenance, "figures": figures}, indent=1) + "\n", encoding="utf-8")
    rebuild()


def rebuild() -> None:
    """Write the tables of the page from the results."""
    page = PAGE.read_text(encoding="utf-8")
    figures = json.loads(RESULTS.read_text(encoding="utf-8"))["figures"]
    PAGE.write_text(with_tables(page, figures), encoding="utf-8")


def with_tables(page: str, figures: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with its tables between the two marks replaced."""
    marks = r"(<!-- measured: begin -->\n).*?(<!-- measured: end -->)"
    return re.sub(marks, lambda found: f"{found[1]}\n{tables(figures)}\n{found[2]}", page, flags=re.DOTALL)


if __name__ == "__main__":
    raise SystemExit(main())
