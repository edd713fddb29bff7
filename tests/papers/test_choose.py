from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCORES = {"bert-tiny": (0.1, 0.2, 0.3), "bert-mini": (0.4, 0.5, 0.2), "bert-small": (0.6, 0.5, 0.0)}


def choose(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "papers.choose", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_choices_are_written_from_tuning_runs(tmp_path: Path) -> None:
    runs = [
        {"variation": f"tune-{network}-{rate}", "seed": 0, "tuned": "", "device": "cpu", "dev_f1": f1}
        for network, found in SCORES.items()
        for rate, f1 in zip(("1e-4", "3e-4", "1e-3"), found, strict=True)
    ]
    results, chosen = tmp_path / "results.json", tmp_path / "chosen.json"
    results.write_text(json.dumps({"settings": {}, "sites": {}, "runs": runs}))
    done = choose("fedhe", str(results), "--chosen", str(chosen))
    assert done.returncode == 0 and "bert-mini: 1e-4 gives 0.4000, 3e-4 gives 0.5000" in done.stdout
    assert json.loads(chosen.read_text()) == {"bert-tiny": 1e-3, "bert-mini": 3e-4, "bert-small": 1e-4}


def test_a_paper_without_choices_and_an_unknown_one_are_refused() -> None:
    assert "nothing is chosen for fedner" in choose("fedner", "results.json").stderr
    assert "papers are fedner, tagsets, fedhe, feded, transfer, private_learning" in choose("fedavg").stderr
