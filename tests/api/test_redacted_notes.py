from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.workspace import TINY

import wardround
from wardround import Document, Model

TEXT = "Seen on 12/03/2024, call 555-867-5309."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    corpus = wardround.hospitals(identifying=True)["southmere"].first(6)
    folder = tmp_path_factory.mktemp("identifying") / "run"
    training = {"epochs": 1}
    return wardround.train(corpus, out=folder, task="deidentify", model=TINY, training=training, progress=False).model


def test_a_text_becomes_a_redacted_document() -> None:
    found = wardround.redact(TEXT)
    assert isinstance(found, Document)
    assert "2024" not in found.text and "867" not in found.text
    assert found.text.startswith("Seen on ")


def test_a_document_keeps_its_id() -> None:
    assert wardround.redact(Document("n7", TEXT)).id == "n7"


def test_several_notes_are_redacted_one_by_one() -> None:
    read: list[int] = []

    def notes() -> Iterator[str]:
        for number in range(100):
            read.append(number)
            yield TEXT

    stream = wardround.redact(notes())
    assert read == []
    assert next(stream).text == wardround.redact(TEXT).text
    assert len(read) < 100
    assert [note.id for note in wardround.redact([TEXT, Document("b", TEXT), TEXT])] == ["1", "b", "3"]


def test_no_notes_and_an_empty_note() -> None:
    assert list(wardround.redact([])) == []
    assert wardround.redact("").text == ""


@pytest.mark.parametrize("how", ["mask", "block", "tag", "surrogate"])
def test_every_way_hides_the_date(how: str) -> None:
    assert "12/03/2024" not in wardround.redact(TEXT, how=how).text


def test_surrogates_of_one_key_are_the_same(tmp_path: Path) -> None:
    key = tmp_path / "seed"
    first, again = (wardround.redact(TEXT, how="surrogate", seed_file=key).text for _ in range(2))
    assert first == again
    assert key.stat().st_mode & 0o077 == 0
    key.write_text("no key")
    with pytest.raises(wardround.WardroundError, match="seed contains no key"):
        wardround.redact(TEXT, seed_file=key)


def test_a_model_and_its_folder_redact_alike(model: Model, tmp_path: Path) -> None:
    folder = model.save(tmp_path / "model")
    note = wardround.hospitals(identifying=True)["southmere"].test[0]
    by_model = wardround.redact(note, model=model, how="tag", threshold=0.01)
    assert by_model == wardround.redact(note, model=folder, how="tag", threshold=0.01)
    assert by_model.text != wardround.redact(note, how="tag").text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"how": "hide"}, "'hide' is not a way to hide text; there are "),
        ({"language": "fr"}, "'fr'"),
        ({"ids": "drop"}, "'drop'"),
        ({"threshold": 0.5}, "model"),
        ({"patterns": False}, "model|nothing"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(wardround.UsageError, match=message):
        wardround.redact(TEXT, **settings)  # type: ignore[call-overload]


def test_what_is_no_note_is_refused() -> None:
    with pytest.raises(wardround.UsageError, match=r"a note is a text or a wardround\.Document, not int"):
        list(wardround.redact([3]))  # type: ignore[list-item]
