"""The floors of a site: at review, when it is opened, and in every update."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.models.tiny import notes
from tests.privacy.audit.attacked import LAYERS, NOTES, of_encoder, study_of, write_wide_encoder
from tests.studies.tiny_studies import CPU

from wardround.errors import StudyError
from wardround.federation.message import Message, grouped
from wardround.federation.site_runtime import Site
from wardround.studies.assemble import common_model, coordinator_of
from wardround.studies.leakage_findings import LeakageFindings
from wardround.studies.leakage_policy import check_findings, check_update_size, fewest_tokens_of
from wardround.studies.single_site import SiteData
from wardround.studies.site_policy import LeakagePolicy, SitePolicy
from wardround.studies.site_review import review
from wardround.studies.site_setup import open_site
from wardround.studies.study_file import Study

DEFAULT = LeakagePolicy()
NO_ATTENTION = {"character_layer": "none", "lstm": 0, "word_cnn": 8, "word_dimension": 8, "word_buckets": 64}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wide_encoder(tmp_path_factory.mktemp("encoder"))


def fewest(study: Study, policy: LeakagePolicy = DEFAULT) -> int:
    return fewest_tokens_of(study, policy, common_model(study))


def opened(study: Study, folder: Path, policy: LeakagePolicy = DEFAULT, count: int = 60) -> Site:
    data = SiteData(NOTES[:count], notes(3), notes(3))
    return open_site(study, "east", data, folder=folder, device=CPU, site_policy=SitePolicy(policy))


def test_a_shared_attention_layer_needs_more_words_than_twice_its_width(encoder: Path) -> None:
    # 129 words in what a party can read: one update where it reads single ones, two of three under masks.
    assert fewest(of_encoder(encoder, "plain", shared=LAYERS)) == 129
    assert fewest(of_encoder(encoder, "sealed", shared=LAYERS)) == 129
    assert fewest(of_encoder(encoder, "masked", shared=LAYERS)) == 65
    assert fewest(of_encoder(encoder, "sealed+masked", shared=["layer_1"])) == 65


def test_adapters_count_as_their_layer(encoder: Path) -> None:
    assert fewest(of_encoder(encoder, "plain", shared=["lora"], model={"adapter": "lora"})) == 129


def test_without_a_shared_attention_layer_there_is_no_floor(encoder: Path) -> None:
    assert fewest(of_encoder(encoder, "plain", shared=["embeddings"])) == 0
    assert fewest(study_of("plain", model=NO_ATTENTION)) == 0


def test_the_owner_sets_another_floor_or_none(encoder: Path) -> None:
    study = of_encoder(encoder, "masked", shared=LAYERS)
    assert fewest(study, LeakagePolicy(fewest_tokens=1001)) == 501
    assert fewest(study, LeakagePolicy(fewest_tokens=0)) == 0
    assert fewest(study_of("plain", model=NO_ATTENTION), LeakagePolicy(fewest_tokens=50)) == 50


def test_differential_privacy_needs_no_floor(encoder: Path) -> None:
    noise = {"epsilon": 8.0, "delta": 0.001}
    study = of_encoder(
        encoder,
        "masked",
        shared=["all"],
        training={"clip": 0.0},
        privacy={"smallest_batch": 0, "differential_privacy": noise},
    )
    assert fewest(study, LeakagePolicy(fewest_tokens=5000)) == 0


def test_a_review_refuses_updates_that_are_too_small(encoder: Path) -> None:
    small = of_encoder(encoder, "masked", shared=LAYERS, sentences=2)
    with pytest.raises(
        StudyError, match=r"an update of 2 sentences has about \d\d words, and needs 65 because"
    ) as refused:
        review(small, "east", coordinator="here", policy=DEFAULT)
    assert "raise [privacy] smallest_batch to " in str(refused.value)
    needed = int(str(refused.value).partition("smallest_batch to ")[2].partition(",")[0])
    enough = replace(small, privacy=replace(small.privacy, smallest_batch=needed))
    assert review(enough, "east", coordinator="here", policy=DEFAULT)
    assert review(small, "east", coordinator="here", policy=LeakagePolicy(fewest_tokens=0))


def test_whole_epochs_are_measured_when_the_notes_are_known(encoder: Path, tmp_path: Path) -> None:
    study = of_encoder(encoder, "masked", shared=LAYERS, algorithm={"name": "fedavg"}, privacy={"smallest_batch": 0})
    assert check_update_size(study, DEFAULT, common_model(study)) == 65
    assert opened(study, tmp_path / "enough").request_policy is not None
    with pytest.raises(StudyError, match="the training notes of this site have 31 words, and an update needs 65"):
        opened(study, tmp_path / "few", count=2)


def test_a_site_refuses_at_run_time_what_it_would_refuse_at_review(encoder: Path, tmp_path: Path) -> None:
    study = of_encoder(encoder, "masked", shared=LAYERS, sentences=2)
    with pytest.raises(StudyError, match="smallest_batch"):
        opened(study, tmp_path)


def ask_for_a_gradient(site: Site, study: Study, *, others: int) -> Message:
    coordinator = coordinator_of(study)
    coordinator.sizes = {"east": len(site.notes.train), "west": others, "north": others}
    values = {**coordinator.settings(), "sizes": dict(coordinator.sizes), "round": 1}
    return site.answer("gradient", Message(values, grouped("shared", coordinator.arrays())))


def test_every_update_has_enough_words_whatever_the_coordinator_asks(encoder: Path, tmp_path: Path) -> None:
    """Huge invented sizes of other sites make this site's share of the batch as small as it can be."""
    study = of_encoder(encoder, "plain", shared=LAYERS, sentences=32, training={"batch_size": 32})
    drawn: dict[bool, int] = {}
    for limited in (False, True):
        site = opened(study, tmp_path / str(limited), LeakagePolicy(fewest_tokens=None if limited else 0))
        assert site.request_policy is not None
        assert site.request_policy.fewest_tokens == (129 if limited else 0)
        shortest = replace(site.request_policy, smallest_batch=3)
        site.request_policy = shortest
        draw = site.next_rows

        def counted(*given: int, **named: int) -> list[int]:
            rows = draw(*given, **named)  # noqa: B023 – called within this turn of the loop
            drawn[limited] = sum(site.task.tokens(site.notes.train[row]) for row in rows)  # noqa: B023
            return rows

        site.next_rows = counted  # type: ignore[method-assign]
        ask_for_a_gradient(site, study, others=1_000_000)
    assert drawn[False] < 65
    assert drawn[True] >= 129


def test_findings_above_the_limit_are_refused() -> None:
    study = study_of("plain", model=NO_ATTENTION)
    nothing = LeakageFindings.of(study, own_notes=False)
    check_findings(nothing, LeakagePolicy(highest_token_recall=0.0))
    unknown = replace(nothing, not_attacked="NewKindOfNetwork")
    with pytest.raises(StudyError, match="No attack of this audit knows the network NewKindOfNetwork"):
        check_findings(unknown, LeakagePolicy(highest_token_recall=0.9))
    check_findings(unknown, DEFAULT)
