"""A site's own policy: limits that its owner sets, and that no coordinator and no study file can change.

The policy is a TOML file with one section per topic, in the folder of the site; each section is a frozen dataclass. A
site without the file has the defaults. It looks like this:

    [leakage]
    highest_token_recall = 0.5   # share of the tokens of an update that the leakage audit may recover
    fewest_tokens = 2000         # tokens of which a sum must be made

    [differential_privacy]
    epsilon = 4.0                # the site stops at this ε, even if the study's is higher

A further section is one dataclass, and one field of `SitePolicy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import get_type_hints

from wardround.errors import StudyError
from wardround.parsing import MalformedDataError, parse_toml, read_limited
from wardround.settings import did_you_mean
from wardround.studies.sections import parsed, table_in

__all__ = ["POLICY", "BudgetPolicy", "LeakagePolicy", "SitePolicy", "policy_digest", "read_site_policy"]

POLICY = "site_policy.toml"
_LARGEST = 1_000_000  # bytes


@dataclass(frozen=True)
class LeakagePolicy:
    """The section [leakage]: what the updates of this site may reveal."""

    highest_token_recall: float = 1.0  # that an attack of the audit may reach; 1 refuses nothing
    fewest_tokens: int | None = None  # in a sum; unset: twice the width of a shared attention layer; 0: no limit

    def __post_init__(self) -> None:
        if not 0 <= self.highest_token_recall <= 1:
            raise StudyError(f"highest_token_recall is {self.highest_token_recall}; it is a share, from 0 to 1")
        if self.fewest_tokens is not None and self.fewest_tokens < 0:
            raise StudyError(f"fewest_tokens is {self.fewest_tokens}; it is a number of tokens, or 0 for no limit")


@dataclass(frozen=True)
class BudgetPolicy:
    """The section [differential_privacy]: how much of its privacy this site spends."""

    epsilon: float | None = None  # of everything that a study releases here; unset: what the study says

    def __post_init__(self) -> None:
        if self.epsilon is not None and not self.epsilon > 0:
            raise StudyError(f"epsilon is {self.epsilon}; it must be above zero")


@dataclass(frozen=True)
class SitePolicy:
    """Everything that the owner of a site decided; each field is a section of the file."""

    leakage: LeakagePolicy = field(default_factory=LeakagePolicy)
    differential_privacy: BudgetPolicy = field(default_factory=BudgetPolicy)


def read_site_policy(folder: Path) -> SitePolicy:
    """Return the policy in the folder of a site; the defaults if there is no file."""
    path = folder / POLICY
    if not path.is_file():
        return SitePolicy()
    try:
        table = parse_toml(str(read_limited(path, _LARGEST), "utf-8"), finite=True)
    except (MalformedDataError, OSError, UnicodeDecodeError) as error:
        reason = (
            str(error) if isinstance(error, MalformedDataError) else f"cannot be read as text: {type(error).__name__}"
        )
        raise StudyError(f"{POLICY} {reason}") from None
    sections = get_type_hints(SitePolicy)
    for name in table:
        if name not in sections:
            near = did_you_mean(name, sections)
            raise StudyError(f"{POLICY}: [{name}] is not a section{near}; there are {', '.join(sections)}")
    return SitePolicy(**{name: parsed(kind, table_in(table, name), name) for name, kind in sections.items()})


def policy_digest(folder: Path) -> str:
    """Return a digest of the policy file, which an acceptance covers; empty if there is no file."""
    path = folder / POLICY
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
