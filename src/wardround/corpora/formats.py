"""The list of corpus formats: a name and options from a study file or the command line select a format.

A new format is one class in a file of its own and one line here, or one entry point of an installed package:

    [project.entry-points."wardround.formats"]
    myformat = "mypackage.myformat:MyFormat"
"""

from __future__ import annotations

from collections.abc import Mapping

from wardround.corpora.ade import Ade
from wardround.corpora.bioc import Bioc
from wardround.corpora.brat import Brat
from wardround.corpora.cadec import Cadec
from wardround.corpora.conll import Conll
from wardround.corpora.corpus_format import EVERYTHING, CorpusFormat
from wardround.corpora.datasets_folder import DatasetsFolder
from wardround.corpora.ddi import Ddi
from wardround.corpora.docbin import DocbinFormat
from wardround.corpora.fhir import Fhir
from wardround.corpora.i2b2_2010 import I2b2Concepts
from wardround.corpora.i2b2_2014 import I2b2Deid
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.label_studio import LabelStudio
from wardround.corpora.omop import Omop
from wardround.corpora.pair_tsv import PairTsv
from wardround.corpora.pubannotation import Pubannotation
from wardround.corpora.pubtator import Pubtator
from wardround.corpora.smm4h import Smm4h
from wardround.corpora.text_notes import PlainText
from wardround.corpora.uima_cas import UimaCas
from wardround.corpora.webanno_tsv import WebannoTsv
from wardround.errors import UsageError
from wardround.plugins import Registry
from wardround.settings import convert_settings, did_you_mean

__all__ = ["BUILT_IN_FORMATS", "FORMATS", "lossless_format", "open_format", "writable_format"]

BUILT_IN_FORMATS: dict[str, type[CorpusFormat]] = {
    Ade.name: Ade,
    Bioc.name: Bioc,
    Brat.name: Brat,
    Cadec.name: Cadec,
    UimaCas.name: UimaCas,
    Conll.name: Conll,
    DatasetsFolder.name: DatasetsFolder,
    Ddi.name: Ddi,
    DocbinFormat.name: DocbinFormat,
    Fhir.name: Fhir,
    I2b2Concepts.name: I2b2Concepts,
    I2b2Deid.name: I2b2Deid,
    Jsonl.name: Jsonl,
    LabelStudio.name: LabelStudio,
    Omop.name: Omop,
    PairTsv.name: PairTsv,
    Pubannotation.name: Pubannotation,
    Pubtator.name: Pubtator,
    Smm4h.name: Smm4h,
    PlainText.name: PlainText,
    WebannoTsv.name: WebannoTsv,
}
FORMATS: Mapping[str, type[CorpusFormat]] = Registry("wardround.formats", BUILT_IN_FORMATS)


def open_format(name: str, options: Mapping[str, str] | None = None) -> CorpusFormat:
    """Return the format with this name and these options; raise `UsageError` for an unknown name or option."""
    if name not in FORMATS:
        raise UsageError(
            f"{name!r} is not a format{did_you_mean(name, FORMATS)}; there are {', '.join(FORMATS)}; "
            "`wardround data check --help` shows how one is chosen"
        )
    cls = FORMATS[name]
    return cls(**convert_settings(cls, options or {}, name))


def writable_format(form: CorpusFormat) -> CorpusFormat:
    """Return the format; raise `UsageError` with the names of other formats if it can only be read."""
    if not form.can_write:
        names = [name for name, cls in BUILT_IN_FORMATS.items() if cls().can_write]
        raise UsageError(f"the format {form.name} can only be read; choose one of {', '.join(names)}")
    return form


def lossless_format() -> CorpusFormat:
    """Return the format that keeps everything of a document."""
    return next(form for cls in BUILT_IN_FORMATS.values() if (form := cls()).can_write and form.holds == EVERYTHING)
