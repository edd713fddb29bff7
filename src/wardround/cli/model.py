"""`wardround model`: show a saved model, or the available networks."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from wardround.cli.options import ModelFolder
from wardround.cli.printing import Json, printed
from wardround.reports.tables import Cell, Table

if TYPE_CHECKING:
    from wardround.models.parameter_split import LayeredModel

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)


@app.command()
def show(model: ModelFolder, json: Json = False) -> None:
    """Show types, tagging scheme, the layer groups with their sizes, and what a transferred model copied."""
    # Imported here, because the other command needs no torch.
    from wardround.models.model_files import CARD
    from wardround.models.saved import load_model, model_card
    from wardround.studies.transfer_run import saved_transfer_table

    folder = model / "model" if (model / "model" / CARD).is_file() else model  # the run folder around it
    loaded, card = load_model(folder), model_card(folder)
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
        result.table("groups", groups_table(loaded))
        if transfer is not None:
            result.table("transfer", transfer)


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
