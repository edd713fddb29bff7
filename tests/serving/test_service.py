from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.models.tiny import notes
from tests.serving.conftest import Client

import wardround
from wardround.api.served_model import open_service
from wardround.errors import UsageError
from wardround.serving.access import ServiceAccess
from wardround.serving.limits import Limits
from wardround.serving.service import app_of, can_redact
from wardround.text.document import Document, Entity

TOKEN = "t" * 40
SECRET = "Zebedee Quux of 12 Privet Drive"
LONG = "word " * 200  # read by the model's own thread
TEXTS = [note.text for note in notes(24, seed=9)]


def entities(answer: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(entity["type"], entity["start"], entity["end"]) for entity in answer["entities"]]


def expected(found: Document) -> list[tuple[str, int, int]]:
    return [(entity.type, entity.start, entity.end) for entity in found.entities]


class Spy:
    """A model that can be held, can fail, and notes what it reads at once."""

    def __init__(self, inner: wardround.Model, fails: str = "") -> None:
        self.predictor: Any = inner.predictor
        self.card, self.types, self.is_calibrated = inner.card, inner.types, False
        self.free, self.fails, self.batches = threading.Event(), fails, list[int]()
        self.free.set()

    def pipe(self, texts: Iterable[str | Document], *, batch_size: int = 64) -> Iterator[Document]:
        documents = [text for text in texts if isinstance(text, Document)]
        self.batches.append(len(documents))
        assert self.free.wait(20)
        for document in documents:
            if self.fails and self.fails in document.text:
                raise ValueError(f"cannot read {document.text}")
            yield document.with_entities([Entity("T1", "Drug", ((0, 1),))] if document.text else [])


def test_a_prediction_is_that_of_the_model(client: Client, model: wardround.Model) -> None:
    answer = client().post("/v1/predict", json={"text": TEXTS[0], "id": "n7"}).json()
    found = model(TEXTS[0])
    assert answer["id"] == "n7"
    assert entities(answer) == expected(found) != []
    assert [entity["score"] for entity in answer["entities"]] == pytest.approx([e.score for e in found.entities])
    assert [entity["text"] for entity in answer["entities"]] == [e.text_in(TEXTS[0]) for e in found.entities]


def test_a_batch_is_answered_in_order_with_an_id_each(client: Client, model: wardround.Model) -> None:
    sent = [{"text": TEXTS[0]}, {"text": ""}, {"text": TEXTS[1], "id": "second"}]
    answer = client().post("/v1/batch", json={"documents": sent}).json()["documents"]
    assert [one["id"] for one in answer] == ["1", "2", "second"]
    assert [entities(one) for one in answer] == [expected(model(one["text"])) for one in sent]


def test_concurrent_requests_get_the_answers_of_the_model_alone(client: Client, model: wardround.Model) -> None:
    opened = client()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: opened.post("/v1/predict", json={"text": text}).json(), TEXTS * 2))
    for text, answer in zip(TEXTS * 2, answers, strict=True):
        assert entities(answer) == expected(model(text))
        scores = [entity.score for entity in model(text).entities]
        assert [entity["score"] for entity in answer["entities"]] == pytest.approx(scores, abs=1e-5)


def test_texts_that_wait_are_read_together(client: Client, model: wardround.Model) -> None:
    spy = Spy(model)
    opened = client(spy)
    spy.free.clear()
    spy.batches.clear()
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(opened.post, "/v1/predict", json={"text": LONG})
        while not spy.batches:
            pass
        others = [pool.submit(opened.post, "/v1/predict", json={"text": f"text {n}"}) for n in range(5)]
        waiting = ""
        while "wardround_waiting_texts 5.0" not in waiting:
            waiting = opened.get("/metrics").text
        spy.free.set()
        assert [answer.result().status_code for answer in (first, *others)] == [200] * 6
    assert spy.batches == [1, 5]


def test_a_text_that_the_model_cannot_read_fails_alone(
    client: Client, model: wardround.Model, caplog: pytest.LogCaptureFixture
) -> None:
    spy = Spy(model, fails=SECRET)
    opened = client(spy)
    spy.free.clear()
    with caplog.at_level(logging.DEBUG), ThreadPoolExecutor(3) as pool:
        sent = [pool.submit(opened.post, "/v1/predict", json={"text": text}) for text in (LONG, SECRET, "fine")]
        spy.free.set()
        answers = [answer.result() for answer in sent]
    assert [answer.status_code for answer in answers] == [200, 500, 200]
    assert answers[1].json()["error"]["code"] == "internal"
    assert "a request failed with ValueError" in caplog.text
    assert SECRET not in caplog.text + answers[1].text


def test_no_text_token_or_path_reaches_a_log_or_an_error(
    client: Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = client(access=ServiceAccess(token=TOKEN))
    headers = {"authorization": f"Bearer {TOKEN}"}
    wrong = {"authorization": f"Bearer {SECRET.replace(' ', '-')}"}
    with caplog.at_level(logging.DEBUG):
        answers = [
            opened.post("/v1/predict", json={"text": SECRET, SECRET: 1}, headers=headers),
            opened.post("/v1/predict", json={"text": [SECRET]}, headers=headers),
            opened.post("/v1/predict", json={"text": "x", "id": SECRET * 20}, headers=headers),
            opened.post("/v1/predict", json=[SECRET], headers=headers),
            opened.post("/v1/redact", json={"text": SECRET}, headers=headers),
            opened.post("/v1/predict", content=SECRET, headers=headers | {"content-type": "application/json"}),
            opened.get(f"/v1/{SECRET}", headers=headers),
            opened.get("/v1/predict", headers=headers),
            opened.post("/v1/predict", json={"text": SECRET}, headers=wrong),
        ]
        metrics = opened.get("/metrics", headers=headers).text
    assert [answer.status_code for answer in answers] == [422, 422, 422, 422, 404, 400, 404, 405, 401]
    printed = capfd.readouterr()
    logged = "".join(r.getMessage() for r in caplog.records if r.name.startswith(("wardround", "uvicorn", "starlette")))
    for text in (*(answer.text for answer in answers), metrics, logged, printed.out, printed.err):
        assert "Zebedee" not in text
        assert "Privet" not in text
        assert TOKEN not in text
        assert "/" not in text or text == metrics


def test_without_the_token_only_what_says_nothing_is_open(client: Client) -> None:
    opened = client(access=ServiceAccess(token=TOKEN))
    for path in ("/", "/page.js", "/page.css", "/icon.svg", "/health", "/ready", "/openapi.json"):
        assert opened.get(path).status_code == 200, path
    for path in ("/v1/model", "/metrics", "/nothing"):
        assert opened.get(path).status_code == 401, path
    for header in ("", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", "Bearer é"):
        answer = opened.get("/v1/model", headers={"authorization": header.encode()})
        assert answer.status_code == 401, header
        assert answer.headers["www-authenticate"] == "Bearer"
    assert opened.get("/v1/model", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    ("limits", "body", "status", "code"),
    [
        (Limits(text_characters=5), {"text": "123456"}, 422, "text_too_long"),
        (Limits(body_bytes=20), {"text": "1234567890"}, 413, "too_large"),
        (Limits(), {"text": "\ud800"}, 422, "invalid"),
        (Limits(), {}, 422, "invalid"),
        (Limits(), {"text": None}, 422, "invalid"),
        (Limits(), {"text": "x", "id": ""}, 422, "invalid"),
        (Limits(), {"text": "x", "more": 1}, 422, "invalid"),
    ],
)
def test_a_body_beyond_a_limit_is_refused(
    client: Client, limits: Limits, body: dict[str, Any], status: int, code: str
) -> None:
    opened = client(limits=limits)
    sent = {"content": json.dumps(body), "headers": {"content-type": "application/json"}}
    answer = opened.post("/v1/predict", **sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_body_of_unknown_length_is_cut_off_at_the_limit(client: Client) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"text": "'
        for _ in range(50):
            yield b"x" * 10
        yield b'"}'

    opened = client(limits=Limits(body_bytes=100))
    answer = opened.post("/v1/predict", content=pieces(), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_too_many_documents_and_too_many_waiting_texts_are_refused(client: Client) -> None:
    opened = client(limits=Limits(documents=2, waiting=1))
    refused = opened.post("/v1/batch", json={"documents": [{"text": "x"}] * 3})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "too_many_documents")
    busy = opened.post("/v1/batch", json={"documents": [{"text": "x"}] * 2})
    assert (busy.status_code, busy.json()["error"]["code"], busy.headers["retry-after"]) == (503, "busy", "1")
    assert opened.post("/v1/predict", json={"text": "x"}).status_code == 200


def test_too_many_requests_are_refused_with_the_time_to_wait(client: Client) -> None:
    opened = client(limits=Limits(rate=3))
    statuses = [opened.get("/health").status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    assert opened.get("/health").headers["retry-after"] in ("20", "21")  # one of three per minute


def test_a_slow_answer_is_given_up(client: Client, model: wardround.Model) -> None:
    spy = Spy(model)
    opened = client(spy, limits=Limits(answer_seconds=0.05))
    spy.free.clear()
    answer = opened.post("/v1/predict", json={"text": LONG})
    spy.free.set()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_slow")


def test_a_slow_body_is_given_up(model: wardround.Model) -> None:
    sent = list[dict[str, Any]]()

    async def never() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/predict",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "query_string": b"",
    }
    asyncio.run(app_of(model, limits=Limits(body_seconds=0.05))(scope, never, send))
    assert sent[0]["status"] == 408


def test_other_hosts_origins_and_forms_are_refused(client: Client) -> None:
    opened = client()
    body = {"json": {"text": "x"}}
    foreign = opened.post("/v1/predict", **body, headers={"host": "evil.example"})
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (421, "wrong_host")
    for origin in ("https://evil.example", "null", "http://localhost:9999"):
        assert opened.post("/v1/predict", **body, headers={"origin": origin}).status_code == 403
    assert opened.post("/v1/predict", **body, headers={"origin": "http://localhost:8810"}).status_code == 200
    form = opened.post("/v1/predict", content='{"text": "x"}', headers={"content-type": "text/plain"})
    assert form.status_code == 415


def test_every_answer_forbids_other_hosts_and_caches(client: Client) -> None:
    for path in ("/", "/health", "/nothing"):
        headers = client().get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_the_card_says_what_the_model_is_and_no_more(client: Client, model: wardround.Model) -> None:
    assert client().get("/v1/model").json() == {
        "kind": "word-tagger",
        "types": ["ADE", "Drug"],
        "scheme": "BIO",
        "finds_relations": False,
        "scores_are_calibrated": model.is_calibrated,
        "can_redact": False,
        "version": wardround.__version__,
    }


def test_a_service_is_ready_while_it_runs(client: Client) -> None:
    opened = client(inside=False)
    assert opened.get("/health").json() == {"status": "ok"}
    assert opened.get("/ready").status_code == 503
    with opened:
        assert opened.get("/ready").json() == {"ready": True}
    assert opened.get("/ready").status_code == 503


def test_metrics_count_operations_and_never_paths(client: Client) -> None:
    opened = client()
    opened.post("/v1/predict", json={"text": "abcde"})
    opened.get("/secret-path")
    page = opened.get("/metrics").text
    assert 'wardround_requests_total{operation="predict",status="200"} 1.0' in page
    assert 'wardround_requests_total{operation="other",status="404"} 1.0' in page
    assert "wardround_characters_total 5.0" in page
    assert "secret-path" not in page


def test_redaction_is_that_of_the_library(phi_model: wardround.Model, client: Client) -> None:
    app = open_service(phi_model)
    from starlette.testclient import TestClient

    text = "Seen on 12/03/2024, call 555-867-5309."
    with TestClient(app, base_url="http://localhost") as opened:
        for how in ("mask", "block", "tag"):
            answer = opened.post("/v1/redact", json={"text": text, "how": how, "id": "n1"}).json()
            right = wardround.redact(text, model=phi_model, how=how)
            assert (answer["id"], answer["text"]) == ("n1", right.text)
            assert [(m["start"], m["end"], m["type"]) for m in answer["marks"]] == [
                (entity.start, entity.end, entity.type) for entity in right.entities
            ]
        assert opened.get("/v1/model").json()["can_redact"] is True
        assert opened.post("/v1/redact", json={"text": text, "how": "shred"}).status_code == 422


def test_surrogates_agree_for_one_patient_only(phi_model: wardround.Model) -> None:
    from starlette.testclient import TestClient

    def shifted(opened: TestClient, **fields: str) -> str:
        body = {"text": "Seen on 12/03/2024.", "how": "surrogate", **fields}
        return str(opened.post("/v1/redact", json=body).json()["text"])

    with TestClient(open_service(phi_model), base_url="http://localhost") as opened:
        assert shifted(opened, patient="p1") == shifted(opened, patient="p1")
        assert len({shifted(opened) for _ in range(12)}) > 1
        assert len({shifted(opened, id="n1") for _ in range(12)}) > 1


def test_a_model_of_other_types_does_not_redact(model: wardround.Model, tmp_path: Path) -> None:
    assert not can_redact(model)
    with pytest.raises(UsageError, match="this model does not redact"):
        open_service(model, seed_file=tmp_path / "key")
    assert not (tmp_path / "key").exists()


def test_a_model_that_needs_entities_is_not_served(model: wardround.Model) -> None:
    class Relations:
        finds_entities = False

    spy = Spy(model)
    spy.predictor = Relations()
    with pytest.raises(UsageError, match="finds relations between given entities; serve one that finds entities"):
        app_of(spy)
