"""The main job on the built-in hospitals: each on its own, then what pooling all their notes would give.

Pooling is what hospitals may not do; here, where nobody wrote the notes, it shows how much there is to gain.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from wardround.algorithms.local_training import Listener
from wardround.algorithms.training_config import WORD_RECIPE, TrainingConfig
from wardround.corpora.synthetic import CLINICAL_TYPES, SyntheticSite, clinical_hospitals
from wardround.evaluation.bootstrap import Measure, intervals
from wardround.evaluation.spans import score_corpus
from wardround.models.tagging_model import TaggingModel
from wardround.reports.sites_page import SiteScores, write_sites_page
from wardround.studies.assemble import ModelChoice, build_model
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import SiteData, pick_device, train_at_one_site
from wardround.tasks import ner
from wardround.text.tag_sets import TagSet

__all__ = ["DEMO_RECIPE", "DemoResult", "run_demo"]

Watch = Callable[[str], AbstractContextManager[Listener]]

DEMO_RECIPE = replace(WORD_RECIPE, epochs=40, batch_size=16, patience=40)
_PROSE = """Every hospital trained FedNER's network on its own notes alone; the pooled model saw the notes of all of
them under the complete annotation, which hospitals may not do. Each is scored on test notes whose mentions are
largely unseen in training. The text was written from a seed by rules; no real person is in it."""
# FedNER's network at half its widths: the built-in hospitals are small, and a demo should end in minutes.
_NETWORK = ModelChoice(
    "fedner",
    options={
        "word_dimension": "50",
        "word_buckets": "8192",
        "character_dimension": "50",
        "character_width": "100",
        "word_cnn": "100",
        "lstm": "100",
        "input_dropout": "0.5",
        "dropout": "0.5",
    },
)


@dataclass(frozen=True)
class DemoResult:
    """All hospitals, and where the models lie."""

    sites: tuple[SiteScores, ...]
    models: dict[str, Path]
    report: Path


def run_demo(
    folder: Path, *, watch: Watch, seed: int = 0, device: str = "auto", config: TrainingConfig = DEMO_RECIPE
) -> DemoResult:
    """Train a tagger at each hospital and one on all of them, score every one where it is used."""
    hospitals = clinical_hospitals(seed)
    trainer = _Trainer(folder, watch=watch, config=replace(config, seed=seed), device=device)
    own = {h.name: trainer.train(h.name, _own_data(h), h.types) for h in hospitals}
    pooled = trainer.train("pooled", _pooled_data(hospitals), CLINICAL_TYPES)
    sites = tuple(_site_scores(hospital, own[hospital.name], pooled) for hospital in hospitals)
    report = folder / "report.html"
    write_sites_page(report, "Wardround on the built-in hospitals", _PROSE, sites)
    return DemoResult(sites, {name: RunFolder(folder / name).model for name in (*own, "pooled")}, report)


@dataclass(frozen=True)
class _Trainer:
    folder: Path
    watch: Watch
    config: TrainingConfig
    device: str

    def train(self, name: str, data: SiteData, types: tuple[str, ...]) -> TaggingModel:
        """One training in a run folder of its own."""
        model = build_model(_NETWORK, TagSet(types), seed=self.config.seed).to(pick_device(self.device))
        with self.watch(name) as listener:
            train_at_one_site(model, data, self.config, folder=RunFolder(self.folder / name), listener=listener)
        return model


def _own_data(hospital: SyntheticSite) -> SiteData:
    return SiteData(tuple(hospital.train), tuple(hospital.dev), tuple(hospital.test))


def _pooled_data(hospitals: tuple[SyntheticSite, ...]) -> SiteData:
    """Everybody's notes under the complete annotation, which no single hospital has."""
    return SiteData(
        tuple(document for hospital in hospitals for document in hospital.complete.train),
        tuple(document for hospital in hospitals for document in hospital.complete.dev),
        tuple(document for hospital in hospitals for document in hospital.complete.test),
    )


def _site_scores(hospital: SyntheticSite, own: TaggingModel, pooled: TaggingModel) -> SiteScores:
    wanted = TagSet(hospital.types)
    # The pooled model finds types this hospital does not annotate; they are neither right nor wrong here.
    predicted = (wanted.restrict(document) for document in ner.predict(pooled, hospital.test))
    scores = {
        "single site": ner.score(own, hospital.test),
        "pooled": score_corpus(zip(hospital.test, predicted, strict=True)),
    }
    return SiteScores(
        hospital.name,
        hospital.style,
        hospital.types,
        len(ner.encode(hospital.train, wanted, own.scheme).sentences),
        scores,
        {method: intervals(score.strict_by_document, [Measure()])[0] for method, score in scores.items()},
    )
