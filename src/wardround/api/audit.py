"""Audits: what the updates of a study reveal about notes, and whether its noise keeps its promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wardround.api.corpus import existing_path, format_of
from wardround.api.local_study import Study
from wardround.api.results import Result
from wardround.privacy.audit.noise import NoiseAudit, audit_noise
from wardround.reports.tables import Table
from wardround.studies.aggregation_setup import planned_noise
from wardround.studies.audit_notes import training_notes
from wardround.studies.leakage_audit import audit_leakage
from wardround.studies.leakage_findings import HIGHEST_RECALL, Finding, LeakageFindings
from wardround.studies.leakage_page import write_findings
from wardround.studies.run_folder import RunFolder
from wardround.text.document import Document

__all__ = ["LeakageResult", "NoiseAudit", "leakage", "noise"]


class LeakageResult(Result):
    """What the attacks of a leakage audit recovered."""

    def __init__(self, findings: LeakageFindings) -> None:
        self._findings = findings

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the result of each attack by reader and round."""
        return self._findings.findings

    @property
    def recall(self) -> float:
        """Return the highest share of the words that a reader recovered."""
        return self._findings.recall

    @property
    def sentence(self) -> str:
        """Return what was found, in a sentence for a reader without knowledge of attacks."""
        return self._findings.sentence

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the best round of each attack by reader."""
        return (self._findings.table,)

    def passes(self, highest_recall: float = HIGHEST_RECALL) -> bool:
        """Return whether no attack recovered a larger share of the words, and none a whole sentence."""
        return self._findings.passes(highest_recall)

    def write(self, folder: str | Path) -> Path:
        """Write leakage.json and leakage.html; in a run folder, the report of the run shows them. Return the page."""
        return write_findings(self._findings, RunFolder(Path(folder)))

    def __repr__(self) -> str:
        return f"LeakageResult({self.sentence!r})"


def leakage(
    study: Study | str | Path,
    *,
    data: Iterable[Document] | str | Path = (),
    format: str = "",
    options: Mapping[str, Any] | None = None,
    rounds: int = 2,
) -> LeakageResult:
    """Make real updates of a study, attack them as each reader could, and return what was recovered.

    Args:
        study: a study, or the path of a study file.
        data: notes to make updates from, or their path; by default those of built-in hospitals. The result has figures
            only.
        format: the format of the notes, if `data` is a path.
        options: options of the format.
        rounds: rounds to attack.

    >>> import wardround
    >>> ward = {"built_in": "harbour-0000", "types": ["Drug"]}
    >>> study = wardround.Study("one ward", sites={"harbour": ward}, model={"shared": ["words"]})
    >>> found = wardround.audit.leakage(study, rounds=1)
    >>> found.recall > 0.9, found.passes()
    (True, False)
    >>> found.findings[0].reader, found.findings[0].attack
    ('the coordinator', 'changed rows')
    """
    settings = study.settings if isinstance(study, Study) else Study.from_file(study).settings
    if isinstance(data, str | Path):
        notes = training_notes(existing_path(data, format), format_of(format, options or {}))
    else:
        notes = tuple(data)
    return LeakageResult(audit_leakage(settings, notes, rounds=rounds))


def noise(study: Study | str | Path, *, canaries: int = 1000, seed: int = 0) -> NoiseAudit:
    """Try to refute the differential privacy of a study in one run, with units that are as easy to guess as possible.

    The result has the ε that the study claims, and a lower bound on the ε that its noise really has (95% confidence).

    Args:
        study: a study with [privacy.differential_privacy], or the path of a study file.
        canaries: units that are guessed; more of them give a higher bound.
        seed: of the units and of the noise of the audit.

    >>> import wardround
    >>> wards = {name: {"built_in": f"{name}-0000", "types": ["Drug"]} for name in ("harbour", "hillside", "riverside")}
    >>> privacy = {"mechanism": "masked", "minimum_sites": 3, "differential_privacy": {"epsilon": 2.0, "delta": 1e-3}}
    >>> study = wardround.Study(
    ...     "wards", sites=wards, algorithm={"name": "fedner", "rounds": 5}, model={"shared": ["all"]}, privacy=privacy
    ... )
    >>> found = wardround.audit.noise(study)
    >>> found.claimed, found.measured < found.claimed, found.refuted
    (2.0, True, False)
    """
    settings = study.settings if isinstance(study, Study) else Study.from_file(study).settings
    return audit_noise(
        planned_noise(settings), honest_sites=settings.privacy.honest_sites, canaries=canaries, seed=seed
    )
