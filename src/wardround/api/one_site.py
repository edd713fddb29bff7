"""Train, transfer and evaluate models at one site."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from wardround.api.corpus import CorpusSource, FormatOptions, corpus_of, existing_path, format_of
from wardround.api.quiet import warnings_if
from wardround.api.results import Result, Scores, mode_scores, run_charts
from wardround.api.trained_model import Model, load, model_folder
from wardround.corpora.gold import gold_warnings
from wardround.corpora.skipped_faults import SkippedFaults
from wardround.corpora.type_names import checked_tag_set, in_tag_set
from wardround.errors import CorpusWarning, UsageError
from wardround.models.families import ModelChoice
from wardround.models.family_table import chosen_family
from wardround.models.transfer import load_source
from wardround.reports.page import Chart, Section, write_page
from wardround.reports.plots import Labels, bar_chart
from wardround.reports.progress import TrainingProgress
from wardround.reports.score_tables import confusion_table, leakage_tables, main_note, muc_table, score_tables
from wardround.reports.tables import Table
from wardround.reports.training_page import ERROR_COUNTS, ErrorCounts, write_training_page
from wardround.settings import as_text
from wardround.studies.assemble import TaskChoice, chosen_types, default_training, task_at_one_site
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_tracking import tracked_training
from wardround.studies.single_site import (
    Outcome,
    Site,
    SiteData,
    load_part,
    load_site,
    pick_device,
    site_of,
    train_at_one_site,
)
from wardround.studies.transfer_run import (
    TransferSettings,
    begin,
    part_of,
    target_network,
    training_of,
    transfer_table,
)
from wardround.tasks.task import Task, TaskScore
from wardround.tasks.task_table import task_of
from wardround.training.training_config import TrainingConfig

__all__ = ["Evaluation", "TrainingResult", "evaluate", "train", "transfer"]

Options = Mapping[str, str | int | float | bool | Sequence[str]]


@dataclass(frozen=True)
class TrainingResult(Result):
    """A finished training: its model, scores, tables and report.

    >>> import wardround
    >>> result = wardround.train("notes", format="brat", out="other", training={"epochs": 1}, progress=False)
    >>> sorted(result.scores)
    ['relaxed', 'strict']
    """

    folder: Path  # the run folder
    outcome: Outcome = field(repr=False)
    title: str
    transferred: tuple[Table, ...] = field(default=(), repr=False)  # for a transfer: what happened to each layer
    warnings: tuple[str, ...] = ()  # about the notes

    @cached_property
    def model(self) -> Model:
        """Return the trained model, loaded from the run folder."""
        return load(self.folder)

    @property
    def scores(self) -> Scores:
        """Return precision, recall and F1 with its interval, by matching mode, on the notes named by `scored_on`."""
        return mode_scores(self.outcome.score.counts, self.outcome.f1)

    @property
    def scored_on(self) -> str:
        """Return the part of the corpus that the scores are about: test, or dev if there is no test part."""
        return self.outcome.scored_on

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the scores by type, and what redaction would leave readable if the types identify people."""
        mode, interval = next(iter(self.outcome.f1.items()))
        score = self.outcome.score
        note = main_note(mode, interval, score.documents)
        found = score_tables(score.counts, title=f"{self.title}, {self.scored_on}", note=note)
        return found if score.leakage is None else (*found, *leakage_tables(score.leakage))

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Return the scores by type, and the development scores and the loss by epoch."""
        return run_charts(self.folder)

    def report(self) -> Path:
        """Return the path of the HTML report."""
        return RunFolder(self.folder).report


@dataclass(frozen=True)
class Evaluation(Result):
    """The scores of a model on annotated notes.

    >>> import wardround
    >>> evaluation = wardround.evaluate("model", "notes", format="brat")
    >>> round(evaluation.scores["strict"]["f1"], 1) <= 1.0
    True
    """

    score: TaskScore = field(repr=False)
    title: str

    @property
    def scores(self) -> Scores:
        """Return precision, recall and F1 with its interval, by matching mode."""
        counts = self.score.counts
        return mode_scores(counts, {mode: self.score.interval(mode) for mode in counts} if self.score.documents else {})

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the scores by type, and what redaction would leave readable if the types identify people."""
        note = ""
        if self.score.documents:
            note = main_note(next(iter(self.score.counts)), self.score.interval(), self.score.documents)
        found = score_tables(self.score.counts, title=self.title, note=note)
        return found if self.score.leakage is None else (*found, *leakage_tables(self.score.leakage))

    @property
    def details(self) -> tuple[Table, ...]:
        """Return the MUC categories and the confused types of a model that finds entities."""
        entities = self.score.entities
        return () if entities is None else (muc_table(entities.muc), confusion_table(entities.confusion))

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Return the scores by type with their intervals."""
        if not self.score.documents or len(self.score.main) < 2:
            return ()
        mode = next(iter(self.score.counts))
        labels = Labels("F1 by type", "", f"{mode} F1")
        caption = "Error bars are 95% bootstrap intervals over notes."
        return (Chart.from_plot(bar_chart({mode: self.score.type_intervals()}, labels), "f1-by-type", caption),)

    def report(self, path: str | Path) -> Path:
        """Write tables and charts as an HTML page and return its path."""
        sections = [Section("Scores", tables=self.tables, charts=self.charts)]
        if self.details:
            sections.append(Section("Errors", tables=self.details))
        write_page(Path(path), self.title, sections)
        return Path(path)


def train(
    data: CorpusSource,
    *,
    out: str | Path,
    format: str = "",
    task: str = "ner",
    preset: str = "",
    encoder: str = "",
    bart: str = "",
    family: str = "",
    vectors: str | Path | None = None,
    types: Sequence[str] | None = None,
    tag_set: str = "",
    directed: bool = True,
    negatives: float | None = None,
    model: Options | None = None,
    training: Options | None = None,
    format_options: FormatOptions | None = None,
    skip_faulty: bool = False,
    seed: int = 0,
    device: str = "auto",
    track: Sequence[str] = (),
    progress: bool = True,
) -> TrainingResult:
    """Train a model at one site: stop early on the development part, score on the test part, save model and report.

    An interrupted training resumes in its folder when the same call is repeated.

    Args:
        data: a corpus, documents, or a path with its `format`.
        out: the run folder.
        task: ner, deidentify, relations (among given entities) or joint.
        preset: a named network; by default fedner. `wardround model presets` lists them.
        encoder: instead of a preset, a Hugging Face id, a folder, or minilm.
        bart: instead of a preset, a BART that LightNER prompts to write mentions.
        family: a model family of an installed package.
        vectors: word vectors for a preset: GloVe text or npz.
        types: the entity types to learn; by default all that are annotated.
        tag_set: rename the types of the notes to those of this tag set of identifying types.
        directed: whether the order of a relation's two entities matters.
        negatives: unrelated pairs per related pair in training; by default all.
        model: options of the network, such as `{"lstm": 50}`.
        training: options of the training, such as `{"epochs": 20}`.
        skip_faulty: leave out faulty mentions, lines and files of the notes, and list them in the warnings.
        seed: the same seed gives the same model on the same machine.
        device: auto, cpu, cuda or cuda:N.
        track: trackers that receive the scores: tensorboard, mlflow.
        progress: whether a progress bar and warnings are shown; warnings about the notes are also in the result.

    >>> import wardround
    >>> result = wardround.train("notes", format="brat", out="first", training={"epochs": 1}, progress=False)
    >>> result.model.types
    ('ADE', 'Drug')
    """
    with warnings_if(progress):
        choice = ModelChoice(
            preset or ModelChoice.preset,
            encoder,
            None if vectors is None else Path(vectors),
            _as_settings(model),
            bart,
            family,
        )
        config = default_training(choice, _as_settings(training), task=task, seed=seed)
        site = _site(data, format, format_options, skip_faulty=skip_faulty)
        notes = site.data.in_tag_set(checked_tag_set(tag_set))
        bound = task_at_one_site(
            TaskChoice(task, types, directed=directed, negatives=negatives), choice, notes.train, seed=seed
        )
        site = _with_gold_warnings(site, notes, bound, types_are_chosen=types is not None)
        bound.model.to(pick_device(device))
        title = f"{Path(chosen_family(choice, task)[1].name).name} on {_name_of(data)}"
        folder = RunFolder(Path(out))
        tracking = tracked_training(title, folder, asdict(config), trackers=tuple(track), say=warnings.warn)
        with _progress(folder, config, progress) as listener, tracking:
            outcome = train_at_one_site(bound, notes, config, folder=folder, listener=listener)
        result = TrainingResult(folder.path, outcome, title, warnings=site.warnings)
        _write_report(result, {**bound.model.settings(), **asdict(config)})
        return result


def transfer(
    source: str | Path,
    data: CorpusSource,
    *,
    out: str | Path,
    format: str = "",
    up_to: str = "",
    freeze: Sequence[str] = (),
    freeze_up_to: str = "",
    past_gaps: bool = False,
    preset: str = "",
    encoder: str = "",
    vectors: str | Path | None = None,
    types: Sequence[str] | None = None,
    fraction: float = 1.0,
    model: Options | None = None,
    training: Options | None = None,
    format_options: FormatOptions | None = None,
    skip_faulty: bool = False,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
) -> TrainingResult:
    """Train a tagger that starts from the layers of another.

    Args:
        source: a saved tagger: a model folder, or the run folder around it.
        data: a corpus, documents, or a path with its `format`.
        out: the run folder; an interrupted training resumes there.
        up_to: the highest layer to copy, with all below it; by default all.
        freeze: layers that are not trained.
        freeze_up_to: instead of `freeze`, a layer and all below it.
        past_gaps: copy layers that fit even if a layer below them was skipped.
        preset: a named network instead of the source's.
        encoder: an encoder instead of the source's network.
        fraction: share of the training notes to train on.
        model: options of the network.
        training: options of the training.
        skip_faulty: leave out faulty mentions, lines and files of the notes, and list them in the warnings.
        progress: whether a progress bar and warnings are shown; warnings about the notes are also in the result.

    >>> import wardround
    >>> result = wardround.transfer("model", "notes", format="brat", out="t", training={"epochs": 1}, progress=False)
    >>> "what happened" in result.transferred[0].columns
    True
    """
    with warnings_if(progress):
        settings = TransferSettings(up_to, past_gaps, tuple(freeze), freeze_up_to)
        choice = ModelChoice(preset, encoder, None if vectors is None else Path(vectors), _as_settings(model))
        start = load_source(Path(source))
        site = _site(data, format, format_options, skip_faulty=skip_faulty)
        target = target_network(start, choice, chosen_types(site.data.train, types), seed=seed)
        config = training_of(target, _as_settings(training), seed=seed)
        notes = part_of(site.data, fraction, seed=seed)
        beginning = begin(start, target, settings)
        path = Path(source).resolve()
        name = path.parent.name if path.name == "model" else path.name  # of the run: all model folders have one name
        layers = transfer_table(beginning, f"{name} up to {beginning.report.up_to}")
        folder, task = RunFolder(Path(out)), task_of(target.to(pick_device(device)))
        site = _with_gold_warnings(site, notes, task, types_are_chosen=types is not None)
        with _progress(folder, config, progress) as listener:
            outcome = train_at_one_site(task, notes, config, folder=folder, listener=listener, notes=beginning.notes())
        result = TrainingResult(
            folder.path, outcome, f"{name} transferred to {_name_of(data)}", (layers,), site.warnings
        )
        _write_report(result, {**target.settings(), **asdict(config), "fraction": fraction})
        return result


def evaluate(
    model: Model | str | Path,
    data: CorpusSource,
    *,
    format: str = "",
    format_options: FormatOptions | None = None,
    skip_faulty: bool = False,
    leakage: bool | None = None,
    tag_set: str = "",
    device: str = "auto",
) -> Evaluation:
    """Score a model on annotated notes; of a split corpus, its test part is used.

    Args:
        model: a model, or the folder of one.
        data: a corpus, documents, or a path with its `format`.
        skip_faulty: leave out faulty mentions, lines and files, and warn about them.
        leakage: whether to count what redaction would leave readable; by default if all types identify people.
        tag_set: rename the types of the notes to those of this tag set of identifying types.

    >>> import wardround
    >>> corpus = wardround.read("notes", "brat")
    >>> wardround.evaluate("model", corpus).tables[0].columns[0]
    'type'
    """
    loaded = model if isinstance(model, Model) else load(model, device=device)
    if isinstance(data, str | Path):
        path, faults = existing_path(data, format), SkippedFaults() if skip_faulty else None
        notes = load_part(path, format_of(format, format_options or {}, path), "test", faults=faults)
        for sentence in faults.sentences() if faults else ():
            warnings.warn(sentence, CorpusWarning, stacklevel=2)
    else:
        corpus = corpus_of(data)
        if corpus.is_split and not corpus.test:
            raise UsageError(f"the corpus has parts called {', '.join(corpus.parts)} but none called test")
        notes = list(corpus.test if corpus.is_split else corpus)
    documents = in_tag_set(notes, checked_tag_set(tag_set))
    task = loaded.scoring_task(leakage=leakage)
    for sentence in gold_warnings({"scored": documents}, task.entity_types, types_are_chosen=False):
        warnings.warn(sentence, CorpusWarning, stacklevel=2)
    name = "model" if isinstance(model, Model) else model_folder(model).resolve().name
    return Evaluation(task.score(documents), f"{name} on {_name_of(data)}")


def _site(data: CorpusSource, format: str, options: FormatOptions | None, *, skip_faulty: bool) -> Site:
    if isinstance(data, str | Path):
        path, faults = existing_path(data, format), SkippedFaults() if skip_faulty else None
        site = load_site(path, format_of(format, options or {}, path), faults=faults)
    else:
        site = site_of(corpus_of(data).parts)
    for warning in site.warnings:
        warnings.warn(warning, CorpusWarning, stacklevel=3)
    return site


def _with_gold_warnings(site: Site, notes: SiteData, task: Task, *, types_are_chosen: bool) -> Site:
    """Return the site with warnings about annotation that is missing or not used, and warn about it."""
    parts = {"training": notes.train, "development": notes.dev, "test": notes.test}
    found = tuple(gold_warnings(parts, task.entity_types, types_are_chosen=types_are_chosen))
    for warning in found:
        warnings.warn(warning, CorpusWarning, stacklevel=3)
    return replace(site, warnings=(*site.warnings, *found))


def _as_settings(options: Options | None) -> dict[str, str]:
    return {name: as_text(value) for name, value in (options or {}).items()}


def _name_of(data: CorpusSource) -> str:
    return Path(data).name if isinstance(data, str | Path) else "notes"


def _progress(
    folder: RunFolder, config: TrainingConfig, shown: bool
) -> AbstractContextManager[TrainingProgress | None]:
    return TrainingProgress(folder.path.name, config.epochs) if shown else nullcontext()


def _write_report(result: TrainingResult, settings: Mapping[str, Any]) -> None:
    """Write the page of a training, and the counts of errors from which it can be written again."""
    folder, entities = RunFolder(result.folder), result.outcome.score.entities
    errors = None if entities is None else ErrorCounts.of(entities)
    if errors is not None:
        folder.write_json(ERROR_COUNTS, errors.as_json())
    write_training_page(
        folder.report,
        result.title,
        scores=[*result.tables, *result.transferred],
        errors=errors,
        mode=next(iter(result.outcome.f1)),
        epochs=result.outcome.records,
        settings=dict(settings),
    )
