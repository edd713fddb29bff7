"""Hooks of mkdocs for the documentation site, which loads nothing from another host.

The README and the pages outside `docs/` that pages link to become pages of the site, files become files of it, and
sequence diagrams become SVG when the site is built, because a browser would load a library to draw them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_LINK = re.compile(r"(!?\[[^\[\]]*\])\(([^)#\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^ *```.*?^ *```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_PARTICIPANT = re.compile(r"participant (\w+) as (.+)")
_MESSAGE = re.compile(r"(\w+)(-?)->>(\w+): (.+)")
_NOTE = re.compile(r"Note over (\w+): (.+)")
_COLUMN, _ROW = 230, 46  # pixels between parties, and between messages
_LABEL, _NOTE_LINE = 34, 24  # characters on a line of a label and of a note


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make anchors as a forge makes them, and draw diagrams ourselves."""
    config.mdx_configs["toc"] = {"permalink": True, "slugify": slug, "toc_depth": 3}
    diagram = {"name": "mermaid", "class": "diagram", "format": format_diagram}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [diagram]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as the first page, and whatever pages link to outside `docs/`."""
    waiting = [ROOT / "README.md", *(Path(str(file.abs_src_path)) for file in files.documentation_pages())]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.is_relative_to(DOCS):
            files.append(File.generated(config, site_path(path), abs_src_path=str(path)))
        if path.suffix == ".md":
            found = set(linked(path)) - seen
            seen |= found
            waiting += [target for target in sorted(found) if not target.is_relative_to(DOCS)]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to the places that pages and files have in the site."""
    source = Path(str(page.file.abs_src_path))

    def replaced(match: re.Match[str]) -> str:
        text, link, anchor = match.groups()
        target = target_of(link, source)
        if target is None:  # a folder without a page is only named; anything else is for mkdocs to judge
            return text[1:-1] if (source.parent / link).is_dir() else match[0]
        to = os.path.relpath(site_path(target), Path(page.file.src_uri).parent)
        return f"{text}({to}{anchor or ''})"

    parts = _CODE.split(markdown)
    return "".join(part if place % 2 else _LINK.sub(replaced, part) for place, part in enumerate(parts))


def linked(page: Path) -> Iterator[Path]:
    """Yield the files of this repository that a page links to or shows."""
    for _, target, _ in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        found = target_of(target, page)
        if found is not None:
            yield found


def target_of(target: str, page: Path) -> Path | None:
    """Return the file that a relative link leads to; for a folder, its README."""
    if ":" in target:
        return None
    path = (page.parent / target).resolve()
    path = path / "README.md" if path.is_dir() else path
    return path if path.is_relative_to(ROOT) and path.is_file() else None


def site_path(path: Path) -> str:
    """Return the place of a file in the site: below `docs/` without that folder, else as in the repository."""
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()


def slug(text: str, separator: str) -> str:
    """Return the anchor of a heading as forges make it: lower case, a dash for each blank, no other characters."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def format_diagram(source: str, language: str, css_class: str, options: dict[str, Any], md: object, **_: object) -> str:
    """Draw a sequence diagram as SVG: participants, messages and notes; anything else is an error."""
    names: dict[str, str] = {}
    steps: list[tuple[str, str, str, bool]] = []  # from, to, text, whether it is an answer
    for line in filter(None, map(str.strip, source.splitlines()[1:])):
        if match := _PARTICIPANT.fullmatch(line):
            names[match[1]] = match[2]
        elif match := _MESSAGE.fullmatch(line):
            steps.append((match[1], match[3], match[4], bool(match[2])))
        elif match := _NOTE.fullmatch(line):
            steps.append((match[1], match[1], match[2], False))
        else:
            raise ValueError(f"the site draws no such line of a diagram: {line}")
    place = {name: _COLUMN // 2 + number * _COLUMN for number, name in enumerate(names)}
    parts, y = list[str](), 70
    for start, end, text, answer in steps:
        lines = _wrapped(text, _NOTE_LINE if start == end else _LABEL)
        y += 15 * (len(lines) - 1)
        if start == end:
            width = 8 * max(map(len, lines)) + 16
            top = y - 15 * len(lines) - 2
            parts.append(
                f'<rect class="note" x="{place[start] - width / 2}" y="{top}" width="{width}" '
                f'height="{15 * len(lines) + 12}" rx="4"/>'
            )
            middle = place[start]
        else:
            back = 6 if place[end] > place[start] else -6
            parts.append(
                f'<path class="{"answer" if answer else "message"}" d="M{place[start]} {y + 8}H{place[end] - back}"/>'
                f'<path class="head" d="M{place[end]} {y + 8}l{-1.5 * back} -5v10z"/>'
            )
            middle = (place[start] + place[end]) // 2
        for number, shown in enumerate(lines):
            parts.append(f'<text x="{middle}" y="{y - 15 * (len(lines) - 1 - number)}">{escape(shown)}</text>')
        y += _ROW
    lanes = "".join(f'<path class="lane" d="M{x} 44V{y - 10}"/>' for x in place.values())
    heads = "".join(
        f'<rect class="party" x="{x - 105}" y="10" width="210" height="34" rx="6"/><text x="{x}" y="32">'
        f"{escape(names[name])}</text>"
        for name, x in place.items()
    )
    width, label = _COLUMN * len(names), escape("Sequence of messages among " + ", ".join(names.values()))
    svg = f'<svg viewBox="0 0 {width} {y}" width="{width}" role="img" aria-label="{label}">'
    return f'<div class="{css_class}">{svg}{lanes}{"".join(parts)}{heads}</svg></div>'


def _wrapped(text: str, limit: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= limit:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
