"""`wardround train`: a tagger at one site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wardround.cli.options import Device, Format, FormatOptions, OutFolder, Types, chosen_format, listed
from wardround.errors import UsageError
from wardround.reports.progress import TrainingProgress
from wardround.reports.score_tables import score_table
from wardround.reports.training_page import write_training_page
from wardround.settings import did_you_mean, parse_settings
from wardround.studies.assemble import ModelChoice, build_model, recipe
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import load_site, pick_device, train_at_one_site
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

__all__ = ["command"]


def command(
    data: Annotated[Path, typer.Argument(help="A corpus, or a folder that holds train, dev and test.", exists=True)],
    format: Format,
    out: OutFolder,
    option: FormatOptions = None,
    preset: Annotated[str, typer.Option(help="A named network; see `wardround model presets`.")] = "fedner",
    encoder: Annotated[str, typer.Option(help="In place of a preset: Hugging Face id, folder or minilm.")] = "",
    vectors: Annotated[Path | None, typer.Option(help="Word vectors: GloVe text or npz.", exists=True)] = None,
    types: Types = None,
    model_option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="As scheme=BIOES.")] = None,
    training_option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="As epochs=20.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same machine: same model.")] = 0,
    device: Device = "auto",
) -> None:
    """Train, stop early on the development set, score on the test set, save model and report."""
    choice = ModelChoice(preset, encoder, vectors, parse_settings(model_option))
    config = recipe(choice, parse_settings(training_option), seed=seed)
    site = load_site(data, chosen_format(format, option))
    for warning in site.warnings:
        Console(stderr=True).print(f"[yellow]warning:[/yellow] {warning}", highlight=False)
    tag_set = _tag_set(site.data.train, listed(types))
    model = build_model(choice, tag_set, seed=seed).to(pick_device(device))
    folder = RunFolder(out)
    with TrainingProgress(out.name, config.epochs) as progress:
        outcome = train_at_one_site(model, site.data, config, folder=folder, listener=progress)
    title = f"{choice.encoder or choice.preset} on {data.name}"
    table = score_table(outcome.score, title=f"{title}, {outcome.scored_on}", micro_f1=outcome.strict_f1)
    Console().print(table.to_rich())
    write_training_page(
        folder.report,
        title,
        score=outcome.score,
        strict_f1=outcome.strict_f1,
        epochs=outcome.records,
        settings={**model.settings(), **asdict(config)},
    )
    typer.echo(f"model   {folder.model}\nreport  {folder.report}")


def _tag_set(documents: Sequence[Document], wanted: Sequence[str] | None) -> TagSet:
    """The types to learn: those wanted, or all; a type that nobody annotated cannot be learned."""
    annotated = TagSet.of(documents)
    if not annotated.types:
        raise UsageError("the training notes hold no entity to learn from")
    for name in wanted or ():
        if name not in annotated:
            near = did_you_mean(name, annotated.types)
            raise UsageError(f"no training note has the type {name!r}{near}; there are {', '.join(annotated.types)}")
    return TagSet(tuple(wanted)) if wanted else annotated
