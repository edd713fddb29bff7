from __future__ import annotations

import ast
import json
import re
from typing import Any

import pytest

from wardround.reports.model_page import model_readme, model_table

CALIBRATION = {
    "entities": {"slope": 0.5, "intercept": 0.0, "predictions": 1234, "error_before": 0.2, "error_after": 0.05}
}
CARD: dict[str, Any] = {
    "kind": "word-tagger",
    "types": ["ADE", "Drug"],
    "config": {"scheme": "BIO"},
    "notes": {"strict_f1": 0.81234, "scored_on": "test", "calibration": CALIBRATION, "transfer": {"layers": []}},
}


def front_matter(readme: str) -> dict[str, Any]:
    """Read the block between two lines of dashes: JSON values are YAML values too."""
    found = re.match(r"---\n(.*?)\n---\n\n# ", readme, re.DOTALL)
    assert found
    return {key: json.loads(value) for key, value in (line.split(": ", 1) for line in found[1].split("\n"))}


def test_the_facts_of_a_card() -> None:
    table = model_table(CARD, name="model")
    assert table.rows == (
        ("kind", "word-tagger"),
        ("scheme", "BIO"),
        ("types", "ADE, Drug"),
        ("strict_f1", 0.81234),
        ("scored_on", "test"),
        (
            "calibration error of entities",
            "0.050 (0.200 before calibration, on the same 1,234 predictions on development notes)",
        ),
    )


@pytest.mark.parametrize(
    "calibration",
    [
        None,
        3,
        [],
        {"entities": None},
        {"entities": {}},
        {"entities": {"error_after": "x", "error_before": 1, "predictions": 2}},
    ],
)
def test_a_damaged_calibration_of_a_foreign_card_is_ignored(calibration: object) -> None:
    rows = dict(model_table({**CARD, "notes": {"calibration": calibration}}, name="m").rows)  # type: ignore[arg-type]
    assert not [name for name in rows if str(name).startswith("calibration error")]


def test_the_readme_begins_with_what_hubs_read() -> None:
    readme = model_readme(CARD, name="drugs")
    assert front_matter(readme) == {
        "library_name": "wardround",
        "pipeline_tag": "token-classification",
        "tags": ["wardround", "named-entity-recognition"],
    }
    assert "relation-extraction" in front_matter(model_readme({**CARD, "relations": ["causes"]}, name="m"))["tags"]
    assert "# drugs\n" in readme
    assert "- `ADE`\n- `Drug`\n" in readme
    assert "| strict\\_f1" in readme or "| strict_f1" in readme


def test_names_cannot_break_the_readme_or_its_code() -> None:
    name = 'x")\nimport os  # `<script>`'
    readme = model_readme({**CARD, "types": ["a`b\n# c"]}, name=name)
    assert "- `a'b # c`" in readme
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    imported = [node.names[0].name for node in ast.parse(code).body if isinstance(node, ast.Import)]
    assert imported == ["wardround"]
    assert front_matter(readme)["library_name"] == "wardround"
