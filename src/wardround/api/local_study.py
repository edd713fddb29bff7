"""Federated studies on this machine: build a study in Python, run it, and read its results."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from wardround.api.quiet import warnings_if
from wardround.api.results import Result, Scores, mode_scores, run_charts
from wardround.api.trained_model import Model, load
from wardround.errors import CorpusWarning, StudyError, UsageError
from wardround.federation.coordinator import Round
from wardround.federation.federation import SiteId
from wardround.reports.page import Chart
from wardround.reports.progress import StudyProgress
from wardround.reports.score_tables import study_tables
from wardround.reports.tables import Table
from wardround.studies.assemble import check_network
from wardround.studies.data_check import site_findings
from wardround.studies.one_machine import run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_reading import write_own_report
from wardround.studies.run_tracking import tracked
from wardround.studies.single_site import pick_device
from wardround.studies.study_file import Study as StudySettings
from wardround.studies.study_file import read_study, study_from, to_toml
from wardround.studies.study_plan import StudyPlan, plan_of
from wardround.studies.study_run import StudyOutcome

__all__ = ["Cost", "Study", "StudyResult", "run"]

Section = Mapping[str, Any]


class Study:
    """A training among sites: the task, the algorithm, and how updates are protected.

    >>> import wardround
    >>> study = wardround.Study(
    ...     "two wards",
    ...     sites={name: {"built_in": name, "types": ["Drug"]} for name in ("harbour", "hillside")},
    ...     algorithm={"name": "fedavg", "rounds": 2},
    ... )
    >>> study.sites, study.algorithm
    (('harbour', 'hillside'), 'fedavg')
    """

    def __init__(
        self,
        name: str,
        *,
        sites: Mapping[str, Section],
        algorithm: str | Section = "fedner",
        model: Section | None = None,
        task: str | Section = "ner",
        training: Section | None = None,
        privacy: str | Section = "plain",
        evaluation: Section | None = None,
        public: Section | None = None,
        federation: Section | None = None,
        seed: int = 0,
        description: str = "",
        folder: str | Path = ".",
    ) -> None:
        """Check the settings and build the study. Each keyword is a section of a study file, with its settings.

        Args:
            name: up to 63 letters, digits, blanks and `.` `_` `-`.
            sites: by name, what each site annotates (`types`) and where its notes are (`data` and `format`, or
                `built_in` for a built-in hospital).
            algorithm: its name, or its settings with `name`.
            model: which network, which of its layers are shared (`shared`), and its options.
            task: its kind, or its settings with `kind`.
            training: batch size, learning rate and other settings of a training step.
            privacy: the mechanism that protects updates, or its settings with `mechanism`.
            evaluation: how often the development notes are scored.
            public: the notes that every site may read, for algorithms that need them.
            federation: checkpoints and deadlines.
            seed: the same seed gives the same result on the same machine.
            description: a sentence for the owners of the sites.
            folder: the folder that paths are relative to.
        """
        if not isinstance(sites, Mapping) or not all(isinstance(site, Mapping) for site in sites.values()):
            raise StudyError('sites are settings by name: {"north": {"data": "north", "format": "brat"}, ...}')
        table: dict[str, Any] = {
            "study": {"name": name, "seed": seed, "description": description},
            "task": _named(task, "kind"),
            "algorithm": _named(algorithm, "name"),
            "privacy": _named(privacy, "mechanism"),
            "sites": {site: _plain(settings) for site, settings in sites.items()},
        }
        optional = {
            "model": model,
            "training": training,
            "evaluation": evaluation,
            "public": public,
            "federation": federation,
        }
        table |= {section: _plain(settings) for section, settings in optional.items() if settings is not None}
        self.settings: StudySettings = study_from(table, folder=Path(folder))
        check_network(self.settings)

    @classmethod
    def from_file(cls, path: str | Path) -> Study:
        """Read a study file; `wardround study new` writes one.

        >>> import wardround
        >>> wardround.Study.from_file("study.toml").name
        'two wards'
        """
        if not Path(path).is_file():
            raise StudyError(f"there is no study file {Path(path).name!r}; `wardround study new` writes one")
        return cls._of(read_study(Path(path)))

    @classmethod
    def _of(cls, settings: StudySettings) -> Study:
        study = cls.__new__(cls)
        study.settings = settings
        return study

    @property
    def name(self) -> str:
        """Return the name of the study."""
        return self.settings.study.name

    @property
    def sites(self) -> tuple[str, ...]:
        """Return the names of the sites."""
        return tuple(self.settings.sites)

    @property
    def algorithm(self) -> str:
        """Return the name of the algorithm."""
        return self.settings.algorithm.name

    @property
    def rounds(self) -> int:
        """Return the number of rounds."""
        return self.settings.algorithm.config.rounds

    @property
    def seed(self) -> int:
        """Return the seed."""
        return self.settings.study.seed

    def with_seed(self, seed: int) -> Study:
        """Return the same study with another seed; the notes of built-in hospitals change with it.

        >>> import wardround
        >>> wardround.Study.from_file("study.toml").with_seed(7).seed
        7
        """
        return Study._of(replace(self.settings, study=replace(self.settings.study, seed=seed)))

    def plan(self) -> StudyPlan:
        """Build what the coordinator would build, without training; raise an error if the study cannot run.

        >>> import wardround
        >>> plan = wardround.Study.from_file("study.toml").plan()
        >>> plan.rounds, plan.mechanism
        (2, 'plain')
        """
        return plan_of(self.settings)

    def to_toml(self) -> str:
        """Return the study file with every default written out."""
        return to_toml(self.settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Study) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __repr__(self) -> str:
        privacy = self.settings.privacy.mechanism
        return f"Study({self.name!r}: {len(self.sites)} sites, {self.rounds} rounds of {self.algorithm}, {privacy})"


@dataclass(frozen=True)
class Cost:
    """What a study cost in communication.

    >>> import wardround
    >>> cost = wardround.run("study.toml", out="cost", progress=False).cost
    >>> cost.rounds, cost.bytes_up > 0
    (2, True)
    """

    rounds: int
    bytes_up: int  # from the sites
    bytes_down: int  # to the sites


class _SiteModels(Mapping[str, Model]):
    """The models of the sites, each loaded when it is looked up."""

    def __init__(self, folder: RunFolder, sites: Sequence[str]) -> None:
        self._folder, self._sites = folder, tuple(sites)

    def __getitem__(self, site: str) -> Model:
        if site not in self._sites:
            raise KeyError(site)
        return load(self._folder.site(site))

    def __iter__(self) -> Iterator[str]:
        return iter(self._sites)

    def __len__(self) -> int:
        return len(self._sites)


@dataclass(frozen=True)
class StudyResult(Result):
    """A finished study: scores by site, models, cost and report.

    >>> import wardround
    >>> result = wardround.run("study.toml", out="study-run", progress=False)
    >>> sorted(result.scores), result.cost.rounds
    (['harbour', 'hillside'], 2)
    """

    study: Study
    folder: Path  # the run folder
    outcome: StudyOutcome = field(repr=False)

    @property
    def scores(self) -> dict[str, Scores]:
        """Return, by site, precision, recall and F1 of its model on its own test notes, by matching mode."""
        return {
            name: mode_scores(site.counts, {next(iter(site.counts)): site.interval})
            for name, site in self.outcome.sites.items()
        }

    @property
    def models(self) -> Mapping[str, Model]:
        """Return the model of each site; a model is loaded when it is looked up."""
        return _SiteModels(RunFolder(self.folder), tuple(self.outcome.sites))

    @property
    def cost(self) -> Cost:
        """Return the rounds, and the bytes from and to the sites."""
        return Cost(self.outcome.rounds, self.outcome.traffic.up, self.outcome.traffic.down)

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the scores of all sites."""
        return study_tables(self.outcome.sites)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Return the scores by site and by type, and the development scores and the loss by round."""
        return run_charts(self.folder)

    def report(self) -> Path:
        """Return the path of the HTML report."""
        return RunFolder(self.folder).report


class _Watcher:
    """Passes what happens in a study to the progress display and to callbacks."""

    def __init__(
        self,
        shown: StudyProgress | None,
        on_round: Callable[[Round], None] | None,
        on_scores: Callable[[int, Mapping[SiteId, float]], None] | None,
    ) -> None:
        self._shown, self._on_round, self._on_scores = shown, on_round, on_scores

    def on_start(self, number: int) -> None:
        if self._shown:
            self._shown.on_start(number)

    def on_round(self, record: Round) -> None:
        if self._shown:
            self._shown.on_round(record)
        if self._on_round:
            self._on_round(record)

    def on_scores(self, number: int, f1: Mapping[SiteId, float]) -> None:
        if self._shown:
            self._shown.on_scores(number, f1)
        if self._on_scores:
            self._on_scores(number, f1)

    def on_event(self, text: str) -> None:
        if self._shown:
            self._shown.on_event(text)


def run(
    study: Study | str | Path,
    *,
    out: str | Path,
    device: str = "auto",
    workers: int = 0,
    threads: int = 1,
    ledgers: bool = False,
    track: Sequence[str] = (),
    progress: bool = True,
    on_round: Callable[[Round], None] | None = None,
    on_scores: Callable[[int, Mapping[SiteId, float]], None] | None = None,
) -> StudyResult:
    """Run a study with every site on this machine, or resume it in its folder.

    Args:
        study: a study, or the path of a study file.
        out: the run folder; an interrupted run resumes there when the same call is repeated.
        device: auto, cpu, cuda or cuda:N.
        workers: worker processes that share the sites; 0 uses this process only.
        threads: threads of each process; small networks lose much time with more on a busy machine.
        ledgers: whether each site writes its ledger, as in a networked study.
        track: trackers that receive the scores: tensorboard, mlflow.
        progress: whether progress and warnings are shown.
        on_round: called with the figures of each finished round.
        on_scores: called with the round and the F1 of each site whenever the sites are scored.

    >>> import wardround
    >>> rounds = []
    >>> result = wardround.run("study.toml", out="again", progress=False, on_round=rounds.append)
    >>> [round.number for round in rounds]
    [1, 2]
    """
    described = study if isinstance(study, Study) else Study.from_file(study)
    settings, folder = described.settings, RunFolder(Path(out))
    shown = StudyProgress(described.name, list(described.sites), described.rounds) if progress else None
    display: AbstractContextManager[Any] = shown or nullcontext()
    watcher = _Watcher(shown, on_round, on_scores)
    if threads < 1:
        raise UsageError(f"threads is {threads}; it must be above zero")
    if progress:
        for sentence in _warnings_about_notes(settings):
            warnings.warn(sentence, CorpusWarning, stacklevel=2)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with (
            warnings_if(progress),
            display,
            tracked(settings, folder, tuple(track), say=watcher.on_event if shown else warnings.warn),
        ):
            outcome = run_on_one_machine(
                settings, folder, device=pick_device(device), watcher=watcher, workers=workers, ledgers=ledgers
            )
    finally:
        torch.set_num_threads(before)
    write_own_report(folder)
    return StudyResult(described, folder.path, outcome)


def _warnings_about_notes(study: StudySettings) -> Iterator[str]:
    """Yield what `wardround study check` finds in the notes of sites; the built-in hospitals need no check."""
    for name, section in study.sites.items():
        if section.data is not None:
            found = site_findings(study, name)
            yield from (f"[sites.{name}] {text}" for text in (*found.missing, *found.warnings))


def _named(section: str | Section, key: str) -> dict[str, Any]:
    """Return a section that was named by its main setting only, or given as a whole."""
    return {key: section} if isinstance(section, str) else _plain(section)


def _plain(value: Any) -> Any:
    """Return settings as a study file would hold them: lists and text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value
