"""Requests that the OpenAPI description allows and forbids, drawn by schemathesis and sent to a running service."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.models.tiny import word_tagger

import wardround

pytest.importorskip("starlette", reason="the service needs wardround[serve]")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

import uvicorn  # noqa: E402
from hypothesis import HealthCheck, given, settings  # noqa: E402

from wardround.api.served_model import open_service  # noqa: E402
from wardround.models.word_tagger import WordTagger  # noqa: E402
from wardround.serving.limits import Limits  # noqa: E402
from wardround.tasks.task_table import task_of  # noqa: E402
from wardround.text.tag_sets import TagSet  # noqa: E402


@pytest.fixture(scope="module")
def description() -> Iterator[Any]:
    tagger = WordTagger(word_tagger().config, TagSet(("DATE", "PATIENT"))).eval()
    model = wardround.Model(task_of(tagger), {"kind": "word-tagger"})
    app = open_service(model, limits=Limits(rate=10**9, text_characters=200, documents=3))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False, lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield schemathesis.openapi.from_url(f"http://127.0.0.1:{listening.getsockname()[1]}/openapi.json")
        server.should_exit = True
        thread.join()


def test_every_route_is_described(description: Any) -> None:
    assert {operation.ok().path for operation in description.get_all_operations()} == {
        "/v1/predict",
        "/v1/batch",
        "/v1/redact",
        "/v1/model",
        "/health",
        "/ready",
        "/metrics",
    }


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_answers_are_as_described(description: Any, mode: Any) -> None:
    limits = {"max_examples": 12, "deadline": None, "derandomize": True, "database": None}
    for found in description.get_all_operations():
        operation = found.ok()
        if mode is schemathesis.GenerationMode.NEGATIVE and not operation.body:
            continue

        @given(operation.as_strategy(generation_mode=mode))
        @settings(**limits, suppress_health_check=list(HealthCheck))
        def check(case: Any) -> None:
            case.call_and_validate()

        check()
