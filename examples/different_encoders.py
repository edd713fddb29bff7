"""Three hospitals with three encoders learn relations together; they share only their predictions on a public set.

It takes a minute with `--quick`, some minutes at full size. No layer of any model is sent, in either direction.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

from wardround.reports.progress import StudyProgress
from wardround.reports.score_tables import study_table
from wardround.studies.one_machine import run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.study_file import parse_study
from wardround.text.plain_text import size_text

quick = "--quick" in sys.argv
study = parse_study(f"""
[study]
name = "different-encoders"

[task]
kind = "relations"
negatives = 3.0
[task.relations]
causes = [["Drug", "ADE"]]
treats = [["Drug", "Disease"], ["Drug", "Symptom"]]
has_dosage = [["Drug", "Dosage"]]

[model]
encoder = "bert-tiny"

[public]
built_in = "riverside"

[algorithm]
name = "feded"
site_models = "own"
rounds = {1 if quick else 8}

[training]
learning_rate = 0.0005

[privacy]
mechanism = "masked"
minimum_sites = 3

[sites.harbour]
built_in = "harbour{"-0000" if quick else ""}"

[sites.hillside]
built_in = "hillside{"-0001" if quick else ""}"
encoder = "bert-mini"

[sites.hillside-annex]
built_in = "hillside-0005"
encoder = "minilm"
""")

torch.set_num_threads(1)
with tempfile.TemporaryDirectory() as folder:
    with StudyProgress(study.study.name, list(study.sites), study.algorithm.config.rounds) as progress:
        outcome = run_on_one_machine(study, RunFolder(Path(folder)), device=torch.device("cpu"), watcher=progress)
    print(study_table(outcome.sites).to_csv())
    print(f"up {size_text(outcome.traffic.up)}, down {size_text(outcome.traffic.down)}, for all sites and rounds")
