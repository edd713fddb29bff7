from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts.small_studies import main, studies

from wardround.privacy.mechanism_table import MECHANISMS
from wardround.studies.catalogue import ALGORITHMS


def test_every_algorithm_and_every_mechanism_has_a_study() -> None:
    names = [name for name, _, _ in studies()]
    assert len(set(names)) == len(names)
    assert {name.partition(",")[0] for name in names} == set(ALGORITHMS)
    assert set(MECHANISMS) <= {name.split(", ")[1] for name in names}


def test_equal_studies_are_equal_and_a_changed_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    assert main([str(before), "--only", "fedavg, plain"]) == 0
    assert main([str(after), "--only", "fedavg, plain", "--compare", str(before)]) == 0
    assert "1 of 1 studies are the same" in capsys.readouterr().out
    changed = json.loads(before.read_text())
    changed["fedavg, plain"]["losses"][-1] = "0.0"
    before.write_text(json.dumps(changed))
    assert main([str(after), "--only", "fedavg, plain", "--compare", str(before)]) == 1
    assert "different: fedavg, plain" in capsys.readouterr().out
