"""The hospitals of the synthetic corpus, by name."""

from __future__ import annotations

from functools import lru_cache

from wardround.corpora.synthetic import SyntheticSite, clinical_hospitals, many_hospitals, phi_hospitals
from wardround.errors import StudyError
from wardround.settings import did_you_mean

__all__ = ["built_in_hospital"]

_MANY = "-"  # `harbour-0012` is one of many small hospitals


def built_in_hospital(name: str, seed: int) -> SyntheticSite:
    """The hospital called `name`, as written from `seed`."""
    number = name.partition(_MANY)[2]
    if number.isdecimal():
        small = many_hospitals(int(number) + 1, seed)[int(number)]
        if small.name != name:
            raise StudyError(f"no built-in hospital is called {name!r} – did you mean {small.name!r}?")
        return small
    known = _clinical(seed)
    if name not in known:
        known = known | _identifying(seed)  # looked for last: whoever wants the others need not have them written
    if name not in known:
        raise StudyError(
            f"no built-in hospital is called {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}"
        )
    return known[name]


@lru_cache(maxsize=2)
def _clinical(seed: int) -> dict[str, SyntheticSite]:
    return {hospital.name: hospital for hospital in clinical_hospitals(seed)}


@lru_cache(maxsize=2)
def _identifying(seed: int) -> dict[str, SyntheticSite]:
    return {hospital.name: hospital for hospital in phi_hospitals(seed)}
