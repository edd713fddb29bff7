from __future__ import annotations

from pathlib import Path

from wardround.redaction.replacing import Mark, Redacted
from wardround.redaction.review import count_marks, fragment, write_review
from wardround.text.document import Range

NOTE = Redacted("<b>Mr</b> [NA<E] \x1b[31m<i>", (Mark(Range(10, 16), "NAME", ("model", "pattern")),))
AUDIT = (
    '{"note": "a", "marks": [{"start": 10, "end": 16, "type": "NAME", "found": ["model", "pattern"]}]}\n'
    '{"note": "b", "marks": [{"start": 0, "end": 1, "type": "DATE", "found": ["pattern"]}]}\n'
    '{"note": "c", "marks": []}\n'
)


def page(folder: Path) -> str:
    (folder / "audit").write_text(AUDIT)
    (folder / "parts").write_text(fragment("a<x>", NOTE), encoding="utf-8")
    write_review(folder / "out" / "review.html", audit=folder / "audit", fragments=folder / "parts")
    return (folder / "out" / "review.html").read_text(encoding="utf-8")


def test_a_note_is_escaped_and_marked_in_place() -> None:
    shown = fragment("a<x>", NOTE)
    assert "<h2>a&lt;x&gt;</h2>" in shown
    assert "&lt;b&gt;Mr&lt;/b&gt; <mark" in shown
    assert 'title="NAME, model and pattern">[NA&lt;E]<small> NAME</small></mark>' in shown
    assert shown.endswith("</mark> \u241b[31m&lt;i&gt;</pre>\n</section>\n")


def test_marks_are_counted_by_type_and_finder(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text(AUDIT)
    notes, marks = count_marks(tmp_path / "audit")
    assert notes == 3
    assert marks == {("NAME", "model and pattern"): 1, ("DATE", "pattern"): 1}


def test_the_page_is_complete_and_loads_nothing_from_the_network(tmp_path: Path) -> None:
    written = page(tmp_path)
    assert "3 notes." in written
    assert written.index("Hidden text") < written.index("a&lt;x&gt;") < written.index("</main>")
    assert written.count("</main>") == 1 and written.endswith("</html>\n")
    assert "default-src 'none'" in written
    assert "http://" not in written and "<script" not in written
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["review.html"]
