from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.reports.run_record import sweep_row


def test_row_and_seed(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"cell": "two, FedAvg", "seconds": 14.8}')
    assert sweep_row(tmp_path, 7) == "two, FedAvg, seed 7"
    assert sweep_row(tmp_path, None) == "two, FedAvg"


@pytest.mark.parametrize("text", [None, "", "[]", "7", "{}", '{"cell": 3}', '{"cell": ""}'])
def test_a_run_outside_of_sweeps_has_no_row(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "summary.json").write_text(text)
    assert sweep_row(tmp_path, 7) == ""


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ("/data/my vectors/glove.npz, FedAvg", "glove.npz, FedAvg"),
        ("alone, /data/a.npz + /data/b.npz", "alone, a.npz + b.npz"),
        ("~/glove.npz", "glove.npz"),
        ("prajjwal1/bert-tiny, a / b, 1/2", "prajjwal1/bert-tiny, a / b, 1/2"),
    ],
)
def test_folders_of_files_are_not_shown(tmp_path: Path, row: str, shown: str) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({"cell": row}))
    assert sweep_row(tmp_path, None) == shown
