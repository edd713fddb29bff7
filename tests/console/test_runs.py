from __future__ import annotations

import pytest

from wardround.console.runs import StudyFacts, protection_in_words


@pytest.mark.parametrize(
    ("mechanism", "predictions", "words"),
    [
        ("plain", False, "the coordinator can read each site's update"),
        ("masked", False, "the coordinator can read the sum of a round's updates, and none by itself"),
        ("sealed", False, "can read neither an update nor the sum"),
        ("sealed+masked", False, "masks hide each update in it"),
        ("plain", True, "can read each site's predictions on the public set"),
        ("masked", True, "the mean of a round's predictions"),
        ("sealed", True, "open the mean prediction and give it back"),
        ("sealed+masked", True, "masks hide each site's in it"),
        ("", False, "nothing leaves it"),
    ],
)
def test_who_can_read_what_is_said_for_every_mechanism(mechanism: str, predictions: bool, words: str) -> None:
    assert words in protection_in_words(StudyFacts(mechanism=mechanism, gives_predictions=predictions))
