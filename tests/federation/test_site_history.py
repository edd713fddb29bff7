from __future__ import annotations

import stat
from pathlib import Path

import pytest

from wardround.errors import MessageError
from wardround.federation.site_history import MOST_REFUSED_SUMS, Draw, SiteHistory, most_repeats


def code(call: object, *arguments: object, **named: object) -> str:
    with pytest.raises(MessageError) as refused:
        call(*arguments, **named)  # type: ignore[operator]
    return refused.value.code


def trained(history: SiteHistory, number: int, question: str, *, after: int | None = None, rounds: int = 0) -> int:
    """Return the draw of the site; by default from the state of the previous round."""
    redraw = history.draw_index(number, question, after=number - 1 if after is None else after, rounds=rounds)
    history.note_round(number, Draw(question, redraw))
    return redraw


def test_rounds_in_their_order_are_drawn_once(tmp_path: Path) -> None:
    history = SiteHistory(tmp_path)
    assert [trained(history, number, f"question {number}") for number in (1, 2, 5)] == [0, 0, 0]  # absent from 3 and 4


def test_a_later_round_from_an_old_state_draws_other_sentences_too(tmp_path: Path) -> None:
    """The next sentences depend on the state, not on the number of the round."""
    history = SiteHistory(tmp_path)
    for number in (1, 2, 3):
        trained(history, number, f"question {number}")
    assert trained(history, 9, "skips ahead", after=1) == 1
    assert trained(history, 10, "goes on", after=9) == 1


def test_another_question_for_a_trained_round_draws_other_sentences(tmp_path: Path) -> None:
    history = SiteHistory(tmp_path)
    trained(history, 1, "a")
    trained(history, 2, "b")
    assert trained(history, 2, "c") == 1
    assert trained(history, 2, "c") == 1  # the same question again
    assert trained(history, 2, "b") == 2  # which was answered before, but not last
    assert trained(history, 1, "a") == 0
    assert trained(history, 1, "d") == 3
    assert trained(history, 3, "e") == 3  # later rounds go on from the last draw
    # A round that was left out is below one that was trained: from an old state it could be the same sentences.
    assert trained(SiteHistory(tmp_path), 3, "f", after=2) == 4


def test_the_history_is_restored_from_its_file(tmp_path: Path) -> None:
    history = SiteHistory(tmp_path, durable=True)
    trained(history, 1, "a")
    trained(history, 1, "b")
    history.note_opened("n1")
    history.note_refused(7)
    history.check_sizes({"east": 3})
    again = SiteHistory(tmp_path)
    assert again.draw_index(1, "b", after=0, rounds=0) == 1
    assert again.draw_index(1, "a", after=0, rounds=0) == 2
    assert code(again.check_sum, "n1", 1) == "replay"
    assert code(again.check_sizes, {"east": 4}) == "sizes"
    again.check_sum("n2", 7)
    assert stat.S_IMODE((tmp_path / "history.jsonl").stat().st_mode) == 0o600


def test_lookups_are_not_recorded(tmp_path: Path) -> None:
    history = SiteHistory(tmp_path)
    trained(history, 1, "a")
    assert history.draw_index(1, "b", after=0, rounds=0) == 1
    assert history.draw_index(1, "c", after=0, rounds=0) == 1
    assert history.draw_index(1, "a", after=0, rounds=0) == 0


def test_the_number_of_repeats_is_limited_by_the_length_of_the_study(tmp_path: Path) -> None:
    assert (most_repeats(0), most_repeats(9), most_repeats(400)) == (16, 16, 56)
    history = SiteHistory(tmp_path)
    trained(history, 1, "first")
    for number in range(17):
        trained(history, 1, f"again {number}", rounds=10)
    assert code(history.draw_index, 1, "once more", after=0, rounds=10) == "repeats"
    assert trained(history, 2, "a new round", rounds=10) == 17


def test_refused_sums_end_the_use_of_one_key_only(tmp_path: Path) -> None:
    history = SiteHistory(tmp_path)
    for _ in range(MOST_REFUSED_SUMS - 1):
        history.note_refused(1)
    history.check_key(1)
    history.note_refused(1)
    assert code(history.check_key, 1) == "rotate"
    assert code(history.check_sum, "n", 1) == "rotate"
    history.check_key(2)


def test_sizes_stay_as_they_were_announced_and_more_may_come(tmp_path: Path) -> None:
    history = SiteHistory(tmp_path)
    history.check_sizes({"east": 3, "west": 4})
    history.check_sizes({"west": 4, "north": 5})
    for sizes in ({"east": 4}, {"east": 3, "north": 6}):
        assert code(history.check_sizes, sizes) == "sizes"


def test_scorings_and_learned_clips_are_limited(tmp_path: Path) -> None:
    history = SiteHistory(tmp_path)
    for _ in range(16 + 2 * 5):
        history.count_scoring(rounds=5)
    assert code(history.count_scoring, rounds=5) == "repeats"
    history.count_scoring(rounds=6)
    for _ in range(17):
        history.count_learning(rounds=10)
    assert code(history.count_learning, rounds=10) == "repeats"


def test_clip_changes_are_limited_even_if_the_state_is_restored(tmp_path: Path) -> None:
    history = SiteHistory(tmp_path)
    for number in range(16):
        history.check_clips({"layer": float(number + 1)}, rounds=0)
        history.check_clips({"layer": float(number + 1)}, rounds=0)  # the same ones again
    assert code(SiteHistory(tmp_path).check_clips, {"layer": 99.0}, rounds=0) == "repeats"
    SiteHistory(tmp_path).check_clips({"layer": 16.0}, rounds=0)


def test_a_line_that_a_power_cut_left_incomplete_is_removed(tmp_path: Path) -> None:
    SiteHistory(tmp_path).note_opened("n1")
    path = tmp_path / "history.jsonl"
    with path.open("ab") as stream:
        stream.write(b'{"opened": "n2')
    history = SiteHistory(tmp_path)
    history.check_sum("n2", 1)
    history.note_opened("n3")
    assert code(SiteHistory(tmp_path).check_sum, "n3", 1) == "replay"


@pytest.mark.parametrize("line", ["{", "[]", '{"round": 1}', '{"refused": "x"}', "7"])
def test_a_damaged_record_is_refused(line: str, tmp_path: Path) -> None:
    """A site without its record would repeat what it did."""
    (tmp_path / "history.jsonl").write_text(line + "\n")
    assert code(SiteHistory, tmp_path) == "state"
