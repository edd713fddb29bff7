"""What a study would do: built as the coordinator would build it, without training."""

from __future__ import annotations

from dataclasses import dataclass, field

from wardround.federation.unit_privacy import NoisePlan
from wardround.reports.tables import Table
from wardround.studies.aggregation_setup import check_robust, mechanism_of, noise_of, payload_of
from wardround.studies.assemble import check_start, common_task, coordinator_of, start_table
from wardround.studies.study_file import Study
from wardround.studies.study_notes import public_set

__all__ = ["StudyPlan", "plan_of"]


@dataclass(frozen=True)
class StudyPlan:
    """What a study shares, for how long, and how it is protected."""

    study: str
    sites: tuple[str, ...]
    rounds: int
    algorithm: str
    description: str  # of the algorithm, one sentence
    arrays: int  # in the shared half
    numbers: int  # in these arrays
    mechanism: str
    minimum_sites: int
    bytes_up: int  # of all updates in all rounds as float32; 0 if sites send no updates of layers
    noise: NoisePlan | None = None  # of differential privacy
    start: Table | None = field(default=None, repr=False)  # what is copied from a saved model

    @property
    def bytes(self) -> int:
        """Return the size of the shared half as float32."""
        return 4 * self.numbers


def plan_of(study: Study) -> StudyPlan:
    """Build what the coordinator would build; raise an error if the study cannot run."""
    task = common_task(study)
    public = public_set(study, task)
    coordinator = coordinator_of(study, task, public)
    payload = payload_of(study, task, public)
    if study.privacy.protection.protects:
        mechanism_of(study, payload)  # raises an error if the updates cannot be protected
    check_robust(study, payload)
    check_start(study)
    numbers = sum(tensor.numel() for tensor in coordinator.shared.values())
    asked = max(1, round(study.algorithm.config.participation * len(study.sites)))
    sends_layers = study.algorithm.kind.sends == "updates" and not study.algorithm.sites_keep_models
    return StudyPlan(
        study.study.name,
        tuple(study.sites),
        study.algorithm.config.rounds,
        study.algorithm.name,
        study.algorithm.kind.description,
        len(coordinator.shared),
        numbers,
        study.privacy.mechanism,
        study.privacy.minimum_sites,
        4 * numbers * study.algorithm.config.rounds * asked if sends_layers else 0,
        noise_of(study, payload),  # raises an error if the noise does not fit the packing
        start_table(study),
    )
