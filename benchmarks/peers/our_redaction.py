"""Find identifiers with our redaction, in a process of its own like its peer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from json_script import answer, peak_megabytes

from wardround.models.saved import load_model
from wardround.redaction.finders import model_finder
from wardround.redaction.findings import merge_findings
from wardround.redaction.patterns import Patterns
from wardround.tasks.task_table import task_of
from wardround.text.document import Document


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Load the model, warm up, and time one pass over the texts."""
    task = task_of(load_model(Path(request["model"])))
    find = model_finder(task, threshold=request["threshold"], patterns=Patterns(request["language"]))
    for _ in find(Document(str(number), text) for number, text in enumerate(request["warm_up"])):
        pass
    notes = [Document(str(number), text) for number, text in enumerate(request["texts"])]
    started, cpu_started = time.perf_counter(), time.process_time()
    found = [merge_findings(findings) for _, findings in find(notes)]
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_started,
        "peak_mb": peak_megabytes(),
        "found": [[piece.range for piece in pieces] for pieces in found],
    }


if __name__ == "__main__":
    answer(measure)
