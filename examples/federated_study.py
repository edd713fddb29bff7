"""A study of four hospitals in Python; it takes a minute at full size, seconds with `--quick`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from wardround.corpora.synthetic import clinical_hospitals
from wardround.federation.coordinator import Round
from wardround.federation.ledger import read_entries
from wardround.studies.one_machine import run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.study_file import study_from

quick = "--quick" in sys.argv
torch.set_num_threads(1)
sizes = {"lstm": 16, "word_cnn": 16, "character_width": 16} if quick else {"lstm": 100, "word_cnn": 100}
hospitals = clinical_hospitals(seed=0)

# The content of a study file as tables; `wardround study new` writes an example file.
study = study_from(
    {
        "study": {"name": "drugs and effects", "seed": 0},
        "model": {"preset": "fedner", "word_buckets": 4096, **sizes},
        "algorithm": {"name": "fedner", "rounds": 4 if quick else 400},
        "training": {"learning_rate": 0.004},
        "sites": {hospital.name: {"built_in": hospital.name, "types": list(hospital.types)} for hospital in hospitals},
    }
)


class Lines:
    """A watcher that prints lines; `reports.progress` draws a table instead."""

    def on_start(self, number: int) -> None:
        """Print nothing."""

    def on_round(self, record: Round) -> None:
        """Print one line per round."""
        if record.number % 100 == 0 or quick:
            print(f"round {record.number}: loss {record.loss:.2f}, {record.traffic.up / 1e6:.1f} MB from the sites")

    def on_scores(self, number: int, f1: Mapping[str, float]) -> None:
        """Print nothing."""

    def on_event(self, text: str) -> None:
        """Print any other event."""
        print(text)


with tempfile.TemporaryDirectory() as scratch:
    folder = RunFolder(Path(scratch))
    outcome = run_on_one_machine(study, folder, device=torch.device("cpu"), watcher=Lines(), ledgers=True)
    for name, site in outcome.sites.items():
        print(f"{name:10} strict F1 {site.main.micro.f1:.3f} ({site.interval.low:.3f} to {site.interval.high:.3f})")

    # The ledger: everything that would leave a hospital, line by line.
    entries = list(read_entries(folder.site("harbour") / "ledger.jsonl"))
    print(f"harbour would have sent {len(entries)} messages, {sum(entry.bytes for entry in entries):,} bytes")
