"""The REST service: predictions, redaction, the model card, health and metrics, and a page to try a text.

`app_of` is the whole composition; `wardround serve` parses options for it. Nothing of a request is logged.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import uvicorn
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from wardround import __version__, console
from wardround.console.access import listen
from wardround.errors import UsageError
from wardround.parsing import read_json
from wardround.redaction.redaction_run import RedactedNote, Redaction
from wardround.redaction.redaction_settings import RedactionSettings
from wardround.redaction.replacing import How
from wardround.redaction.secret_key import SecretKey
from wardround.serving.access import ServiceAccess
from wardround.serving.batching import Batcher, ModelThread, OverloadedError
from wardround.serving.gate import Gate
from wardround.serving.limits import Limits
from wardround.serving.metrics import METRICS_TYPE, Metrics
from wardround.serving.requests import RedactRequest, RefusedError, read_batch, read_predict, read_redact
from wardround.tasks.mentions import Predictor
from wardround.text.document import Document, Entity
from wardround.text.phi_tag_sets import are_phi

__all__ = ["ServedModel", "app_of", "can_redact", "redactions", "serve"]

_STATIC = Path(__file__).with_name("static")
_PAGE = {
    "/": _STATIC / "page.html",
    "/page.js": _STATIC / "page.js",
    "/page.css": _STATIC / "page.css",
    "/icon.svg": Path(console.__path__[0]) / "static" / "icon.svg",
}
_OPERATIONS = {
    "/v1/predict": "predict",
    "/v1/batch": "batch",
    "/v1/redact": "redact",
    "/v1/model": "model",
    "/health": "health",
    "/ready": "ready",
    "/metrics": "metrics",
    "/openapi.json": "openapi",
    **dict.fromkeys(_PAGE, "page"),
}
_PUBLIC = frozenset({"/health", "/ready", "/openapi.json", *_PAGE})  # contain nothing of the model or of a note
_WARM_UP = "The patient took aspirin."
_SHORT, _QUICK_SECONDS = 500, 0.05  # characters that are read without another thread, if a sentence takes no longer
_SHUTDOWN_SECONDS = 10
_MOST_CONNECTIONS = 200
_Answer = TypeVar("_Answer")


class ServedModel(Protocol):
    """What the service needs of a model; `wardround.load` returns one."""

    @property
    def predictor(self) -> Predictor:
        """Return what finds entities."""

    @property
    def card(self) -> Mapping[str, Any]:
        """Return the model card."""

    @property
    def types(self) -> tuple[str, ...]:
        """Return the types of entities that the model finds."""

    @property
    def is_calibrated(self) -> bool:
        """Return whether scores were calibrated on development notes."""

    def pipe(self, texts: Iterable[str | Document], *, batch_size: int = 64) -> Iterator[Document]:
        """Yield each text as a document with predictions."""


def redactions(task: Predictor, settings: RedactionSettings, key: SecretKey) -> Mapping[How, Redaction]:
    """Return a redaction for each way to hide text; all share the key of the site."""
    return {how: replace(settings, how=how).redaction(task, key) for how in How}


def app_of(
    model: ServedModel,
    *,
    access: ServiceAccess | None = None,
    limits: Limits | None = None,
    redaction: Mapping[How, Redaction] | None = None,
) -> ASGIApp:
    """Return the service as an ASGI application.

    Args:
        model: what `wardround.load` returns.
        access: who may use the service; by default this machine, without a token.
        limits: sizes, rates and waiting times.
        redaction: how text is redacted, by the way to hide it; without it there is no `/v1/redact`. `redactions`
            makes it for a model that finds what identifies people.
    """
    if not model.predictor.finds_entities:
        raise UsageError("the model finds relations between given entities; serve one that finds entities")
    access, limits = access or ServiceAccess(), limits or Limits()
    service = _Service(model, limits, dict(redaction or {}), with_token=bool(access.token))
    routes = [
        Route("/v1/predict", service.predict, methods=["POST"]),
        Route("/v1/batch", service.batch, methods=["POST"]),
        *([Route("/v1/redact", service.redact, methods=["POST"])] if redaction else []),
        Route("/v1/model", service.card),
        Route("/health", service.health),
        Route("/ready", service.ready),
        Route("/metrics", service.metrics_page),
        Route("/openapi.json", service.openapi),
        *(Route(path, partial(_file, file)) for path, file in _PAGE.items()),
    ]
    # A bare router: an application of Starlette would raise unforeseen errors again, for the server to log.
    router = Router(routes, redirect_slashes=False, lifespan=service.lifespan)
    return Gate(router, access=access, limits=limits, metrics=service.metrics, operations=_OPERATIONS, public=_PUBLIC)


class _Service:
    """Answers the requests that passed the gate."""

    def __init__(
        self, model: ServedModel, limits: Limits, redaction: Mapping[How, Redaction], *, with_token: bool
    ) -> None:
        self._model, self._limits, self._ready = model, limits, False
        self.metrics = Metrics(str(model.card.get("kind", "")))
        # One thread: a network already uses all cores for a batch, and redaction shares the model.
        self._thread = ModelThread()
        self._predict = self._batcher(self._predicted)
        self._redact = {how: self._batcher(partial(_redacted, way)) for how, way in redaction.items()}
        self._spec = _specification(limits, with_redaction=bool(redaction), with_token=with_token)

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        for _ in range(2):  # the first prediction is slower
            started = time.perf_counter()
            await self._predict.answer([Document("1", _WARM_UP)])
        self._thread.is_quick = time.perf_counter() - started < _QUICK_SECONDS
        self._ready = True
        yield
        self._ready = False
        self._thread.close()

    async def predict(self, request: Request) -> Response:
        document = read_predict(await request.body(), self._limits)
        (found,) = await self._answered(self._predict, [document])
        return JSONResponse(_as_values(found))

    async def batch(self, request: Request) -> Response:
        documents = read_batch(await request.body(), self._limits)
        found = await self._answered(self._predict, documents)
        return JSONResponse({"documents": [_as_values(document) for document in found]})

    async def redact(self, request: Request) -> Response:
        asked: RedactRequest = read_redact(await request.body(), self._limits)
        (note,) = await self._answered(self._redact[asked.how], [asked.document])
        marks = [{"start": m.range.start, "end": m.range.end, "type": m.type} for m in note.redacted.marks]
        return JSONResponse({"id": asked.id, "text": note.redacted.text, "marks": marks})

    async def card(self, _: Request) -> Response:
        card, model = self._model.card, self._model
        config = card.get("config")
        scheme = config.get("scheme") if isinstance(config, Mapping) else None
        return JSONResponse(
            {
                "kind": str(card.get("kind", "")),
                "types": list(model.types),
                "scheme": scheme if isinstance(scheme, str) else None,
                "finds_relations": bool(model.predictor.finds_relations),
                "scores_are_calibrated": model.is_calibrated,
                "can_redact": bool(self._redact),
                "version": __version__,
            }
        )

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        is_ready = self._ready and self._predict.waiting < self._limits.waiting
        return JSONResponse({"ready": is_ready}, status_code=200 if is_ready else 503)

    async def metrics_page(self, _: Request) -> Response:
        self.metrics.waiting.set(self._predict.waiting + sum(one.waiting for one in self._redact.values()))
        return Response(self.metrics.page(), headers={"content-type": METRICS_TYPE})

    async def openapi(self, _: Request) -> Response:
        return JSONResponse(self._spec)

    def _batcher(self, run: Callable[[list[Document]], list[_Answer]]) -> Batcher[Document, _Answer]:
        limits, seen = self._limits, self.metrics.batches.observe
        return Batcher(run, self._thread, size=limits.batch, waiting=limits.waiting, seen=seen, is_short=_is_short)

    async def _answered(self, batcher: Batcher[Document, _Answer], documents: list[Document]) -> list[_Answer]:
        try:
            async with asyncio.timeout(self._limits.answer_seconds):
                found = await batcher.answer(documents)
        except OverloadedError:
            busy = {"retry-after": "1"}
            raise RefusedError(503, "busy", "too many texts are waiting; send again", headers=busy) from None
        except TimeoutError:
            raise RefusedError(503, "too_slow", "the model did not answer in time; send less at once") from None
        self.metrics.texts.inc(len(documents))
        self.metrics.characters.inc(sum(len(document.text) for document in documents))
        return found

    def _predicted(self, documents: list[Document]) -> list[Document]:
        return list(self._model.pipe(documents, batch_size=len(documents)))


def _is_short(document: Document) -> bool:
    return len(document.text) <= _SHORT


async def _file(path: Path, _: Request) -> Response:
    return FileResponse(path)


def _redacted(redaction: Redaction, documents: list[Document]) -> list[RedactedNote]:
    return list(redaction.notes(documents))


def _as_values(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "entities": [_entity_values(entity, document.text) for entity in document.entities],
        "relations": [
            {"type": relation.type, "head": relation.head, "tail": relation.tail, "score": relation.score}
            for relation in document.relations
        ],
    }


def _entity_values(entity: Entity, text: str) -> dict[str, Any]:
    return {
        "id": entity.id,
        "type": entity.type,
        "start": entity.start,
        "end": entity.end,
        "text": entity.text_in(text),
        "score": entity.score,
    }


def _specification(limits: Limits, *, with_redaction: bool, with_token: bool) -> dict[str, Any]:
    """Return the OpenAPI description, with the limits of this service."""
    spec: dict[str, Any] = read_json(_STATIC / "openapi.json")
    spec["info"]["version"] = __version__
    schemas = spec["components"]["schemas"]
    for name in ("PredictRequest", "RedactRequest"):
        schemas[name]["properties"]["text"]["maxLength"] = limits.text_characters
    schemas["BatchRequest"]["properties"]["documents"]["maxItems"] = limits.documents
    if not with_redaction:
        del spec["paths"]["/v1/redact"]
    if not with_token:
        del spec["security"], spec["components"]["securitySchemes"]
    return spec


def serve(app: ASGIApp, access: ServiceAccess, *, announce: Callable[[], None] = lambda: None) -> None:
    """Serve until Ctrl-C or SIGTERM; requests that were accepted are answered first. Nothing is logged.

    `announce` is called when the port is open.
    """
    certificate = access.certificate
    try:
        config = uvicorn.Config(
            app,
            ssl_certfile=None if certificate is None else str(certificate.chain),
            ssl_keyfile=None if certificate is None else str(certificate.key),
            ssl_ca_certs=None if access.clients is None else str(access.clients),
            ssl_cert_reqs=ssl.CERT_NONE if access.clients is None else ssl.CERT_REQUIRED,
            ws="none",
            lifespan="on",
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        config.load()
    except OSError as error:  # includes TLS errors
        raise UsageError(
            f"--certificate, --key and --client-ca cannot be used together ({type(error).__name__})"
        ) from None
    with listen(access) as listening, suppress(KeyboardInterrupt):  # uvicorn raises it again after its shutdown
        announce()
        uvicorn.Server(config).run(sockets=[listening])


def can_redact(model: ServedModel) -> bool:
    """Return whether all types of the model are known to identify people."""
    return bool(model.predictor.finds_entities) and are_phi(model.types)
