"""Find identifiers with Presidio's analyser; runs in Presidio's own environment.

By default it ignores organisations, to keep its precision, and knows the telephone numbers of eight countries. Tuned,
it keeps organisations, also knows the telephone numbers of the country, and runs without spaCy's parser, which it never
uses.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import tldextract
from json_script import answer, peak_megabytes
from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
from presidio_analyzer.predefined_recognizers import PhoneRecognizer

REGIONS = {"es": "ES", "en": "US"}
PRESIDIO_NAMES = {  # by label of the spaCy models
    "PER": "PERSON",
    "LOC": "LOCATION",
    "ORG": "ORGANIZATION",
    "NRP": "NRP",
    "DATE_TIME": "DATE_TIME",
}


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Load the models, warm up, and time one pass over the texts."""
    warnings.simplefilter("ignore")  # the models were made for an older spaCy
    # It would download a list of domain endings; the list in its package is enough.
    tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=())
    analyser, language = make_analyser(request), request["language"]
    for text in request["warm_up"]:
        analyser.analyze(text, language=language)
    started, cpu_started = time.perf_counter(), time.process_time()
    results = [analyser.analyze(text, language=language) for text in request["texts"]]
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_started,
        "peak_mb": peak_megabytes(),
        "found": [[(result.start, result.end) for result in found] for found in results],
    }


def make_analyser(request: dict[str, Any]) -> AnalyzerEngine:
    """Return an analyser with every recogniser it loads for the language, and no minimum score."""
    language, tuned = request["language"], request["tuned"]
    ignored = ["MISC"] if tuned else ["MISC", "ORG", "ORGANIZATION"]
    names = NerModelConfiguration(model_to_presidio_entity_mapping=PRESIDIO_NAMES, labels_to_ignore=ignored)
    engine = SpacyNlpEngine([{"lang_code": language, "model_name": request["model"]}], names)
    engine.load()
    registry = RecognizerRegistry(supported_languages=[language])
    registry.load_predefined_recognizers(languages=[language], nlp_engine=engine)
    if tuned:
        tune(engine, registry, language)
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[language])


def tune(engine: SpacyNlpEngine, registry: RecognizerRegistry, language: str) -> None:
    """Add the telephone numbers of the country; disable the parser."""
    registry.remove_recognizer("PhoneRecognizer")
    regions = dict.fromkeys((*PhoneRecognizer.DEFAULT_SUPPORTED_REGIONS, REGIONS[language]))
    registry.add_recognizer(PhoneRecognizer(supported_language=language, supported_regions=tuple(regions)))
    pipeline = engine.nlp[language]
    if "parser" in pipeline.pipe_names:
        pipeline.disable_pipe("parser")


if __name__ == "__main__":
    answer(measure)
