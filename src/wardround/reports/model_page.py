"""What is known about a saved model: as a table, and as the README of its folder, which model hubs show as its card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wardround.reports.tables import Cell, Table
from wardround.text.plain_text import neutralise

__all__ = ["model_readme", "model_table"]

_USE = """## Use

```python
import wardround

model = wardround.load({name})
for entity in model("The patient took aspirin.").entities:
    print(entity.start, entity.end, entity.type, entity.score)
```
"""
_LIMITS = """## Limits

The scores above were measured on the notes of the sites that trained the model. On notes of another hospital,
language or kind they can be much lower: score the model on annotated notes of your own before you rely on it
(`wardround evaluate`). A model that was trained on few notes can reveal parts of them. Find out who may receive it
before you publish it.
"""


def model_table(card: Mapping[str, Any], *, name: str) -> Table:
    """Return the facts of a model's card."""
    facts: dict[str, Cell] = {"kind": str(card.get("kind", ""))}
    if scheme := _table(card.get("config")).get("scheme"):
        facts["scheme"] = str(scheme)
    facts["types"] = ", ".join(map(str, card.get("types", ())))
    notes = _table(card.get("notes"))
    calibrations = {kind: _table(values) for kind, values in _table(notes.get("calibration")).items()}
    for note, value in notes.items():
        if isinstance(value, Mapping):
            continue  # tables of their own: calibration and transfer
        facts[note] = value if isinstance(value, float) else str(value)
    for kind, values in calibrations.items():
        after, before, count = (values.get(name) for name in ("error_after", "error_before", "predictions"))
        if isinstance(after, float) and isinstance(before, float) and isinstance(count, int):
            facts[f"calibration error of {kind}"] = (
                f"{after:.3f} ({before:.3f} before calibration, on the same {count:,} predictions on development notes)"
            )
    return Table(name, ("fact", "value"), tuple(facts.items()))


def model_readme(card: Mapping[str, Any], *, name: str) -> str:
    """Return the README of a model's folder, with the metadata that model hubs read at its beginning."""
    finds_relations = bool(card.get("relations"))
    metadata = {
        "library_name": "wardround",
        "pipeline_tag": "token-classification",
        "tags": ["wardround", "named-entity-recognition", *(["relation-extraction"] if finds_relations else [])],
    }
    front = "\n".join(f"{key}: {json.dumps(value)}" for key, value in metadata.items())
    title = _line(name)
    types = "\n".join(f"- `{_line(kind)}`" for kind in card.get("types", ()))
    facts = model_table(card, name="Facts").to_markdown()
    parts = (
        f"---\n{front}\n---",
        f"# {title}",
        f"A Wardround model that finds:\n\n{types}",
        facts.rstrip(),
        _USE.format(name=json.dumps(title)).rstrip(),
        _LIMITS,
    )
    return "\n\n".join(parts)


def _table(value: Any) -> Mapping[str, Any]:
    """Return a table of a card, which may come from anyone; empty if it is none."""
    return value if isinstance(value, Mapping) else {}


def _line(value: object) -> str:
    return " ".join(neutralise(str(value)).replace("`", "'").split())
