"""SMM4H adverse drug effect extraction: a tab line for each mention in a tweet.

    tweet_id	begin	end	type	extraction	drug	tweet
    101	16	20	ADR	rash	lunarol	lunarol gave me rash and fever
    101	25	30	ADR	fever	lunarol	lunarol gave me rash and fever
    102	-	-	-	-	-	slept well on lunarol

Columns are found by the names in the header; later years add `meddra_code` and `meddra_term`. A type of `-` says that
the tweet has no mention. The tweets may lie in a second file of lines `tweet_id TAB tweet`. Since the lines of a
tweet need not be neighbours, a file is held in memory whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wardround.corpora.draft import Draft, Reporter
from wardround.corpora.pubtator import add_mention, check_plain, whole_number
from wardround.corpora.source import ProblemSink, fail_on_error, files_below, open_for_writing, read_each, read_lines
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity

__all__ = ["Smm4h"]

_NEEDED = ("tweet_id", "begin", "end", "type", "extraction")
_TWEET = "tweet"
_CODE = "meddra_code"
_KEPT = ("drug", "meddra_term")  # become attributes of the entity
_WRITTEN = (*_NEEDED, "drug", _TWEET, _CODE, "meddra_term")
_NONE = ("", "-")


class _Row(NamedTuple):
    """A line by the names of its columns."""

    values: Mapping[str, str]
    report: Reporter


@dataclass(frozen=True)
class Smm4h:
    """Reader and writer of SMM4H extraction files.

    With `texts`, tweets come from that file: all of it is read, and a tweet without mentions is a document too.
    """

    texts: Path | None = None

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the tweets of a file, or of every `.tsv` file below a folder, in order of first appearance."""
        texts = None if self.texts is None else Path(self.texts)
        files = [file for file in files_below(path, ".tsv") if file != texts]
        return read_each(files, lambda file: _read_file(Reporter(file, problems), texts), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file with tweets and MedDRA columns. Entity ids, notes and other attributes are not kept."""
        with open_for_writing(path) as stream:
            stream.write("\t".join(_WRITTEN) + "\n")
            for document in documents:
                try:
                    stream.writelines("\t".join(row[name] for name in _WRITTEN) + "\n" for row in _lines(document))
                except CorpusError as error:
                    raise CorpusError(f"document {document.id!r}: {error.reason}", path=path) from None


# Reading, in calling order.


def _read_file(report: Reporter, texts: Path | None) -> Iterator[Document]:
    tweets: dict[str, str] = {} if texts is None else _read_texts(Reporter(texts, report.problems))
    mentions: dict[str, list[_Row]] = {name: [] for name in tweets}
    for row in _rows(report, has_tweets=texts is None):
        tweet_id = row.values["tweet_id"]
        if texts is None:
            tweets.setdefault(tweet_id, row.values[_TWEET])
        if tweet_id not in tweets:
            row.report.error(f"the file {texts.name if texts else ''} has no tweet with this id; the line is left out")
        elif texts is None and tweets[tweet_id] != row.values[_TWEET]:
            row.report.error("the tweet differs from that of an earlier line with the same id; the line is left out")
        else:
            mentions.setdefault(tweet_id, []).append(row)
    for tweet_id, rows in mentions.items():
        yield _document(tweet_id, tweets[tweet_id], rows)
