"""What our redaction finds in some texts; request and answer as JSON, in a process of its own like its peer."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from wardround.models.saved import load_model
from wardround.redaction.finding import model_finder
from wardround.redaction.findings import united
from wardround.redaction.patterns import Patterns
from wardround.tasks.of_models import task_of
from wardround.text.document import Document


def main() -> None:
    """Load, warm up, time one pass over the texts."""
    request = json.load(sys.stdin)
    task = task_of(load_model(Path(request["model"])))
    find = model_finder(task, threshold=request["threshold"], patterns=Patterns(request["language"]))
    for _ in find(Document(str(number), text) for number, text in enumerate(request["warm_up"])):
        pass
    notes = [Document(str(number), text) for number, text in enumerate(request["texts"])]
    began, spent = time.perf_counter(), time.process_time()
    found = [united(findings) for _, findings in find(notes)]
    answer = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - spent,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "found": [[piece.range for piece in pieces] for pieces in found],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
