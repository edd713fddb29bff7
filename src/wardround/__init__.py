"""Wardround: hospitals train one clinical text-mining model together; no note leaves its hospital.

    import wardround

    result = wardround.train("notes", format="brat", out="runs/first")
    note = result.model("The patient took aspirin.")

Everything that is listed in `__all__` is public. A name is imported when it is first used, so that `import wardround`
takes no time; PyTorch is imported with the first model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

__all__ = [
    "CheckResult",
    "Comparison",
    "Corpus",
    "CorpusError",
    "Cost",
    "Document",
    "Entity",
    "Evaluation",
    "FederationError",
    "Model",
    "ModelError",
    "RedactedFolder",
    "Relation",
    "Study",
    "StudyError",
    "StudyResult",
    "TrainingError",
    "TrainingResult",
    "UsageError",
    "WardroundError",
    "__version__",
    "audit",
    "check",
    "compare",
    "evaluate",
    "hospitals",
    "load",
    "read",
    "redact",
    "redact_folder",
    "run",
    "split",
    "train",
    "transfer",
    "write",
]

# The module of each public name, below `wardround`.
_MODULES = {
    "api": ("audit",),  # a module
    "api.comparison": ("Comparison", "compare"),
    "api.corpus": ("CheckResult", "Corpus", "check", "hospitals", "read", "split", "write"),
    "api.local_study": ("Cost", "Study", "StudyResult", "run"),
    "api.one_site": ("Evaluation", "TrainingResult", "evaluate", "train", "transfer"),
    "api.redacted_notes": ("RedactedFolder", "redact", "redact_folder"),
    "api.trained_model": ("Model", "load"),
    "errors": (
        "CorpusError",
        "FederationError",
        "ModelError",
        "StudyError",
        "TrainingError",
        "UsageError",
        "WardroundError",
    ),
    "text.document": ("Document", "Entity", "Relation"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

if TYPE_CHECKING:
    from wardround.api import audit
    from wardround.api.comparison import Comparison, compare
    from wardround.api.corpus import CheckResult, Corpus, check, hospitals, read, split, write
    from wardround.api.local_study import Cost, Study, StudyResult, run
    from wardround.api.one_site import Evaluation, TrainingResult, evaluate, train, transfer
    from wardround.api.redacted_notes import RedactedFolder, redact, redact_folder
    from wardround.api.trained_model import Model, load
    from wardround.errors import (
        CorpusError,
        FederationError,
        ModelError,
        StudyError,
        TrainingError,
        UsageError,
        WardroundError,
    )
    from wardround.text.document import Document, Entity, Relation


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULES["api"]:
        value: Any = import_module(f"wardround.api.{name}")
    else:
        value = getattr(import_module(f"wardround.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
