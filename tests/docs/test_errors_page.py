from __future__ import annotations

import inspect

from tests.docs.pages import codes, rows, section, text_of

import wardround
import wardround.errors

PAGE = "errors.md"
CLASSES = {
    name: found
    for name, found in inspect.getmembers(wardround.errors, inspect.isclass)
    if issubclass(found, wardround.WardroundError)
}


def test_every_class_has_a_row_with_its_base() -> None:
    named = [codes(row["error"]) for row in rows(section(PAGE, "## Classes of errors"))]
    assert {names[0] for names in named} == {*CLASSES}
    for name, *base in named:
        parent = CLASSES[name].__mro__[1].__name__
        assert base == ([] if parent in ("WardroundError", "Exception") else [parent])


def test_every_other_public_name_is_on_the_page_of_the_api() -> None:
    shown = [line.removeprefix("::: wardround.") for line in text_of("api.md").splitlines() if line.startswith(":::")]
    assert sorted(shown) == sorted({*wardround.__all__} - {*CLASSES, "__version__"})
