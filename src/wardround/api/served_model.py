"""A trained model as a REST service."""

from __future__ import annotations

from pathlib import Path

from starlette.types import ASGIApp

from wardround.api.redacted_notes import redaction_settings
from wardround.api.trained_model import Model, load
from wardround.errors import UsageError
from wardround.serving.access import ServiceAccess
from wardround.serving.limits import Limits
from wardround.serving.service import app_of, can_redact, redactions

__all__ = ["open_service"]


def open_service(
    model: Model | str | Path,
    *,
    access: ServiceAccess | None = None,
    limits: Limits | None = None,
    language: str = "en",
    threshold: float | None = None,
    seed_file: str | Path | None = None,
    device: str = "auto",
) -> ASGIApp:
    """Return a model as an ASGI application, which also redacts if all its types identify people.

    Args:
        model: a model, or its folder.
        access: who may use the service; by default this machine, without a token.
        limits: sizes and rates.
        language: the language of patterns and surrogates in redaction.
        threshold: in redaction, also hide words that are identifying with a probability above this.
        seed_file: a file with the site's key of surrogates; without it, each start of the service has its own key.
    """
    loaded = load(model, device=device) if isinstance(model, str | Path) else model
    if not can_redact(loaded):
        if threshold is not None or seed_file is not None:
            raise UsageError("this model does not redact: its types are not all known to identify people")
        return app_of(loaded, access=access, limits=limits)
    settings = redaction_settings("surrogate", language, threshold, patterns=True, patient="note", ids="keep")
    key = settings.key(None if seed_file is None else Path(seed_file))
    return app_of(loaded, access=access, limits=limits, redaction=redactions(loaded.predictor, settings, key))
