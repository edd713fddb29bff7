"""Merge a committed summary with a new one: seeds are joined, settings must agree.

A study of a summary has a list of seeds and, at any depth, lists of the same length with the figures of each seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wardround.errors import UsageError

__all__ = ["merged"]

_RUNS = ("studies", "devices", "left_out", "all_related", "overheads")  # everything else is settings and sites
_NOT_BY_SEED = ("network",)  # parts of a study whose lists do not run over seeds


class _Pick(NamedTuple):
    """Which summary a seed's figures are taken from."""

    side: int  # 0: committed, 1: new
    place: int  # in the list of seeds


def merged(known: Mapping[str, Any], found: Mapping[str, Any], *, place: str) -> dict[str, Any]:
    """Return both summaries as one; raise `UsageError` if a setting that both have differs."""
    settings = [name for name in found if name not in _RUNS and name in known]
    if other := [name for name in settings if not _agree(known[name], found[name])]:
        raise UsageError(
            f"the new summary has other {', '.join(other)} than the committed one and cannot be merged with it; it is "
            f"in {place}/expected.json, its page in {place}/README.md"
        )
    old, new = known.get("studies", {}), found.get("studies", {})
    studies = {**old, **{name: _study(old[name], own) if name in old else own for name, own in new.items()}}
    devices = sorted({*known.get("devices", []), *found.get("devices", [])})
    left = {name: known[name] for name in ("left_out", "all_related") if name in known}
    both = {name: _both(known[name], found[name]) for name in settings}
    return {**known, **found, **left, **both, "devices": devices, "studies": studies}


def _agree(one: Any, other: Any) -> bool:
    """Return whether two settings are equal; tables agree if all entries that both have agree."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(_agree(one[name], other[name]) for name in one.keys() & other.keys())
    return bool(one == other)


def _both(one: Any, other: Any) -> Any:
    """Return all entries of two tables that agree."""
    if not isinstance(one, Mapping):
        return one
    return {**other, **{name: _both(own, other[name]) if name in other else own for name, own in one.items()}}


def _study(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """Join the seeds; a new run replaces the committed one. Of incompatible studies, keep the one with more seeds."""
    if not _compatible(old, new):
        return new if len(new["seed"]) >= len(old["seed"]) else old
    picks = _picks(old, new)
    return {name: _part(name, (old[name], new[name]), (old, new), picks) for name in old}


def _compatible(old: Any, new: Any) -> bool:
    """Return whether both have the same figures for each seed, and the same learning rate."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return isinstance(old, Mapping) == isinstance(new, Mapping)
    if _rates(old) != _rates(new):
        return False
    return old.keys() == new.keys() and all(_compatible(old[name], new[name]) for name in old)


def _rates(study: Mapping[str, Any]) -> set[float]:
    rates = study.get("learning_rate", [])
    return set(rates if isinstance(rates, list) else [rates])


def _picks(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[_Pick]:
    """Return the source of each seed; a run that was cut off never replaces a finished one."""
    by_seed = {seed: _Pick(0, place) for place, seed in enumerate(old["seed"])}
    for place, seed in enumerate(new["seed"]):
        if seed not in by_seed or not _cut_off(new, place) or _cut_off(old, by_seed[seed].place):
            by_seed[seed] = _Pick(1, place)
    return [by_seed[seed] for seed in sorted(by_seed)]


def _cut_off(study: Mapping[str, Any], place: int) -> bool:
    return bool(study["cut_off"][place]) if "cut_off" in study else False


def _part(name: str, parts: tuple[Any, Any], studies: tuple[Any, Any], picks: Sequence[_Pick]) -> Any:
    if name not in _NOT_BY_SEED and isinstance(parts[0], Mapping):
        return {key: _part(key, (parts[0][key], parts[1][key]), studies, picks) for key in parts[0]}
    by_seed = all(
        isinstance(own, list) and len(own) == len(study["seed"]) for own, study in zip(parts, studies, strict=True)
    )
    if name in _NOT_BY_SEED or not by_seed:
        return parts[1]
    return [parts[pick.side][pick.place] for pick in picks]
