"""ADE Corpus V2: sentences of case reports with drugs, adverse effects and doses, one pair on each line.

    DRUG-AE.rel     4711|Lunarol gave her a rash.|rash|119|123|Lunarol|100|107
    DRUG-AE.rel     4711|No rash, no fever on lunarol.|fever|137|142|lunarol|146|153
    DRUG-DOSE.rel   4712|He took 5 mg lunarol.|5 mg|58|62|lunarol|63|70
    ADE-NEG.txt     4713 NEG She slept well.
    ADE-NEG.txt     4713 NEG No further doses were needed.

The columns are PubMed id, sentence, effect or dose with begin and end, drug with begin and end. Offsets count from
the start of an abstract that is not in the files. All mentions of a sentence are shifted by the same distance, so the
sentence begins where all mentions match their words. This also decides which of two equal words is meant.

A document is one sentence of one abstract: two abstracts with the same sentence give two documents, as in the corpus's
published count of 4,272 (4,271 sentences are different). A mention in several pairs is one entity: mentions are the
same if sentence, type and abstract offsets are equal, which gives the published 5,776 effects and 5,063 drugs. The
lines of a sentence need not be adjacent, so a `.rel` file is read into memory; ADE-NEG.txt is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wardround.corpora.corpus_files import read_each, read_lines, refuse_links_out, unpacked_name
from wardround.corpora.corpus_format import (
    Clue,
    Content,
    CorpusFormat,
    Draft,
    Problem,
    ProblemSink,
    Reporter,
    fail_on_error,
    whole_number,
)
from wardround.errors import CorpusError
from wardround.text.document import Document, Relation

__all__ = ["Ade"]

_PAIRS = {"DRUG-AE.rel": ("Adverse-Effect", "drug-effect"), "DRUG-DOSE.rel": ("Dosage", "drug-dose")}
_NEGATIVE = "ADE-NEG.txt"
_DRUG = "Drug"


class _Mention(NamedTuple):
    """A mention with its offsets in the abstract."""

    begin: int
    end: int
    type: str
    words: str


class _Pair(NamedTuple):
    drug: _Mention
    other: _Mention
    type: str
    report: Reporter


class _Sentence(NamedTuple):
    source: str  # the PubMed id of the abstract
    text: str


@dataclass(frozen=True)
class Ade(CorpusFormat):
    """Reader of the ADE Corpus V2: one of its three files, or the folder that contains them.

    In a folder, a sentence with effects and doses is one document. Entities are `Adverse-Effect`, `Drug` and
    `Dosage`; relations are `drug-effect` and `drug-dose`, from the drug. The PubMed id is the attribute `source`.
    """

    name = "ade"
    description = "ADE Corpus V2: `DRUG-AE.rel`, `DRUG-DOSE.rel`, `ADE-NEG.txt`, or the folder that contains them"
    holds = frozenset[Content]({"entities", "relations", "attributes"})
    clues = (
        Clue((".rel",), "is a file of the ADE corpus", content=r"(?m)^\d+\|[^|]*\|[^|]*\|\d+\|\d+\|"),
        Clue(("ADE-NEG.txt",), "is a file of the ADE corpus", content=r"^\d+ NEG "),
    )

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the sentences in order of first appearance; those of ADE-NEG.txt come last."""
        names = [*_PAIRS, _NEGATIVE]
        candidates = sorted(path.iterdir()) if path.is_dir() else [path]
        refuse_links_out(path if path.is_dir() else path.parent, candidates, path)
        files = [file for name in names for file in candidates if unpacked_name(file) == name]
        if not files:
            raise CorpusError(
                f"is neither one of the files {', '.join(names)} nor a folder with one of them; rename the file",
                path=path,
            )
        yield from _read_pairs([file for file in files if unpacked_name(file) in _PAIRS], problems)
        negative = [file for file in files if unpacked_name(file) == _NEGATIVE]
        yield from read_each(negative, lambda file: _read_negative(Reporter(file, problems)), problems)


def _read_pairs(files: Iterable[Path], problems: ProblemSink) -> Iterator[Document]:
    """Yield the sentences of `.rel` files. A sentence is kept even if its pair is faulty."""
    sentences: dict[_Sentence, list[_Pair]] = {}
    for file in files:
        other_type, pair_type = _PAIRS[unpacked_name(file)]
        try:
            for number, line in read_lines(file):
                report = Reporter(file, problems, number)
                columns = line.split("|")
                if len(columns) < 8:
                    if line.strip():
                        report.error(f"has {len(columns)} columns separated by '|'; expected eight")
                    continue
                # Only the sentence may contain a '|'.
                pairs = sentences.setdefault(_Sentence(columns[0], "|".join(columns[1:-6])), [])
                other, drug = _mention(other_type, columns[-6:-3]), _mention(_DRUG, columns[-3:])
                if other is None or drug is None:
                    report.error(
                        "the offsets of a mention are not numbers or do not fit its length; the pair is left out"
                    )
                else:
                    pairs.append(_Pair(drug, other, pair_type, report))
        except CorpusError as error:
            problems(Problem(error.reason, file, error.line))
    numbers: Counter[str] = Counter()
    for sentence, pairs in sentences.items():
        numbers[sentence.source] += 1
        yield _document(f"{sentence.source}.{numbers[sentence.source]}", sentence, pairs)


def _mention(kind: str, columns: list[str]) -> _Mention | None:
    words, begin, end = columns[0], whole_number(columns[1]), whole_number(columns[2])
    if begin is None or end is None or not words or end - begin != len(words):
        return None
    return _Mention(begin, end, kind, words)


def _document(document_id: str, sentence: _Sentence, pairs: Iterable[_Pair]) -> Document:
    valid_pairs = []
    for pair in pairs:
        if pair.drug.words in sentence.text and pair.other.words in sentence.text:
            valid_pairs.append(pair)
        else:
            pair.report.error("a mention does not occur in the sentence; the pair is left out")
    mentions = {mention: pair.report for pair in valid_pairs for mention in (pair.drug, pair.other)}
    distance = _distance(sentence.text, mentions)
    draft = Draft(sentence.text)
    names = {}
    for number, mention in enumerate(sorted(mentions), start=1):
        names[mention] = f"T{number}"
        report, start = mentions[mention], mention.begin - distance
        if start < 0 or not sentence.text.startswith(mention.words, start):
            report.warning("a mention is not at its offsets; the nearest place in the sentence is used")
            expected = start
            start = min(_starts(sentence.text, mention.words), key=lambda position: abs(position - expected))
        ranges = [(start, start + len(mention.words))]
        draft.add_entity(report, entity_id=names[mention], kind=mention.type, ranges=ranges)
    for number, pair in enumerate(valid_pairs, start=1):
        relation = Relation(f"R{number}", pair.type, names[pair.drug], names[pair.other])
        draft.add_relation(relation, pair.report)
    return draft.document(document_id, attributes=(("source", sentence.source),))


def _distance(sentence: str, mentions: dict[_Mention, Reporter]) -> int:
    """Return the offset of the sentence in the abstract that fits most mentions; the first one if several do."""
    votes = Counter(mention.begin - start for mention in mentions for start in _starts(sentence, mention.words))
    if not votes:
        return 0
    distance, most = votes.most_common(1)[0]
    if list(votes.values()).count(most) > 1:
        report = next(iter(mentions.values()))
        report.warning("the mentions fit the sentence in several places; the first one is used")
    return distance


def _starts(sentence: str, words: str) -> Iterator[int]:
    start = sentence.find(words)
    while start >= 0:
        yield start
        start = sentence.find(words, start + 1)


def _read_negative(report: Reporter) -> Iterator[Document]:
    numbers: Counter[str] = Counter()
    for number, line in read_lines(report.path):
        source, marker, sentence = line.partition(" NEG ")
        if marker and source.strip():
            numbers[source] += 1
            yield Document(f"{source}.neg{numbers[source]}", sentence, attributes=(("source", source),))
        elif line.strip():
            report.at(number).error("does not have the form 'PMID NEG sentence'")
