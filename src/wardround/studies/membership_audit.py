"""The audit of a finished model: membership inference by its loss, and by its loss beside that of a reference model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from wardround.errors import UsageError
from wardround.privacy.audit.membership import MembershipFinding, guess_membership
from wardround.reports.tables import Row, Table
from wardround.studies.privacy_units import units_of
from wardround.tasks.task import Task
from wardround.text.document import Document

__all__ = ["MembershipFindings", "audit_model"]

_FEWEST = 10  # notes on each side; an interval over fewer says nothing


@dataclass(frozen=True)
class MembershipFindings:
    """The result of an audit of a model."""

    findings: tuple[MembershipFinding, ...]

    @property
    def remembers(self) -> bool:
        """Return whether an attack is above chance."""
        return any(finding.above_chance for finding in self.findings)

    @property
    def sentence(self) -> str:
        """Return what was found, in a sentence for a reader without knowledge of attacks."""
        best = max(self.findings, key=lambda finding: finding.auc.estimate)
        if not self.remembers:
            return (
                f"Whoever has this model cannot tell its training notes from others by these attacks (AUC "
                f"{best.auc.estimate:.2f}, chance is 0.50)."
            )
        return (
            f"Whoever has this model and a note can guess whether the note was in the training: of a training note and "
            f"another one, the right one is picked in {best.auc.estimate:.0%} of the cases, where chance is 50%."
        )

    @property
    def table(self) -> Table:
        """Return one row for each attack."""
        rows: tuple[Row, ...] = tuple(
            (
                finding.attack,
                finding.members,
                finding.others,
                finding.auc.estimate,
                f"{finding.auc.low:.3f}–{finding.auc.high:.3f}",
                finding.caught,
            )
            for finding in self.findings
        )
        columns = ("attack", "training notes", "other notes", "AUC", "95% interval", "caught at 1% false")
        return Table("Membership inference", columns, rows)

    def as_json(self) -> dict[str, Any]:
        """Return all figures."""
        return {"findings": [asdict(finding) for finding in self.findings], "remembers": self.remembers}


def audit_model(
    task: Task, members: Sequence[Document], others: Sequence[Document], reference: Task | None = None
) -> MembershipFindings:
    """Guess which notes a model was trained on, by its loss; `reference` is a model that saw neither."""
    for name, notes in (("training", members), ("other", others)):
        if len(notes) < _FEWEST:
            raise UsageError(f"there are {len(notes)} {name} notes; the audit needs at least {_FEWEST}")
    losses = _losses(task, members), _losses(task, others)
    scores = tuple([-loss for loss in side] for side in losses)
    findings = [guess_membership("loss", *scores)]
    if reference is not None:
        known = _losses(reference, members), _losses(reference, others)
        scores = tuple(
            [beside - loss for loss, beside in zip(*pair, strict=True)] for pair in zip(losses, known, strict=True)
        )
        findings.append(guess_membership("loss beside a reference model", *scores))
    return MembershipFindings(tuple(findings))


def _losses(task: Task, documents: Sequence[Document]) -> list[float]:
    """Return the loss of each note per word; a note without a sentence has none and is an error."""
    examples = task.encode(documents)
    found = []
    task.model.eval()
    with torch.no_grad():
        for rows in units_of(task, documents, "note"):
            own = [examples[row] for row in rows]
            words = sum(map(task.tokens, own))
            if not words:
                raise UsageError("a note has no words; leave it out of the audit")
            found.append(sum(float(task.batch_loss([example])) for example in own) / words)
    return found
