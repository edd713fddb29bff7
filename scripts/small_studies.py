#!/usr/bin/env python3
"""Digest a fixed set of small studies, to show that a change of structure leaves every result as it was, bit for bit.

Every algorithm runs under `plain`, fedner, fedavg and feded under every mechanism, and three runs are killed and
resumed. The studies are those of the tests. Run the script in two checkouts and compare the files:

    PYTHONPATH=src:. python scripts/small_studies.py before.json      # in the old checkout; copy the script there
    PYTHONPATH=src:. python scripts/small_studies.py after.json --compare before.json

CKKS draws its noise at random, so its two studies differ from run to run, also without any change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tests.studies import distilled_studies, test_tagset_studies, tiny_studies
from tests.studies.protected_studies import MECHANISMS, shielded

ALONE = ("fedner", "fedavg", "fedprox", "fedatt", "feded", "public", "adversarial", "single", "pooled")
Make = Callable[[Path], Any]  # a study whose notes are written below a folder


def studies() -> Iterator[tuple[str, Make, int]]:
    """Yield each study with its name and the round after which it is killed, 0 for none."""
    for name in ALONE:
        yield f"{name}, plain", lambda folder, name=name: tiny_studies.of_algorithm(name), 0
    for mechanism in MECHANISMS:
        for name in ("fedner", "fedavg"):
            settings = {} if name == "fedner" else {"algorithm": {"name": name}}
            yield f"{name}, {mechanism}", partial(_shielded, mechanism, settings), 0
        if mechanism != "ckks":
            yield f"feded, {mechanism}", partial(_distilled, mechanism), 0
    for mechanism in ("plain", "masked", "sealed+masked"):
        yield f"tagsets, {mechanism}", partial(_tagged, mechanism), 0
    yield "fedner, killed after round 5", lambda folder: tiny_studies.learnable(folder), 5
    yield "fedavg, killed after round 5", lambda folder: tiny_studies.learnable(folder, algorithm={"name": "fedavg"}), 5
    yield "fedner, sealed+masked, killed after round 5", partial(_shielded, "sealed+masked", {}), 5


def _shielded(mechanism: str, settings: Mapping[str, Any], folder: Path) -> Any:
    return shielded(folder, mechanism, **settings)


def _distilled(mechanism: str, folder: Path) -> Any:
    folder.mkdir()
    distilled_studies.write_notes(folder)
    return distilled_studies.distilled(folder, privacy={**MECHANISMS[mechanism], "minimum_sites": 3})


def _tagged(mechanism: str, folder: Path) -> Any:
    return test_tagset_studies.tagged(folder, mechanism)


def digest(make: Make, kill_after: int, folder: Path) -> dict[str, Any]:
    """Run a study and return a digest of the weights of all its models, its losses and its scores."""
    study = make(folder / "data")
    watcher = tiny_studies.Onlooker(kill_after=kill_after)
    try:
        tiny_studies.run(study, folder / "run", watcher=watcher)
    except tiny_studies.Killed:
        resumed = tiny_studies.Onlooker()
        tiny_studies.run(study, folder / "run", watcher=resumed)
        watcher.rounds += resumed.rounds
        watcher.scores += resumed.scores
    weights = hashlib.sha256()
    files = [*(folder / "run").glob("shared.safetensors"), *(folder / "run").rglob("model/*.safetensors")]
    for file in sorted(files):
        weights.update(str(file.relative_to(folder)).encode())
        for name, tensor in sorted(load_file(file).items()):
            weights.update(name.encode() + tensor.contiguous().numpy().tobytes())
    losses = [repr(record.loss) for record in watcher.rounds]
    return {"weights": weights.hexdigest(), "losses": losses, "scores": [list(scored) for scored in watcher.scores]}


def main(arguments: list[str] | None = None) -> int:
    """Digest the studies; with `--compare`, list those that differ and return 1 if any other than CKKS does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the JSON file to write")
    parser.add_argument("--compare", type=Path, help="the JSON file of another checkout")
    parser.add_argument("--only", default="", help="only the studies whose name contains this text")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = {}
    for name, make, kill_after in studies():
        if chosen.only in name:
            with tempfile.TemporaryDirectory() as scratch:
                found[name] = digest(make, kill_after, Path(scratch))
            print(f"{name}: {found[name]['weights'][:16]}", flush=True)
    chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if chosen.compare is None:
        return 0
    before = json.loads(chosen.compare.read_text(encoding="utf-8"))
    before = {name: before.get(name) for name in found}
    different = [name for name, values in found.items() if values != before[name]]
    print(f"{len(found) - len(different)} of {len(found)} studies are the same")
    for name in different:
        print(f"different: {name}")
    return int(any("ckks" not in name for name in different))


if __name__ == "__main__":
    sys.exit(main())
