"""A study that begins from a saved model: by a digest every party knows from which, and only the coordinator has it."""

from __future__ import annotations

from dataclasses import replace

from wardround.errors import StudyError
from wardround.federation.message import Array
from wardround.models.transfer import LayerTransfer, warm_start
from wardround.reports.tables import Row, Table
from wardround.secure_aggregation.replica import digest_of_start
from wardround.studies.assemble import arrays_of, common_model, shared_arrays
from wardround.studies.study_file import Study

__all__ = ["check_start", "start_table", "with_start_digest"]


def with_start_digest(study: Study) -> Study:
    """The same study, saying by a digest what its shared half begins from, where the seed does not give it."""
    if study.model.start is None:
        return study
    return replace(study, model=replace(study.model, start_sha256=digest_of_start(_first_half(study))))


def check_start(study: Study) -> None:
    """Refuse, where the study is led, a saved model that is missing or is not the one the study was made with."""
    section = study.model
    if not section.start_sha256:
        return
    if section.start is None:
        raise StudyError("[model] start_sha256 says what the study begins from; name the start as well")
    if digest_of_start(_first_half(study)) != section.start_sha256:
        raise StudyError(f"[model] start: {section.start.name} is not what the study was made with (sha256 differs)")


def start_table(study: Study) -> Table | None:
    """What the shared layers take of the model that the study begins from; None where it begins from none."""
    section = study.model
    if section.start is None:
        return None
    fresh = common_model(replace(study, model=replace(section, start=None, start_up_to="", start_sha256="")))
    report = warm_start(fresh, section.start, up_to=section.start_up_to, only=fresh.shared_parameters())
    rows = tuple(_layer_row(layer, is_shared=_group(layer) in fresh.split.shared) for layer in report.layers)
    columns = ("layer", "parameters", "of the start", "what happened", "why")
    return Table(f"Begins from {section.start.name} up to {report.up_to}", columns, rows)


def _layer_row(layer: LayerTransfer, *, is_shared: bool) -> Row:
    if not is_shared:
        return (layer.layer, layer.parameters, 0, "fresh", "it is private: each site begins with its own")
    return (layer.layer, layer.parameters, layer.taken, layer.how, layer.why)


def _group(layer: LayerTransfer) -> str:
    return layer.layer.partition(".")[0]


def _first_half(study: Study) -> dict[str, Array]:
    """What sites are told before round 1, or with it."""
    model = common_model(study)
    return arrays_of(model.parameters_in(model.groups)) if study.algorithm.kind.central_model else shared_arrays(model)
