from __future__ import annotations

import re
import tomllib
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import pytest
from tests.studies.tiny_studies import NETWORK, run

from wardround.corpora.synthetic import ClinicalConfig, clinical_hospitals
from wardround.studies import study_notes
from wardround.studies.leakage_audit import audit_leakage
from wardround.studies.study_file import Study, parse_study
from wardround.studies.study_template import TEMPLATE


def test_it_has_every_section() -> None:
    # An algorithm that has no use for public notes refuses the section.
    for_some = set() if parse_study(TEMPLATE).algorithm.kind.needs_public_set else {"public"}
    assert set(tomllib.loads(TEMPLATE)) == {section.name for section in fields(Study)} - {"old_names"} - for_some


def test_every_setting_has_its_line() -> None:
    explained = {
        "seed",
        "kind",
        "preset",
        "shared",
        "name",
        "participation",
        "batch_size",
        "clip",
        "mechanism",
        "smallest_batch",
    }
    explained |= {"minimum_sites", "smallest_batch", "every", "patience", "deadline", "checkpoint_every", "built_in"}
    assert explained <= set(re.findall(r"^(\w+) = .*# ", TEMPLATE, re.MULTILINE))


def test_each_site_names_types_that_its_hospital_annotates() -> None:
    study = parse_study(TEMPLATE)
    hospitals = {h.name: h.types for h in clinical_hospitals(7, config=ClinicalConfig(scale=1 / 30))}
    assert {name: site.types for name, site in study.sites.items()} == hospitals


def test_it_passes_the_leakage_audit() -> None:
    study = parse_study(TEMPLATE)
    findings = audit_leakage(study, rounds=1)
    assert findings.findings
    assert findings.recall < 0.1
    assert findings.passes()
    # With the words shared, as version 0.1 wrote it, it does not.
    sharing = replace(study, model=replace(study.model, shared=("words", "characters", "word_cnn")))
    assert not audit_leakage(sharing, rounds=1).passes()


def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hospitals = partial(clinical_hospitals, config=ClinicalConfig(scale=1 / 30))
    monkeypatch.setattr(study_notes, "_clinical", lambda seed: {h.name: h for h in hospitals(seed)})
    study = parse_study(TEMPLATE)
    short = replace(
        study,
        algorithm=replace(study.algorithm, config=replace(study.algorithm.config, rounds=2)),
        model=replace(study.model, options=NETWORK),
    )
    outcome = run(short, tmp_path)
    assert list(outcome.sites) == ["harbour", "hillside", "riverside", "lakeside"]
    assert outcome.rounds == 2
