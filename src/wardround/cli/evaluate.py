"""`wardround evaluate`: score a model on annotated notes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardround.api.one_site import evaluate
from wardround.cli.options import Device, Format, FormatOptions, ModelFolder, PhiTagSet, SkipFaulty, format_settings
from wardround.cli.printing import Json, printed
from wardround.corpora.corpus_files import open_for_writing
from wardround.studies.single_site import figures_of

__all__ = ["command"]


def command(
    model: ModelFolder,
    data: Annotated[
        Path, typer.Argument(help="Annotated notes; for a split corpus, its test part is used.", exists=True)
    ],
    format: Format,
    option: FormatOptions = None,
    skip_faulty: SkipFaulty = False,
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
    format, options = format_settings(format, option, data)
    evaluation = evaluate(
        model,
        data,
        format=format,
        format_options=options,
        skip_faulty=skip_faulty,
        leakage=leakage,
        tag_set=tag_set,
        device=device,
    )
    score = evaluation.score
    with printed(json) as result:
        result.show(*evaluation.tables)
        if json:
            f1 = {mode: score.interval(mode) for mode in score.by_document} if score.documents else {}
            result.values(model=model, data=data, dropped=score.dropped, **figures_of(score, f1))
        if score.dropped:
            result.line(f"{score.dropped:,} pairs do not fit the encoder and count as not related")
        if details:
            for name, table in zip(("muc", "confusion"), evaluation.details, strict=False):
                result.table(name, table)
    if csv is not None:
        with open_for_writing(csv) as stream:
            stream.write("\n".join(table.to_csv() for table in evaluation.tables))
