"""Label Studio: its export as JSON, one array of tasks in a file.

    [{"id": 1, "data": {"text": "Aspirin burns"},
      "annotations": [{"result": [
        {"id": "a", "type": "labels", "from_name": "label", "to_name": "text",
         "value": {"start": 0, "end": 7, "text": "Aspirin", "labels": ["Drug"]}},
        {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right", "labels": ["causes"]}]}]}]

The first annotation of a task that was not cancelled is read; predictions are not. Offsets count UTF-16 code units, as
the browser does. The file is read into memory. An address in the place of a text is never opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.corpora.corpus_files import BYTE_ORDER_MARK, files_below, id_of, read_each, read_text, write_file
from wardround.corpora.corpus_format import Clue, Content, CorpusFormat, Draft, ProblemSink, Reporter, fail_on_error
from wardround.corpora.utf16 import Utf16Offsets
from wardround.errors import CorpusError, UsageError
from wardround.parsing import MalformedDataError, is_integer, parse_json
from wardround.text.document import Document, Level, Relation

__all__ = ["LabelStudio"]

_SPANS = ("labels", "hypertextlabels")


@dataclass(frozen=True)
class LabelStudio(CorpusFormat):
    """Reader and writer of Label Studio's JSON; `text` is the key of the text in `data`.

    `from_name` and `to_name` are the names of the controls in the labelling configuration, for the writer.
    """

    name = "labelstudio"
    description = "Label Studio's JSON export, `.json`, one array of tasks"
    ending = ".json"
    holds = frozenset[Content]({"entities", "relations"})
    clues = (
        Clue((".json",), "has tasks with `data` and `annotations`", content=r'"(?:annotations|completions)"\s*:\s*\['),
    )

    text: str = "text"
    from_name: str = "label"
    to_name: str = "text"

    def __post_init__(self) -> None:
        if not self.text:
            raise UsageError("text is empty: name the key of the text in the data of a task")

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the tasks of a file, or of each `.json` file below a folder; a task without id is numbered."""
        files = files_below(path, ".json")
        return read_each(files, lambda file: self._read_file(id_of(file, path), Reporter(file, problems)), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file that Label Studio imports. Ids of documents are kept in `data`, under `id`."""
        separators = iter([""])  # before the first task; a comma before each other one

        def lines(document: Document) -> Iterator[str]:
            yield next(separators, ",") + json.dumps(self._task(document), ensure_ascii=False)

        write_file(documents, path, lines, opening="[\n", closing="]\n")

    def _read_file(self, stem: str, report: Reporter) -> Iterator[Document]:
        try:
            tasks = parse_json(read_text(report.path).removeprefix(BYTE_ORDER_MARK), finite=False)
        except MalformedDataError:
            raise CorpusError("is not JSON, or is nested too deeply", path=report.path) from None
        if not isinstance(tasks, list):
            raise CorpusError("is not an array of tasks; export it as JSON", path=report.path)
        for number, task in enumerate(tasks, start=1):
            place = Reporter(report.path, report.problems, item=f"task {number}: ")
            document = self._read_task(task, f"{stem}:{number}", place)
            if document is not None:
                yield document

    def _read_task(self, task: Any, name: str, report: Reporter) -> Document | None:
        data = task.get("data") if isinstance(task, dict) else None
        text = data.get(self.text) if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(text, str) or not _is_encodable(text):
            keys = ", ".join(sorted(key for key, value in data.items() if isinstance(value, str))) if data else ""
            found = f"; its data has {keys}" if isinstance(data, dict) and keys else ""
            report.error(f"has no text under data, {self.text!r}{found}; --option text=KEY names another key")
            return None
        own = data.get("id") or task.get("id")
        draft, offsets = Draft(text), Utf16Offsets(text)
        results = self._results(task, report)
        ids: dict[str, str] = {}
        for number, item in enumerate(results, start=1):
            place = Reporter(report.path, report.problems, item=f"{report.item}result {number}: ")
            if not isinstance(item, dict):
                place.error("is not an object")
            elif item.get("type") in _SPANS:
                _add_span(draft, item, offsets, ids, place)
        relations = [item for item in results if isinstance(item, dict) and item.get("type") == "relation"]
        for number, item in enumerate(relations, start=1):
            _add_relation(draft, item, f"R{number}", ids, report)
        return draft.document(str(own) if isinstance(own, str) or is_integer(own) else name)

    def _results(self, task: dict[str, Any], report: Reporter) -> list[Any]:
        """Return the results of the first annotation that was not cancelled."""
        given = task.get("annotations", task.get("completions"))
        if given is not None and not isinstance(given, list):
            report.error("'annotations' is not a list")
            return []
        done = [one for one in given or [] if isinstance(one, dict) and not one.get("was_cancelled")]
        if len(done) > 1:
            report.warning(f"has {len(done)} annotations; only the first one is read")
        results = done[0].get("result") if done else []
        if not isinstance(results, list):
            report.error("'result' is not a list")
            return []
        return results

    def _task(self, document: Document) -> dict[str, Any]:
        offsets = Utf16Offsets(document.text)
        names = {"from_name": self.from_name, "to_name": self.to_name}
        result: list[dict[str, Any]] = []
        for entity in document.entities:
            if entity.is_discontinuous:
                raise CorpusError(f"{entity.id} is discontinuous, which Label Studio cannot hold; write it as brat")
            value = {
                "start": offsets.to_utf16(entity.start),
                "end": offsets.to_utf16(entity.end),
                "text": entity.text_in(document.text),
                "labels": [entity.type],
            }
            result.append({"id": entity.id, "type": "labels", **names, "value": value})
        for relation in document.relations:
            if relation.level is Level.CONCEPT:
                raise CorpusError("relates concepts, but Label Studio relates mentions; write it as pubtator or jsonl")
            ends = {"from_id": relation.head, "to_id": relation.tail}
            result.append({"type": "relation", **ends, "direction": "right", "labels": [relation.type]})
        return {"data": {self.text: document.text, "id": document.id}, "annotations": [{"result": result}]}


def _add_span(draft: Draft, item: dict[str, Any], offsets: Utf16Offsets, ids: dict[str, str], report: Reporter) -> None:
    """Add a mention for each label of a span."""
    value = item.get("value")
    labels = (value.get("labels") or value.get("hypertextlabels")) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(labels, list) or not all(isinstance(one, str) for one in labels):
        report.error("has no labels; left out")
        return
    start, end = value.get("start"), value.get("end")
    if not is_integer(start) or not is_integer(end):
        report.error("has no offsets 'start' and 'end'; left out")
        return
    name = item.get("id")
    for number, label in enumerate(labels):
        own = isinstance(name, str) and name and name not in draft.entities and number == 0
        entity_id = str(name) if own else f"T{len(draft.entities) + 1}"
        span = offsets.to_code_points(start), offsets.to_code_points(end)
        words = value.get("text")
        if (
            draft.add_entity(
                report,
                entity_id=entity_id,
                kind=label,
                ranges=[span],
                words=words if isinstance(words, str) else None,
            )
            and own
        ):
            ids[entity_id] = entity_id


def _add_relation(draft: Draft, item: dict[str, Any], relation_id: str, ids: dict[str, str], report: Reporter) -> None:
    labels = item.get("labels")
    kind = labels[0] if isinstance(labels, list) and labels and isinstance(labels[0], str) and labels[0] else "related"
    head, tail = (ids.get(str(item.get(key)), "") for key in ("from_id", "to_id"))
    if item.get("direction") == "left":
        head, tail = tail, head
    draft.add_relation(Relation(relation_id, kind, head, tail), report)


def _is_encodable(text: str) -> bool:
    """Return False for a text with half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
