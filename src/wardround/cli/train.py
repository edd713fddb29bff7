"""`wardround train`: train one model at one site, for entities, relations, or both."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardround.api.one_site import train
from wardround.cli.options import (
    Device,
    Format,
    FormatOptions,
    ModelOptions,
    OutFolder,
    PhiTagSet,
    SkipFaulty,
    Track,
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
    data: Annotated[Path, typer.Argument(help="A corpus, or a folder that holds train, dev and test.", exists=True)],
    format: Format,
    out: OutFolder,
    option: FormatOptions = None,
    skip_faulty: SkipFaulty = False,
    preset: Annotated[str, typer.Option(help="A named network; see `wardround model presets`.")] = "fedner",
    encoder: Annotated[str, typer.Option(help="Instead of a preset: Hugging Face id, folder or minilm.")] = "",
    bart: Annotated[
        str, typer.Option(help="Instead of a preset: a BART, which LightNER prompts to write mentions.")
    ] = "",
    family: Annotated[
        str, typer.Option(help="Instead of a preset: a model family by name, for those of installed packages.")
    ] = "",
    vectors: Annotated[Path | None, typer.Option(help="Word vectors: GloVe text or npz.", exists=True)] = None,
    types: Types = None,
    task: Annotated[str, typer.Option(help="ner, deidentify, relations (among given entities) or joint.")] = "ner",
    tag_set: PhiTagSet = "",
    undirected: Annotated[
        bool, typer.Option("--undirected", help="Ignore the order of a relation's two entities.")
    ] = False,
    negatives: Annotated[
        float | None, typer.Option(min=0.0, help="Unrelated pairs per related pair in training; all by default.")
    ] = None,
    model_option: ModelOptions = None,
    training_option: TrainingOptions = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model on the same machine.")] = 0,
    device: Device = "auto",
    track: Track = "",
    json: Json = False,
) -> None:
    """Train, stop early on the development set, score on the test set, save model and report."""
    format, options = format_settings(format, option, data)
    trained = train(
        data,
        out=out,
        format=format,
        format_options=options,
        skip_faulty=skip_faulty,
        task=task,
        preset=preset,
        encoder=encoder,
        bart=bart,
        family=family,
        vectors=vectors,
        types=listed(types),
        tag_set=tag_set,
        directed=not undirected,
        negatives=negatives,
        model=parse_settings(model_option),
        training=parse_settings(training_option),
        seed=seed,
        device=device,
        track=listed(track) or (),
        progress=not is_quiet(),
    )
    with printed(json) as result:
        show_training(trained, result)
