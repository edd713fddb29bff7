"""A demonstration on the built-in hospitals: each trains alone, then all train together by FedNER, then pooled.

Hospitals may not pool their notes. These notes are synthetic, so pooling is possible and shows how much can be gained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.corpora.synthetic import SyntheticSite, clinical_hospitals
from wardround.evaluation.entity_scores import CorpusScore
from wardround.reports.sites_page import SiteScores, write_sites_page
from wardround.studies.one_machine import run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import pick_device
from wardround.studies.study_file import Study, study_from
from wardround.studies.study_run import StudyOutcome, Watcher
from wardround.tasks import ner
from wardround.text.tag_schemes import BIO
from wardround.text.tag_sets import TagSet

__all__ = ["METHODS", "QUICK_NOTE", "DemoResult", "demo_studies", "run_demo"]

Watch = Callable[[Study], AbstractContextManager[Watcher]]

_PROSE = """Every hospital annotates types of its own. Single site: each trained FedNER's network on its own notes.
FedNER: embeddings and word CNN trained together by gradients, the layers above at each hospital; no note moved. Pooled:
one network on everybody's notes, an output layer a hospital, which hospitals may not do. Each model is the one of its
best round on the development notes, scored on test notes whose mentions are largely unseen in training. The text was
written from a seed by rules; no real person is in it."""
QUICK_NOTE = "Quick demo: a small network and a few rounds show that everything runs; the scores are not meaningful."
# FedNER's network at half its widths: the built-in hospitals are small, and a demo should end in minutes.
_NETWORK: Mapping[str, Any] = {
    "preset": "fedner",
    "word_dimension": 50,
    "word_buckets": 8192,
    "character_dimension": 50,
    "character_width": 100,
    "word_cnn": 100,
    "lstm": 100,
    "input_dropout": 0.5,
    "dropout": 0.5,
}
# Recipes were chosen for single site and FedNER on seed 0; pooled has fewer rounds than it could use, to end in time.
METHODS: Mapping[str, Mapping[str, Any]] = {
    "single site": {"algorithm": {"name": "single", "rounds": 40}, "training": {"batch_size": 16}},
    "FedNER": {
        "algorithm": {"name": "fedner", "rounds": 3000},
        "training": {"batch_size": 16, "learning_rate": 0.002},
    },
    "pooled": {
        "algorithm": {"name": "pooled", "rounds": 1500},
        "training": {"batch_size": 32, "learning_rate": 0.004},
    },
}
# The quick demo ends in seconds: it shows that an installation works, and nothing about the methods.
_QUICK_NETWORK: Mapping[str, Any] = {
    **_NETWORK,
    "word_dimension": 16,
    "word_buckets": 1024,
    "character_dimension": 8,
    "character_width": 16,
    "word_cnn": 16,
    "lstm": 16,
}
_QUICK_ROUNDS = {"single site": 1, "FedNER": 20, "pooled": 20}


@dataclass(frozen=True)
class DemoResult:
    """The scores of all hospitals, and the paths of the models and of the report."""

    sites: tuple[SiteScores, ...]
    models: dict[str, Path]  # of FedNER, by hospital
    report: Path


def demo_studies(seed: int = 0, *, quick: bool = False) -> dict[str, Study]:
    """Return the studies of the demo by method, as study files would define them.

    Args:
        seed: the seed of the studies and of the synthetic notes.
        quick: a smaller network and few rounds, for a run of seconds whose scores are not meaningful.
    """
    sites = {
        hospital.name: {"built_in": hospital.name, "types": list(hospital.types)}
        for hospital in clinical_hospitals(seed)
    }
    return {
        method: study_from(
            {
                "study": {"name": method, "seed": seed},
                "model": dict(_QUICK_NETWORK if quick else _NETWORK),
                "privacy": {"minimum_sites": len(sites)},
                "sites": sites,
                "algorithm": settings["algorithm"] | ({"rounds": _QUICK_ROUNDS[method]} if quick else {}),
                "training": settings["training"],
                **({"evaluation": {"every": _QUICK_ROUNDS[method]}} if quick else {}),
            }
        )
        for method, settings in METHODS.items()
    }


def run_demo(
    folder: Path, studies: Mapping[str, Study], *, watch: Watch, device: str = "auto", workers: int = 0, note: str = ""
) -> DemoResult:
    """Run or resume every study, and write a report that compares their scores, with `note` before its text."""
    outcomes = {}
    for method, study in studies.items():
        with watch(study) as watcher:
            outcomes[method] = run_on_one_machine(
                study, _folder(folder, method), device=pick_device(device), watcher=watcher, workers=workers
            )
    seed = next(iter(studies.values())).study.seed
    sites = tuple(_site_scores(hospital, outcomes) for hospital in clinical_hospitals(seed))
    report = folder / "report.html"
    write_sites_page(report, "Wardround on the built-in hospitals", f"{note}\n\n{_PROSE}" if note else _PROSE, sites)
    models = {site.name: RunFolder(_folder(folder, "FedNER").site(site.name)).model for site in sites}
    return DemoResult(sites, models, report)


def _folder(folder: Path, method: str) -> RunFolder:
    return RunFolder(folder / method.lower().replace(" ", "-"))


def _site_scores(hospital: SyntheticSite, outcomes: Mapping[str, StudyOutcome]) -> SiteScores:
    found = {method: outcome.sites[hospital.name] for method, outcome in outcomes.items()}
    return SiteScores(
        hospital.name,
        hospital.style,
        hospital.types,
        len(ner.encode(hospital.train, TagSet(hospital.types), BIO).sentences),
        {m: CorpusScore(strict=s.counts["strict"], relaxed=s.counts["relaxed"]) for m, s in found.items()},
        {method: site.interval for method, site in found.items()},
    )
