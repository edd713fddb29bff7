from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.algorithms.hospitals import ALL_SHARED, CALM, NOTES, SHAKEN, Listening, site

from wardround.errors import MessageError
from wardround.evaluation.counts import SpanCounts
from wardround.federation.message import Array, Message, encode, grouped
from wardround.federation.site_runtime import RequestPolicy, Site, rates_in, score_message
from wardround.tasks.ner import NerTask, TaggedSentence
from wardround.text.tag_sets import TagSet
from wardround.training.training_config import Rates


def shared_of(hospital: Site) -> dict[str, Array]:
    return {name: parameter.detach().numpy().copy() for name, parameter in hospital.shared.items()}


def disturb(hospital: Site) -> None:
    """Change every part of a state."""
    for parameter in hospital.private.values():
        parameter.grad = torch.ones_like(parameter)
    hospital.private_optimizer.step(Rates(0.1, 0.1))
    hospital.next_batch(2)
    hospital.keep_if_best(0.25 + hospital.round)
    hospital.round += 1


def remembered(hospital: Site) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in hospital.state().items()}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def files(hospital: Site) -> list[str]:
    return sorted(path.name for path in hospital.folder.glob("*.safetensors"))


def test_an_unknown_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MessageError) as refused:
        site(tmp_path).answer("unmask", Message())
    assert refused.value.code == "step"


@pytest.mark.parametrize("wrong", ["no name", "a name too many", "another name", "another shape", "another kind"])
def test_a_shared_half_that_does_not_fit_is_refused_and_changes_nothing(tmp_path: Path, wrong: str) -> None:
    hospital = site(tmp_path)
    before = shared_of(hospital)
    arrays = {name: array + 1 for name, array in before.items()}
    name, array = next(iter(arrays.items()))
    if wrong != "a name too many":
        del arrays[name]
    arrays |= {
        "no name": {},
        "a name too many": {"crf.transitions": array},
        "another name": {"words": array},
        "another shape": {name: array[1:]},
        "another kind": {name: array.astype(np.float64)},
    }[wrong]
    for step in ("gradient", "score", "finish"):
        values = {"round": 1, "rate": 0.1, "output_rate": 0.1, "decay": 0.0, "clip": 5.0, "batch_size": 2}
        values["sizes"] = {hospital.name: len(hospital.notes.train)}
        with pytest.raises(MessageError) as refused:
            hospital.answer(step, Message(values, grouped("shared", arrays)))
        assert refused.value.code == "shapes"
    assert all(np.array_equal(before[name], array) for name, array in shared_of(hospital).items())


def test_an_epoch_holds_every_sentence_once_and_the_next_is_in_another_order(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    count = len(hospital.notes.train)
    assert count == 18  # three sentences a note
    epochs = [[sentence for _ in range(4) for sentence in hospital.next_batch(5)] for _ in range(2)]
    for epoch in epochs:
        assert sorted(s.words for s in epoch) == sorted(s.words for s in hospital.notes.train)
    assert epochs[0] != epochs[1]
    assert hospital.batches_drawn == 8


def test_batches_depend_on_the_name_of_the_site(tmp_path: Path) -> None:
    one, other, again = (site(tmp_path / str(n), name) for n, name in enumerate(("harbour", "hill", "harbour")))
    drawn = [[hospital.next_batch(3) for _ in range(6)] for hospital in (one, other, again)]
    assert drawn[0] == drawn[2] != drawn[1]


def test_dropout_depends_only_on_seed_site_and_round(tmp_path: Path) -> None:
    def mask(hospital: Site, number: int) -> list[float]:
        with hospital.randomness(number):
            return torch.nn.functional.dropout(torch.ones(64)).tolist()

    one, other = site(tmp_path, config=SHAKEN), site(tmp_path, "hill", config=SHAKEN)
    expected = mask(one, 3)
    again = site(tmp_path)
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    assert mask(again, 3) == expected  # whatever was drawn before
    assert torch.equal(torch.random.get_rng_state(), before)  # and nothing after it is disturbed
    assert mask(one, 4) != expected
    assert mask(other, 3) != expected
    other.name, other.seed = "harbour", 8
    assert mask(other, 3) != expected


def test_a_closed_site_is_opened_again_as_it_was(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    fresh = remembered(hospital)
    disturb(hospital)
    expected = remembered(hospital)
    hospital.close()
    again = site(tmp_path, model_seed=5)
    assert same(remembered(again), expected)
    assert not same(fresh, expected)
    assert again.next_batch(2) == hospital.next_batch(2)


def test_a_site_opened_after_a_crash_continues_from_the_last_saved_round(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    hospital.close()
    disturb(hospital)
    hospital.save(1)
    expected = remembered(hospital)
    disturb(hospital)  # and the process dies: what was laid aside before round 1 must not come back
    assert files(hospital) == ["state-00000000.safetensors", "state-00000001.safetensors"]
    assert same(remembered(site(tmp_path)), expected)


def test_two_states_are_kept(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    for number in (1, 2, 10):
        hospital.save(number)
    assert files(hospital) == ["state-00000002.safetensors", "state-00000010.safetensors"]


def test_restore_goes_back_and_discards_what_came_after(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    disturb(hospital)
    hospital.save(1)
    expected = remembered(hospital)
    disturb(hospital)
    hospital.save(2)
    hospital.close()
    again = site(tmp_path)
    again.answer("restore", Message({"round": 1}))
    assert same(remembered(again), expected)
    assert files(hospital) == ["state-00000001.safetensors"]
    again.answer("restore", Message({"round": 7}))  # it missed what came since: the newest it has
    assert same(remembered(again), expected)
    with pytest.raises(MessageError) as refused:
        again.answer("restore", Message({"round": 0}))
    assert refused.value.code == "no-state"


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    (hospital.folder / "state-00000003.safetensors").write_bytes(b"half")
    with pytest.raises(MessageError) as refused:
        hospital.answer("restore", Message({"round": 3}))
    assert refused.value.code == "state"


def test_a_lasting_site_writes_its_state_before_it_answers(tmp_path: Path) -> None:
    hospital = site(tmp_path, durable=True)
    values = {"round": 4, "rate": 0.1, "output_rate": 0.1, "decay": 0.0, "clip": 5.0, "batch_size": 2}
    values |= {"sizes": {"harbour": 18}}
    hospital.answer("gradient", Message(values, grouped("shared", shared_of(hospital))))
    assert files(hospital) == ["state-00000000.safetensors", "state-00000004.safetensors"]
    again = site(tmp_path, model_seed=9)
    assert same(remembered(again), remembered(hospital))
    hospital.answer("score", Message({}, grouped("shared", shared_of(hospital))))
    assert same(remembered(site(tmp_path, model_seed=9)), remembered(hospital))


def test_the_state_of_another_model_is_refused(tmp_path: Path) -> None:
    site(tmp_path).close()
    with pytest.raises(MessageError) as refused:
        site(tmp_path, config=replace(CALM, word_cnn=12))
    assert refused.value.code == "state"


def test_a_site_ends_with_the_model_of_its_best_round(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    best = {name: parameter.detach().clone() for name, parameter in (hospital.private | hospital.shared).items()}
    hospital.keep_if_best(0.5)
    for parameter in hospital.private.values():
        parameter.grad = torch.ones_like(parameter)
    hospital.private_optimizer.step(Rates(0.1, 0.1))
    hospital.keep_if_best(0.4)
    later = {name: array + 1 for name, array in shared_of(hospital).items()}
    answer = hospital.answer("finish", Message({}, grouped("shared", later)))
    for name, parameter in (hospital.private | hospital.shared).items():
        assert torch.equal(parameter, best[name]), name
    low, high = answer.value("interval", list)
    assert 0 <= low <= high <= 1


def test_a_site_that_keeps_the_last_round_ends_with_it(tmp_path: Path) -> None:
    hospital = site(tmp_path, keeps_last=True)
    hospital.keep_if_best(0.5)
    for parameter in hospital.private.values():
        parameter.grad = torch.ones_like(parameter)
    hospital.private_optimizer.step(Rates(0.1, 0.1))
    last = {name: parameter.detach().clone() for name, parameter in hospital.private.items()}
    later = {name: array + 1 for name, array in shared_of(hospital).items()}
    hospital.answer("finish", Message({}, grouped("shared", later)))
    assert all(torch.equal(parameter, last[name]) for name, parameter in hospital.private.items())
    assert all(np.array_equal(array, later[name]) for name, array in shared_of(hospital).items())
    assert not [name for name in hospital.state() if name.startswith("kept/")]


def test_only_test_notes_are_scored_on_all_their_annotated_types(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    assert isinstance(hospital.task, NerTask)
    hospital.task.types = TagSet(("Drug",))
    question = Message({}, grouped("shared", shared_of(hospital)))
    hospital.task.scored = TagSet(("ADE", "Drug"))
    # Two notes, each with a drug and what it did; what is found is found of both, wherever they are scored.
    tested = hospital.answer("finish", question).value("strict", dict)
    assert {kind: tp + fn for kind, (tp, _, fn) in tested.items()} == {"ADE": 2, "Drug": 2}
    assert hospital.answer("score", question).value("strict", dict) == {"Drug": tested["Drug"]}
    hospital.notes = replace(hospital.notes, test=())
    assert hospital.answer("finish", question).value("strict", dict) == {"Drug": tested["Drug"]}


def test_a_site_without_a_private_half_ends_with_the_studys_model(tmp_path: Path) -> None:
    hospital = site(tmp_path, config=ALL_SHARED)
    hospital.keep_if_best(0.5)
    later = {name: array + 1 for name, array in shared_of(hospital).items()}
    hospital.answer("finish", Message({}, grouped("shared", later)))
    assert all(np.array_equal(array, later[name]) for name, array in shared_of(hospital).items())


def test_a_failed_step_leaves_the_site_unchanged(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    before = remembered(hospital)
    with pytest.raises(ZeroDivisionError), hospital.all_or_nothing():
        disturb(hospital)
        raise ZeroDivisionError
    assert same(remembered(hospital), before)


def test_description_and_scores_are_counts_and_nothing_else(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    assert hospital.answer("describe", Message()).values == {"examples": 18, "documents": 2}
    answer = hospital.answer("score", Message({}, grouped("shared", shared_of(hospital))))
    assert not answer.arrays and not answer.blobs
    assert answer.values.keys() == {"documents", "strict", "relaxed", "interval"}
    assert answer.values["documents"] == 2
    score = hospital.task.score(NOTES[:2])
    assert score_message(score) == answer
    counts = score.main["Drug"]
    assert isinstance(counts, SpanCounts)
    assert counts.tp + counts.fn == 2  # a drug a note
    encode(answer)  # fits a message


def test_closing_and_reopening_sites_loses_no_state(tmp_path: Path) -> None:
    names = [f"h{number}" for number in range(5)]
    federation = Listening(names, lambda name: site(tmp_path, name), open_at_once=1)
    for turn in range(3):
        for name in names:
            list(federation.ask("describe", Message(), to=[name]))
            assert federation.opened[name].round == turn
            disturb(federation.opened[name])


@pytest.mark.parametrize("wrong", [{"round": 999}, {"batch_size": 1}, {"rate": 0.2}, {"clip": 0.0}])
def test_a_request_outside_the_policy_is_refused_and_nothing_is_trained(
    tmp_path: Path, wrong: dict[str, float]
) -> None:
    hospital = site(tmp_path, request_policy=RequestPolicy(4, {"batch_size": 2, "clip": 5.0}, {"rate": 0.1}))
    values = {"round": 4, "rate": 0.1, "output_rate": 0.1, "decay": 0.0, "clip": 5.0, "batch_size": 2}
    values |= {"sizes": {"harbour": 18}}
    before, shared = remembered(hospital), shared_of(hospital)
    sent = grouped("shared", {name: array + 1 for name, array in shared.items()})
    with pytest.raises(MessageError) as refused:
        hospital.answer("gradient", Message({**values, **wrong}, sent))
    assert refused.value.code == "policy"
    assert same(remembered(hospital), before)
    assert all(np.array_equal(shared[name], array) for name, array in shared_of(hospital).items())
    assert "loss" in hospital.answer("gradient", Message(values, sent)).values


def test_no_step_goes_past_the_last_round(tmp_path: Path) -> None:
    hospital = site(tmp_path, request_policy=RequestPolicy(4))
    for step in ("score", "finish", "save", "restore"):
        with pytest.raises(MessageError) as refused:
            hospital.answer(step, Message({"round": 5}, grouped("shared", shared_of(hospital))))
        assert refused.value.code == "policy"
    assert files(hospital) == ["state-00000000.safetensors"]
    hospital.answer("save", Message({"round": 4}))


def places(batch: Sequence[TaggedSentence], hospital: Site) -> list[int]:
    """Return the indices of these sentences at the site."""
    known = {id(sentence): place for place, sentence in enumerate(hospital.notes.train)}
    return [known[id(sentence)] for sentence in batch]


def test_no_batch_is_smaller_than_the_smallest(tmp_path: Path) -> None:
    """18 sentences in batches of 5: three of 5, and one of 3 that is filled up to 4."""
    filled, plain = site(tmp_path / "filled"), site(tmp_path / "plain")
    drawn = [filled.next_batch(5, fewest=4) for _ in range(8)]
    usual = [plain.next_batch(5) for _ in range(8)]
    for start in (0, 4):
        mine, without = drawn[start : start + 4], usual[start : start + 4]
        assert sorted(map(len, mine)) == [4, 5, 5, 5]
        (short,) = [place for place, batch in enumerate(without) if len(batch) == 3]
        others = [sentence for place, batch in enumerate(without) if place != short for sentence in batch]
        expected = [[*batch, others[0]] if place == short else batch for place, batch in enumerate(without)]
        assert [places(batch, filled) for batch in mine] == [places(batch, plain) for batch in expected]


def test_an_update_uses_the_smallest_batch_or_all_sentences(tmp_path: Path) -> None:
    for smallest, fewest in ((4, 4), (18, 18), (100, 18)):
        hospital = site(tmp_path / str(smallest), request_policy=RequestPolicy(4, smallest_batch=smallest))
        assert hospital.fewest_sentences == fewest
    assert site(tmp_path / "free").fewest_sentences == 1


def test_with_a_smallest_batch_of_one_batches_are_as_without_a_policy(tmp_path: Path) -> None:
    bound, free = site(tmp_path / "bound", request_policy=RequestPolicy(4)), site(tmp_path / "free")
    assert [bound.next_batch(5) for _ in range(9)] == [free.next_batch(5) for _ in range(9)]


def test_learning_rates_survive_a_message() -> None:
    rates = Rates(0.1, 0.2, 0.3)
    assert rates_in(Message(rates.as_values())) == rates
