"""The studies of a paper: listed in its `sweep.toml`, each turned into runs."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from papers.common.runs import Run

from wardround.errors import UsageError

__all__ = ["UNBOUNDED", "Sweep", "Variation", "privacy", "read_variations", "tables_of"]

# Privacy settings of every study: the papers bound neither the sentences of an update nor a site's share of the mean.
# The measured figures come from studies on public corpora without these bounds.
UNBOUNDED: dict[str, Any] = {"smallest_batch": 1, "largest_share": 1.0}


@dataclass(frozen=True, kw_only=True)
class Variation:
    """One study of a sweep: a row of a table or a point of a figure."""

    name: str
    tables: tuple[str, ...]  # where it is shown
    seeds: int = 3  # it is run with seeds 0 … seeds − 1, unless the command names others


V = TypeVar("V", bound=Variation)


def privacy(mechanism: str) -> dict[str, Any]:
    """Return the section [privacy] of a study; without a name, updates are plain."""
    fewest = 1 if mechanism in ("", "plain") else 3
    return {"mechanism": mechanism or "plain", "minimum_sites": fewest, **UNBOUNDED}


def read_variations(path: Path, kind: type[V]) -> dict[str, V]:
    """Return the studies of a sweep file by name.

    A `[[studies]]` entry gives fields of `kind`. The table `each` gives axes, a list of values each: the entry is
    repeated for all combinations but those in `exclude`. A value of an axis is a field's value or a table of fields.
    Text may contain fields in braces: `name = "{corpus}-{method}"`.
    """
    known = {field.name for field in fields(kind)}
    found = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["studies"]:
        for values in _combinations(entry):
            ready = {name: _formatted(value, values) for name, value in values.items() if name in known}
            found[ready["name"]] = kind(**ready)
        if unknown := entry.keys() - known - {"each", "exclude"}:
            raise UsageError(f"{path.name}: {', '.join(sorted(unknown))} is not a field of a study")
    return found


def _combinations(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    axes = entry.get("each", {})
    for values in product(*axes.values()):
        own = {name: value for name, value in entry.items() if name not in ("each", "exclude")}
        for axis, value in zip(axes, values, strict=True):
            own |= value if isinstance(value, dict) else {axis: value}
        if not any(all(own[name] in values for name, values in where.items()) for where in entry.get("exclude", ())):
            yield own


def _formatted(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return tuple(_formatted(part, values) for part in value)
    return value.format(**values) if isinstance(value, str) else value


def tables_of(variations: Mapping[str, Variation]) -> tuple[str, ...]:
    """Return the names of all tables in their order."""
    return tuple(dict.fromkeys(table for variation in variations.values() for table in variation.tables))


class Sweep:
    """Base class: the studies of one paper with the settings, sites and choices of one measurement."""

    variations: ClassVar[Mapping[str, Any]] = {}
    defaults: ClassVar[Any] = None  # settings, a dataclass
    tiny: ClassVar[Mapping[str, str]] = {}  # settings of `--tiny`
    skipped_by_default: ClassVar[Sequence[str]] = ()  # tables that are run only if they are named
    must_name_tables: ClassVar[bool] = False
    fixed_seeds: ClassVar[bool] = False  # a study is never run with a seed that it does not list
    script: ClassVar[Path | None] = None  # runs one study; None: papers/common/one_run.py
    places: ClassVar[Mapping[str, str]] = {}  # further folders of the command line, with their help; default: --out

    def __init__(self, settings: Any, sites: Any, chosen: Mapping[str, Any] | None = None, **places: Path) -> None:
        self.settings, self.sites, self.folders = settings, sites, places
        self.chosen: Mapping[str, Any] = chosen or {}

    def study(self, variation: Any, seed: int) -> dict[str, Any]:
        """Return the study file as tables."""
        raise NotImplementedError

    def estimate(self, variation: Any, seed: int) -> float:
        """Return the expected seconds; they only decide the order in which runs start."""
        raise NotImplementedError

    def options(self, variation: Any, seed: int) -> dict[str, Any]:
        """Return further fields of the study's `Run`."""
        return {}

    def check(self, variations: Sequence[Any]) -> None:
        """Exit with a message if something that these studies need is missing."""

    def require_choices(self, needed: Collection[str], known: Collection[str], remedy: str) -> None:
        """Exit if a learning rate was not chosen yet."""
        if missing := set(needed) - set(known):
            sys.exit(
                f"no rate was chosen for {', '.join(sorted(missing))}: run --only tune, then papers.choose {remedy}"
            )

    def check_files(self, variations: Sequence[Any]) -> None:
        """Exit with a message if a file that these studies read is missing."""

    def head(self) -> dict[str, Any]:
        """Return what all runs of a results file have in common."""
        return {"settings": asdict(self.settings), "sites": self.sites.described}

    @classmethod
    def read_sites(cls, path: Path) -> Any:
        """Return the sites in a folder that `make_sites` wrote."""
        raise NotImplementedError

    @classmethod
    def prepared(cls, settings: Any) -> Any:
        """Return the settings with absolute paths."""
        return settings

    def picked(self, names: Sequence[str]) -> list[Any]:
        """Return the studies with these names and those of tables with these names."""
        return [v for v in self.variations.values() if v.name in names or not set(v.tables).isdisjoint(names)]

    def runs(self, names: Sequence[str], seeds: Sequence[int] | None = None, *, tuned: str = "") -> list[Run]:
        """Return the runs of the named tables and studies, with these seeds or each study's own."""
        found = self.picked(names)
        self.check(found)
        runs = []
        for variation in found:
            own: Sequence[int] = range(variation.seeds)
            if seeds is not None:
                own = [seed for seed in seeds if seed in own] if self.fixed_seeds else seeds
            for seed in own:
                study, guess = self.study(variation, seed), self.estimate(variation, seed)
                more = self.options(variation, seed)
                runs.append(Run(variation.name, seed, study, guess, tuned, script=self.script, **more))
        return runs
