"""The description of a study for the person who decides whether a site takes part in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from wardround.algorithms.algorithm import Payload
from wardround.models.parameter_split import LayeredModel
from wardround.reports.page import Section, write_page
from wardround.studies.aggregation_setup import payload_of
from wardround.studies.assemble import model_of, task_on
from wardround.studies.leakage_audit import audit_leakage
from wardround.studies.leakage_findings import LeakageFindings
from wardround.studies.leakage_page import section_of, write_findings
from wardround.studies.leakage_policy import check_findings, check_update_size
from wardround.studies.run_folder import RunFolder
from wardround.studies.site_policy import LeakagePolicy
from wardround.studies.study_file import Study
from wardround.studies.study_notes import public_set
from wardround.text.document import Document
from wardround.text.plain_text import size_text
from wardround.text.tag_sets import TagSet

__all__ = ["STEPS_IN_WORDS", "ReviewSection", "audit_for_review", "review", "write_review"]

# Steps of every study and of the mechanisms; an algorithm declares the sentences of its own steps.
STEPS_IN_WORDS: Mapping[str, str] = {
    "describe": "sends how many training examples (sentences, or pairs of entities) and test notes you have",
    "open_mean": "opens the mean of the sites' predictions here and sends that mean to the coordinator",
    "submit": "sends the update that was held back, protected for the sites of this round",
    "unmask": "sends the seed of your own mask, once all sites of the round have sent their updates",
    "begin": "receives the layers that the study starts from, if they are those that the study names; sends nothing",
    "open_sum": "opens the sum of the round here and applies it to the shared layers; sends a digest of them",
    "judge": "computes the loss on your development notes before and after the round's step, and holds your vote on it",
    "submit_vote": "sends your vote, masked for the sites that vote; only the sum of all votes can be read",
    "unmask_vote": "sends the seed of your vote's own mask, once all sites have voted",
    "decide": "takes the round's step or leaves the shared layers unchanged, as the votes say; sends a digest of them",
    "share_copy": "sends your copy of the shared layers to a site that missed a round, encrypted for the study's sites",
    "load_copy": "receives another site's copy of the shared layers, if you missed a round; sends a digest of them",
    "score": "scores your development notes and sends counts by type: right, wrong, missed",
    "finish": "scores your test notes, keeps the model here, sends counts by type and an interval of F1",
    "save": "writes your site's state to your disk; sends nothing",
    "restore": "goes back to your site's state after an earlier round; sends nothing",
}
_WEIGHTS = "Other sites learn which sites send in a round, and the weight of each: its number of training {}."
_UNIFORM_WEIGHTS = "Other sites learn which sites send in a round; every site has the same weight."
_WORDS_SHARED = (
    "The word embeddings are shared: the rows that change in an update show which words are in the notes that it was "
    "made from, except that words which share a row cannot be distinguished."
)


@dataclass(frozen=True)
class ReviewSection:
    """A heading and its sentences."""

    heading: str
    lines: tuple[str, ...]


def review(study: Study, site: str, *, coordinator: str, policy: LeakagePolicy | None = None) -> list[ReviewSection]:
    """Return what the study would do at `site`, what would leave the site, and who could read that.

    Raise a `StudyError` if updates would be smaller than the site's policy allows.
    """
    section = study.sites[site]
    types = TagSet(section.types or ("any",))
    model = model_of(study, types, scheme=section.scheme, encoder=section.encoder)
    task = task_on(study, model, types)
    if policy is not None:
        check_update_size(study, policy, model)
    # The payload of an algorithm that asks no site to train, such as `public`, is never sent.
    payload = payload_of(study, task, public_set(study, task)) if study.algorithm.kind.steps else Payload({}, {}, {})
    return [
        ReviewSection("The study", tuple(_about(study, coordinator))),
        ReviewSection("What would run here", tuple(_steps(study))),
        ReviewSection("What would leave this site", tuple(_leaving(study, payload))),
        ReviewSection("What would stay", tuple(_staying(study, model))),
        ReviewSection("Who could read what leaves", tuple(_readers(study, model, sends_arrays=bool(payload.shapes)))),
    ]


def audit_for_review(
    study: Study, folder: RunFolder, policy: LeakagePolicy, notes: Sequence[Document] = (), *, always: bool = False
) -> LeakageFindings | None:
    """Audit a study if its review asks for it, gives notes, or the site's policy needs it; write the result.

    Raise a `StudyError` if the audit finds more than the policy tolerates; the site's owner can read the result then.
    """
    if not (always or notes or policy.highest_token_recall < 1):
        return None
    findings = audit_leakage(study, notes)
    write_findings(findings, folder)
    check_findings(findings, policy)
    return findings


def write_review(
    path: Path, study: Study, sections: Sequence[ReviewSection], findings: LeakageFindings | None = None
) -> None:
    """Write a review as a page, with what an audit found."""
    pages = [Section(section.heading, "\n\n".join(section.lines)) for section in sections]
    write_page(path, f"Review of {study.study.name}", [*pages, *([section_of(findings)] if findings else [])])


def _about(study: Study, coordinator: str) -> Iterator[str]:
    yield f"{study.study.name}. {study.study.description}".rstrip(". ") + "."
    yield f"Its coordinator is at {coordinator}; it has {len(study.sites)} sites: {', '.join(study.sites)}."
    config = study.algorithm.config
    yield f"The algorithm is {study.algorithm.name}, for {config.rounds:,} rounds at most."
    if study.model.has_start:
        yield "Its shared layers begin from a model that was trained before; the coordinator has it."
    if study.public.exists:
        labels = "with its annotation" if study.public.labelled else "without its annotation"
        yield f"All parties read one public set of notes, {labels}; none of your notes is in it."
    if not study.task.only_tags_words:
        yield f"It learns relations: {', '.join(study.task.relations)}."
        return
    for name, site in study.sites.items():
        yield f"{name} annotates {', '.join(site.types) or 'types that it does not name here'}."
        if more := [kind for kind in site.scored if kind not in site.types]:
            yield f"The test notes of {name} are annotated with {', '.join(more)} as well, and scored on them."


def _steps(study: Study) -> Iterator[str]:
    yield "Only these steps, of the software installed here; the coordinator cannot send code."
    kind = study.algorithm.kind
    sentences = {name: step.review for name, step in kind.steps.items()}
    # Without updates or predictions, nothing is submitted and nothing is opened.
    aggregates = kind.sends != "nothing"
    protecting = [*study.privacy.protection.steps(mean_comes_back=kind.central_model)] if aggregates else []
    if study.sends_start:
        protecting.append("begin")
    for step in ("describe", *sentences, *protecting, "score", "finish", "save", "restore"):
        yield f"{step}: {sentences.get(step) or STEPS_IN_WORDS[step]}"


def _leaving(study: Study, payload: Payload) -> Iterator[str]:
    numbers = sum(prod(shape) for shape in payload.shapes.values())
    if payload.shapes:
        rounds = study.algorithm.config.rounds
        what = "predictions" if study.algorithm.kind.sends == "predictions" else "an update"
        yield (
            f"In each round {what} of {len(payload.shapes)} arrays, {numbers:,} numbers, {size_text(numbers * 4)}; "
            f"over all rounds up to {size_text(numbers * 4 * rounds)}."
        )
        for name, shape in payload.shapes.items():
            yield f"{name} {' × '.join(map(str, shape))}"
        least = study.privacy.fewest_sentences
        sentences = "1 sentence" if least == 1 else f"{least:,} sentences"
        or_all = "" if study.privacy.smallest_batch else ", or of all that you have, if you have fewer"
        yield (
            f"An update is made of at least {sentences}{or_all}; requests outside the study's own settings are "
            "refused. A round that is repeated draws other sentences, and the number of repeats is limited."
        )
    else:
        yield "Requests outside the study's own settings are refused."
    if study.algorithm.kind.sends != "nothing":
        yield f"With each update, your number of training {study.task.examples} and the mean loss of the batch."
    elif study.algorithm.kind.steps:
        yield f"Once your number of training {study.task.examples}, in each round the mean loss; no update."
    else:
        yield f"Your number of training {study.task.examples}; no update and no prediction, because no site trains."
    if payload.shapes and study.privacy.protection.protects:
        yield from _with_protection(study)
    yield "After some rounds, counts of right, wrong and missed mentions by type; no text, no name or number of a note."
    if study.task.reports_leakage:
        yield "With the counts, how many words and mentions stay readable, and in how many of your notes, by type."
    yield "Every message is written to this site's ledger before it is sent: `wardround ledger show`."


def _with_protection(study: Study) -> Iterator[str]:
    yield (
        "With each update, two public keys that your site made when it started, how many numbers of the update were "
        "clipped, and in how many layer groups it rounds to zero."
    )
    if not study.privacy.value_bounds and not study.algorithm.value_bound:
        yield (
            "In the first round, and again where an update rounds to zero, the largest number of the update in each "
            "shared layer group, to learn its clip."
        )
    if study.shared_at_sites:
        yield "Only the sites have the resulting shared layers; the coordinator never has them."


def _staying(study: Study, model: LayeredModel) -> Iterator[str]:
    yield "Your notes and their annotation, the names of your files and folders."
    private, kind = model.split.private, study.algorithm.kind
    if kind.sends == "predictions":
        yield "Your model: nothing of it leaves except its predictions on the public notes."
    elif not kind.steps:
        yield "No model is trained here: the coordinator trains it on the public notes."
    elif private:
        yield f"The private layers: {', '.join(private)}."
    else:
        yield "No layer: this study shares the whole model."
    yield "The text of an error: only its code is sent."


def _readers(study: Study, model: LayeredModel, *, sends_arrays: bool) -> Iterator[str]:
    mechanism, kind = study.privacy.protection, study.algorithm.kind
    yield f"The mechanism is {mechanism.name}."
    if sends_arrays:
        yield mechanism.predictions_readable_by if kind.sends == "predictions" else mechanism.updates_readable_by
    if not mechanism.protects and not kind.central_model and {"words"} & set(model.split.shared) & set(model.groups):
        yield _WORDS_SHARED
    if kind.steps:
        if mechanism.protects and kind.sends != "nothing":
            yield _UNIFORM_WEIGHTS if kind.server.uniform_weights else _WEIGHTS.format(study.task.examples)
        # A robust rule counts each site once.
        if study.privacy.robust is None and study.privacy.largest_share < 1 and len(study.sites) > 2:
            yield f"In a mean of three or more sites, no site counts for more than {study.privacy.largest_share:.0%}."
        yield f"A round counts when {study.privacy.minimum_sites} or more of {len(study.sites)} sites answer."
    yield kind.sent_to_sites
