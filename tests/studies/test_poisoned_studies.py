"""Studies with a malicious site, on one machine: what it does to the others, and what robust aggregation does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models.tiny import notes
from tests.studies.tiny_studies import Killed, Onlooker, events_of, learnable, run, scores_of, tensors_of

from wardround.corpora.jsonl import Jsonl
from wardround.errors import StudyError
from wardround.federation.aggregation import Tensors, dense
from wardround.federation.message import Array, Message
from wardround.federation.site_runtime import Site
from wardround.reports.run_page import run_sections
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_reading import read_run
from wardround.studies.site_review import review
from wardround.studies.study_file import Study, parse_study, to_toml
from wardround.studies.study_plan import plan_of

RULES = ("median", "trimmed_mean", "multi_krum", "centred_clipping")
EVERY_RULE = pytest.mark.parametrize("rule", RULES)
MORE = ("north", "south", "centre")
HONEST = ("east", "west", "north", "south")


def five_sites(folder: Path, rule: str = "", **sections: Mapping[str, Any] | None) -> Study:
    """The study that learns something, with five sites that annotate the same."""
    sites: dict[str, Any] = {"east": {"types": ["Drug"]}, "west": {"scheme": "BIO"}}
    for number, name in enumerate(MORE):
        for part, size in (("train", 12), ("dev", 4), ("test", 5)):
            Jsonl().write(notes(size, seed=20 + number * 10 + size), folder / name / f"{part}.jsonl")
        sites[name] = {"data": str(folder / name), "format": "jsonl", "types": ["Drug"], "scheme": "BIO"}
    privacy = {
        "minimum_sites": 5,
        **({"robust": {"rule": rule}} if rule else {}),
        **(sections.pop("privacy", {}) or {}),
    }
    model = {"shared": ["all"], "word_buckets": 512, **(sections.pop("model", {}) or {})}
    return learnable(folder, sites=sites, privacy=privacy, model=model, **sections)


def poison(monkeypatch: pytest.MonkeyPatch, site: str, attack: Callable[[Array], Array]) -> None:
    """Have a site send something else than its update."""
    honest = Site.announce

    def announce(self: Site, update: Tensors, **more: Any) -> Message:
        if self.name == site:
            update = {name: attack(dense(part)).astype(np.float32) for name, part in update.items()}
        return honest(self, update, **more)

    monkeypatch.setattr(Site, "announce", announce)


def honest_f1(path: Path) -> float:
    """The mean F1 of the honest sites on their test notes."""
    sites = scores_of(path)["sites"]
    return float(np.mean([sites[name]["strict"]["f1"] for name in HONEST]))


def test_a_flipped_update_ruins_a_mean_and_not_what_a_rule_makes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each site takes its own steps and the changes are added, so that no optimizer hides how large an update is.
    local = {"algorithm": {"name": "fedavg", "rounds": 6, "local_steps": 10}, "training": {"batch_size": 8}}
    run(five_sites(tmp_path / "notes", **local), tmp_path / "clean")
    poison(monkeypatch, "centre", lambda array: -10 * array)
    run(five_sites(tmp_path / "notes", **local), tmp_path / "poisoned")
    clean = honest_f1(tmp_path / "clean")
    assert clean > 0.9
    assert honest_f1(tmp_path / "poisoned") < 0.2
    for rule in RULES:
        run(five_sites(tmp_path / "notes", rule, **local), tmp_path / rule)
        assert honest_f1(tmp_path / rule) > clean - 0.02, rule
        used = [event["used"] for event in events_of(tmp_path / rule, "round")]
        assert len(used) == 6
        assert {min(shares, key=shares.get) for shares in used} == {"centre"}
    tables = [table for section in run_sections(read_run(tmp_path / "median")) for table in section.tables]
    (table,) = [table for table in tables if table.title == "Share of each site's updates that was used"]
    assert {row[0] for row in table.rows} == {*HONEST, "centre"}
    assert min(table.rows, key=lambda row: row[2])[0] == "centre"


@EVERY_RULE
def test_resumed_is_uninterrupted(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = five_sites(tmp_path / "notes", rule, algorithm={"rounds": 5})
    poison(monkeypatch, "centre", lambda array: -10 * array)
    run(study, tmp_path / "whole")
    with pytest.raises(Killed):
        run(study, tmp_path / "parts", watcher=Onlooker(kill_after=4))  # after the checkpoint of round 3
    run(study, tmp_path / "parts")
    assert tensors_of(tmp_path / "parts") == tensors_of(tmp_path / "whole")
    assert scores_of(tmp_path / "parts") == scores_of(tmp_path / "whole")


def test_a_study_file_keeps_its_rule(tmp_path: Path) -> None:
    settings = {"rule": "centred_clipping", "radius": 2.5, "iterations": 4, "malicious": 2, "memory": 1}
    study = five_sites(tmp_path / "notes", privacy={"robust": settings})
    assert parse_study(to_toml(study)) == study
    assert study.privacy.robust is not None
    assert (study.privacy.robust.radius, study.privacy.robust.memory) == (2.5, 1.0)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"privacy": {"robust": {}}}, r"\[privacy.robust\] needs a rule"),
        ({"privacy": {"robust": "median"}}, r"\[privacy.robust\] must be a section"),
        ({"privacy": {"robust": {"rule": "medain"}}}, r"\[privacy.robust\] rule is 'medain' – did you mean 'median'\?"),
        ({"privacy": {"robust": {"rule": "median", "tau": 1}}}, r"\[privacy.robust\] 'tau' is not a setting"),
        (
            {"privacy": {"mechanism": "masked", "robust": {"rule": "median"}}},
            "compares single updates, and masked hides",
        ),
        (
            {"privacy": {"mechanism": "sealed+masked", "robust": {"rule": "median"}}},
            r"sealed\+masked hides them; it runs with mechanism plain",
        ),
        (
            {
                "privacy": {
                    "robust": {"rule": "median"},
                    "differential_privacy": {"epsilon": 8.0, "delta": 0.001},
                },
            },
            "keep one of them",
        ),
        ({"privacy": {"minimum_sites": 2, "robust": {"rule": "median"}}}, "withstands 1 malicious among 3 or more"),
        (
            {"privacy": {"minimum_sites": 4, "robust": {"rule": "multi_krum"}}},
            "minimum_sites is 4; multi_krum withstands 1 malicious among 5 or more",
        ),
        (
            {"privacy": {"robust": {"rule": "multi_krum", "selected": 5}}},
            "selected is 5; of minimum_sites 5, all but 1 can be selected",
        ),
        (
            {"privacy": {"robust": {"rule": "median"}}, "algorithm": {"name": "fedatt"}},
            "fedatt does not send one update of the same layers from every site; fedner, fedavg, fedprox do",
        ),
        (
            {"privacy": {"robust": {"rule": "median"}}, "algorithm": {"name": "tagsets"}, "model": {"shared": None}},
            "tagsets does not send one update",
        ),
    ],
)
def test_nonsense_is_refused_before_round_1(sections: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=said):
        five_sites(tmp_path / "notes", **sections)


def test_a_study_whose_updates_do_not_fit_into_memory_is_refused_before_round_1(tmp_path: Path) -> None:
    study = five_sites(tmp_path / "notes", privacy={"robust": {"rule": "median", "memory": 1e-5}})
    with pytest.raises(StudyError, match="needs all updates of a round at once: 5 sites times"):
        plan_of(study)
    with pytest.raises(StudyError, match="needs all updates of a round at once"):
        run(study, tmp_path / "run")
    assert not (RunFolder(tmp_path / "run").path / "events.jsonl").exists()


def test_site_review_and_report_print_the_declaration(tmp_path: Path) -> None:
    study = five_sites(tmp_path / "notes", "trimmed_mean")
    readers = {section.heading: section.lines for section in review(study, "east", coordinator="a")}[
        "Who could read what leaves"
    ]
    assert "The mechanism is plain with trimmed_mean." in readers
    assert any("leaves out the 1 largest and the 1 smallest" in line for line in readers)
    # Every site counts once, so a limit of its share would be a false sentence.
    assert not any("no site counts for more than" in line for line in readers)


# Acceptance by the sites.

LOCAL: dict[str, Any] = {"algorithm": {"name": "fedavg", "rounds": 9, "local_steps": 10}, "training": {"batch_size": 8}}
PROTECTED = pytest.mark.parametrize("mechanism", ["masked", "sealed", "sealed+masked"])


def voted(folder: Path, mechanism: str, *, minimum: int = 3, **sections: Any) -> Study:
    """The five sites, whose updates are hidden and who vote on each step."""
    acceptance = {"patience": 1, **sections.pop("acceptance", {})}
    privacy = {"mechanism": mechanism, "minimum_sites": minimum, "smallest_batch": 1, "acceptance": acceptance}
    return five_sites(folder, privacy=privacy, **{**LOCAL, **sections})


@PROTECTED
def test_votes_change_nothing_as_long_as_no_step_is_harmful(mechanism: str, tmp_path: Path) -> None:
    study = voted(tmp_path / "notes", mechanism)
    run(study, tmp_path / "voted")
    without = five_sites(
        tmp_path / "notes", privacy={"mechanism": mechanism, "minimum_sites": 3, "smallest_batch": 1}, **LOCAL
    )
    run(without, tmp_path / "without")
    assert scores_of(tmp_path / "voted") == scores_of(tmp_path / "without")
    events = events_of(tmp_path / "voted", "round")
    assert [event["votes"]["cast"] for event in events] == [5] * 9
    assert not any("rejected" in event for event in events)


@PROTECTED
def test_a_harmful_step_is_not_taken_and_its_site_is_found(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(voted(tmp_path / "notes", mechanism), tmp_path / "clean")
    poison(monkeypatch, "centre", lambda array: -10 * array)
    watcher = Onlooker()
    run(voted(tmp_path / "notes", mechanism), tmp_path / "run", watcher=watcher)
    events = events_of(tmp_path / "run", "round")
    assert events[0]["rejected"]
    assert events[0]["votes"]["harmful"] >= 3
    # Five suspects, then at most three, then two, then one, which takes part once more.
    rejected = [event for event in events if event.get("rejected")]
    assert 2 <= len(rejected) <= 4
    assert rejected[-1]["notice"].endswith("centre causes it, and is excluded from the study")
    assert any("centre causes it" in said for said in watcher.said)
    after = [event for event in events if event["round"] > rejected[-1]["round"]]
    assert after and all(event["answered"] == 4 and not event.get("rejected") for event in after)
    assert honest_f1(tmp_path / "run") > honest_f1(tmp_path / "clean") - 0.02
    tables = [table for section in run_sections(read_run(tmp_path / "run")) for table in section.tables]
    (table,) = [table for table in tables if table.title == "Steps that sites found harmful"]
    assert len(table.rows) >= len(rejected)
    assert not events_of(tmp_path / "run", "diverged")
