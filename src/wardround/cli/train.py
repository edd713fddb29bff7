"""`wardround train`: train one model at one site, for entities, relations, or both."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import (
    Device,
    Format,
    FormatOptions,
    OutFolder,
    PhiTagSet,
    Track,
    Types,
    checked_tag_set,
    chosen_format,
    listed,
)
from wardround.cli.outcome import show_outcome, show_warnings
from wardround.cli.printing import Json, notice, printed, progress_console
from wardround.models.families import ModelChoice
from wardround.models.family_table import chosen_family
from wardround.reports.progress import TrainingProgress
from wardround.settings import parse_settings
from wardround.studies.assemble import TaskChoice, default_training, task_at_one_site
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_tracking import tracked_training
from wardround.studies.single_site import load_site, pick_device, train_at_one_site

__all__ = ["command"]


def command(
    data: Annotated[Path, typer.Argument(help="A corpus, or a folder that holds train, dev and test.", exists=True)],
    format: Format,
    out: OutFolder,
    option: FormatOptions = None,
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
    model_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="For example scheme=BIOES.")
    ] = None,
    training_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="For example epochs=20.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model on the same machine.")] = 0,
    device: Device = "auto",
    track: Track = "",
    json: Json = False,
) -> None:
    """Train, stop early on the development set, score on the test set, save model and report."""
    choice = ModelChoice(preset, encoder, vectors, parse_settings(model_option), bart, family)
    config = default_training(choice, parse_settings(training_option), task=task, seed=seed)
    site = load_site(data, chosen_format(format, option))
    notes = site.data.in_tag_set(checked_tag_set(tag_set))
    show_warnings(site.warnings)
    task_choice = TaskChoice(task, listed(types), directed=not undirected, negatives=negatives)
    bound = task_at_one_site(task_choice, choice, notes.train, seed=seed)
    bound.model.to(pick_device(device))
    folder, title = RunFolder(out), f"{Path(chosen_family(choice, task)[1].name).name} on {data.name}"
    tracking = tracked_training(title, folder, asdict(config), trackers=listed(track) or (), say=notice)
    with TrainingProgress(out.name, config.epochs, console=progress_console()) as progress, tracking:
        outcome = train_at_one_site(bound, notes, config, folder=folder, listener=progress)
    settings = {**bound.model.settings(), **asdict(config)}
    with printed(json) as result:
        show_outcome(outcome, folder, title, result=result, settings=settings)
