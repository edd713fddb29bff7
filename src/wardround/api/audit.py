"""Audits: what updates and models reveal about notes, and whether the noise of a study keeps its promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wardround.api.corpus import existing_path, format_of
from wardround.api.local_study import Study
from wardround.api.results import Result
from wardround.api.trained_model import Model, load
from wardround.errors import UsageError
from wardround.privacy.audit.canaries import make_canaries
from wardround.privacy.audit.membership import MembershipFinding
from wardround.privacy.audit.noise import NoiseAudit, audit_noise
from wardround.reports.tables import Table
from wardround.studies.aggregation_setup import planned_noise
from wardround.studies.audit_notes import training_notes
from wardround.studies.leakage_audit import audit_leakage
from wardround.studies.leakage_findings import HIGHEST_RECALL, Finding, LeakageFindings
from wardround.studies.leakage_page import write_findings
from wardround.studies.membership_audit import MembershipFindings, audit_model
from wardround.studies.run_folder import RunFolder
from wardround.text.document import Document

__all__ = ["LeakageResult", "MembershipResult", "NoiseAudit", "canaries", "leakage", "model", "noise"]


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


class MembershipResult(Result):
    """How well attacks distinguish the training notes of a model from others."""

    def __init__(self, findings: MembershipFindings) -> None:
        self._findings = findings

    @property
    def findings(self) -> tuple[MembershipFinding, ...]:
        """Return the result of each attack."""
        return self._findings.findings

    @property
    def remembers(self) -> bool:
        """Return whether the interval of an attack lies above chance."""
        return self._findings.remembers

    @property
    def sentence(self) -> str:
        """Return what was found, in a sentence for a reader without knowledge of attacks."""
        return self._findings.sentence

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return one row for each attack."""
        return (self._findings.table,)

    def __repr__(self) -> str:
        return f"MembershipResult({self.sentence!r})"


def model(
    model: Model | str | Path,
    members: Iterable[Document],
    others: Iterable[Document],
    *,
    reference: Model | str | Path | None = None,
) -> MembershipResult:
    """Guess from a model which notes it was trained on, by its loss on each.

    Both kinds of notes should be alike: the same hospital, the same years, the same annotators. With the model of
    another site of a study, the result says what the shared layers remember of this site's notes.

    Args:
        model: a model, its folder or its run folder.
        members: notes that the model was trained on.
        others: notes that it never saw, such as test notes.
        reference: a model that saw neither; the loss is then compared with its loss.

    >>> import wardround
    >>> notes = wardround.read("notes")
    >>> found = wardround.audit.model("model", members=list(notes.train), others=list(notes.test))
    >>> found.findings[0].attack, 0 <= found.findings[0].auc.estimate <= 1
    ('loss', True)
    """
    beside = None if reference is None else _loaded(reference).task
    return MembershipResult(audit_model(_loaded(model).task, tuple(members), tuple(others), beside))


def _loaded(model: Model | str | Path) -> Model:
    return model if isinstance(model, Model) else load(model)


def canaries(types: Sequence[str], *, count: int = 40, seed: int = 0) -> tuple[tuple[Document, ...], ...]:
    """Return invented notes to plant among training notes, and as many of the same kind to keep.

    After the training, `wardround.audit.model(model, planted, kept)` says how well the model remembers those that were
    planted.

    >>> import wardround
    >>> planted, kept = wardround.audit.canaries(["Drug"], count=20)
    >>> len(planted), len(kept), planted[0].entities[0].type
    (20, 20, 'Drug')
    """
    if not types or count < 1:
        raise UsageError("name at least one type, and at least one canary")
    return make_canaries(tuple(types), count, seed=seed)
