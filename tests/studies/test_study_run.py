from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.algorithms.wards import Go, Meddle, changing, codes, honest, without
from tests.models.tiny import notes
from tests.studies.protected_studies import Lasting, copies, shielded
from tests.studies.tiny_studies import CPU, ONE_TOP, Onlooker, events_of, tiny
from tests.studies.toy_federation import DOWN, SECONDS, UP, Fault, ToyFederation, nobody_fails

from wardround.corpora.jsonl import Jsonl
from wardround.errors import FederationError, StudyError
from wardround.federation.coordinator import Round
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import SiteId
from wardround.federation.message import Message
from wardround.federation.worker_process import RequestHandler
from wardround.models.saved import load_model
from wardround.studies.run_folder import RunFolder
from wardround.studies.site_setup import open_site, with_ledger
from wardround.studies.study_file import Study, to_toml
from wardround.studies.study_notes import load_notes
from wardround.studies.study_run import EngineSettings, StudyOutcome, StudyRun
from wardround.tasks.mentions import predict_mentions
from wardround.text.document import Document

EACH_ROUND = EngineSettings(checkpoint_every=1, sites_save=False)
LASTING = EngineSettings(checkpoint_every=1, sites_save=True, pause=0.0)
NAMES = ("harbour", "hillside")


class Lost(Exception):
    """The coordinator's machine went away."""


def toy_run(
    study: Study,
    path: Path,
    *,
    found: Mapping[int, int] | None = None,
    fault: Fault = nobody_fails,
    engine: EngineSettings = EACH_ROUND,
    watcher: Onlooker | None = None,
) -> tuple[StudyOutcome, ToyFederation]:
    federation = ToyFederation(tuple(study.sites), found=found, fault=fault)
    run = StudyRun(study, federation, RunFolder(path), engine=engine, watcher=watcher or Onlooker())
    return run.run(), federation


def f1(found: int) -> float:
    """Of ten entities so many are found, and nothing else."""
    return 2 * found / (10 + found)


def study_of(rounds: int = 3, **evaluation: int) -> Study:
    return tiny(algorithm={"rounds": rounds}, evaluation={"every": 1} | evaluation)


def test_the_order_of_requests(tmp_path: Path) -> None:
    engine = EngineSettings(checkpoint_every=2, sites_save=False)
    _, federation = toy_run(study_of(5, every=3), tmp_path, engine=engine)
    assert federation.steps() == [
        ("restore", 0),
        ("describe", 0),
        *[("gradient", 1), ("gradient", 2), ("save", 2), ("gradient", 3), ("score", 3)],
        *[("gradient", 4), ("save", 4), ("gradient", 5), ("score", 5), ("save", 5)],
        ("finish", 5),
    ]


def test_sites_that_save_themselves_are_not_asked_to_save(tmp_path: Path) -> None:
    _, federation = toy_run(study_of(), tmp_path, engine=LASTING)
    assert "save" not in dict(federation.steps())
    assert RunFolder(tmp_path).checkpoint.is_file()


def test_scored_twenty_times_unless_it_says_otherwise(tmp_path: Path) -> None:
    onlooker = Onlooker()
    toy_run(study_of(61, every=0), tmp_path, watcher=onlooker, engine=EngineSettings(50, sites_save=False))
    # Every third of 61 rounds, and the last one.
    assert [number for number, _ in onlooker.scores] == [*range(3, 61, 3), 61]


def test_every_round_once_and_in_order(tmp_path: Path) -> None:
    onlooker = Onlooker()
    toy_run(study_of(4), tmp_path, watcher=onlooker)
    assert [event["round"] for event in events_of(tmp_path, "round")] == [1, 2, 3, 4]
    assert [event["loss"] for event in events_of(tmp_path, "round")] == [1.0, 0.5, pytest.approx(1 / 3), 0.25]
    assert [record.number for record in onlooker.rounds] == [1, 2, 3, 4]
    kinds = [event["event"] for event in RunFolder(tmp_path).events()]
    asked_beside = [kind for kind in kinds if kind != "asked"]  # of restoring, scoring, saving and finishing
    assert asked_beside == ["started", *["round", "scored"] * 4, "finished"]
    assert onlooker.started == [0]


def test_traffic_counts_rounds_and_other_requests(tmp_path: Path) -> None:
    outcome, _ = toy_run(study_of(3), tmp_path)
    rounds = events_of(tmp_path, "round")
    asked = [4, 2, 2]  # two sites; in the first round they are met as well
    found = [(event["down"], event["up"], event["seconds"]) for event in rounds]
    assert found == [(times * DOWN, times * UP, times * SECONDS) for times in asked]
    # Two sites, met, asked for 3 rounds, 3 scorings, 3 checkpoints, once to restore and once to finish.
    assert (outcome.traffic.down, outcome.traffic.up) == (24 * DOWN, 24 * UP)
    assert outcome.traffic.seconds == 24 * SECONDS
    assert json.loads((tmp_path / "scores.json").read_text())["traffic"]["up"] == 24 * UP


def test_events_have_the_cost_of_every_exchange_by_step_and_site(tmp_path: Path) -> None:
    toy_run(study_of(2), tmp_path)
    first, second = events_of(tmp_path, "round")
    once = {key: [DOWN, UP, SECONDS, 0.0] for key in NAMES}
    assert first["exchanges"] == {"describe": once, "gradient": once}
    assert second["exchanges"] == {"gradient": once}
    assert second["coordinator"].keys() == {"combine", "open", "step"}
    asked = [event["exchanges"] for event in events_of(tmp_path, "asked")]
    assert asked == [{"restore": once}, *[{"score": once}, {"save": once}] * 2, {"finish": once}]


def test_events_have_the_cost_of_a_failed_round(tmp_path: Path) -> None:
    with pytest.raises(FederationError):
        toy_run(study_of(1), tmp_path, fault=lambda site, step, number: "gone" if step == "gradient" else "")
    (failed,) = events_of(tmp_path, "round_failed")
    assert failed["exchanges"]["gradient"] == {key: [DOWN, 0, SECONDS, 0.0] for key in NAMES}


def test_scores_of_a_round_by_type_and_with_intervals(tmp_path: Path) -> None:
    toy_run(study_of(1), tmp_path, found={1: 4})
    (scored,) = events_of(tmp_path, "scored")
    assert scored["counts"] == {key: {"Drug": [4, 0, 6]} for key in NAMES}
    assert scored["interval"] == {key: [0.25, 0.75] for key in NAMES}


def test_the_first_event_says_what_the_run_is_made_with(tmp_path: Path) -> None:
    toy_run(study_of(1), tmp_path)
    (started,) = events_of(tmp_path, "started")
    assert {"python", "wardround", "torch"} <= started["versions"].keys()


def test_the_best_round_is_the_one_that_scored_highest(tmp_path: Path) -> None:
    outcome, _ = toy_run(study_of(4), tmp_path, found={1: 2, 2: 7, 3: 7, 4: 5})
    assert (outcome.best_round, outcome.rounds) == (2, 4)
    assert [event["mean_f1"] for event in events_of(tmp_path, "scored")] == [f1(2), f1(7), f1(7), f1(5)]


def test_scores_by_site_in_the_folder(tmp_path: Path) -> None:
    outcome, _ = toy_run(study_of(1), tmp_path, found={1: 5})
    written = json.loads((tmp_path / "scores.json").read_text())
    assert list(written["sites"]) == list(outcome.sites) == list(NAMES)
    harbour = written["sites"]["harbour"]
    # Five of ten, no false one: precision 1, recall 1/2, F1 2/3.
    assert harbour["documents"] == 2
    assert harbour["strict"]["f1"] == harbour["types"]["Drug"]["relaxed"]["f1"] == pytest.approx(2 / 3)
    assert harbour["strict"]["interval"] == harbour["types"]["Drug"]["strict"]["interval"] == [0.25, 0.75]
    (finished,) = events_of(tmp_path, "finished")
    assert finished["f1"] == {name: pytest.approx(2 / 3) for name in NAMES}


FALLING = {1: 5, 2: 4, 3: 6, 4: 5, 5: 5, 6: 9}


def test_patience_ends_a_study_early(tmp_path: Path) -> None:
    outcome, federation = toy_run(study_of(9, patience=2), tmp_path, found=FALLING)
    # Round 3 is better than 1; 4 and 5 are not, and nobody comes to know of round 6.
    assert (outcome.rounds, outcome.best_round) == (5, 3)
    assert ("gradient", 6) not in federation.steps()


def test_a_study_that_keeps_its_last_round_ends_with_that_whatever_it_scored(tmp_path: Path) -> None:
    study = replace(study_of(4), evaluation=replace(study_of(4).evaluation, keep="last"))
    outcome, _ = toy_run(study, tmp_path, found={1: 2, 2: 7, 3: 7, 4: 5})
    assert (outcome.best_round, outcome.rounds) == (4, 4)
    assert json.loads((tmp_path / "scores.json").read_text())["best_round"] == 4
    assert outcome.sites["harbour"].main.micro.tp == 5


def test_patience_ends_a_study_that_keeps_its_last_round_too(tmp_path: Path) -> None:
    study = study_of(9, patience=2)
    study = replace(study, evaluation=replace(study.evaluation, keep="last"))
    outcome, _ = toy_run(study, tmp_path, found=FALLING)
    # As above: after 3 comes nothing better until 5, with which it ends.
    assert (outcome.rounds, outcome.best_round) == (5, 5)
    again, _ = toy_run(study, tmp_path, found=FALLING)
    assert (again.rounds, again.best_round) == (5, 5)


def test_the_last_round_is_kept_even_if_no_site_scored_it(tmp_path: Path) -> None:
    study = replace(study_of(2), evaluation=replace(study_of(2).evaluation, keep="last"))
    outcome, _ = toy_run(study, tmp_path, found={1: 1}, fault=fails(*((name, "score", 2) for name in NAMES)))
    assert outcome.best_round == 2


def test_without_patience_there_is_no_early_end(tmp_path: Path) -> None:
    outcome, _ = toy_run(study_of(9), tmp_path, found=FALLING)
    assert (outcome.rounds, outcome.best_round) == (9, 6)


def test_a_stalled_study_is_not_continued(tmp_path: Path) -> None:
    first, _ = toy_run(study_of(9, patience=2), tmp_path, found=FALLING)
    second, federation = toy_run(study_of(9, patience=2), tmp_path, found=FALLING)
    assert (second.rounds, second.best_round) == (first.rounds, first.best_round) == (5, 3)
    assert federation.steps() == [("restore", 5), ("finish", 5)]


def test_a_finished_study_run_again_is_scored_again_and_no_more(tmp_path: Path) -> None:
    toy_run(study_of(2), tmp_path)
    onlooker = Onlooker()
    _, federation = toy_run(study_of(2), tmp_path, watcher=onlooker)
    assert federation.steps() == [("restore", 2), ("finish", 2)]
    assert onlooker.started == [2]
    assert [event["round"] for event in events_of(tmp_path, "resumed")] == [2]


def test_another_study_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    toy_run(study_of(2), tmp_path / "mine")
    before = (tmp_path / "mine" / "study.toml").read_text()
    with pytest.raises(StudyError, match=r"^the run folder mine holds another study; name a new one$"):
        toy_run(study_of(3), tmp_path / "mine")
    assert (tmp_path / "mine" / "study.toml").read_text() == before


def fails(*where: tuple[str, str, int], code: str = "OSError") -> Fault:
    return lambda site, step, number: code if (site, step, number) in where else ""


def test_a_site_that_fails_is_absent_and_the_study_goes_on(tmp_path: Path) -> None:
    onlooker = Onlooker()
    toy_run(study_of(3), tmp_path, fault=fails(("hillside", "gradient", 2)), watcher=onlooker)
    rounds = events_of(tmp_path, "round")
    assert [event["answered"] for event in rounds] == [2, 1, 2]
    assert [event["absent"] for event in rounds] == [[], [["hillside", "failed", "OSError"]], []]
    assert (rounds[1]["down"], rounds[1]["up"]) == (2 * DOWN, UP)
    assert [gone.site for gone in onlooker.rounds[1].absent] == ["hillside"]


def test_a_site_that_cannot_score_is_left_out_of_the_mean(tmp_path: Path) -> None:
    onlooker = Onlooker()
    toy_run(study_of(1), tmp_path, found={1: 5}, fault=fails(("harbour", "score", 1)), watcher=onlooker)
    assert onlooker.scores == [(1, {"hillside": f1(5)})]
    (absent,) = events_of(tmp_path, "absent")
    named = {name: absent[name] for name in ("step", "round", "site", "absence", "code")}
    assert named == {"step": "score", "round": 1, "site": "harbour", "absence": "failed", "code": "OSError"}


def test_a_round_without_scores_is_not_the_best(tmp_path: Path) -> None:
    fault = fails(*((name, "score", 2) for name in NAMES))
    outcome, _ = toy_run(study_of(2), tmp_path, found={1: 1}, fault=fault)
    assert outcome.best_round == 1


def test_too_few_sites_stop_the_study_and_it_can_go_on(tmp_path: Path) -> None:
    study = replace(study_of(3), privacy=replace(study_of().privacy, minimum_sites=2))
    with pytest.raises(FederationError, match=r"^1 of 2 sites answered; .* at least 2 \(hillside failed OSError\)$"):
        toy_run(study, tmp_path, fault=fails(("hillside", "gradient", 2)))
    (failed,) = events_of(tmp_path, "round_failed")
    assert (failed["round"], "hillside failed OSError" in failed["reason"]) == (2, True)
    onlooker = Onlooker()
    outcome, _ = toy_run(study, tmp_path, watcher=onlooker)
    assert (outcome.rounds, onlooker.started) == (3, [1])
    assert [event["round"] for event in events_of(tmp_path, "round")] == [1, 2, 3]


def test_too_few_sites_at_the_end_lose_nothing(tmp_path: Path) -> None:
    with pytest.raises(FederationError, match="too few sites scored the finished model; run the same command again"):
        toy_run(study_of(2), tmp_path, fault=lambda site, step, number: "gone" if step == "finish" else "")
    assert not (tmp_path / "scores.json").exists()
    assert toy_run(study_of(2), tmp_path)[1].steps() == [("restore", 2), ("finish", 2)]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("save", "hillside could not save its state: OSError"),
        ("restore", "hillside cannot resume from round 0: OSError"),
    ],
)
def test_on_one_machine_a_state_that_cannot_be_kept_stops_the_study(tmp_path: Path, step: str, said: str) -> None:
    with pytest.raises(FederationError, match=f"^{said}$"):
        toy_run(
            study_of(2), tmp_path, fault=lambda site, asked, _: "OSError" if (site, asked) == (NAMES[1], step) else ""
        )
    assert not RunFolder(tmp_path).checkpoint.exists()


class Flaky:
    """Nobody answers a round before it was asked so many times."""

    def __init__(self, **needed: int) -> None:
        self._left = {int(number.removeprefix("round_")): 2 * times for number, times in needed.items()}

    def __call__(self, site: SiteId, step: str, number: int) -> str:
        if step == "gradient" and self._left.get(number, 0):
            self._left[number] -= 1
            return "late"
        return ""


def test_a_failed_round_is_retried_if_the_engine_allows(tmp_path: Path) -> None:
    onlooker = Onlooker()
    engine = replace(LASTING, retries=2)
    # Each round has two tries more: what one used up, the next has again.
    faults = Flaky(round_2=2, round_3=2)
    outcome, federation = toy_run(study_of(3), tmp_path, fault=faults, engine=engine, watcher=onlooker)
    assert outcome.traffic.down == DOWN * sum(len(sites) for _, _, sites in federation.asked)  # nothing is left out
    gradients = [number for step, number in federation.steps() if step == "gradient"]
    assert gradients == [1, 2, 2, 2, 3, 3, 3]
    assert [number for step, number in federation.steps() if step == "restore"] == [0, 1, 1, 2, 2]
    assert [event["round"] for event in events_of(tmp_path, "round_failed")] == [2, 2, 3, 3]
    assert [event["round"] for event in events_of(tmp_path, "round")] == [1, 2, 3]
    assert onlooker.said[0].startswith("round 2 is retried: 0 of 2 sites answered")


def test_retries_of_a_round_are_limited(tmp_path: Path) -> None:
    with pytest.raises(FederationError, match=r"^0 of 2 sites answered"):
        toy_run(study_of(3), tmp_path, fault=Flaky(round_2=2), engine=replace(LASTING, retries=1))
    assert [event["round"] for event in events_of(tmp_path, "round_failed")] == [2, 2]


def test_the_engine_waits_before_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("wardround.studies.study_run.time.sleep", waited.append)
    toy_run(study_of(2), tmp_path, fault=Flaky(round_2=2), engine=replace(LASTING, retries=2, pause=7.5))
    assert waited == [7.5, 7.5]


def test_a_site_that_is_ahead_is_restored(tmp_path: Path) -> None:
    fault = fails(("hillside", "gradient", 2), code="round")
    _, federation = toy_run(study_of(3), tmp_path, fault=fault, engine=LASTING)
    restored = [asked for asked in federation.asked if asked[0] == "restore"]
    assert restored == [("restore", 0, NAMES), ("restore", 2, ("hillside",))]


def test_a_site_that_could_not_be_restored_at_the_start_is_restored_later(tmp_path: Path) -> None:
    federation = Unreachable(study := study_of(5), tmp_path)
    with pytest.raises(Lost):
        LosesRound(study, federation, RunFolder(tmp_path), engine=LASTING, watcher=Onlooker()).run()
    federation.unreachable = "hillside"  # for the one question in which everybody is put back
    onlooker = Onlooker()
    StudyRun(study, federation, RunFolder(tmp_path), engine=LASTING, watcher=onlooker).run()
    assert onlooker.started == [2]
    absent = {record.number: [(gone.site, gone.code) for gone in record.absent] for record in onlooker.rounds}
    assert absent == {3: [("hillside", "round")], 4: [], 5: []}


class LosesRound(StudyRun):
    """The third round is done at the sites and is never written at the coordinator."""

    def _checkpoint(self) -> None:
        if self.coordinator.number == 3:
            raise Lost
        super()._checkpoint()


class Unreachable(InProcessFederation):
    """Real sites that write their state before they answer; one of them misses one question to restore."""

    def __init__(self, study: Study, path: Path) -> None:
        self.unreachable = ""

        def opened(name: SiteId) -> RequestHandler:
            folder = RunFolder(path).site(name)
            notes = load_notes(name, study.sites[name], seed=7)
            site = open_site(study, name, notes, folder=folder, device=CPU, durable=True)
            return with_ledger(study, site, folder, durable=False)

        super().__init__(tuple(study.sites), opened)

    def ask(self, step: str, message: Message, *, to: Any = None) -> Any:
        if step == "restore" and self.unreachable:
            to, self.unreachable = [site for site in self.sites if site != self.unreachable], ""
        return super().ask(step, message, to=to)


@pytest.mark.parametrize(
    "answer",
    [
        {"strict": {"Drug": [1, 2]}, "relaxed": {}},
        {"strict": {"Drug": [1, 2, -3]}, "relaxed": {}},
        {"strict": {"Drug": [1, 2, True]}, "relaxed": {}},
        {"strict": {"Drug": "123"}, "relaxed": {}},
        {"strict": {}, "relaxed": 3},
        {"strict": {}},
    ],
)
def test_invalid_counts_are_an_absence(tmp_path: Path, answer: dict[str, Any]) -> None:
    class Odd(ToyFederation):
        def _answer(self, step: str, message: Message) -> Message:
            return Message(answer) if step == "score" else super()._answer(step, message)

    onlooker = Onlooker()
    StudyRun(study_of(1), Odd(NAMES), RunFolder(tmp_path), engine=EACH_ROUND, watcher=onlooker).run()
    assert onlooker.scores == [(1, {})]
    assert [(event["step"], event["site"]) for event in events_of(tmp_path, "absent")] == [
        ("score", "harbour"),
        ("score", "hillside"),
    ]


@pytest.mark.parametrize("interval", [[0.5], [0.5, 1.5], [0, 1], [0.1, 0.2, 0.3]])
def test_an_invalid_interval_is_an_absence(tmp_path: Path, interval: list[Any]) -> None:
    class Odd(ToyFederation):
        def _answer(self, step: str, message: Message) -> Message:
            answer = super()._answer(step, message)
            return Message({**answer.values, "interval": interval}) if step == "finish" else answer

    with pytest.raises(FederationError, match="too few sites scored"):
        StudyRun(study_of(1), Odd(NAMES), RunFolder(tmp_path), engine=EACH_ROUND, watcher=Onlooker()).run()


def test_a_complete_model_is_written_if_every_layer_is_shared(tmp_path: Path) -> None:
    study = tiny(model={"shared": ["all"]}, algorithm={"rounds": 1}, sites=ONE_TOP)
    outcome, _ = toy_run(study, tmp_path)
    model = load_model(RunFolder(tmp_path).model)
    assert model.tag_set.types == ("Drug",)
    weights = {name: tensor.detach().numpy() for name, tensor in model.named_parameters() if name in outcome.shared}
    assert {name: array.tobytes() for name, array in outcome.shared.items()} == {
        name: tensor.tobytes() for name, tensor in weights.items()
    }
    (found,) = predict_mentions(model, [Document("n", "Took aspirin daily.")])
    assert found.text == "Took aspirin daily."


def test_only_the_shared_half_is_written_if_some_layers_are_private(tmp_path: Path) -> None:
    toy_run(study_of(1), tmp_path)
    assert (tmp_path / "shared.safetensors").is_file()
    assert not RunFolder(tmp_path).model.exists()


# Where only sites can open the sum, each has a copy of the shared half, and the copies must not part.

LOST_ONE = {"privacy": {"minimum_sites": 2}}


def protected_run(
    study: Study, path: Path, federation: Lasting, *, watcher: Onlooker | None = None, kind: type[StudyRun] = StudyRun
) -> StudyOutcome:
    engine = replace(LASTING, retries=2)
    watcher = watcher or Onlooker()
    run = kind(study, federation, RunFolder(path), engine=engine, watcher=watcher, party_keys=federation.protection)
    return run.run()


class Meddler(Onlooker):
    """Looks on, and from the end of one round to the end of the next somebody meddles."""

    def __init__(self, federation: Lasting, after: int, meddle: Meddle) -> None:
        super().__init__()
        self._federation, self._when, self._meddle = federation, after, meddle

    def on_start(self, number: int) -> None:
        super().on_start(number)
        self._federation.meddle = self._meddle if number == self._when else honest

    def on_round(self, record: Round) -> None:
        super().on_round(record)
        self._federation.meddle = self._meddle if record.number == self._when else honest


def absences(watcher: Onlooker) -> dict[int, list[tuple[str, str]]]:
    return {record.number: codes(record) for record in watcher.rounds if record.absent}


def caught_up(path: Path) -> list[tuple[int, list[str]]]:
    return [(event["round"], event["sites"]) for event in events_of(path, "caught_up")]


@pytest.mark.parametrize("kind", ["sealed", "sealed+masked"])
def test_a_site_that_missed_a_sum_catches_up_and_all_copies_are_equal(kind: str, tmp_path: Path) -> None:
    study = shielded(tmp_path / "data", kind, **(LOST_ONE if kind == "sealed" else with_south(tmp_path / "data")))
    federation = Lasting(study, tmp_path / "run")
    watcher = Meddler(federation, 2, without(("west", "open_sum")))
    outcome = protected_run(study, tmp_path / "run", federation, watcher=watcher)
    assert absences(watcher) == {3: [("west", "ConnectionError")], 4: [("west", "behind"), ("west", "behind")]}
    assert caught_up(tmp_path / "run") == [(4, ["west"])]
    assert len(copies(federation)) == 1
    assert outcome.sites.keys() == study.sites.keys()


def test_a_site_that_cannot_load_a_copy_stays_behind_until_it_can(tmp_path: Path) -> None:
    study = shielded(tmp_path / "data", "sealed", **LOST_ONE)
    federation = Lasting(study, tmp_path / "run")
    left = {"open_sum", "load_copy"}

    def gone_once(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if site == "west" and step in left:
            left.remove(step)
            raise ConnectionError
        return go(message)

    watcher = Onlooker()
    federation.meddle = gone_once
    protected_run(study, tmp_path / "run", federation, watcher=watcher)
    behind = [("west", "behind"), ("west", "behind")]
    assert absences(watcher) == {1: [("west", "ConnectionError")], 2: behind, 3: behind}
    assert caught_up(tmp_path / "run") == [(3, ["west"])]
    assert len(copies(federation)) == 1


def with_south(folder: Path) -> dict[str, Any]:
    """A fourth site: under masks three must be left."""
    for part, size in (("train", 12), ("dev", 4), ("test", 5)):
        Jsonl().write(notes(size, seed=30 + size), folder / "south" / f"{part}.jsonl")
    return {"sites": {"south": {"data": str(folder / "south"), "format": "jsonl", "types": ["ADE"], "scheme": "BIO"}}}


def test_a_site_whose_submission_was_lost_continues_with_the_next_round(tmp_path: Path) -> None:
    """It gave, and refuses a sum that leaves out what it gave; with another's copy it is as the others are."""
    study = shielded(tmp_path / "data", "sealed", **LOST_ONE)
    federation = Lasting(study, tmp_path / "run")
    watcher = Meddler(federation, 2, changing("west", "submit", lambda message: Message()))
    protected_run(study, tmp_path / "run", federation, watcher=watcher)
    assert absences(watcher) == {3: [("west", "value-missing"), ("west", "sum")]}
    assert caught_up(tmp_path / "run") == [(3, ["west"])]
    assert len(copies(federation)) == 1


def test_a_copy_that_differs_is_replaced_by_that_of_the_majority(tmp_path: Path) -> None:
    study = shielded(tmp_path / "data", "sealed")
    federation = Lasting(study, tmp_path / "run")

    def twisted(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if (site, step) == ("west", "open_sum"):
            replica = federation.open("west").replica
            assert replica is not None
            next(iter(replica._server.shared.values())).view(-1)[0] += 1e-3
        return go(message)

    watcher = Meddler(federation, 2, twisted)
    protected_run(study, tmp_path / "run", federation, watcher=watcher)
    (diverged,) = events_of(tmp_path / "run", "diverged")
    assert (diverged["round"], diverged["sites"]) == (3, ["west"])
    assert caught_up(tmp_path / "run") == [(3, ["west"])]
    assert len(copies(federation)) == 1
    assert absences(watcher) == {}


@pytest.mark.parametrize("kind", ["masked", "sealed+masked"])
def test_a_round_that_failed_at_unmask_is_retried(kind: str, tmp_path: Path) -> None:
    study = shielded(tmp_path / "data", kind)
    federation = Lasting(study, tmp_path / "run")
    left = [True]

    def gone_once(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if left and (site, step) == ("west", "unmask"):
            left.clear()
            raise ConnectionError
        return go(message)

    watcher = Meddler(federation, 2, gone_once)
    protected_run(study, tmp_path / "run", federation, watcher=watcher)
    (failed,) = events_of(tmp_path / "run", "round_failed")
    assert failed["round"] == 3
    assert watcher.said == ["round 3 is retried: west left after it had submitted; the round's sum cannot be opened"]
    assert [record.number for record in watcher.rounds] == list(range(1, 9))
    redraws = {name: site.aggregation.record.redraws for name, site in federation.opened.items() if site.aggregation}
    assert redraws == {"east": 1, "west": 0, "north": 1}


@pytest.mark.parametrize("kind", ["sealed", "sealed+masked"])
def test_a_site_with_another_history_is_restored_and_loads_the_copy_of_the_others(kind: str, tmp_path: Path) -> None:
    """Round 3 was lost at the coordinator. The site that could not be put back then has a third round of its own."""
    study = shielded(tmp_path / "data", kind, **with_south(tmp_path / "data"))
    federation = Lasting(study, tmp_path / "run")
    with pytest.raises(Lost):
        protected_run(study, tmp_path / "run", federation, kind=LosesRound)
    own = federation.open("west").replica
    assert own is not None and own.number == 3
    former = own.shared_bytes()
    left = [True]

    def unreachable(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if left and (site, step) == ("west", "restore"):
            left.clear()
            raise ConnectionError
        return go(message)

    federation.meddle = unreachable
    watcher = Onlooker()
    protected_run(study, tmp_path / "run", federation, watcher=watcher)
    assert absences(watcher) == {3: [("west", "round"), ("west", "round")]}
    assert caught_up(tmp_path / "run") == [(3, ["west"])]
    assert events_of(tmp_path / "run", "diverged") == []
    assert len(copies(federation)) == 1
    assert former not in copies(federation)


@pytest.mark.parametrize("kind", ["sealed", "sealed+masked"])
def test_the_best_round_is_not_lost_with_the_coordinator(kind: str, tmp_path: Path) -> None:
    """Everything is shared, so that no site has reason to keep a model of its own; then all of them are put back."""
    tops = {name: {"types": ["Drug"], "scheme": "BIO"} for name in ("east", "west")}
    study = shielded(tmp_path / "data", kind, model={"shared": ["all"]}, sites=tops)
    federation = Lasting(study, tmp_path / "run")

    class NeverFinishes(StudyRun):
        def _finish(self) -> StudyOutcome:
            raise Lost

    with pytest.raises(Lost):
        protected_run(study, tmp_path / "run", federation, kind=NeverFinishes)
    for name in study.sites:
        federation.restart(name)
    outcome = protected_run(study, tmp_path / "run", federation)
    assert outcome.best_round > 0
    assert outcome.sites.keys() == study.sites.keys()
    assert events_of(tmp_path / "run", "absent") == []


def test_a_site_without_the_best_round_loads_it_from_another(tmp_path: Path) -> None:
    study = shielded(tmp_path / "data", "sealed", algorithm={"rounds": 2})
    federation = Lasting(study, tmp_path / "run")

    def forgetful(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if (site, step) == ("west", "score"):
            raise ConnectionError
        return go(message)

    federation.meddle = forgetful
    outcome = protected_run(study, tmp_path / "run", federation)
    assert outcome.sites.keys() == study.sites.keys()
    assert caught_up(tmp_path / "run") == [(2, ["west"])]
    asked = [(event["step"], event["code"]) for event in events_of(tmp_path / "run", "absent")]
    assert asked == [("score", "ConnectionError")] * 2 + [("finish", "behind")]


@pytest.mark.parametrize("kind", ["sealed", "sealed+masked"])
def test_the_last_round_is_kept_if_only_sites_have_the_shared_half(kind: str, tmp_path: Path) -> None:
    tops = {name: {"types": ["Drug"], "scheme": "BIO"} for name in ("east", "west")}
    study = shielded(
        tmp_path / "data",
        kind,
        model={"shared": ["all"]},
        sites=tops,
        algorithm={"rounds": 4},
        evaluation={"keep": "last"},
    )
    federation = Lasting(study, tmp_path / "run")
    outcome = protected_run(study, tmp_path / "run", federation)
    *before, last_mean = (event["mean_f1"] for event in events_of(tmp_path / "run", "scored"))
    assert max(before) >= last_mean  # by its scores another round were the best
    assert (outcome.best_round, outcome.rounds) == (4, 4)
    (last,) = copies(federation)
    for name in study.sites:
        site = federation.open(name)
        assert site.replica is not None
        found = b"".join(site.shared[part].detach().numpy().tobytes() for part in sorted(site.shared))
        assert found == last


def test_a_round_that_no_site_scored_is_kept_by_none_of_them(tmp_path: Path) -> None:
    study = shielded(tmp_path / "data", "sealed", algorithm={"rounds": 2}, evaluation={"keep": "last"})
    federation = Lasting(study, tmp_path / "run")

    def nobody_scores_the_last(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if step == "score" and message.value("round", int) == 2:
            raise ConnectionError
        return go(message)

    federation.meddle = nobody_scores_the_last
    assert protected_run(study, tmp_path / "run", federation).best_round == 1


def test_a_run_folder_of_version_0_1_is_resumed_under_the_new_names(tmp_path: Path) -> None:
    study = tiny(algorithm={"rounds": 2}, privacy={"value_bounds": {"words": 0.5}})
    (tmp_path / "study.toml").write_text(to_toml(study).replace("value_bounds", "clip"), encoding="utf-8")
    toy_run(study, tmp_path)  # no warning: the run wrote the old names itself
    assert (tmp_path / "study.toml").read_text(encoding="utf-8") == to_toml(study)
