"""Attacks that succeed where theory says so, and fail where a defence is on; all on real updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.privacy.audit.attacked import LAYERS, NOTES, of_encoder, study_of, write_wide_encoder
from tests.studies.tiny_studies import of_algorithm

from wardround.errors import UsageError
from wardround.studies.catalogue import ALGORITHMS
from wardround.studies.leakage_audit import audit_leakage
from wardround.studies.leakage_findings import BOTH, COORDINATOR, OTHER_SITE, Finding, LeakageFindings
from wardround.studies.study_file import Study

NETWORK = {
    "word_buckets": 4096,
    "word_dimension": 24,
    "character_layer": "cnn",
    "character_width": 40,
    "character_dimension": 8,
    "word_cnn": 96,
    "lstm": 8,
    "input_dropout": 0.0,
    "dropout": 0.0,
}

ONE_MORE = {"rounds": 2}  # a round for the built layer


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wide_encoder(tmp_path_factory.mktemp("encoder"))


def by_reader(study: Study, *, rounds: int = 1) -> Mapping[tuple[str, str], Finding]:
    return {(f.reader, f.attack): f for f in audit_leakage(study, NOTES, rounds=rounds).findings}


def test_changed_rows_name_every_word_piece_to_whoever_reads_a_sum(encoder: Path) -> None:
    found = by_reader(of_encoder(encoder, "masked", shared=["embeddings", *LAYERS]))
    for reader, sites in ((COORDINATOR, 3), (OTHER_SITE, 3), (BOTH, 2)):
        rows = found[reader, "changed rows"]
        assert rows.recall >= 0.99
        assert rows.precision >= 0.9
        assert rows.chance < 0.05
        assert (rows.sites, rows.sentences) == (sites, 2 * sites)
        assert rows.length_found
    assert {reader for reader, _ in found} == {COORDINATOR, OTHER_SITE, BOTH}


def test_the_span_test_reads_few_sentences_without_embeddings(encoder: Path) -> None:
    """Fewer tokens than dimensions: every piece is found, and the sentence itself."""
    found = by_reader(of_encoder(encoder, "plain", shared=LAYERS, sentences=1))
    assert {reader for reader, attack in found if attack == "span test"} == {COORDINATOR, BOTH, OTHER_SITE}
    one = found[COORDINATOR, "span test"]
    assert (one.sites, one.sentences) == (1, 1)
    assert one.recall >= 0.9
    assert one.precision >= 0.9
    assert one.whole == 1
    assert one.chance < 0.05
    # Other sites see what Adam made of the mean, whose rows lie in no small space.
    assert found[OTHER_SITE, "span test"].recall < 0.3


def test_a_sum_of_three_sites_is_only_a_larger_batch(encoder: Path) -> None:
    found = by_reader(of_encoder(encoder, "masked", shared=LAYERS, sentences=1))
    total = found[COORDINATOR, "span test"]
    assert total.sites == 3
    assert total.recall >= 0.9
    assert total.precision >= 0.9
    assert total.whole is not None
    assert total.whole >= 1


def test_more_tokens_than_twice_the_width_hide_most_words(encoder: Path) -> None:
    """The floor that sites enforce, 2 · 64 tokens: only what many of the sentences repeat stands out."""
    found = by_reader(of_encoder(encoder, "masked", shared=LAYERS, sentences=32))
    for finding in (finding for (_, attack), finding in found.items() if attack == "span test"):
        if finding.sites > 1 and finding.what != "step":
            assert finding.tokens > 2 * 64
        assert finding.recall < 0.3, finding
        assert (finding.whole or 0) <= 1, finding  # of up to 96


def test_sealed_sums_are_open_to_sites_and_single_updates_to_a_site_with_the_coordinator(encoder: Path) -> None:
    findings = audit_leakage(of_encoder(encoder, "sealed", shared=LAYERS, sentences=1), NOTES, rounds=1)
    found = {f.reader: f for f in findings.findings}
    assert findings.unseeing == (COORDINATOR,)
    assert found.keys() == {OTHER_SITE, BOTH}
    assert (found[OTHER_SITE].sites, found[BOTH].sites) == (2, 1)
    assert found[OTHER_SITE].recall >= 0.9
    assert found[BOTH].whole == 1


def test_masks_inside_ciphertexts_leave_two_readers_the_same_sum(encoder: Path) -> None:
    findings = audit_leakage(of_encoder(encoder, "sealed+masked", shared=LAYERS, sentences=1), NOTES, rounds=1)
    assert {(f.reader, f.what, f.sites) for f in findings.findings} == {
        (OTHER_SITE, "sum less its own", 2),
        (BOTH, "sum less its own", 2),
    }


def test_lora_reveals_a_short_sentence_once_its_layers_have_left_zero(encoder: Path) -> None:
    study = of_encoder(
        encoder,
        "plain",
        shared=["lora"],
        sentences=1,
        model={"adapter": "lora", "lora_rank": 32},
        algorithm={"rounds": 2},
    )
    found = [f for f in audit_leakage(study, NOTES, rounds=2).findings if f.reader == COORDINATOR]
    assert [f.round for f in found] == [2]  # in round 1 the gradient of the inner layer is zero
    assert found[0].recall >= 0.9


def test_a_built_layer_shows_word_pieces_to_the_coordinator_that_built_it(encoder: Path) -> None:
    """Under plain and masked the coordinator chooses the shared half."""
    found = by_reader(of_encoder(encoder, "plain", shared=LAYERS, sentences=4, algorithm=ONE_MORE))
    for reader in (COORDINATOR, BOTH):
        assert found[reader, "crafted layer"].recall >= 0.3
        assert found[reader, "crafted layer"].precision >= 0.9
        assert found[reader, "crafted layer"].round == 2  # after the rounds that are asked for
    assert (OTHER_SITE, "crafted layer") not in found


def test_dropout_does_not_hide_words_from_a_built_layer() -> None:
    model = {**NETWORK, "shared": ["characters", "word_cnn"], "input_dropout": 0.5, "dropout": 0.5}
    found = by_reader(study_of("plain", sentences=4, model=model, algorithm=ONE_MORE))
    assert found[COORDINATOR, "crafted layer"].recall >= 0.3
    assert found[COORDINATOR, "span test"].recall < 0.3


def test_nobody_sends_a_shared_half_under_sealed_mechanisms() -> None:
    model = {**NETWORK, "shared": ["characters", "word_cnn"]}
    findings = audit_leakage(study_of("sealed+masked", sentences=4, model=model, algorithm=ONE_MORE), NOTES, rounds=1)
    assert {f.attack for f in findings.findings} == {"span test"}


def test_whole_epochs_still_name_the_words() -> None:
    study = study_of(
        "masked",
        model={**NETWORK, "shared": ["words", "word_cnn"]},
        algorithm={"name": "fedavg", "rounds": 1},
        training={"batch_size": 8, "learning_rate": 0.01},
        privacy={"smallest_batch": 0},
    )
    found = by_reader(study)
    assert found[COORDINATOR, "changed rows"].recall >= 0.9
    assert found[COORDINATOR, "changed rows"].sentences > 200
    assert found[OTHER_SITE, "changed rows"].recall >= 0.9  # the step of FedAvg is the mean


def test_the_word_cnn_spans_its_inputs_although_words_are_not_shared() -> None:
    study = study_of("plain", sentences=4, model={**NETWORK, "shared": ["characters", "word_cnn"]})
    found = by_reader(study)
    assert found[COORDINATOR, "span test"].recall >= 0.9
    assert found[COORDINATOR, "span test"].precision >= 0.9
    assert found[COORDINATOR, "span test"].whole is None


def test_under_differential_privacy_every_attack_is_at_chance(encoder: Path) -> None:
    study = of_encoder(
        encoder,
        "masked",
        shared=["all"],
        algorithm={"rounds": 4},
        training={"batch_size": 64, "clip": 0.0},
        privacy={
            "smallest_batch": 0,
            "differential_privacy": {"epsilon": 8.0, "delta": 0.005, "clip": 1.0, "sampling_rate": 0.1},
        },
    )
    findings = audit_leakage(study, NOTES, rounds=1)
    assert {f.attack for f in findings.findings} == {"changed rows", "span test", "crafted layer"}
    for finding in findings.findings:
        assert finding.recall <= finding.chance + 0.1, finding
        assert not finding.whole
        assert not finding.length_found
    assert findings.passes()
    assert "ε = 8." in findings.sentence


def test_the_same_study_gives_the_same_findings() -> None:
    study = study_of("masked", model={**NETWORK, "shared": ["words", "word_cnn"]})
    assert audit_leakage(study, NOTES, rounds=1) == audit_leakage(study, NOTES, rounds=1)


def test_an_audit_changes_nothing_about_the_study(tmp_path: Path) -> None:
    """Sites that only describe themselves count in the shares of the batch: 12 sentences for six sites."""
    study = study_of("masked", model={**NETWORK, "shared": ["words"]}, training={"batch_size": 12})
    more = {f"extra-{number}": study.sites["east"] for number in range(3)}
    study = replace(study, sites={**study.sites, **more}, privacy=replace(study.privacy, smallest_batch=1))
    found = by_reader(study)
    assert found[COORDINATOR, "changed rows"].sites == 3
    assert found[COORDINATOR, "changed rows"].sentences == 6


@pytest.mark.parametrize("name", [name for name, kind in ALGORITHMS.items() if kind.sends == "updates"])
def test_updates_of_every_algorithm_are_attacked(name: str) -> None:
    study = of_algorithm(name, model={"word_buckets": 8192}, privacy={"minimum_sites": 2})
    found = {f.reader: f for f in audit_leakage(study, NOTES, rounds=1).findings if f.attack == "changed rows"}
    assert found.keys() == {COORDINATOR, OTHER_SITE, BOTH}
    assert found[COORDINATOR].recall >= 0.9
    assert found[OTHER_SITE].sites == 2


def test_predictions_are_not_attacked_as_updates() -> None:
    study = study_of(
        "plain",
        model={**NETWORK, "decoder": "softmax"},
        algorithm={"name": "feded"},
        privacy={"smallest_batch": 0},
        public={"built_in": "riverside-0002"},
    )
    findings = audit_leakage(study, NOTES)
    assert not findings.findings
    assert findings.passes(0.0)
    assert "No update leaves" in findings.sentence


def test_too_few_notes_are_refused() -> None:
    with pytest.raises(UsageError, match="2 notes are too few for an audit of 3 sites"):
        audit_leakage(study_of("masked"), NOTES[:2])


def test_no_finding_holds_text_of_a_note() -> None:
    findings = audit_leakage(study_of("masked", model={**NETWORK, "shared": ["words"]}), NOTES, rounds=1)
    words = {word.lower() for note in NOTES for word in note.text.split() if len(word) > 4}
    assert not any(word in str(findings.as_json()).lower().split() for word in words - {"words", "sentences"})
    assert isinstance(findings, LeakageFindings)
