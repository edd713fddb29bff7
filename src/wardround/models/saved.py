"""A saved model: a folder of safetensors and JSON files, written completely or not at all.

`wardround.json`, the model card, says what the model is; its family decides which files hold the weights.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from wardround.errors import ModelError
from wardround.models.cards import CARD, CARD_FORMAT, ONNX, model_card
from wardround.models.family_table import FAMILIES, family_of
from wardround.models.parameter_split import LayeredModel
from wardround.models.pretrained import check_model_folder

__all__ = ["load_model", "save_model"]

_log = logging.getLogger(__name__)


def save_model(model: LayeredModel, folder: Path, *, notes: Mapping[str, Any] | None = None) -> None:
    """Write `model` to `folder`, replacing a model that was there; `notes` are added to the card."""
    taken = folder.is_file() or (folder.is_dir() and any(folder.iterdir()))
    if taken and not (folder / CARD).is_file():
        raise ModelError(f"{folder.name!r} contains files that are not a model; name a new or empty folder")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        saved = family_of(model).save(model, partial)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        reason = "the disk is full" if "No space left" in str(error) else type(error).__name__
        raise ModelError(
            f"the model cannot be written to {folder.parent.name}/{folder.name}: {reason}; make room and run the same "
            "command again, which resumes at its last checkpoint"
        ) from error
    card = {"format": CARD_FORMAT, "kind": model.kind, **saved, "config": model.settings(), "notes": dict(notes or {})}
    (partial / CARD).write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)


def load_model(folder: Path) -> LayeredModel:
    """Load the model in `folder`, ready to predict.

    Nothing in the folder is run and no hub is called, whatever the card says about the model's origin.
    """
    card = model_card(folder)
    check_model_folder(folder)
    if card["kind"] == ONNX:
        raise ModelError(
            f"{folder.name} is an ONNX model, which only predicts; name the model that it was exported from"
        )
    if card["kind"] not in FAMILIES:
        raise ModelError(f"{folder.name}: this version does not know the model family {card['kind']!r}")
    model = FAMILIES[card["kind"]].load(folder, card)
    model.eval()
    _log.info("loaded a %s of %d types", card["kind"], len(card["types"]))
    return model
