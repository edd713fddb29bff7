"""The console's pages and its server: the list of runs, one run as it happens, its report, and the login."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import uvicorn
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from wardround.console.access import Access, Guard
from wardround.console.events import RunSummary, filter_event, filter_ledger_entry, stream_events, summarise
from wardround.console.runs import Runs, StudyFacts, WatchedRun
from wardround.errors import UsageError
from wardround.reports.event_file import Position
from wardround.text.plain_text import neutralise

__all__ = ["console_app", "serve"]

_log = logging.getLogger(__name__)
_STATIC = Path(__file__).with_name("static")
_LONGEST_LOGIN = 1_000  # bytes
_SHUTDOWN_SECONDS = 1  # for open streams, which never end by themselves
_MOST_CONNECTIONS = 200
# A report is self-contained and has no script; foreign content in it must not run.
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"


def console_app(runs: Runs, access: Access) -> Starlette:
    """Return the application that shows these runs."""
    pages = _Pages(runs, access)
    return Starlette(
        routes=[
            Route("/", pages.overview),
            Route("/list", pages.listing),
            Route("/run/{key:path}", pages.run),
            Route("/facts/{key:path}", pages.facts),
            Route("/events/{key:path}", pages.events),
            Route("/report/{key:path}", pages.report),
            Route("/login", pages.login, methods=["GET", "POST"]),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HTTPException: pages.refuse, Exception: pages.refuse},
    )


class _Pages:
    """Answers requests; every file path comes from `runs`, none from a request."""

    def __init__(self, runs: Runs, access: Access) -> None:
        self._runs, self._access = runs, access
        self._templates = Environment(
            loader=PackageLoader("wardround.console"), autoescape=True, undefined=StrictUndefined
        )

    def overview(self, _: Request) -> Response:
        return self._page("overview.html", "Runs", {"runs": self._listed()})

    def listing(self, _: Request) -> Response:
        return JSONResponse({"now": datetime.now(UTC).timestamp(), "runs": self._listed()})

    def run(self, request: Request) -> Response:
        run = self._requested_run(request)
        if summarise(run).state == "unreadable":
            raise HTTPException(403, f"the console may not read {run.record.name} of this run; give its user access")
        page = "site.html" if run.site else "run.html"
        return self._page(page, run.facts.name or run.key, {"facts": _facts(run)})

    def facts(self, request: Request) -> Response:
        return JSONResponse(_facts(self._requested_run(request)))

    def events(self, request: Request) -> Response:
        run = self._requested_run(request)
        # A reconnecting browser sends the id of its last message; a page that opens a new stream sends it as `after`.
        last = request.headers.get("last-event-id") or request.query_params.get("after", "")
        line_filter = filter_event if run.site is None else filter_ledger_entry
        stream = stream_events(run.record, Position.parse(last), line_filter)
        return StreamingResponse(stream, media_type="text/event-stream")

    def report(self, request: Request) -> Response:
        report = self._requested_run(request).report
        if report is None:
            raise HTTPException(404, "the run has no report yet")
        return FileResponse(report, media_type="text/html", headers={"content-security-policy": _REPORT_POLICY})

    async def login(self, request: Request) -> Response:
        if not self._access.token:
            return RedirectResponse("/", status_code=303)
        if request.method == "GET":
            return self._page("login.html", "Log in", {"wrong": False})
        if not self._access.is_token(await _submitted_token(request)):
            return self._page("login.html", "Log in", {"wrong": True}, status=403)
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            self._access.cookie,
            self._access.session(),
            secure=self._access.certificate is not None,
            httponly=True,
            samesite="strict",
        )
        return answer

    def refuse(self, _: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return self._page("refused.html", "Not available", {"reason": error.detail}, status=error.status_code)
        return self._page("refused.html", "Internal error", {"reason": type(error).__name__}, status=500)

    def _page(self, template: str, title: str, values: Mapping[str, Any], *, status: int = 200) -> Response:
        known = {**values, "title": neutralise(title), "role": self._runs.role}
        return HTMLResponse(self._templates.get_template(template).render(known), status_code=status)

    def _requested_run(self, request: Request) -> WatchedRun:
        run = self._runs.one(request.path_params["key"])
        if run is None:
            raise HTTPException(404, "there is no such run; it may have been moved or deleted")
        return run

    def _listed(self) -> list[dict[str, Any]]:
        found = [_row(run) for run in self._runs.all()]
        return sorted(found, key=lambda facts: (-(facts["summary"]["time"] or 0), facts["key"]))


def _row(run: WatchedRun) -> dict[str, Any]:
    """Return a run for the list; an error in one run leaves its name there and does not affect the others."""
    try:
        return _facts(run) | {"summary": asdict(summarise(run))}
    except Exception as error:
        _log.warning("a run cannot be listed: %s", type(error).__name__)  # the message may quote the record
        bare = WatchedRun(run.key, run.record, StudyFacts(), site=run.site)
        return _facts(bare) | {"summary": asdict(RunSummary("unreadable"))}


def _facts(run: WatchedRun) -> dict[str, Any]:
    """Return everything shown of a run except its record, without paths."""
    facts: Mapping[str, Any] = asdict(run.facts)
    site = None if run.site is None else asdict(run.site)
    return {
        **facts,
        "key": neutralise(run.key),
        "address": quote(run.key),
        "row": neutralise(run.row),
        "report": run.report is not None,
        "site": site,
    }


async def _submitted_token(request: Request) -> str:
    """Return the token in the submitted form; a body that is too long contains none."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST_LOGIN:
            return ""
    return parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]


def serve(app: ASGIApp, access: Access, listening: socket.socket) -> None:
    """Serve until Ctrl-C; requests are not logged."""
    certificate = access.certificate
    try:
        config = uvicorn.Config(
            app,
            ssl_certfile=None if certificate is None else str(certificate.chain),
            ssl_keyfile=None if certificate is None else str(certificate.key),
            ws="none",
            lifespan="off",
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        config.load()
    except OSError as error:  # includes TLS errors
        raise UsageError(f"--certificate and --key cannot be used together ({type(error).__name__})") from None
    uvicorn.Server(config).run(sockets=[listening])
