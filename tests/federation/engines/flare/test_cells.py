from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="install wardround[flare]")

from nvflare.fuel.f3.cellnet.defs import Encoding, MessageHeaderKey, MessagePropKey, ReturnCode
from nvflare.fuel.f3.comm_config import CommConfigurator
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.message import Message as CellMessage
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey

from wardround.errors import FederationError, MessageError
from wardround.federation.engines.flare import cells
from wardround.federation.engines.flare.cells import Connection, open_connection
from wardround.federation.engines.flare.requests import Envelope
from wardround.provisioning.kits import KitPlan, provision, read_kit


class FakeCell:
    """Replaces FLARE's cell: keeps the callbacks and returns a given reply."""

    def __init__(self, name: str = "server") -> None:
        self.name = name
        self.core_cell = self
        self.filter: Any = None
        self.callback: Any = None
        self.reply: Any = None
        self.sent: dict[str, Any] = {}

    def get_fqcn(self) -> str:
        return self.name

    def add_incoming_filter(self, *, channel: str, topic: str, cb: Any) -> None:
        assert (channel, topic) == ("*", "*")
        self.filter = cb

    def register_request_cb(self, *, channel: str, topic: str, cb: Any) -> None:
        self.callback = cb

    def send_request(self, **sent: Any) -> CellMessage:
        self.sent = sent
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


def line_over(cell: Any) -> Connection:
    return Connection(cell, ["h1", "h2"], largest=10)


def arriving(origin: str, *, peer: str | None = None, to: str = "server", **headers: Any) -> CellMessage:
    message = CellMessage({MessageHeaderKey.ORIGIN: origin, MessageHeaderKey.DESTINATION: to, **headers})
    message.set_prop(MessagePropKey.ENDPOINT, Endpoint(peer or origin))
    return message


def test_which_messages_a_cell_accepts() -> None:
    cell = FakeCell()
    line_over(cell)
    bytes_only = {MessageHeaderKey.PAYLOAD_ENCODING: Encoding.BYTES}
    assert cell.filter(arriving("h1")) is None
    assert cell.filter(arriving("h2", **bytes_only)) is None
    for refused in (
        arriving("h3"),
        arriving("h1", peer="h2"),  # one site in the name of another
        arriving("h1", to="h2"),  # past the coordinator
        arriving("h1", **{MessageHeaderKey.PAYLOAD_ENCODING: Encoding.FOBS}),
        arriving("h1", **{StreamHeaderKey.PAYLOAD_ENCODING: Encoding.FOBS}),
        CellMessage({MessageHeaderKey.ORIGIN: "h1", MessageHeaderKey.DESTINATION: "server"}),
        CellMessage({}),
    ):
        assert cell.filter(refused).get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.UNAUTHENTICATED


def returned(code: str, payload: Any = None, **headers: Any) -> CellMessage:
    return CellMessage({MessageHeaderKey.RETURN_CODE: code, **headers}, payload)


def test_an_envelope_survives_a_round_trip() -> None:
    cell = FakeCell()
    headers = {"wardround-header": b"head", "wardround-signature": b"sign"}
    cell.reply = returned(ReturnCode.OK, memoryview(b"body"), **headers)
    reply = line_over(cell).send("h1", "request", Envelope(b"a", b"b", b"c"), seconds=1.0)
    assert reply == Envelope(b"head", b"sign", b"body") and type(reply.body) is bytes
    sent = cell.sent["request"]
    assert (sent.headers["wardround-header"], sent.headers["wardround-signature"], sent.payload) == (b"a", b"b", b"c")
    assert (cell.sent["target"], cell.sent["topic"], cell.sent["timeout"]) == ("h1", "request", 1.0)
    for odd in ({}, {"wardround-header": "text"}, {"wardround-header": b"", "wardround-signature": 7}):
        cell.reply = returned(ReturnCode.OK, b"body", **odd)
        assert line_over(cell).send("h1", "ping", Envelope(b"", b""), seconds=1.0).header == b""


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (returned(ReturnCode.TIMEOUT), "transport"),  # long before its time
        (returned(ReturnCode.TARGET_UNREACHABLE), "unreachable"),
        (returned(ReturnCode.COMM_ERROR), "unreachable"),
        (returned(ReturnCode.MSG_TOO_BIG), "oversized"),
        (returned(ReturnCode.PROCESS_EXCEPTION), "transport"),
        (returned("anything"), "transport"),
        (CellMessage({}), "transport"),
        (RuntimeError("Mrs Marker"), "transport"),
    ],
)
def test_a_missing_reply_becomes_a_code(reply: Any, code: str, caplog: pytest.LogCaptureFixture) -> None:
    cell = FakeCell()
    cell.reply = reply
    with pytest.raises(MessageError) as caught:
        line_over(cell).send("h1", "request", Envelope(b"", b""), seconds=1.0)
    assert caught.value.code == code
    assert "Marker" not in caplog.text + str(caught.value)


def test_a_timeout_is_late_only_near_the_deadline() -> None:
    assert cells._code_of(ReturnCode.TIMEOUT, 2.0, 2.0) == "deadline"
    assert cells._code_of(ReturnCode.TIMEOUT, 1.0, 2.0) == "transport"


def test_an_oversized_message_is_not_sent() -> None:
    cell = FakeCell()
    with pytest.raises(MessageError, match=r"^oversized"):
        line_over(cell).send("h1", "request", Envelope(b"", b"", b"x" * 11), seconds=1.0)
    assert cell.sent == {}


def test_a_failing_answer_reveals_no_text(caplog: pytest.LogCaptureFixture) -> None:
    def answer(envelope: Envelope) -> Envelope:
        if envelope.body == b"fail":
            raise ValueError("Mrs Marker")
        return Envelope(envelope.header + b"!", b"s", envelope.body + b"?")

    cell = FakeCell()
    line_over(cell).answer_with("request", answer)
    reply = cell.callback(CellMessage({"wardround-header": b"h", "wardround-signature": b""}, b"b"))
    assert reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK
    assert (reply.headers["wardround-header"], reply.payload) == (b"h!", b"b?")
    reply = cell.callback(CellMessage({"wardround-header": b"", "wardround-signature": b""}, b"fail"))
    assert reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.PROCESS_EXCEPTION
    assert "Marker" not in caplog.text + str(reply.headers)
    assert "ValueError" in caplog.text


def test_a_port_in_use_is_reported_at_once(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        kits = provision(KitPlan("study", "localhost", port, ("h1",), days=2), b"", tmp_path / "kits")
        with pytest.raises(FederationError, match=f"^port {port} cannot be listened on"):
            open_connection(read_kit(kits["coordinator"]).party)


def test_the_configuration_of_flare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommConfigurator, "_configuration", None)
    monkeypatch.setattr(CommConfigurator, "_config_loaded", False)
    cells._configure(1234, parties=500)
    told = CommConfigurator()
    assert told.get_streaming_max_blob_size() == 1234
    assert told.allow_adhoc_connections(True) is False
    assert told.config["grpc"]["max_workers"] > 500
