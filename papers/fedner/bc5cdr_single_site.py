"""Train three networks on BC5CDR at one site, with three seeds each, and write one summary.

    python -m papers.fedner.bc5cdr_single_site --data BC5CDR-IOB --vectors glove.npz --encoder minilm --work runs/bc5cdr

The nine trainings (`wardround train`) run in parallel; use a GPU with a few cores. The summary is
`bc5cdr_single_site.json` beside this file. Without `--data`, only the table between the markers of this page and of the
page `docs/measured.md` is written from it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from papers.common.cells import fill, table

__all__ = ["MARKER", "NETWORKS", "PAGES", "SEEDS", "command", "main", "measure", "tabulate"]

HERE = Path(__file__).resolve().parent
PAGES = (HERE / "README.md", HERE.parents[1] / "docs" / "measured.md")
SUMMARY = HERE / "bc5cdr_single_site.json"
SEEDS = (0, 1, 2)
MARKER = "bc5cdr"
NETWORKS = {
    "FedNER's network, GloVe, the paper's recipe": ["--preset", "fedner"],
    "FedNER's network, GloVe, tuned on the development set": [
        *["--preset", "fedner"],
        *["--model-option", "scheme=BIOES", "--model-option", "input_dropout=0.5", "--model-option", "dropout=0.3"],
        *["--training-option", "batch_size=16"],
    ],
    "MiniLM, fine-tuned": ["--encoder", "ENCODER"],
}


def main() -> None:
    """Train if there are data, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with train.tsv, devel.tsv, test.tsv")
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--work", type=Path, default=Path("runs/bc5cdr"))
    parser.add_argument("--summary", type=Path, default=SUMMARY)
    options = parser.parse_args()
    if options.data is not None:
        options.summary.write_text(json.dumps(measure(options), indent=1) + "\n", encoding="utf-8")
    shown = tabulate(json.loads(options.summary.read_text(encoding="utf-8")))
    print(shown)
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8"), MARKER, shown), encoding="utf-8")


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all trainings in parallel and return their scores."""
    running = {}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    for number, (name, words) in enumerate(NETWORKS.items()):
        for seed in SEEDS:
            folder = options.work / f"network-{number}-seed-{seed}"
            running[name, seed] = folder, subprocess.Popen(command(options, words, seed, folder), env=environment)
    rows = []
    for (name, seed), (folder, process) in running.items():
        if process.wait():
            sys.exit(f"{name}, seed {seed}: training failed")
        scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
        epochs = scores.pop("epochs")
        dev = max(epoch["dev_f1"] for epoch in epochs)
        seconds = sum(epoch["seconds"] for epoch in epochs)
        rows.append(
            {"network": name, "seed": seed, "dev_f1": dev, "epochs": len(epochs), "seconds": seconds, "test": scores}
        )
    return rows


def command(options: argparse.Namespace, words: list[str], seed: int, folder: Path) -> list[str]:
    """Return the `wardround train` command of one network and seed."""
    chosen = [options.encoder if word == "ENCODER" else word for word in words]
    vectors = ["--vectors", str(options.vectors)] if "--preset" in words else []
    program = [sys.executable, "-m", "wardround.cli.main", "train", str(options.data)]
    form = ["--format", "conll", "--option", "delimiter=tab"]
    return [*program, *form, *chosen, *vectors, "--seed", str(seed), "--out", str(folder)]


def tabulate(runs: list[dict[str, Any]]) -> str:
    """Return the mean over seeds and each seed, by network."""
    rows = []
    for name in dict.fromkeys(run["network"] for run in runs):
        mine = [run for run in runs if run["network"] == name]
        strict = [run["test"]["strict"]["f1"] for run in mine]
        relaxed, dev = mean(run["test"]["relaxed"]["f1"] for run in mine), mean(run["dev_f1"] for run in mine)
        each = ", ".join(f"{value:.4f}" for value in strict)
        rows.append([name, f"**{mean(strict):.4f}**", each, f"{relaxed:.4f}", f"{dev:.4f}"])
    return table(["network", "strict F1", "each seed", "relaxed F1", "development F1"], rows)


if __name__ == "__main__":
    main()
