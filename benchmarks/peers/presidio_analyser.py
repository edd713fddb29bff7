"""Presidio's analyser over some texts; request and answer as JSON. Runs in Presidio's own environment.

As it comes, it leaves organisations out, for the sake of precision, and knows the telephone numbers of eight countries.
Tuned, it keeps organisations, knows the country's numbers too, and is spared spaCy's parser, of which it uses nothing.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from typing import Any

import tldextract
from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
from presidio_analyzer.predefined_recognizers import PhoneRecognizer

REGIONS = {"es": "ES", "en": "US"}
NAMES = {  # of the models' labels
    "PER": "PERSON",
    "LOC": "LOCATION",
    "ORG": "ORGANIZATION",
    "NRP": "NRP",
    "DATE_TIME": "DATE_TIME",
}


def main() -> None:
    """Load, warm up, time one pass over the texts."""
    request = json.load(sys.stdin)
    warnings.simplefilter("ignore")  # the models were made for an older spaCy
    # Its list of domain endings would be fetched from the network; the one it brings along serves.
    tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=())
    analyser, language = make_analyser(request), request["language"]
    for text in request["warm_up"]:
        analyser.analyze(text, language=language)
    began, spent = time.perf_counter(), time.process_time()
    results = [analyser.analyze(text, language=language) for text in request["texts"]]
    answer: dict[str, Any] = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - spent,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "found": [[(result.start, result.end) for result in found] for found in results],
    }
    print(json.dumps(answer))


def make_analyser(request: dict[str, Any]) -> AnalyzerEngine:
    """With every recogniser that it loads by itself for the language, and no least score."""
    language, tuned = request["language"], request["tuned"]
    ignored = ["MISC"] if tuned else ["MISC", "ORG", "ORGANIZATION"]
    names = NerModelConfiguration(model_to_presidio_entity_mapping=NAMES, labels_to_ignore=ignored)
    engine = SpacyNlpEngine([{"lang_code": language, "model_name": request["model"]}], names)
    engine.load()
    registry = RecognizerRegistry(supported_languages=[language])
    registry.load_predefined_recognizers(languages=[language], nlp_engine=engine)
    if tuned:
        tune(engine, registry, language)
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[language])


def tune(engine: SpacyNlpEngine, registry: RecognizerRegistry, language: str) -> None:
    """Telephone numbers of the country, and no parser."""
    registry.remove_recognizer("PhoneRecognizer")
    regions = dict.fromkeys((*PhoneRecognizer.DEFAULT_SUPPORTED_REGIONS, REGIONS[language]))
    registry.add_recognizer(PhoneRecognizer(supported_language=language, supported_regions=tuple(regions)))
    pipeline = engine.nlp[language]
    if "parser" in pipeline.pipe_names:
        pipeline.disable_pipe("parser")


if __name__ == "__main__":
    main()
