"""The bodies of requests, checked field by field; an error names the field and never quotes its value."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wardround.parsing import MalformedDataError, parse_json
from wardround.redaction.replacing import How
from wardround.serving.limits import Limits
from wardround.text.document import Document

__all__ = ["RedactRequest", "RefusedError", "read_batch", "read_predict", "read_redact"]

_LONGEST_ID = 200


class RefusedError(Exception):
    """A request that is refused: the status, a code for programs, and a sentence without any of its values."""

    def __init__(self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})
        super().__init__(code)


@dataclass(frozen=True)
class RedactRequest:
    """A text to redact, and how."""

    document: Document = field(repr=False)
    id: str
    how: How


def read_predict(body: bytes, limits: Limits) -> Document:
    """Return the document of a request for predictions."""
    return _document(_fields(body, required=("text",), optional=("id",)), limits, "")


def read_batch(body: bytes, limits: Limits) -> list[Document]:
    """Return the documents of a request for many predictions."""
    entries = _fields(body, required=("documents",))["documents"]
    if not isinstance(entries, list) or not entries:
        raise _invalid("documents", "must be a list of at least one document")
    if len(entries) > limits.documents:
        raise RefusedError(422, "too_many_documents", f"a request may have {limits.documents} documents; send fewer")
    documents = list[Document]()
    for number, entry in enumerate(entries):
        place = f"documents[{number}]"
        if not isinstance(entry, dict):
            raise _invalid(place, "must be an object")
        _check_names(entry, required=("text",), optional=("id",), place=place)
        documents.append(_document({"id": str(number + 1), **entry}, limits, f"{place}."))
    return documents


def read_redact(body: bytes, limits: Limits) -> RedactRequest:
    """Return a text to redact.

    The id of the document is that of its patient. Without one it is drawn: dates and names of unrelated notes must not
    be replaced alike.
    """
    given = _fields(body, required=("text",), optional=("id", "how", "patient"))
    known = [way.value for way in How]
    how = given.get("how", How.MASK.value)
    if not isinstance(how, str) or how not in known:
        raise _invalid("how", f"must be one of {', '.join(known)}")
    document = _document({"text": given["text"], "id": given.get("id", "1")}, limits, "")
    patient = _identifier(given, "patient", "") if "patient" in given else secrets.token_hex(16)
    return RedactRequest(Document(patient, document.text), document.id, How(how))


def _fields(body: bytes, *, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    try:
        value = parse_json(body)
    except MalformedDataError:
        raise RefusedError(400, "not_json", "the body is not JSON in UTF-8") from None
    if not isinstance(value, dict):
        raise _invalid("body", "must be an object")
    _check_names(value, required=required, optional=optional, place="body")
    return value


def _check_names(value: Mapping[str, Any], *, required: tuple[str, ...], optional: tuple[str, ...], place: str) -> None:
    for name in required:
        if name not in value:
            raise _invalid(place, f"lacks the field {name}")
    if value.keys() - {*required, *optional}:
        raise _invalid(place, f"has a field that is not one of {', '.join((*required, *optional))}")


def _document(given: Mapping[str, Any], limits: Limits, place: str) -> Document:
    text = given["text"]
    if not isinstance(text, str):
        raise _invalid(f"{place}text", "must be a string")
    if len(text) > limits.text_characters:
        raise RefusedError(
            422, "text_too_long", f"{place}text may have {limits.text_characters:,} characters; split the note"
        )
    _check_unicode(text, f"{place}text")
    return Document(_identifier(given, "id", place) if "id" in given else "1", text)


def _identifier(given: Mapping[str, Any], name: str, place: str) -> str:
    value = given[name]
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_ID:
        raise _invalid(f"{place}{name}", f"must be a string of 1 to {_LONGEST_ID} characters")
    _check_unicode(value, f"{place}{name}")
    return value


def _check_unicode(value: str, place: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _invalid(place, "contains half a surrogate pair, which is not a character") from None


def _invalid(place: str, what: str) -> RefusedError:
    return RefusedError(422, "invalid", f"{place} {what}")
