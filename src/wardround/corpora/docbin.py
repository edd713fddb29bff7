"""spaCy's DocBin, `.spacy`: binary files of documents, as `spacy train` reads them.

    import spacy
    from spacy.tokens import DocBin
    doc = spacy.blank("en")("Aspirin burns")
    doc.ents = [doc.char_span(0, 7, label="Drug")]
    DocBin(docs=[doc]).to_disk("train.spacy")

The library is needed: `pip install 'wardround[spacy]'`. It is imported only when such a file is read or written. A
file is data; no pipeline and no code is loaded from it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from wardround.corpora.corpus_files import MAXIMUM_FILE, files_below, id_of, read_each
from wardround.corpora.corpus_format import Clue, Content, CorpusFormat, Draft, ProblemSink, Reporter, fail_on_error
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Range
from wardround.text.segmentation import words_of

__all__ = ["DocbinFormat"]

_CHUNK = 1_000_000  # bytes


@dataclass(frozen=True)
class DocbinFormat(CorpusFormat):
    """Reader and writer of DocBin files. `spans` names a group of `doc.spans` to read instead of `doc.ents`.

    `words` also reads tokens and sentences, which spaCy makes itself. Entities that overlap or cut a word are refused
    when written; ids and relations are not kept.
    """

    name = "docbin"
    description = "spaCy's DocBin, `.spacy`"
    ending = ".spacy"
    holds = frozenset[Content]({"entities", "words", "sentences"})
    clues = (Clue((".spacy",), "ends in .spacy"),)

    spans: str | None = None
    words: bool = False

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the documents of a file, or of each `.spacy` file below a folder; ids are `<stem>:<number>`."""
        files = files_below(path, ".spacy")
        return read_each(files, lambda file: self._read_file(id_of(file, path), Reporter(file, problems)), problems)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write one file."""
        spacy = _spacy()
        vocab = spacy.blank("xx").vocab
        docs = spacy.tokens.DocBin(store_user_data=False)
        for document in documents:
            try:
                docs.add(_doc(spacy, vocab, document))
            except CorpusError as error:
                raise CorpusError(f"document {document.id!r}: {error.reason}", path=path) from None
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        try:
            partial.write_bytes(docs.to_bytes())
            partial.replace(path)
        except OSError as error:
            raise CorpusError(f"cannot be written ({error.strerror or type(error).__name__})", path=path) from None
        finally:
            partial.unlink(missing_ok=True)

    def _read_file(self, stem: str, report: Reporter) -> Iterator[Document]:
        spacy = _spacy()
        data = _limited(report.path)
        try:
            docs = spacy.tokens.DocBin().from_bytes(data).get_docs(spacy.blank("xx").vocab)
        except Exception as error:  # the library raises many classes for a file that is damaged
            raise CorpusError(f"is not a DocBin, or is damaged ({type(error).__name__})", path=report.path) from None
        for number in count(1):
            place = Reporter(report.path, report.problems, item=f"document {number}: ")
            try:
                doc = next(docs, None)
                document = None if doc is None else self._document(doc, f"{stem}:{number}", place)
            except CorpusError:
                raise
            except Exception as error:  # of the library; its message may quote the note
                place.error(f"cannot be read ({type(error).__name__}); it and those after it are left out")
                return
            if document is None:
                return
            yield document

    def _document(self, doc: Any, name: str, report: Reporter) -> Document:
        draft = Draft(doc.text)
        if self.spans and self.spans not in doc.spans:
            groups = ", ".join(sorted(doc.spans)) or "none"
            report.warning(f"has no group of spans called {self.spans!r}; there are {groups}")
        spans = doc.spans.get(self.spans, ()) if self.spans else doc.ents
        for number, span in enumerate(spans, start=1):
            draft.add_entity(
                report, entity_id=f"T{number}", kind=span.label_, ranges=[(span.start_char, span.end_char)]
            )
        words = [Range(token.idx, token.idx + len(token)) for token in doc if not token.is_space]
        sentences = None
        if self.words and doc.has_annotation("SENT_START"):
            sentences = [Range(sent.start_char, sent.end_char) for sent in doc.sents]
        return draft.document(name, words=words if self.words else None, sentences=sentences)


def _spacy() -> Any:
    """Return the library, or raise a `UsageError` that says how to install it."""
    try:
        import spacy
        import spacy.tokens
    except ImportError:
        raise UsageError("the format docbin needs spaCy: pip install 'wardround[spacy]'") from None
    return spacy


def _limited(path: Path) -> bytes:
    """Return the bytes of a file whose content, decompressed, is not larger than other files of a corpus may be."""
    try:
        data = path.read_bytes()
        decompressor, size, rest = zlib.decompressobj(), 0, data
        while rest and not decompressor.eof:
            size += len(decompressor.decompress(rest, _CHUNK))
            rest = decompressor.unconsumed_tail
            if size > MAXIMUM_FILE:
                raise CorpusError(f"is longer than {MAXIMUM_FILE:,} bytes when decompressed", path=path)
    except OSError as error:
        raise CorpusError(f"cannot be opened ({error.strerror or type(error).__name__})", path=path) from None
    except zlib.error:
        raise CorpusError("is not a DocBin, or is damaged (it cannot be decompressed)", path=path) from None
    return data


def _doc(spacy: Any, vocab: Any, document: Document) -> Any:
    """Return a document as spaCy's Doc; white space that is not one space after a word becomes a word of its own."""
    tokens: list[Range] = []
    spaces: list[bool] = []
    words, end = words_of(document), 0
    for word in (*words, Range(len(document.text), len(document.text))):
        gap = document.text[end : word.start]
        if gap and tokens and gap[0] == " " and tokens[-1].end == end:
            spaces[-1] = True
            gap, end = gap[1:], end + 1
        if gap:
            tokens.append(Range(end, word.start))
            spaces.append(False)
        if word.end > word.start:
            tokens.append(word)
            spaces.append(False)
        end = word.end
    doc = spacy.tokens.Doc(vocab, words=[document.text[start:stop] for start, stop in tokens], spaces=spaces)
    ordered = sorted(document.entities, key=lambda entity: entity.envelope)
    for left, right in pairwise(ordered):
        if left.overlaps(right):
            raise CorpusError(f"{left.id} and {right.id} overlap, which spaCy does not allow; write it as jsonl")
    doc.ents = [_span(doc, entity) for entity in ordered]
    return doc


def _span(doc: Any, entity: Entity) -> Any:
    span = None if entity.is_discontinuous else doc.char_span(entity.start, entity.end, label=entity.type)
    if span is None:
        raise CorpusError(f"{entity.id} is discontinuous or cuts a word, which spaCy cannot hold; write it as jsonl")
    return span
