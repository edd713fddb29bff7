"""`wardround model`: show a saved model, or the available networks."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.options import ModelFolder
from wardround.cli.printing import Json, printed
from wardround.reports.tables import Cell, Table
from wardround.text.plain_text import size_text

if TYPE_CHECKING:
    from wardround.models.parameter_split import LayeredModel

__all__ = ["app"]


class ExportFormat(Enum):
    """The formats that a model is exported to."""

    ONNX = "onnx"


app = typer.Typer(no_args_is_help=True)


@app.command()
def show(model: ModelFolder, json: Json = False) -> None:
    """Show types, tagging scheme, the layer groups with their sizes, and what a transferred model copied."""
    # Imported here, because the other command needs no torch.
    from wardround.models.cards import CARD, ONNX, model_card
    from wardround.models.saved import load_model
    from wardround.studies.transfer_run import saved_transfer_table

    folder = model / "model" if (model / "model" / CARD).is_file() else model  # the run folder around it
    card = model_card(folder)
    loaded = None if card["kind"] == ONNX else load_model(folder)
    facts: dict[str, Cell] = {"kind": card["kind"]}
    if "scheme" in card["config"]:
        facts["scheme"] = card["config"]["scheme"]
    facts["types"] = ", ".join(card["types"])
    notes = dict(card.get("notes", {}))
    transfer = saved_transfer_table(notes["transfer"]) if "transfer" in notes else None
    if transfer is not None:
        del notes["transfer"]
    for name, value in notes.items():
        facts[name] = value if isinstance(value, float) else str(value)
    with printed(json) as result:
        result.table("card", Table(model.name, ("fact", "value"), tuple(facts.items())), card)
        if loaded is not None:  # an ONNX model has no layer groups
            result.table("groups", groups_table(loaded))
        if transfer is not None:
            result.table("transfer", transfer)


@app.command()
def export(
    model: ModelFolder,
    out: Annotated[Path, typer.Argument(help="The new folder.")],
    format: Annotated[
        ExportFormat, typer.Option(help="onnx: ONNX Runtime runs it, without torch.")
    ] = ExportFormat.ONNX,
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights in 8 bits: smaller and faster, nearly as good.")
    ] = False,
    json: Json = False,
) -> None:
    """Export a tagger for other software; `predict`, `evaluate`, `redact` and `serve` accept the folder too."""
    from wardround.api.trained_model import load

    load(model, device="cpu").export(out, int8=int8)
    size = sum(path.stat().st_size for path in out.iterdir())
    with printed(json) as result:
        result.line(f"{out}  {size_text(size)}", out=out, format=format, int8=int8, bytes=size)


@app.command()
def presets(json: Json = False) -> None:
    """List the named networks and the layers of each; all end in a CRF."""
    from wardround.models.presets import PRESETS

    rows = tuple(
        (
            name,
            config.character_layer,
            config.contextual or "–",
            config.word_cnn or "–",
            f"{config.lstm_layers} × {config.lstm}" if config.lstm else "–",
            config.dense or "–",
        )
        for name, config in PRESETS.items()
    )
    columns = ("preset", "characters", "context", "word CNN", "BiLSTM", "dense")
    with printed(json) as result:
        settings = {name: asdict(config) for name, config in PRESETS.items()}
        result.table("presets", Table("Presets", columns, rows), settings)


def groups_table(model: LayeredModel) -> Table:
    """Return the layer groups from bottom to top: shared or private, and the number of trainable parameters."""
    sizes = {group: sum(p.numel() for p in model.parameters_in((group,)).values()) for group in model.groups}
    rows = tuple((group, "shared" if group in model.split.shared else "private", size) for group, size in sizes.items())
    return Table("Layer groups", ("group", "half", "parameters"), rows, totals=(("all", "", sum(sizes.values())),))
