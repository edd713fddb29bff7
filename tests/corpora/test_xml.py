"""XML: nodes, their text and lines, refusals, and escaping."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.corpora.xml import XmlNode, escape_xml, read_xml
from wardround.errors import CorpusError


def read(folder: Path, content: str, *tags: str) -> list[XmlNode]:
    (folder / "a.xml").write_text(content)
    return list(read_xml(folder / "a.xml", *tags))


def test_nodes_know_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text('<a>\n<b k="1">x</b>\n\n<b>y</b></a>')
    assert [(node.line, node.text, node.attributes) for node in read_xml(tmp_path / "a.xml", "b")] == [
        (2, "x", {"k": "1"}),
        (4, "y", {}),
    ]


def test_children_and_their_text(tmp_path: Path) -> None:
    (node,) = read(tmp_path, "<d><p>\n <t>one</t> <u>two</u>\n <t>three</t></p></d>", "p")
    assert [child.tag for child in node.children] == ["t", "u", "t"]
    assert [child.text for child in node.all("t")] == ["one", "three"]
    assert (node.text_of("u"), node.text_of("v"), node.find("v")) == ("two", "", None)


def test_text_around_child_elements_is_kept(tmp_path: Path) -> None:
    (node,) = read(tmp_path, "<t>No <b>skin <i>rash</i></b> since&#32;then</t>", "t")
    assert node.text == "No skin rash since then"


def test_elements_nested_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    (node,) = read(tmp_path, "<t>" + "<a>" * 5_000 + "x" + "</a>" * 5_000 + "</t>", "t")
    assert node.text == "x"


def test_elements_before_a_fault_are_yielded_and_the_fault_has_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<d><t>one</t>\n<t>two</d>")
    found = []
    with pytest.raises(CorpusError, match=r"^a\.xml:2: is not well-formed XML: mismatched tag$"):
        found.extend(node.text for node in read_xml(tmp_path / "a.xml", "t"))
    assert found == ["one"]
    (tmp_path / "a.xml").write_bytes(b"<d>\xe9</d>")
    with pytest.raises(CorpusError, match=r"^a\.xml: is not UTF-8"):
        list(read_xml(tmp_path / "a.xml", "t"))


def test_repr_contains_no_attributes(tmp_path: Path) -> None:
    (node,) = read(tmp_path, '<a><b k="secret">secret</b></a>', "b")
    assert repr(node) == "XmlNode(tag='b', line=1)"


def test_escaping() -> None:
    assert escape_xml('<a>&"\n\r') == '&lt;a&gt;&amp;"\n&#13;'
    assert escape_xml('"\t\n', in_attribute=True) == "&quot;&#9;&#10;"
    with pytest.raises(CorpusError, match=r"U\+0000, which XML cannot"):
        escape_xml("a\x00")
