"""The units of differential privacy in a site's notes: which training examples belong to one note or one patient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from wardround.errors import StudyError, TrainingError
from wardround.studies.single_site import SiteData
from wardround.tasks.task import Task
from wardround.text.document import Document

__all__ = ["PATIENT", "check_patients", "patient_of", "units_of"]

PATIENT = "patient"  # the attribute of a document that says whose note it is


def units_of(
    task: Task, documents: Sequence[Document], unit: Literal["sentence", "note", "patient"]
) -> tuple[tuple[int, ...], ...]:
    """Return the rows of each unit among the training examples of the documents; empty if each example is a unit."""
    if unit == "sentence":
        return ()
    losses = task.alignment_losses
    units: dict[str, list[int]] = {}
    row = 0
    for number, document in enumerate(documents):
        name = patient_of(document) if unit == "patient" else str(number)
        try:
            count = len(task.encode([document]))
        except TrainingError:  # a note without a sentence
            count = 0
        units.setdefault(name, []).extend(range(row, row + count))
        row += count
    task.alignment_losses = losses  # those of all documents together
    return tuple(map(tuple, units.values()))


def patient_of(document: Document) -> str:
    """Return the patient of a note; raise a `StudyError` if it names none."""
    found = dict(document.attributes).get(PATIENT, "")
    if not found:
        raise StudyError(
            f"[privacy.differential_privacy] unit patient: a note has no attribute {PATIENT!r} that says whose it is"
        )
    return found


def check_patients(data: SiteData) -> None:
    """Raise a `StudyError` if a patient has notes in the training part and in another part.

    Counts on development and test notes leave the site without noise, and are not covered by the promise.
    """
    training = {patient_of(document) for document in data.train}
    if any(patient_of(document) in training for document in (*data.dev, *data.test)):
        raise StudyError(
            "[privacy.differential_privacy] unit patient: a patient has training notes and development or test notes; "
            "keep all notes of a patient in one part"
        )
