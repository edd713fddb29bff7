from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.papers.modules import fixture_of

from wardround.errors import UsageError

sweep = fixture_of("common.sweep")

SWEEP = """
[[studies]]
name = "{corpus}-{method}-{ratio:.2f}"
tables = ["all", "{corpus}"]
each.corpus = ["gad", "euadr"]
each.ratio = [0.5, 1.0]
each.row = [{ method = "fedavg" }, { method = "central", group = "{corpus}-all", seeds = 1 }]
exclude = [{ corpus = ["euadr"], method = ["central"] }]
"""


@pytest.fixture
def kind(sweep: ModuleType) -> Any:
    @dataclass(frozen=True, kw_only=True)
    class Study(sweep.Variation):  # type: ignore[misc]
        corpus: str
        method: str
        group: str = "sites"

    return Study


def test_an_entry_is_repeated_for_all_combinations(sweep: ModuleType, kind: Any, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    found = sweep.read_variations(tmp_path / "sweep.toml", kind)
    assert list(found) == [
        *("gad-fedavg-0.50", "gad-central-0.50", "gad-fedavg-1.00", "gad-central-1.00"),
        *("euadr-fedavg-0.50", "euadr-fedavg-1.00"),
    ]
    central = found["gad-central-1.00"]
    assert (central.tables, central.group, central.seeds) == (("all", "gad"), "gad-all", 1)
    assert (found["euadr-fedavg-0.50"].group, found["euadr-fedavg-0.50"].seeds) == ("sites", 3)
    assert sweep.tables_of(found) == ("all", "gad", "euadr")


def test_an_unknown_field_is_refused(sweep: ModuleType, kind: Any, tmp_path: Path) -> None:
    text = '[[studies]]\nname = "a"\ntables = []\ncorpus = "gad"\nmethod = "fedavg"\nmehtod = "x"\n'
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(UsageError, match=r"^sweep.toml: mehtod is not a field of a study$"):
        sweep.read_variations(tmp_path / "sweep.toml", kind)


@pytest.mark.parametrize("name", ["fedner", "tagsets", "fedhe", "feded", "transfer", "private_learning"])
def test_every_study_of_a_paper_is_in_a_table(sweep: ModuleType, name: str) -> None:
    paper = __import__(f"papers.{name}.paper", fromlist=["PAPER"]).PAPER
    assert all(variation.tables and variation.seeds for variation in paper.sweep.variations.values())
    assert paper.measured.variations is paper.sweep.variations
