from __future__ import annotations

from dataclasses import replace

import pytest
from tests.secure_aggregation.cohort import (
    BOTH,
    BOTH_COMPACT,
    CKKS,
    CLIPS,
    COMPACT,
    MASKED,
    RETURNED,
    SEALED,
    Cohort,
    code_of,
    named,
    packing_of,
)

from wardround.federation.aggregation import Reader
from wardround.secure_aggregation.codecs import BfvCodec, CkksCodec, NumberLayout, PlaintextCodec
from wardround.secure_aggregation.mechanisms import AgreedMechanism
from wardround.secure_aggregation.packing import Layout


@pytest.mark.parametrize(
    ("mechanism", "sealed", "masked", "key", "width"),
    [
        (MASKED, False, True, "", 31),
        (SEALED, True, False, "bfv-standard", 22),
        (COMPACT, True, False, "bfv-compact", 15),
        (BOTH, True, True, "bfv-standard", 22),
        (BOTH_COMPACT, True, True, "bfv-compact", 15),
        (CKKS, True, False, "ckks", 22),
    ],
    ids=named,
)
def test_the_properties_of_each_mechanism(
    mechanism: AgreedMechanism, sealed: bool, masked: bool, key: str, width: int
) -> None:
    assert (mechanism.is_sealed, mechanism.is_masked, mechanism.key_scheme) == (sealed, masked, key)
    assert mechanism.reader is (Reader.SITE if sealed else Reader.COORDINATOR)
    assert packing_of(mechanism).width == width


def test_every_participant_is_needed_with_masks_and_if_means_come_back() -> None:
    assert [mechanism.needs_every_participant for mechanism in (MASKED, SEALED, BOTH, RETURNED)] == [
        True,
        False,
        True,
        True,
    ]
    assert not RETURNED.is_masked


def test_the_codec_of_each_mechanism() -> None:
    assert isinstance(MASKED.codec, PlaintextCodec)
    assert isinstance(BOTH.codec, BfvCodec)
    assert isinstance(CKKS.codec, CkksCodec)
    assert MASKED.codec is MASKED.codec  # a context of SEAL is not made for every exchange


def test_layer_groups_each_once_in_the_order_of_the_layers() -> None:
    shapes = {"z": (1,), "a": (1,), "y": (1,)}
    groups = {"a": "low", "z": "top", "y": "top"}
    assert replace(MASKED, shapes=shapes, groups=groups).layer_groups == ("top", "low")


def test_the_clip_of_a_layer_is_its_groups() -> None:
    assert MASKED.clip_of(Cohort.of(MASKED).exchange()) == {"words": 1.0, "bias": 4.0}


@pytest.mark.parametrize("clips", [{}, {"embedding": 1.0}, {**CLIPS, "lstm": 1.0}, {"embedding": 1.0, "bias": 4.0}])
def test_clips_of_other_groups_are_refused(clips: dict[str, float]) -> None:
    exchange = Cohort.of(MASKED).exchange(clips=clips)
    assert code_of(MASKED.clip_of, exchange) == "clip"
    assert code_of(MASKED.layout, exchange) == "clip"


def test_the_layout_of_an_update() -> None:
    """Seven numbers: masks alone pack one per slot, `standard` two, `compact` three, and CKKS packs none."""
    exchange = Cohort.of(MASKED).exchange()
    layouts = [mechanism.layout(exchange) for mechanism in (MASKED, SEALED, COMPACT, CKKS)]
    assert [layout.slots for layout in layouts] == [7, 4, 3, 7]
    assert [type(layout) for layout in layouts] == [Layout, Layout, Layout, NumberLayout]
