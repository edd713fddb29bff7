"""Attacks by a foreign corpus folder: a link in it leads to a file outside the corpus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.running import exit_code

from wardround.corpora.corpus_format import CorpusFormat
from wardround.corpora.formats import FORMATS
from wardround.corpora.splits import find_splits
from wardround.errors import CorpusError

SECRET = "Mrs Quillwort of Larkmoor was seen on 03/04/2021."
# A folder of each format, the link in it, and what the link is called in the error.
LAYOUTS: dict[str, tuple[tuple[str, ...], str]] = {
    "brat": (("a.txt", "a.ann"), "note.txt"),
    "brat, annotations": (("a.txt", "a.ann", "note.txt"), "note.ann"),
    "brat, deeper": (("a.txt", "a.ann", "ward/b.txt", "ward/b.ann"), "ward/note.txt"),
    "text": (("a.txt",), "note.txt"),
    "jsonl": (("a.jsonl",), "note.jsonl"),
    "conll": (("a.conll",), "note.conll"),
    "bioc": (("a.xml",), "note.xml"),
    "i2b2-2010": (("txt/a.txt", "concept/a.con"), "concept/b.con"),
    "i2b2-2014": (("a.xml",), "note.xml"),
    "pubtator": (("a.pubtator",), "note.pubtator"),
    "smm4h": (("a.tsv",), "note.tsv"),
    "pairs": (("a.tsv",), "note.tsv"),
    "cadec": (("text/a.txt", "original/a.ann"), "original/b.ann"),
    "ade": (("DRUG-AE.rel",), "ADE-NEG.txt"),
    "cas": (("a.json",), "note.xmi"),
    "datasets": (("a.parquet",), "note.arrow"),
    "ddi": (("a.xml",), "note.xml"),
    "docbin": (("a.spacy",), "note.spacy"),
    "fhir": (("a.json",), "note.json"),
    "labelstudio": (("a.json",), "note.json"),
    "pubannotation": (("a.json",), "note.json"),
    "webanno": (("a.tsv",), "note.tsv"),
}


def format_of(layout: str) -> CorpusFormat:
    return FORMATS[layout.partition(",")[0]]()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file on the machine that is not in the corpus."""
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "secret"
    path.write_text(SECRET)
    return path


def written(folder: Path, files: tuple[str, ...]) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def test_every_format_is_attacked() -> None:
    # Rows of OMOP are only written.
    assert {layout.partition(",")[0] for layout in LAYOUTS} == set(FORMATS) - {"omop"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_link_out_of_the_folder_is_refused(layout: str, tmp_path: Path, secret: Path) -> None:
    files, link = LAYOUTS[layout]
    corpus = written(tmp_path / "corpus", files)
    (corpus / link).symlink_to(secret)
    with pytest.raises(
        CorpusError, match=rf"^corpus: {link} is a link out of the folder; put the file itself there"
    ) as at:
        list(format_of(layout).read(corpus))
    assert str(tmp_path) not in str(at.value)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_that_is_a_link_out_of_the_folder_is_refused(layout: str, tmp_path: Path, secret: Path) -> None:
    corpus = written(tmp_path / "corpus", LAYOUTS[layout][0])
    (corpus / "more").symlink_to(secret.parent)
    with pytest.raises(CorpusError, match=r"^corpus: more is a link out of the folder; put the file itself there"):
        list(format_of(layout).read(corpus))


@pytest.mark.parametrize(
    "target",
    ["../elsewhere/secret", "../corpus-of-others/a.txt", "sub/../../elsewhere/secret", "again.txt", "/dev/zero"],
)
def test_a_link_is_refused_however_it_is_written(target: str, tmp_path: Path, secret: Path) -> None:
    """The link is relative, leads to a folder with a similar name, through another link, or to an endless device."""
    corpus = written(tmp_path / "corpus", ("a.txt", "sub/b.txt"))
    written(tmp_path / "corpus-of-others", ("a.txt",))
    (corpus / "again.txt").symlink_to("../elsewhere/secret")
    (corpus / "note.txt").symlink_to(target)
    with pytest.raises(CorpusError, match=r"(note|again)\.txt is a link out of the folder"):
        list(FORMATS["text"]().read(corpus))


def test_circular_links_are_ignored(tmp_path: Path) -> None:
    corpus = written(tmp_path / "corpus", ("a.txt",))
    (corpus / "b.txt").symlink_to("c.txt")
    (corpus / "c.txt").symlink_to("b.txt")
    assert [note.id for note in FORMATS["text"]().read(corpus)] == ["a"]


def test_annotations_beside_a_single_note_are_checked_too(tmp_path: Path, secret: Path) -> None:
    corpus = written(tmp_path / "corpus", ("note.txt",))
    (corpus / "note.ann").symlink_to(secret)
    with pytest.raises(CorpusError, match=r"note\.ann is a link out of the folder"):
        list(FORMATS["brat"]().read(corpus / "note.txt"))


@pytest.mark.parametrize("part", ["train", "dev"])
def test_a_part_of_a_corpus_that_lies_elsewhere_is_refused(part: str, tmp_path: Path, secret: Path) -> None:
    corpus = written(
        tmp_path / "corpus", ("train/a.txt", "test/a.txt") if part == "dev" else ("dev/a.txt", "test/a.txt")
    )
    (corpus / part).symlink_to(secret.parent)
    with pytest.raises(CorpusError, match=rf"^corpus: {part} is a link out of the folder; put the file itself there"):
        find_splits(corpus)


def test_redacting_a_folder_does_not_take_a_file_from_elsewhere_along(
    tmp_path: Path, secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The complete attack: the author of the folder receives the output and reads the file."""
    corpus = written(tmp_path / "corpus", ("a.txt",))
    (corpus / "note.txt").symlink_to(secret)
    out = tmp_path / "out"
    assert exit_code("redact", corpus, "--format", "text", "--out", out) == 2
    assert "corpus: note.txt is a link out of the folder" in capsys.readouterr().err
    assert "Quillwort" not in "".join(path.read_text() for path in out.rglob("*") if path.is_file())


# What stays allowed.

READS: dict[str, Callable[[Path, Path], Path]] = {
    "a link to the corpus that the user names": lambda corpus, elsewhere: link(elsewhere / "here", corpus),
    "a link to a file that the user names": lambda corpus, elsewhere: link(elsewhere / "a.txt", corpus / "a.txt"),
    "a corpus below a link": lambda corpus, elsewhere: link(elsewhere / "here", corpus.parent) / corpus.name,
}


def link(place: Path, target: Path) -> Path:
    place.symlink_to(target)
    return place


@pytest.mark.parametrize("named", READS.values(), ids=READS)
def test_a_link_that_the_user_names_is_the_users_choice(
    named: Callable[[Path, Path], Path], tmp_path: Path, secret: Path
) -> None:
    corpus = written(tmp_path / "corpus", ("a.txt",))
    (corpus / "b.txt").symlink_to("a.txt")  # and one within the folder
    assert [note.id for note in FORMATS["text"]().read(named(corpus, secret.parent))][:1] == ["a"]
