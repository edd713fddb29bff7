"""Studies with a malicious site, on one machine: what it does to the others, and what robust aggregation does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as dataclass_replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models.tiny import notes
from tests.studies.protected_studies import Lasting
from tests.studies.tiny_studies import CPU, Killed, Onlooker, events_of, learnable, run, scores_of, tensors_of

from wardround.corpora.jsonl import Jsonl
from wardround.errors import FederationError, MessageError, StudyError, TrainingError
from wardround.federation.aggregation import Tensors, dense
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.message import Array, Message, grouped
from wardround.federation.site_history import most_repeats
from wardround.federation.site_runtime import Site
from wardround.reports.run_page import run_sections
from wardround.secure_aggregation.submission import Submission
from wardround.studies.one_machine import ENGINES
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_reading import read_run
from wardround.studies.site_review import review
from wardround.studies.study_file import Study, parse_study, to_toml
from wardround.studies.study_plan import plan_of
from wardround.studies.study_run import EngineSettings, StudyRun

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
    local = {
        "algorithm": {"name": "fedavg", "rounds": 4, "local_steps": 6},
        "training": {"batch_size": 8},
        "evaluation": {"every": 4},
    }
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
        assert len(used) == 4
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

LOCAL: dict[str, Any] = {
    "algorithm": {"name": "fedavg", "rounds": 7, "local_steps": 6},
    "training": {"batch_size": 8},
    "evaluation": {"every": 7},
}
PROTECTED = pytest.mark.parametrize("mechanism", ["masked", "sealed", "sealed+masked"])


def voted(folder: Path, mechanism: str, *, minimum: int = 3, **sections: Any) -> Study:
    """The five sites, whose updates are hidden and who vote on each step."""
    acceptance = {"patience": 1, **sections.pop("acceptance", {})}
    privacy = {"mechanism": mechanism, "minimum_sites": minimum, "smallest_batch": 1, "acceptance": acceptance}
    return five_sites(folder, privacy=privacy, **{**LOCAL, **sections})


@pytest.mark.parametrize("mechanism", ["masked", "sealed+masked"])
def test_votes_change_nothing_as_long_as_no_step_is_harmful(mechanism: str, tmp_path: Path) -> None:
    short = {**LOCAL, "algorithm": {"name": "fedner", "rounds": 3}, "training": {"batch_size": 64}}
    run(voted(tmp_path / "notes", mechanism, **short), tmp_path / "voted")
    privacy = {"mechanism": mechanism, "minimum_sites": 3, "smallest_batch": 1}
    run(five_sites(tmp_path / "notes", privacy=privacy, **short), tmp_path / "without")
    assert scores_of(tmp_path / "voted") == scores_of(tmp_path / "without")
    events = events_of(tmp_path / "voted", "round")
    assert [event["votes"] for event in events] == [{"harmful": 0, "cast": 5}] * 3
    assert not any("rejected" in event for event in events)


@PROTECTED
def test_a_harmful_step_is_not_taken_and_its_site_is_found(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    # Without a defence the four have less than 0.2, without the fifth more than 0.9.
    assert honest_f1(tmp_path / "run") > 0.8
    tables = [table for section in run_sections(read_run(tmp_path / "run")) for table in section.tables]
    (table,) = [table for table in tables if table.title == "Steps that sites found harmful"]
    assert len(table.rows) >= len(rejected)
    assert not events_of(tmp_path / "run", "diverged")


@pytest.mark.parametrize("mechanism", ["masked", "sealed+masked"])
def test_a_search_that_is_interrupted_goes_on(mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = {"algorithm": {"name": "fedavg", "rounds": 5, "local_steps": 2}, "federation": {"checkpoint_every": 1}}
    study = voted(tmp_path / "notes", mechanism, acceptance={"patience": 2}, **tiny)
    poison(monkeypatch, "centre", lambda array: -10 * array)
    run(study, tmp_path / "whole")
    events = events_of(tmp_path / "whole", "round")
    # The first rejection is only marked; from the second on sites sit out.
    assert events[0]["notice"] == "most sites found the step harmful; it was not taken"
    assert "the next round is tried without" in events[1]["notice"]
    for stop in (2, 3):
        with pytest.raises(Killed):
            run(study, tmp_path / "parts", watcher=Onlooker(kill_after=stop))
    run(study, tmp_path / "parts")
    last = {event["round"]: event for event in events_of(tmp_path / "parts", "round")}
    assert [last[number].get("notice") for number in last] == [event.get("notice") for event in events]
    assert scores_of(tmp_path / "parts") == scores_of(tmp_path / "whole")


def test_if_no_site_can_be_left_out_the_study_stops_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, "centre", lambda array: -10 * array)
    said = "most sites found the steps of 2 rounds in a row harmful; minimum_sites allows leaving no site out"
    with pytest.raises(TrainingError, match=said):
        run(voted(tmp_path / "notes", "masked", minimum=5, acceptance={"patience": 2}), tmp_path / "run")
    assert [event["rejected"] for event in events_of(tmp_path / "run", "round")] == [True, True]


def lasting(study: Study, path: Path, *, retries: int = 0, federation: Lasting | None = None) -> None:
    """Run a study among sites that write what must last before they answer, as among hospitals."""
    sites = federation or Lasting(study, path)
    engine = EngineSettings(checkpoint_every=1, sites_save=True, retries=retries, pause=0.0)
    keys = sites.protection
    StudyRun(study, sites, RunFolder(path), engine=engine, watcher=Onlooker(), party_keys=keys, device=CPU).run()


def vote_as(monkeypatch: pytest.MonkeyPatch, site: str, cheat: Callable[[Array], Array]) -> None:
    """Have a site submit something else than its ballot."""
    honest = Submission.announce

    def announce(self: Submission, update: Tensors, **more: Any) -> Message:
        if "ballots" in update and self.client._name == site:
            update = {"ballots": cheat(dense(update["ballots"]))}
        return honest(self, update, **more)

    monkeypatch.setattr(Submission, "announce", announce)


def test_one_site_that_votes_against_every_step_rejects_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vote_as(monkeypatch, "centre", lambda slots: np.where(slots > 0, np.float32(1.0), slots))
    short = {"algorithm": {"name": "fedavg", "rounds": 2, "local_steps": 2}}
    run(voted(tmp_path / "notes", "masked", **short), tmp_path / "run")
    events = events_of(tmp_path / "run", "round")
    assert [event["votes"] for event in events] == [{"harmful": 1, "cast": 5}] * 2
    assert not any("rejected" in event for event in events)


def test_a_site_that_casts_many_votes_stops_the_study_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On one machine nothing is retried; among hospitals the search for the site begins.
    vote_as(monkeypatch, "centre", lambda slots: np.full_like(slots, 1.0))
    with pytest.raises(
        FederationError, match=r"the votes on the round's step are not valid \(votes\): a site spoils it"
    ):
        run(voted(tmp_path / "notes", "masked"), tmp_path / "run")
    (failed,) = events_of(tmp_path / "run", "round_failed")
    assert "the round is tried without" in failed["reason"]


@pytest.mark.parametrize("mechanism", ["masked", "sealed+masked"])
def test_where_rounds_are_tried_again_a_site_that_casts_many_votes_is_found(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vote_as(monkeypatch, "north", lambda slots: np.full_like(slots, 1.0))
    study = voted(tmp_path / "notes", mechanism, algorithm={"name": "fedavg", "rounds": 2, "local_steps": 1})
    lasting(study, tmp_path / "run", retries=8)
    reasons = [event["reason"] for event in events_of(tmp_path / "run", "round_failed")]
    assert reasons[-1].endswith("north spoils it, and is excluded from the study")
    assert [event["answered"] for event in events_of(tmp_path / "run", "round")][-1] == 4


@PROTECTED
def test_a_vote_leaves_only_as_a_protected_sum_and_once(mechanism: str, tmp_path: Path) -> None:
    """What passes the wire of a vote, and what a coordinator gets that asks for it again."""
    study = voted(tmp_path / "notes", mechanism, algorithm={"name": "fedavg", "rounds": 2, "local_steps": 2})
    federation = Lasting(study, tmp_path / "run")
    passed: list[tuple[str, str, Message, Message]] = []
    refused: dict[str, str] = {}

    def meddle(name: str, step: str, message: Message, go: Callable[[Message], Message]) -> Message:
        answer = go(message)
        passed.append((name, step, message, answer))
        if step in ("submit_vote", "unmask_vote") and name == "east":
            # The same again; with another nonce after the unmasking, as if the first sum had failed.
            for asked in ({"submit_vote"}, {"unmask_vote", "submit_vote"})[step == "unmask_vote"]:
                question = next(q for n, s, q, _ in reversed(passed) if (n, s) == (name, asked))
                values = dict(question.values)
                if asked == "submit_vote" and step == "unmask_vote":
                    values["exchange"] = {**question.value("exchange", dict), "nonce": "ab" * 16}
                with pytest.raises(MessageError) as caught:
                    federation.open(name).answer(asked, Message(values, question.arrays, question.blobs))
                refused[f"{asked} after {step}"] = caught.value.code
        return answer

    federation.meddle = meddle
    lasting(study, tmp_path / "run", federation=federation)
    assert refused == {
        "submit_vote after submit_vote": "replay",
        "unmask_vote after unmask_vote": "nonce",
        "submit_vote after unmask_vote": "spent",
    }
    judged = [answer for _, step, _, answer in passed if step == "judge"]
    assert len(judged) == 10
    for answer in judged:  # no loss, no vote: only what every announcement has
        assert {name: value for name, value in answer.values.items() if value != {}} == {"weight": 1.0}
        assert not answer.arrays and set(answer.blobs) == {"public_keys"}
    for _, step, _, answer in passed:
        if step == "submit_vote":
            assert answer.values.keys() == {"exchange", "clipped", "vanished"}
            (slots,) = answer.arrays.values()
            assert np.count_nonzero(slots) > 0.99 * slots.size  # a ballot has one slot that is not zero
    decided = {step for _, step, _, _ in passed if step in ("decide", "open_sum")}
    assert decided == ({"decide"} if "sealed" in mechanism else set())
    with pytest.raises(MessageError, match="step"):
        federation.open("east").answer("open_sum", Message({"round": 3}))


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"privacy": {"acceptance": {}}}, "under plain the coordinator can compare them"),
        (
            {"privacy": {"mechanism": "sealed", "minimum_sites": 2, "acceptance": {}}},
            "minimum_sites is 2; .* hides a site's vote among 3 or more",
        ),
        (
            {
                "privacy": {
                    "mechanism": "masked",
                    "acceptance": {},
                    "differential_privacy": {"epsilon": 8.0, "delta": 0.001},
                }
            },
            "keep one of them",
        ),
        (
            {
                "privacy": {"mechanism": "masked", "acceptance": {}},
                "algorithm": {"name": "tagsets"},
                "model": {"shared": None},
            },
            "tagsets does not step layers that every site can score; fedner, fedavg, fedprox do",
        ),
    ],
)
def test_votes_that_would_mean_nothing_are_refused(sections: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=said):
        five_sites(tmp_path / "notes", **sections)


def test_site_review_says_what_a_vote_is(tmp_path: Path) -> None:
    sections = {
        section.heading: section.lines
        for section in review(voted(tmp_path / "notes", "sealed+masked"), "east", coordinator="a")
    }
    steps = [line.partition(": ")[0] for line in sections["What would run here"][1:]]
    assert {"judge", "submit_vote", "unmask_vote", "decide"} < set(steps)
    assert "open_sum" not in steps
    assert any("not which" in line for line in sections["Who could read what leaves"])


def test_votes_on_the_same_step_are_counted_and_limited(tmp_path: Path) -> None:
    """A coordinator that asks again, perhaps among other sites, learns a limited number of votes."""
    study = voted(tmp_path / "notes", "masked", algorithm={"name": "fedavg", "rounds": 2, "local_steps": 1})
    federation = Lasting(study, tmp_path / "run")
    site = federation.open("east")
    votes = site.aggregation._votes  # type: ignore[attr-defined]
    arrays = {name: parameter.detach().numpy() for name, parameter in site.shared.items()}
    question = Message({"round": 1, "voters": 5}, grouped("shared", arrays) | grouped("candidate", arrays))
    for _ in range(1 + most_repeats(2)):
        site.answer("judge", question)
        # As after the unmasking of this vote.
        votes._write_record(dataclass_replace(votes.record, revealed=1))
    with pytest.raises(MessageError, match="repeats"):
        site.answer("judge", question)


def test_sites_that_are_closed_between_the_phases_vote_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"algorithm": {"name": "fedavg", "rounds": 3, "local_steps": 2}}
    poison(monkeypatch, "centre", lambda array: -10 * array)
    study = voted(tmp_path / "notes", "sealed+masked", **short)
    run(study, tmp_path / "open")
    one = lambda sites: InProcessFederation(sites.names, sites.open_site, open_at_once=1)  # noqa: E731
    monkeypatch.setitem(ENGINES, "in-process", one)  # type: ignore[arg-type]
    run(study, tmp_path / "closed")
    rounds = [[event.get("votes") for event in events_of(tmp_path / name, "round")] for name in ("open", "closed")]
    assert rounds[0] == rounds[1]
    assert scores_of(tmp_path / "closed") == scores_of(tmp_path / "open")
