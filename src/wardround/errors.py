"""Every error Wardround raises on purpose.

WardroundError
├── TextError            a document, entity or tag that contradicts itself
│   └── TagError         a tag or tag sequence outside its scheme
├── CorpusError          a file that is not in the expected format: names file and line
│   └── SplitError       a split that overlaps, leaks or no longer matches its checksums
├── ModelError           a model folder or configuration that cannot be used
├── TrainingError        a training that cannot start, or whose numbers are not finite
├── MessageError         bytes that are not a message, or a message that a step refuses: has a code
│   └── RefusedSumError  a sum that a site does not open
├── FederationError      a round that cannot continue: too few sites answered
│   ├── SpentBudgetError a study whose sites have spent their privacy budget
│   ├── SpoiledSumError  a sum that a site spoiled, so that it cannot be opened
│   └── WithheldSeedError a sum that cannot be opened because a site did not send the seed of its mask
├── KitError             a kit, request or approval that is incomplete, altered, expired or for another party
├── KeyMaterialError     a key, key copy or vault that cannot be used, or a secret where none may be
├── LedgerError          a ledger that was altered, cut short or cannot be written
├── StudyError           a study file with a wrong setting: names section and setting
│   └── SweepError       a sweep file with a wrong setting: names section or cell
└── UsageError           a command whose arguments do not fit together

CorpusWarning is a warning, not an error. A message names the thing, the place and the remedy; it never quotes a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "CorpusError",
    "CorpusWarning",
    "FederationError",
    "KeyMaterialError",
    "KitError",
    "LedgerError",
    "MessageError",
    "ModelError",
    "RefusedSumError",
    "SpentBudgetError",
    "SplitError",
    "SpoiledSumError",
    "StudyError",
    "SweepError",
    "TagError",
    "TextError",
    "TrainingError",
    "UsageError",
    "WardroundError",
    "WithheldSeedError",
]


class CorpusWarning(UserWarning):
    """Notes can be used, but what is learned or scored from them may not mean what it seems to."""


class WardroundError(Exception):
    """The base class of every error that Wardround raises on purpose."""


class TextError(WardroundError):
    """A document, entity or relation contradicts itself."""


class TagError(TextError):
    """A tag, or a sequence of tags, lies outside its scheme."""


class CorpusError(WardroundError):
    """A corpus file is not in its format; `path` and `line` say where."""

    def __init__(self, message: str, *, path: Path | str | None = None, line: int | None = None) -> None:
        self.reason = message
        self.path = None if path is None else Path(path)
        self.line = line
        place = "" if self.path is None else f"{self.path.name}:{line}: " if line else f"{self.path.name}: "
        super().__init__(place + message)


class SplitError(CorpusError):
    """A split overlaps, leaks, or no longer matches its checksums."""


class ModelError(WardroundError):
    """A model folder or configuration cannot be used."""


class TrainingError(WardroundError):
    """A training cannot start, or its numbers are not finite."""


class MessageError(WardroundError):
    """Bytes are not a message, or a step refuses a message; only `code` is sent to another party."""

    def __init__(self, code: str, message: str = "") -> None:
        self.code = code
        super().__init__(f"{code}: {message}" if message else code)


class RefusedSumError(MessageError):
    """A site does not open a sum; whatever the reason, the code is the same.

    `counts` is true if the list of contributions was valid, so that the reason depends on a secret.
    """

    def __init__(self, message: str, *, counts: bool) -> None:
        self.counts = counts
        super().__init__("sum", message)


class FederationError(WardroundError):
    """A round cannot continue."""


class SpentBudgetError(FederationError):
    """Too few sites can take part in a round because others have spent their privacy budget."""


class SpoiledSumError(FederationError):
    """The sum of `sites` cannot be opened because one of them spoiled it; `culprit` names it if it is known."""

    def __init__(self, message: str, *, sites: Sequence[str], culprit: str = "") -> None:
        self.sites, self.culprit = tuple(sites), culprit
        super().__init__(message)


class WithheldSeedError(FederationError):
    """The sum of a round cannot be opened because `sites` submitted an update and did not send the seed of its mask."""

    def __init__(self, message: str, *, sites: Sequence[str]) -> None:
        self.sites = tuple(sites)
        super().__init__(message)


class KitError(WardroundError):
    """A kit, a request or an approval cannot be used: incomplete, altered, expired or for another party."""


class KeyMaterialError(WardroundError):
    """A key, key copy or vault cannot be used, or a secret was found where none may be."""


class LedgerError(WardroundError):
    """A ledger was altered, cut short, or cannot be written."""


class StudyError(WardroundError):
    """A study file has a wrong setting; it is refused before round 1."""


class SweepError(StudyError):
    """A sweep file or one of its cells has a wrong setting; it is refused before the first run."""


class UsageError(WardroundError):
    """Arguments of a command do not fit together."""
