"""`wardround evaluate`: score a model on annotated notes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Device, Format, FormatOptions, ModelFolder, PhiTagSet, checked_tag_set, chosen_format
from wardround.cli.printing import Json, printed
from wardround.corpora.corpus_files import open_for_writing
from wardround.corpora.type_names import in_tag_set
from wardround.models.saved import load_model
from wardround.reports.score_tables import confusion_table, leakage_tables, main_note, muc_table, score_tables
from wardround.studies.single_site import figures_of, load_part, pick_device
from wardround.tasks.task_table import task_of

__all__ = ["command"]


def command(
    model: ModelFolder,
    data: Annotated[
        Path, typer.Argument(help="Annotated notes; for a split corpus, its test part is used.", exists=True)
    ],
    format: Format,
    option: FormatOptions = None,
    device: Device = "auto",
    csv: Annotated[Path | None, typer.Option(help="Also write the scores to this CSV file.")] = None,
    details: Annotated[bool, typer.Option(help="Show MUC categories and confusions.")] = False,
    leakage: Annotated[
        bool | None,
        typer.Option(help="Show what redaction would leave readable; the default if all types identify people."),
    ] = None,
    tag_set: PhiTagSet = "",
    json: Json = False,
) -> None:
    """Score by type with bootstrap intervals: entities strict and relaxed, relations with and without gold entities."""
    task = task_of(load_model(model).to(pick_device(device)), leakage=leakage)
    documents = in_tag_set(load_part(data, chosen_format(format, option), "test"), checked_tag_set(tag_set))
    score = task.score(documents)
    note = main_note(task.matching_modes[0], score.interval(), score.documents) if documents else ""
    tables = score_tables(score.counts, title=f"{model.name} on {data.name}", note=note)
    if score.leakage is not None:
        tables += leakage_tables(score.leakage)
    with printed(json) as result:
        result.show(*tables)
        if json:
            f1 = {mode: score.interval(mode) for mode in task.matching_modes} if documents else {}
            result.values(model=model, data=data, dropped=score.dropped, **figures_of(score, f1))
        if score.dropped:
            result.line(f"{score.dropped:,} pairs do not fit the encoder and count as not related")
        if details and score.entities is not None:
            result.table("muc", muc_table(score.entities.muc))
            result.table("confusion", confusion_table(score.entities.confusion))
    if csv is not None:
        with open_for_writing(csv) as stream:
            stream.write("\n".join(table.to_csv() for table in tables))
