"""Entries that installed packages add: found by name, imported late, and refused with the package's name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wardround.errors import UsageError
from wardround.plugins import Registry, plugins

GROUP = "wardround.tested"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    plugins.cache_clear()
    yield
    plugins.cache_clear()


def install(folder: Path, name: str, entries: dict[str, str], code: str = "") -> None:
    """Write a package as an installer would: one module and its metadata."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "\n".join(f"{entry} = {value}" for entry, value in entries.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}\n")


@pytest.fixture
def site_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_without_packages_a_registry_holds_what_is_built_in() -> None:
    registry = Registry(GROUP, {"a": 1, "b": 2})
    assert dict(registry) == {"a": 1, "b": 2}
    assert "a" in registry and "c" not in registry
    with pytest.raises(KeyError):
        registry["c"]


def test_a_package_adds_its_entries_after_the_built_in_ones(site_packages: Path) -> None:
    install(site_packages, "first_added", {"z": "first_added:Z", "c": "first_added:C"}, "Z, C = 26, 3")
    registry = Registry(GROUP, {"y": 25})
    assert list(registry) == ["y", "c", "z"]
    assert len(registry) == 3
    assert registry["c"] == 3


def test_a_package_is_imported_when_its_entry_is_looked_up(site_packages: Path) -> None:
    install(site_packages, "late_added", {"late": "late_added:VALUE"}, "VALUE = 7")
    found = plugins(GROUP)
    assert list(found) == ["late"]
    assert "late_added" not in sys.modules
    assert found["late"] == 7
    assert "late_added" in sys.modules


def test_a_package_that_cannot_be_imported_is_named(site_packages: Path) -> None:
    install(site_packages, "broken_added", {"x": "broken_added:X"}, "raise RuntimeError('no licence')")
    expected = (
        "'x' of wardround.tested cannot be loaded from broken_added 1.0: RuntimeError: no licence; repair or uninstall"
    )
    with pytest.raises(UsageError, match=expected):
        plugins(GROUP)["x"]


def test_a_broken_package_does_not_stop_what_is_built_in(site_packages: Path) -> None:
    install(site_packages, "absent_added", {"x": "no_such_module_anywhere:X"})
    registry = Registry(GROUP, {"a": 1})
    assert registry["a"] == 1
    with pytest.raises(UsageError, match=r"absent_added 1\.0: ModuleNotFoundError"):
        registry["x"]


def test_a_package_cannot_replace_what_is_built_in(site_packages: Path) -> None:
    install(site_packages, "clashing_added", {"a": "clashing_added:A"}, "A = 1")
    registry = Registry(GROUP, {"a": 1})
    assert list(registry) == ["a"]
    with pytest.raises(UsageError, match=r"'a' .* is built in, and clashing_added 1\.0 defines it again"):
        registry["a"]


def test_two_packages_cannot_define_one_name(site_packages: Path) -> None:
    install(site_packages, "one_added", {"same": "one_added:A"}, "A = 1")
    install(site_packages, "two_added", {"same": "two_added:A"}, "A = 2")
    with pytest.raises(UsageError, match=r"define 'same' .*one_added 1\.0 and two_added 1\.0; uninstall one"):
        plugins(GROUP)
