"""`wardround model`: look at a saved model, or at the named networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console

from wardround.cli.options import ModelFolder
from wardround.models.parameter_split import LayeredModel
from wardround.models.saved import load_model, model_card
from wardround.models.word_tagger import PRESETS
from wardround.reports.tables import Cell, Table

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)


@app.command()
def show(model: ModelFolder) -> None:
    """Types, scheme, layer groups and their sizes, shared and private; what a transfer took, where it began so."""
    loaded, card = load_model(model), model_card(model)
    console = Console()
    facts: dict[str, Cell] = {"kind": card["kind"]}
    if "scheme" in card["config"]:
        facts["scheme"] = card["config"]["scheme"]
    facts["types"] = ", ".join(card["types"])
    notes = dict(card.get("notes", {}))
    began = began_table(notes["transfer"]) if "transfer" in notes else None
    if began is not None:
        del notes["transfer"]
    for name, value in notes.items():
        facts[name] = value if isinstance(value, float) else str(value)
    console.print(Table(model.name, ("fact", "value"), tuple(facts.items())).to_rich())
    console.print(groups_table(loaded).to_rich())
    if began is not None:
        console.print(began.to_rich())


@app.command()
def presets() -> None:
    """The named networks and the layers each has; all end in a CRF."""
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
    Console().print(Table("Presets", columns, rows).to_rich())


def groups_table(model: LayeredModel) -> Table:
    """Layer groups bottom to top, which half each is in, and how many trainable parameters it has."""
    sizes = {group: sum(p.numel() for p in model.parameters_in((group,)).values()) for group in model.groups}
    rows = tuple((group, "shared" if group in model.split.shared else "private", size) for group, size in sizes.items())
    return Table("Layer groups", ("group", "half", "parameters"), rows, totals=(("all", "", sum(sizes.values())),))


def began_table(note: Any) -> Table | None:
    """What a transfer took of its source, layer by layer, as the card tells it; None where that is no such note."""
    try:
        rows = tuple(_layer_row(layer, note["frozen"]) for layer in note["layers"])
        title, digest = f"Began from another model, up to {note['up_to']}", note["weights_sha256"]
    except (KeyError, TypeError):
        return None  # anybody may have written the card
    totals = (("all", sum(row[1] for row in rows), sum(row[2] for row in rows), "", "", ""),)
    columns = ("layer", "parameters", "of the source", "what happened", "frozen", "why")
    return Table(title, columns, rows, totals=totals, note=f"Digest of what was taken: {digest}")


def _layer_row(layer: Mapping[str, Any], frozen: list[str]) -> tuple[str, int, int, str, str, str]:
    name, how, why = (str(layer[part]) for part in ("layer", "how", "why"))
    parameters, taken = (_whole(layer[part]) for part in ("parameters", "taken"))
    return name, parameters, taken, how, "yes" if name in frozen else "no", why


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value
