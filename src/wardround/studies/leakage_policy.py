"""The floors of a site: how many words an update must be made of, and which token recall the site tolerates."""

from __future__ import annotations

from collections.abc import Sequence

from wardround.errors import StudyError
from wardround.models.parameter_split import LayeredModel
from wardround.privacy.audit.attention import shared_attention_width
from wardround.studies.audit_notes import mean_sentence
from wardround.studies.leakage_findings import LeakageFindings
from wardround.studies.site_policy import POLICY, LeakagePolicy
from wardround.studies.study_file import Study

__all__ = ["check_findings", "check_update_size", "fewest_tokens_of"]

_REMEDY = "use [privacy.differential_privacy], or share no attention layer"


def fewest_tokens_of(study: Study, policy: LeakagePolicy, model: LayeredModel) -> int:
    """Return of how many words an update of this site must be made; 0 if there is no limit.

    The limit is for the smallest sum that a party can read, less what that party knows of it: under masks the sum of
    all sites but one, otherwise a single update. Under differential privacy there is none, because the noise is made
    for single updates.
    """
    if study.algorithm.kind.sends != "updates" or study.privacy.differential_privacy is not None:
        return 0
    width = shared_attention_width(model)
    fewest = policy.fewest_tokens
    if fewest is None:
        fewest = 2 * width + 1 if width else 0
    return -(-fewest // _unknown_updates(study))


def check_update_size(
    study: Study, policy: LeakagePolicy, model: LayeredModel, *, words: Sequence[int] | None = None
) -> int:
    """Return the fewest words of an update; raise a `StudyError` if the study's updates would have fewer.

    Args:
        study: the study.
        policy: of the site.
        model: a model of the study, built.
        words: of each of the site's training examples; if they are not known, sentences are as long as in the notes
            of a built-in hospital.
    """
    fewest = fewest_tokens_of(study, policy, model)
    if not fewest:
        return 0
    limit = _reason(study, policy)
    if words is not None and sum(words) < fewest:
        raise StudyError(
            f"the training notes of this site have {sum(words):,} words, and an update needs {fewest:,} because "
            f"{limit}; {_REMEDY}"
        )
    if not study.algorithm.kind.constant_settings(study.algorithm.config).get("steps", 1):
        return fewest  # an update is made of all notes of the site
    mean = sum(words) / len(words) if words else mean_sentence(study)
    sentences = study.privacy.fewest_sentences
    if sentences * mean < fewest:
        raise StudyError(
            f"an update of {sentences:,} sentences has about {sentences * mean:,.0f} words, and needs {fewest:,} "
            f"because {limit}; raise [privacy] smallest_batch to {int(fewest / mean) + 1}, {_REMEDY}"
        )
    return fewest


def check_findings(findings: LeakageFindings, policy: LeakagePolicy) -> None:
    """Raise a `StudyError` if an audit found more than the site tolerates, or could not look."""
    if policy.highest_token_recall == 1:
        return
    limit = f"{POLICY}, [leakage] highest_token_recall {policy.highest_token_recall:g}"
    if findings.not_attacked:
        raise StudyError(f"the study is refused ({limit}): {findings.sentence}")
    if findings.recall > policy.highest_token_recall:
        raise StudyError(
            f"the study is refused ({limit}): {findings.sentence} Share no embedding table, make updates of more "
            "sentences, or use [privacy.differential_privacy]"
        )


def _unknown_updates(study: Study) -> int:
    """Return how many updates a party that reads a sum cannot take out of it."""
    return max(1, study.privacy.minimum_sites - 1) if study.privacy.protection.masks else 1


def _reason(study: Study, policy: LeakagePolicy) -> str:
    updates = _unknown_updates(study)
    readable = "a single update can be read" if updates == 1 else f"a sum of {updates} updates can be read"
    if policy.fewest_tokens is not None:
        return f"{readable} and {POLICY} requires {policy.fewest_tokens:,} words ([leakage] fewest_tokens)"
    return f"{readable} and must have more words than twice the width of a shared attention layer"
