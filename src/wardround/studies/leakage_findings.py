"""The figures of a leakage audit: by reader and attack, as a table, as JSON, and as a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from wardround.reports.tables import Row, Table
from wardround.studies.study_file import Study, digest_of

__all__ = [
    "BOTH",
    "COORDINATOR",
    "HIGHEST_RECALL",
    "OTHER_SITE",
    "Finding",
    "LeakageFindings",
    "findings_from",
]

COORDINATOR, OTHER_SITE, BOTH = "the coordinator", "another site", "the coordinator together with another site"
HIGHEST_RECALL = 0.5  # of the tokens; above it the audit reports a finding, unless a site sets another limit
_SHORT = {COORDINATOR: "coordinator", OTHER_SITE: "another site", BOTH: "both together"}
_COLUMNS = ("who", "sees", "attack", "words", "recall", "right", "chance", "whole")


@dataclass(frozen=True)
class Finding:
    """What one attack of one reader recovered from one round."""

    reader: str
    what: str  # one update, sum, sum less its own, or the step of the shared layers
    attack: str
    round: int
    sites: int  # whose notes are behind it and unknown to the reader
    sentences: int  # behind it
    tokens: int  # in these sentences
    different: int  # tokens among them
    recall: float  # share of the different tokens that were named
    precision: float
    chance: float  # the recall of random names under the same rule
    whole: int | None = None  # sentences recovered whole; None if the attack does not try
    length_found: bool | None = None  # whether the length of the longest sentence was read; None if it is not shown


@dataclass(frozen=True)
class LeakageFindings:
    """The result of a leakage audit."""

    study: str
    digest: str  # of the study file
    algorithm: str
    mechanism: str
    epsilon: float | None  # of the study's differential privacy
    unseeing: tuple[str, ...]  # readers who can read neither an update nor a sum
    own_notes: bool  # whether the notes were the site's own
    sends: str  # what leaves a site
    unit: str = "words"  # what was looked for
    findings: tuple[Finding, ...] = ()
    not_attacked: str = ""  # the kind of model, if no attack of the audit knows it

    @classmethod
    def of(cls, study: Study, *, own_notes: bool) -> LeakageFindings:
        """Return the findings of an audit that has not run yet."""
        mechanism, settings = study.privacy.protection, study.privacy.differential_privacy
        reads_nothing = not (mechanism.coordinator_reads_update or mechanism.coordinator_reads_sum)
        return cls(
            study.study.name,
            digest_of(study),
            study.algorithm.name,
            mechanism.name,
            None if settings is None else settings.epsilon,
            (COORDINATOR,) if reads_nothing else (),
            own_notes,
            study.algorithm.kind.sends,
        )

    @property
    def worst(self) -> Finding | None:
        """Return the finding with the highest recall; None without an attack."""
        return max(self.findings, key=lambda found: (found.recall, found.precision), default=None)

    @property
    def recall(self) -> float:
        """Return the highest token recall of any reader and attack."""
        return self.worst.recall if self.worst else 0.0

    @property
    def whole(self) -> int:
        """Return the most sentences that a reader recovered whole."""
        return max((found.whole or 0 for found in self.findings), default=0)

    def passes(self, highest: float = HIGHEST_RECALL) -> bool:
        """Return whether no attack recovered a larger share of the tokens, and none a whole sentence."""
        return not self.not_attacked and self.recall <= highest and not (self.whole and highest < 1)

    @property
    def sentence(self) -> str:
        """Return what the audit found, for a reader without knowledge of attacks."""
        if self.sends != "updates":
            return f"No update leaves a site in this study ({self.sends} do), so there is no gradient to attack."
        if self.not_attacked:
            return f"No attack of this audit knows the network {self.not_attacked}: nothing was measured."
        worst = self.worst
        if worst is None:
            return "Nothing that leaves a site can be read by the attacks of this audit."
        sum_of = "one site's update" if worst.sites == 1 else f"the sum of {worst.sites} sites' updates"
        behind = "1 sentence" if worst.sentences == 1 else f"{worst.sentences:,} sentences"
        count = "1 sentence" if self.whole == 1 else f"{self.whole:,} sentences"
        wholly = f", and an attack recovered {count} word for word" if self.whole else ""
        found = (
            f"From {sum_of}, made of {behind}, {worst.reader} could name {worst.recall:.0%} of "
            f"the {worst.different:,} different {self.unit} ({worst.precision:.0%} of its names were right){wholly}; "
            f"a random guess names {worst.chance:.0%}."
        )
        if self.epsilon is not None:
            return f"{found} The noise of the study bounds this for every attack, known or not: ε = {self.epsilon:g}."
        return f"{found} This is the best of the attacks that were run; others may find more."

    @property
    def table(self) -> Table:
        """Return the best round of each attack by reader."""
        best: dict[tuple[str, str], Finding] = {}
        for found in self.findings:
            key = (found.reader, found.attack)
            if key not in best or found.recall > best[key].recall:
                best[key] = found
        rows: list[Row] = [
            (
                _SHORT[found.reader],
                found.what if found.sites == 1 else f"{found.what}, {found.sites} sites",
                found.attack,
                found.different,
                f"{found.recall:.2f}",
                f"{found.precision:.2f}",
                f"{found.chance:.2f}",
                "–" if found.whole is None else f"{found.whole} of {found.sentences}",
            )
            for found in best.values()
        ]
        rows += [(_SHORT[name], "ciphertexts", *("–",) * (len(_COLUMNS) - 2)) for name in self.unseeing]
        lengths = ", ".join(sorted({_SHORT[found.reader] for found in best.values() if found.length_found}))
        note = (
            f"The changed position rows also told the length of the longest sentence to {lengths}." if lengths else ""
        )
        return Table(f"What updates under {self.mechanism} reveal", _COLUMNS, tuple(rows), note=note)

    def as_json(self) -> dict[str, Any]:
        """Return plain values, from which `findings_from` returns the same findings."""
        return {**asdict(self), "findings": [asdict(found) for found in self.findings], "sentence": self.sentence}


def findings_from(values: Mapping[str, Any]) -> LeakageFindings:
    """Return the findings that `as_json` returned."""
    plain = {name: value for name, value in values.items() if name != "sentence"}
    found = tuple(Finding(**each) for each in plain.pop("findings"))
    return LeakageFindings(**{**plain, "findings": found, "unseeing": tuple(plain["unseeing"])})
