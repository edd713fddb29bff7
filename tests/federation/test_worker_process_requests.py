from __future__ import annotations

import struct

import numpy as np
import pytest

from wardround.errors import LedgerError, MessageError
from wardround.federation.message import Message, decode, encode
from wardround.federation.worker_process import RequestHandler, decode_answer


class Worker:
    def __init__(self) -> None:
        self.asked: list[tuple[str, Message]] = []
        self.closed = 0

    def answer(self, step: str, message: Message) -> Message:
        self.asked.append((step, message))
        return Message({"step": step}, {name: array + 1 for name, array in message.arrays.items()})

    def close(self) -> None:
        self.closed += 1


def test_bytes_come_in_and_bytes_go_out() -> None:
    worker = Worker()
    question = Message({"round": 3}, {"w": np.array([1.0, 2.0])})
    answer = decode(RequestHandler(worker).answer_bytes("train", 3, encode(question)))
    assert answer.arrays["w"].tolist() == [2.0, 3.0]
    assert answer.values == {"step": "train"}
    assert worker.asked == [("train", question)]


def test_the_answer_is_what_the_recorder_returned() -> None:
    recorded: list[tuple[Message, str, int]] = []

    def send(answer: Message, step: str, round_number: int) -> bytes:
        recorded.append((answer, step, round_number))
        return b"as recorded"

    assert RequestHandler(Worker(), send).answer_bytes("train", 7, encode(Message())) == b"as recorded"
    [(answer, step, round_number)] = recorded
    assert (answer.values, step, round_number) == ({"step": "train"}, "train", 7)
    assert {name: len(blob) for name, blob in answer.blobs.items()} == {"worked": 8}  # on record as all that leaves


def test_an_answer_contains_the_sites_seconds_and_is_otherwise_unchanged() -> None:
    question = Message({"round": 3}, {"w": np.array([1.0, 2.0])})
    answer, seconds = decode_answer(RequestHandler(Worker()).answer_bytes("train", 3, encode(question)))
    assert answer == Message({"step": "train"}, {"w": np.array([2.0, 3.0])})
    assert seconds > 0


def test_an_answer_without_seconds_counts_no_work() -> None:
    assert decode_answer(encode(Message({"a": 1}))) == (Message({"a": 1}), 0.0)


@pytest.mark.parametrize("told", [b"", b"1234567", struct.pack("<d", -1.0), struct.pack("<d", float("inf"))])
def test_invalid_seconds_are_refused(told: bytes) -> None:
    with pytest.raises(MessageError) as refused:
        decode_answer(encode(Message({}, {}, {"worked": told})))
    assert refused.value.code == "value"


def test_an_answer_that_cannot_be_recorded_is_not_sent() -> None:
    def send(answer: Message, step: str, round_number: int) -> bytes:
        raise LedgerError("the disk is full")

    worker = Worker()
    with pytest.raises(LedgerError):
        RequestHandler(worker, send).answer_bytes("train", 1, encode(Message()))
    assert len(worker.asked) == 1


class Refusing(Worker):
    """A worker that raises a given error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def answer(self, step: str, message: Message) -> Message:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MessageError("sum", "Mrs Marker"), "sum"),
        (ValueError("Mrs Marker"), "ValueError"),
        (MessageError("Mrs Marker", "Mrs Marker"), "unknown"),  # text of a site is no code
    ],
)
def test_a_refusal_is_recorded_by_its_code_and_nothing_is_sent(error: Exception, code: str) -> None:
    refused: list[tuple[str, str, int]] = []

    def send(answer: Message, step: str, round_number: int) -> bytes:
        raise AssertionError("nothing is sent")

    door = RequestHandler(Refusing(error), send, lambda *said: refused.append(said))
    with pytest.raises(type(error)) as raised:
        door.answer_bytes("open_sum", 4, encode(Message()))
    assert raised.value is error
    assert refused == [(code, "open_sum", 4)]


def test_bytes_that_are_not_a_message_are_a_refusal_too() -> None:
    refused: list[tuple[str, str, int]] = []
    with pytest.raises(MessageError):
        RequestHandler(Worker(), None, lambda *said: refused.append(said)).answer_bytes("train", 1, b"no message")
    assert refused == [("mark", "train", 1)]


def test_a_refusal_that_cannot_be_recorded_is_an_error_of_the_record() -> None:
    def refuse(code: str, step: str, round_number: int) -> None:
        raise LedgerError("the disk is full")

    with pytest.raises(LedgerError):
        RequestHandler(Refusing(MessageError("sum")), None, refuse).answer_bytes("open_sum", 1, encode(Message()))


def test_an_answered_request_is_not_recorded_as_a_refusal() -> None:
    refused: list[tuple[str, str, int]] = []
    RequestHandler(Worker(), None, lambda *said: refused.append(said)).answer_bytes("train", 1, encode(Message()))
    assert refused == []


def test_bytes_that_are_not_a_message_do_not_reach_the_worker() -> None:
    worker = Worker()
    with pytest.raises(MessageError):
        RequestHandler(worker).answer_bytes("train", 1, b"no message")
    assert worker.asked == []


def test_closing_closes_the_worker() -> None:
    worker = Worker()
    RequestHandler(worker).close()
    assert worker.closed == 1
