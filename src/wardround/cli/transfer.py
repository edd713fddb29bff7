"""`wardround transfer`: train a tagger at one site that starts from the layers of another."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Device, Format, FormatOptions, OutFolder, Types, chosen_format, listed
from wardround.cli.outcome import show_outcome, show_warnings
from wardround.cli.printing import Json, printed, progress_console
from wardround.models.families import ModelChoice
from wardround.models.transfer import load_source
from wardround.reports.progress import TrainingProgress
from wardround.settings import parse_settings
from wardround.studies.assemble import chosen_types
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import load_site, pick_device, train_at_one_site
from wardround.studies.transfer_run import (
    TransferSettings,
    begin,
    part_of,
    target_network,
    training_of,
    transfer_table,
)
from wardround.tasks.task_table import task_of

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
    types: Types = None,
    preset: Annotated[str, typer.Option(help="A named network instead of the source's.")] = "",
    encoder: Annotated[
        str, typer.Option(help="An encoder instead of the source's network: Hugging Face id, folder or minilm.")
    ] = "",
    vectors: Annotated[Path | None, typer.Option(help="Word vectors: GloVe text or npz.", exists=True)] = None,
    model_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="For example scheme=BIOES.")
    ] = None,
    training_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="For example epochs=20.")
    ] = None,
    fraction: Annotated[float, typer.Option(help="Share of the training notes to train on.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model on the same machine.")] = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Start from a saved model, train on the target's notes, score, save model and report."""
    transfer = TransferSettings(up_to, past_gaps, listed(freeze) or (), freeze_up_to)
    choice = ModelChoice(preset, encoder, vectors, parse_settings(model_option))
    start, site = load_source(source), load_site(data, chosen_format(format, option))
    show_warnings(site.warnings)
    target = target_network(start, choice, chosen_types(site.data.train, listed(types)), seed=seed)
    config = training_of(target, parse_settings(training_option), seed=seed)
    notes = part_of(site.data, fraction, seed=seed)
    beginning = begin(start, target, transfer)
    path = source.resolve()
    name = path.parent.name if path.name == "model" else path.name  # of the run: all model folders have one name
    taken = transfer_table(beginning, f"{name} up to {beginning.report.up_to}")
    folder, task = RunFolder(out), task_of(target.to(pick_device(device)))
    title = f"{name} transferred to {data.name}"
    settings = {**target.settings(), **asdict(config), "fraction": fraction}
    with printed(json) as result:
        result.table("transfer", taken)
        with TrainingProgress(out.name, config.epochs, console=progress_console()) as progress:
            outcome = train_at_one_site(task, notes, config, folder=folder, listener=progress, notes=beginning.notes())
        show_outcome(outcome, folder, title, result=result, settings=settings, more=[taken])
