"""SMM4H adverse drug effect extraction: a tab-separated line for each mention in a tweet.

    tweet_id	begin	end	type	extraction	drug	tweet
    101	16	20	ADR	rash	lunarol	lunarol gave me rash and fever
    101	25	30	ADR	fever	lunarol	lunarol gave me rash and fever
    102	-	-	-	-	-	slept well on lunarol
    103	0	6	ADR	nausea	lunarol	nausea since the second lunarol

Columns are found by the names in the header; later years add `meddra_code` and `meddra_term`. The type `-` means that
the tweet has no mention. The tweets may be in a second file with lines `tweet_id TAB tweet`. The lines of a tweet need
not be adjacent, so a file is read into memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wardround.corpora.corpus_files import files_below, read_each, read_lines, write_file
from wardround.corpora.corpus_format import (
    Clue,
    Content,
    CorpusFormat,
    Draft,
    ProblemSink,
    Reporter,
    check_plain,
    fail_on_error,
    is_plain,
    whole_number,
)
from wardround.errors import CorpusError
from wardround.text.document import Document

__all__ = ["Smm4h"]

_NEEDED = ("tweet_id", "begin", "end", "type", "extraction")
_TWEET = "tweet"
_CODE = "meddra_code"
_KEPT = ("drug", "meddra_term")  # become attributes of the entity
_WRITTEN = (*_NEEDED, "drug", _TWEET, _CODE, "meddra_term")
_NONE = ("", "-")


class _Row(NamedTuple):
    """A line, as values by column name."""

    values: Mapping[str, str]
    report: Reporter


@dataclass(frozen=True)
class Smm4h(CorpusFormat):
    """Reader and writer of SMM4H extraction files.

    With `texts`, tweets are read from that file; all of them become documents, also those without mentions.
    """

    name = "smm4h"
    description = "`.tsv` with a header, one mention on each line"
    ending = ".tsv"
    holds = frozenset[Content]({"entities", "concepts", "attributes"})
    clues = (Clue((".tsv",), "has the columns of SMM4H", content=r"^tweet_id\tbegin\tend\t"),)

    texts: Path | None = None

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the tweets of a file, or of each `.tsv` file below a folder, in order of first appearance."""
        files = files_below(path, ".tsv")
        if self.texts is not None:
            files = [file for file in files if file.resolve() != self.texts.resolve()]
            if len(files) != 1:  # each file would yield every tweet again
                raise CorpusError(f"contains {len(files)} files of mentions; with texts, name one", path=path)
        return read_each(files, lambda file: _read_file(Reporter(file, problems), self.texts), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file with tweets and MedDRA columns. Entity ids, notes and other attributes are not kept."""
        write_file(documents, path, _lines, opening="\t".join(_WRITTEN) + "\n")


def _read_file(report: Reporter, texts: Path | None) -> Iterator[Document]:
    tweets = {} if texts is None else _read_texts(Reporter(texts, report.problems))
    mentions: dict[str, list[_Row]] = {tweet_id: [] for tweet_id in tweets}
    for row in _rows(report, _NEEDED if texts else (*_NEEDED, _TWEET)):
        tweet_id = row.values["tweet_id"]
        tweet = tweets.get(tweet_id) if texts else row.values[_TWEET]
        if tweet is None:
            row.report.error("the file of tweets has no tweet with this id; the line is left out")
        elif tweets.setdefault(tweet_id, tweet) != tweet:
            row.report.error("the tweet differs from an earlier line with the same id; the line is left out")
        else:
            mentions.setdefault(tweet_id, []).append(row)
    for tweet_id, rows in mentions.items():
        yield _document(tweet_id, tweets[tweet_id], rows)


def _read_texts(report: Reporter) -> dict[str, str]:
    tweets: dict[str, str] = {}
    for number, line in read_lines(report.path):
        tweet_id, tab, tweet = line.partition("\t")
        if not line.strip() or (number == 1 and tweet_id == "tweet_id"):
            continue
        if not tab or "\t" in tweet or tweet_id in tweets:
            report.at(number).error("does not have the form 'tweet_id TAB tweet', or repeats an id; it is left out")
        else:
            tweets[tweet_id] = tweet
    return tweets


def _rows(report: Reporter, needed: Sequence[str]) -> Iterator[_Row]:
    names: list[str] = []
    for number, line in read_lines(report.path):
        cells = line.split("\t")
        if number == 1:
            names = cells
            if missing := [name for name in needed if name not in names]:
                raise CorpusError(f"columns are missing in the header: {', '.join(missing)}", path=report.path, line=1)
        elif len(cells) == len(names):
            yield _Row(dict(zip(names, cells, strict=True)), report.at(number))
        elif line.strip():
            report.at(number).error(f"has {len(cells)} columns, the header has {len(names)}; the line is left out")


def _document(tweet_id: str, tweet: str, rows: Iterable[_Row]) -> Document:
    draft = Draft(tweet)
    for values, report in rows:
        begin, end = whole_number(values["begin"]), whole_number(values["end"])
        if values["type"] in _NONE:
            continue
        if begin is None or end is None:
            report.error("begin or end is not a number; the line is left out")
            continue
        draft.add_entity(
            report,
            entity_id=f"T{len(draft.entities) + 1}",
            kind=values["type"],
            ranges=[(begin, end)],
            words=values["extraction"],
            concepts=tuple(code for code in [values.get(_CODE, "")] if code not in _NONE),
            attributes=tuple((name, values[name]) for name in _KEPT if values.get(name, "") not in _NONE),
        )
    return draft.document(tweet_id)


def _lines(document: Document) -> Iterator[str]:
    check_plain("its id", document.id)
    if document.relations or not is_plain(document.text):
        raise CorpusError("a tweet cannot have relations and must be one line without tabs; write it as BioC or brat")
    empty = dict.fromkeys(_WRITTEN, "-") | {"tweet_id": document.id, _TWEET: document.text}
    rows = []
    for entity in document.entities:
        if entity.is_discontinuous or len(entity.concepts) > 1:
            raise CorpusError(f"{entity.id} is discontinuous or has several concepts; write it as BioC or brat")
        kept = {name: value for name, value in entity.attributes if name in _KEPT}
        code = {_CODE: entity.concepts[0]} if entity.concepts else {}
        named = {"type": entity.type, **kept, **code}
        for name, value in named.items():
            check_plain(f"the {name} of {entity.id}", value)
            if value in _NONE:
                raise CorpusError(f"the {name} of {entity.id} is '-', which means none; rename it")
        place = {"begin": str(entity.start), "end": str(entity.end), "extraction": entity.text_in(document.text)}
        rows.append(empty | named | place)
    for row in rows or [empty]:
        yield "\t".join(row[name] for name in _WRITTEN)
