"""Every benchmark runs at its smallest size, so that a changed signature is noticed here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from tests.benchmarks.running import BENCHMARKS, smallest

OWN_TESTS = {
    path.stem.removeprefix("test_").removesuffix("_benchmark") for path in Path(__file__).parent.glob("*_benchmark.py")
}
NAMES = {path.stem for path in BENCHMARKS.glob("*.py")} - {"common"}


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield import_module("common")
    sys.modules.pop("common")


def test_benchmarks_with_a_test_of_their_own_exist() -> None:
    assert OWN_TESTS == {"engine", "memory", "redact"}
    assert OWN_TESTS < NAMES


@pytest.mark.parametrize("name", sorted(NAMES - OWN_TESTS))
def test_it_runs(name: str, tmp_path: Path) -> None:
    if name == "sealing":
        pytest.importorskip("tenseal", reason="install wardround[sealed]")
    smallest(name, tmp_path)


@pytest.mark.parametrize(("value", "check", "status"), [(1.0, True, 0), (2.0, True, 1), (2.0, False, 0)])
def test_a_missed_bar_fails_only_with_check(common: ModuleType, value: float, check: bool, status: int) -> None:
    table = common.Table("a table", ("what", "value"), (("it", value),))
    assert common.finish("it", table, [], [common.Bar("it", value, most=1.0)], check=check) == status


def test_a_peer_that_is_not_installed_is_reported(common: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert not common.installed("no_such_peer", "pip install no-such-peer")
    assert capsys.readouterr().err == "no_such_peer is not installed, its part is skipped: pip install no-such-peer\n"
    assert common.Options("smallest", check=False).peer_python("peer", "peer==1.0") is None
    assert capsys.readouterr().err.startswith("peer is not installed, its part is skipped")
