from __future__ import annotations

import re

import pytest
from tests.docs.pages import codes, section, text_of

from wardround.federation.site_runtime import COMMON_STEPS
from wardround.studies.catalogue import ALGORITHMS

PAGE = "algorithms.md"


def test_every_algorithm_has_a_section_in_the_order_of_the_list() -> None:
    heads = re.findall(r"^## (\w+)$", text_of(PAGE), re.MULTILINE)
    assert heads == list(ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_section_names_the_steps_it_asks(name: str) -> None:
    (line,) = re.findall(r"^- \*\*Steps\*\*: ((?:.|\n)*?)\n- ", section(PAGE, f"## {name}"), re.MULTILINE)
    said = [code for code in codes(line) if code not in ("local_steps", *ALGORITHMS)]
    assert said == list(ALGORITHMS[name].steps)


def test_the_steps_that_all_ask() -> None:
    common = section(PAGE, "## What all have in common")
    assert set(COMMON_STEPS) <= set(codes(common))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_section_says_what_it_does_what_crosses_and_when_to_choose_it(name: str) -> None:
    found = section(PAGE, f"## {name}")
    assert found.count("```") == 2
    assert all(f"**{word}**" in found for word in ("Crosses", "Choose it"))
