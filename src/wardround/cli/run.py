"""`wardround run`: run a study with every site on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from wardround.api.local_study import run
from wardround.cli.options import Device, OutFolder, StudyFile, Track, listed
from wardround.cli.printing import Json, is_quiet, printed
from wardround.studies.run_folder import RunFolder
from wardround.text.plain_text import size_text

__all__ = ["command"]


def command(
    study: StudyFile,
    out: OutFolder,
    device: Device = "auto",
    workers: Annotated[
        int, typer.Option(help="Worker processes that share the sites; 0 uses this process only.", min=0)
    ] = 0,
    threads: Annotated[int, typer.Option(help="Threads per process.", min=1)] = 1,
    ledgers: Annotated[
        bool, typer.Option("--ledgers", help="Have each site write its ledger, as in a networked study.")
    ] = False,
    track: Track = "",
    json: Json = False,
) -> None:
    """Run or resume a study: score every site, write its model, the events and a report."""
    finished = run(
        study,
        out=out,
        device=device,
        workers=workers,
        threads=threads,
        ledgers=ledgers,
        track=listed(track) or (),
        progress=not is_quiet(),
    )
    outcome, folder = finished.outcome, RunFolder(finished.folder)
    models = {name: folder.site(name) / "model" for name in outcome.sites}
    with printed(json) as result:
        scores = {name: site.as_json() | {"model": models[name]} for name, site in outcome.sites.items()}
        result.values(study=finished.study.name, sites=scores)
        result.show(*finished.tables)
        result.line(
            f"rounds  {outcome.rounds}, the best {outcome.best_round}; "
            f"up {size_text(outcome.traffic.up)}, down {size_text(outcome.traffic.down)}",
            rounds=outcome.rounds,
            best_round=outcome.best_round,
            traffic=asdict(outcome.traffic),
        )
        for name, model in models.items():
            result.line(f"model   {name:12} {model}")
        result.line(f"report  {folder.report}", report=folder.report)
