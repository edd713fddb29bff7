"""What every page of ours must be, and the numbers on one."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path

from wardround.evaluation.entity_scores import CorpusScore, score_corpus
from wardround.text.document import Document, Entity, Range

__all__ = ["Figures", "a_score", "assert_self_contained", "cells", "charts"]


@dataclass(frozen=True)
class Figures:
    """An epoch as a page or a bar is given it."""

    epoch: int
    loss: float
    dev_f1: float
    best: bool


_CELLS = re.compile(r"<t[hd][^>]*>([^<]*)</t[hd]>")
_ADDRESS = re.compile(r"[a-z]+://[^\s\"'<>)]+")


def a_score(*, found: int) -> CorpusScore:
    """Of four drugs the first `found` are found; the one effect is taken for a drug."""
    text = "a b c d e"
    drugs = [Entity(f"T{n}", "Drug", (Range(2 * n, 2 * n + 1),)) for n in range(4)]
    gold = Document("n", text, (*drugs, Entity("T9", "ADE", (Range(8, 9),))))
    predicted = Document("n", text, (*drugs[:found], Entity("T9", "Drug", (Range(8, 9),))))
    return score_corpus([(gold, predicted)])


def cells(page: str, first: str) -> list[list[str]]:
    """The rows of all tables that begin with this cell, without it."""
    rows = [_CELLS.findall(row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
    return [row[1:] for row in rows if row[0] == first]


def charts(page: str) -> list[str]:
    """The SVGs inside the page."""
    return [b64decode(data).decode() for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)]


def assert_self_contained(path: Path) -> str:
    """The page, which asks nothing of the network, charts included."""
    page = path.read_text(encoding="utf-8")
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';' in page
    assert not re.search(r"<(script|link|iframe|object|form)\b", page)
    assert not _ADDRESS.search(page)
    for svg in charts(page):
        # The names of SVG's namespaces look like addresses; nobody visits them.
        assert {address.partition("//")[2].split("/")[0] for address in _ADDRESS.findall(svg)} <= {"www.w3.org"}
        assert "<script" not in svg
        assert not re.search(r'href="(?!#|data:image/png;base64,)', svg)
    return page
