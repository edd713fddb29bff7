"""Train a tagger on annotated notes, save it, load it and predict; two minutes at full size, seconds with `--quick`."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from wardround.corpora.synthetic import clinical_hospitals
from wardround.models.families import ModelChoice
from wardround.models.family_table import build_model
from wardround.models.saved import load_model
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import SiteData, train_at_one_site
from wardround.tasks.ner import NerTask
from wardround.tasks.task_table import task_of
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet
from wardround.training.training_config import TrainingConfig

quick = "--quick" in sys.argv
harbour = clinical_hospitals(seed=0)[0]
data = SiteData(harbour.train, harbour.dev, harbour.test)
sizes = {"lstm": "16", "word_cnn": "16", "character_width": "16"} if quick else {}
model = build_model(ModelChoice("fedner", options=sizes), TagSet(harbour.types), seed=0)

with tempfile.TemporaryDirectory() as folder:
    run = RunFolder(Path(folder) / "harbour")
    recipe = replace(TrainingConfig(), epochs=2 if quick else 30, batch_size=16)
    outcome = train_at_one_site(NerTask(model), data, recipe, folder=run)
    print(f"strict F1 {outcome.f1['strict'].estimate:.3f} on {outcome.score.documents} test notes")

    tagger = load_model(run.model)
    note = Document("new", "Started on ramipril 5 mg once daily for hypertension; no rash.")
    for found in task_of(tagger).predict([note]):
        for entity in found.entities:
            print(f"{entity.type:8} {entity.text_in(found.text)}")
