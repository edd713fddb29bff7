"""`wardround transfer`: train a tagger at one site that starts from the layers of another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardround.api.one_site import transfer
from wardround.cli.options import (
    Device,
    Format,
    FormatOptions,
    ModelOptions,
    OutFolder,
    SkipFaulty,
    TrainingOptions,
    Types,
    format_settings,
    listed,
)
from wardround.cli.outcome import show_training
from wardround.cli.printing import Json, is_quiet, printed
from wardround.settings import parse_settings

__all__ = ["command"]


def command(
    source: Annotated[Path, typer.Argument(help="A saved tagger: a model folder, or the run folder around it.")],
    data: Annotated[Path, typer.Option(help="A corpus, or a folder that holds train, dev and test.", exists=True)],
    format: Format,
    out: OutFolder,
    up_to: Annotated[str, typer.Option(help="The highest layer to copy, with all below it; all by default.")] = "",
    freeze: Annotated[str | None, typer.Option(help="Layers that are not trained, comma-separated.")] = None,
    freeze_up_to: Annotated[str, typer.Option(help="Freeze this layer and all below it.")] = "",
    past_gaps: Annotated[
        bool, typer.Option("--past-gaps", help="Copy layers that fit even if a layer below them was skipped.")
    ] = False,
    option: FormatOptions = None,
    skip_faulty: SkipFaulty = False,
    types: Types = None,
    preset: Annotated[str, typer.Option(help="A named network instead of the source's.")] = "",
    encoder: Annotated[
        str, typer.Option(help="An encoder instead of the source's network: Hugging Face id, folder or minilm.")
    ] = "",
    vectors: Annotated[Path | None, typer.Option(help="Word vectors: GloVe text or npz.", exists=True)] = None,
    model_option: ModelOptions = None,
    training_option: TrainingOptions = None,
    fraction: Annotated[float, typer.Option(help="Share of the training notes to train on.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model on the same machine.")] = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Start from a saved model, train on the target's notes, score, save model and report."""
    format, options = format_settings(format, option, data)
    trained = transfer(
        source,
        data,
        out=out,
        format=format,
        format_options=options,
        skip_faulty=skip_faulty,
        up_to=up_to,
        freeze=listed(freeze) or (),
        freeze_up_to=freeze_up_to,
        past_gaps=past_gaps,
        preset=preset,
        encoder=encoder,
        vectors=vectors,
        types=listed(types),
        fraction=fraction,
        model=parse_settings(model_option),
        training=parse_settings(training_option),
        seed=seed,
        device=device,
        progress=not is_quiet(),
    )
    with printed(json) as result:
        result.table("transfer", trained.transferred[0])
        show_training(trained, result)
