"""`wardround evaluate`: a model against annotated notes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wardround.cli.options import Device, Format, FormatOptions, ModelFolder, chosen_format
from wardround.corpora.source import open_for_writing
from wardround.evaluation.bootstrap import Measure, intervals
from wardround.models.saved import load_model
from wardround.reports.score_tables import confusion_table, muc_table, score_table
from wardround.studies.single_site import load_part, pick_device
from wardround.tasks import ner

__all__ = ["command"]


def command(
    model: ModelFolder,
    data: Annotated[Path, typer.Argument(help="Annotated notes; of a split corpus, the test part.", exists=True)],
    format: Format,
    option: FormatOptions = None,
    device: Device = "auto",
    csv: Annotated[Path | None, typer.Option(help="Write the table of scores here too.")] = None,
    details: Annotated[bool, typer.Option(help="Show MUC categories and confusions.")] = False,
) -> None:
    """Score strictly and relaxed, by type, with a bootstrap interval."""
    tagger = load_model(model).to(pick_device(device))
    documents = load_part(data, chosen_format(format, option), "test")
    score = ner.score(tagger, documents)
    interval = intervals(score.strict_by_document, [Measure()])[0] if documents else None
    table = score_table(score, title=f"{model.name} on {data.name}", micro_f1=interval)
    console = Console()
    console.print(table.to_rich())
    if details:
        console.print(muc_table(score.muc).to_rich(), confusion_table(score.confusion).to_rich())
    if csv is not None:
        with open_for_writing(csv) as stream:
            stream.write(table.to_csv())
