"""BC5CDR at one site: runs `wardround train` for three networks and three seeds and gathers one summary.

    python papers/fedner/bc5cdr_single_site.py --data BC5CDR-IOB --vectors glove.npz --encoder minilm --work runs/bc5cdr

The nine trainings run at once (a GPU with a few cores is the place for it). The summary replaces
`bc5cdr_single_site.json` beside this file, and the table between the markers of `README.md` is written from it.
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

HERE = Path(__file__).parent
SUMMARY = HERE / "bc5cdr_single_site.json"
SEEDS = (0, 1, 2)
BEGIN, END = "<!-- bc5cdr -->", "<!-- /bc5cdr -->"
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
    """Train where asked to, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder with train.tsv, devel.tsv, test.tsv")
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--work", type=Path, default=Path("runs/bc5cdr"))
    parser.add_argument("--summary", type=Path, default=SUMMARY)
    asked = parser.parse_args()
    if asked.data is not None:
        asked.summary.write_text(json.dumps(measure(asked), indent=1) + "\n", encoding="utf-8")
    rows = json.loads(asked.summary.read_text(encoding="utf-8"))
    table = tabulate(rows)
    print(table)
    for page in (HERE / "README.md", HERE.parent.parent / "README.md"):
        replace_between_markers(page, table)


def measure(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all trainings side by side and read their scores."""
    running = {}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    for number, (name, options) in enumerate(NETWORKS.items()):
        for seed in SEEDS:
            folder = asked.work / f"network-{number}-seed-{seed}"
            running[name, seed] = folder, subprocess.Popen(command(asked, options, seed, folder), env=environment)
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


def command(asked: argparse.Namespace, options: list[str], seed: int, folder: Path) -> list[str]:
    """The `wardround train` of one network and seed."""
    chosen = [asked.encoder if option == "ENCODER" else option for option in options]
    vectors = ["--vectors", str(asked.vectors)] if "--preset" in options else []
    program = [sys.executable, "-m", "wardround.cli.main", "train", str(asked.data)]
    form = ["--format", "conll", "--option", "delimiter=tab"]
    return [*program, *form, *chosen, *vectors, "--seed", str(seed), "--out", str(folder)]


def tabulate(rows: list[dict[str, Any]]) -> str:
    """Mean over seeds, and each seed."""
    lines = ["| network | strict F1 | each seed | relaxed F1 | development F1 |", "| --- | --- | --- | --- | --- |"]
    for name in dict.fromkeys(row["network"] for row in rows):
        mine = [row for row in rows if row["network"] == name]
        strict = [row["test"]["strict"]["f1"] for row in mine]
        relaxed, dev = mean(row["test"]["relaxed"]["f1"] for row in mine), mean(row["dev_f1"] for row in mine)
        each = ", ".join(f"{value:.4f}" for value in strict)
        lines.append(f"| {name} | **{mean(strict):.4f}** | {each} | {relaxed:.4f} | {dev:.4f} |")
    return "\n".join(lines)


def replace_between_markers(page: Path, table: str) -> None:
    """Put the table where the page says."""
    if page.is_file() and BEGIN in (text := page.read_text(encoding="utf-8")):
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
