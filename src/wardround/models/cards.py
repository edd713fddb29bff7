"""The card of a saved model, `wardround.json`: which kind of model a folder holds, and what it finds.

Nothing here imports torch, so that an ONNX model is loaded without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wardround.errors import ModelError
from wardround.parsing import MalformedDataError, read_json

__all__ = ["CARD", "CARD_FORMAT", "ONNX", "model_card"]

CARD, CARD_FORMAT = "wardround.json", 1
ONNX = "onnx"  # the kind of an exported network, which predicts and cannot be trained
_MOST_NAMED = 4  # folders in an error


def model_card(folder: Path) -> dict[str, Any]:
    """Return the contents of `wardround.json`."""
    try:
        card = read_json(folder / CARD)
    except FileNotFoundError:
        raise ModelError(_no_model(folder)) from None
    except OSError as error:
        raise ModelError(f"{folder.name}/{CARD} cannot be read ({error.strerror})") from error
    except MalformedDataError as error:
        raise ModelError(f"{folder.name}/{CARD} {error}") from error
    if (
        not isinstance(card, dict)
        or card.get("format") != CARD_FORMAT
        or not isinstance(card.get("kind"), str)
        or not isinstance(card.get("notes", {}), dict)
        or not isinstance(card.get("config"), dict)
        or not isinstance(card.get("types"), list)
        or not all(isinstance(kind, str) for kind in card["types"])
    ):
        raise ModelError(f"{folder.name}/{CARD} is not a model card of format {CARD_FORMAT}")
    return card


def _no_model(folder: Path) -> str:
    """Return an error for a folder without a model, which names the folders below it that would do."""
    if not folder.is_dir():
        return f"there is no folder {folder.name!r}; `wardround train` writes a model to the folder model of its --out"
    depths = ("*", "*/*", "*/*/*")  # of a training, of one site of a study, and of the demo's study
    below = [path.parent.relative_to(folder) for depth in depths for path in sorted(folder.glob(f"{depth}/{CARD}"))]
    if not below:
        remedy = "`wardround train` writes a model to the folder model of its --out"
    else:
        named = ", ".join((Path(folder.name) / path).as_posix() for path in below[:_MOST_NAMED])
        remedy = f"try {named}" + (" …" if len(below) > _MOST_NAMED else "")
    return f"folder {folder.name!r} holds no model: there is no {CARD} in it; {remedy}"
