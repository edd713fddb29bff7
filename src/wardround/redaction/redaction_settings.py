"""The settings of a redaction: what is hidden, what replaces it, and how notes and patients are named."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Literal

from wardround.errors import CorpusError, UsageError
from wardround.redaction.finders import model_finder, pattern_finder
from wardround.redaction.journal import Settings
from wardround.redaction.patterns import Language, Patterns
from wardround.redaction.redaction_run import Naming, Redaction
from wardround.redaction.replacing import How, Replacer
from wardround.redaction.secret_key import SecretKey, new_key, read_key
from wardround.tasks.mentions import Predictor
from wardround.text.document import Document

__all__ = ["RULES_VERSION", "Ids", "RedactionSettings"]

Ids = Literal["keep", "hash"]

RULES_VERSION = 2  # increased when patterns or surrogates change: a run is not resumed with other rules
_HASH_LENGTH = 32  # hexadecimal digits


@dataclass(frozen=True)
class RedactionSettings:
    """Settings that determine the output; a resumed run must have the same ones."""

    how: How = How.MASK
    language: Language = "en"  # of patterns and surrogates
    threshold: float | None = None  # also hide words that are identifying with a probability above this
    patterns: bool = True  # also hide dates, numbers and addresses by their form
    patient: str = "note"  # what a patient's notes have in common: note, folder, or the name of an attribute
    ids: Ids = "keep"

    @property
    def needs_key(self) -> bool:
        """Return whether the output depends on a key."""
        return self.how is How.SURROGATE or self.ids == "hash"

    def key(self, seed_file: Path | None, *, resume: bool = False) -> SecretKey:
        """Return the site's key; without a file, a random key for this run, so that its choices cannot be repeated."""
        if seed_file is not None:
            return SecretKey(read_key(seed_file))
        if self.needs_key and resume:
            raise UsageError("a run with surrogates or hashed ids resumes only with its own key: give its --seed-file")
        return SecretKey(new_key())

    def redaction(self, task: Predictor | None, key: SecretKey) -> Redaction:
        """Return the redaction with a model's task, or with patterns only if `task` is None."""
        patterns = Patterns(self.language) if self.patterns else None
        if task is not None:
            find = model_finder(task, threshold=self.threshold, patterns=patterns)
        elif patterns is None or self.threshold is not None:
            raise UsageError("give a --model: without one, only patterns are used, and there is no threshold")
        else:
            find = pattern_finder(patterns)
        names = key.child("ids")

        def name_of(document: Document) -> str:
            return document.id if self.ids == "keep" else names.digest(document.id).hex()[:_HASH_LENGTH]

        return Redaction(find, Replacer(self.how, self.language, key), Naming(name_of, self.patient_of))

    def patient_of(self, document: Document) -> str:
        """Return the name of the note's patient; raise a `CorpusError` if the note lacks the attribute."""
        if self.patient == "note":
            return document.id
        if self.patient == "folder":
            return document.id.rpartition("/")[0]
        found = dict(document.attributes).get(self.patient)
        if found is None:
            raise CorpusError(
                f"document {document.id!r} has no attribute {self.patient!r}, which should name its patient"
            )
        return found

    def for_journal(self, *, format: str, model: Path | None, key: SecretKey, review: bool) -> Settings:
        """Return the settings for the journal, with digests of model and key to recognise them."""
        digest = None
        if model is not None:
            files = sha256()
            for path in sorted(path for path in model.rglob("*") if path.is_file()):
                with path.open("rb") as stream:
                    content = file_digest(stream, "sha256").hexdigest()
                files.update(f"{path.relative_to(model).as_posix()} {content}\n".encode())
            digest = files.hexdigest()
        return {
            "how": self.how.value,
            "language": self.language,
            "threshold": self.threshold,
            "patterns": self.patterns,
            "patient": self.patient,
            "ids": self.ids,
            "format": format,
            "review": review,
            "model": digest,
            "key": key.digest("which").hex() if self.needs_key else None,
            "version of the rules": RULES_VERSION,
        }
