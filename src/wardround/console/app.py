"""The console's pages: the list of runs, one run as it happens, its report, and the login."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from wardround.console.access import Access
from wardround.console.guard import Guard
from wardround.console.runs import Runs, StudyFacts, WatchedRun, protection_in_words
from wardround.console.shown import shown_entry, shown_event
from wardround.console.streaming import stream_of
from wardround.console.summaries import Summary, summary_of
from wardround.reports.event_file import Position
from wardround.reports.plain_text import neutralise

__all__ = ["console_app"]

_log = logging.getLogger(__name__)
_STATIC = Path(__file__).with_name("static")
_LONGEST_LOGIN = 1_000  # bytes
# A report has everything in it and no script; whatever slipped into one is not run.
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"


def console_app(runs: Runs, access: Access) -> Starlette:
    """The application that shows these runs to those who may look."""
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
    """The answers; every path of a file comes from `runs`, none from a request."""

    def __init__(self, runs: Runs, access: Access) -> None:
        self._runs, self._access = runs, access
        self._templates = Environment(
            loader=PackageLoader("wardround.console"), autoescape=True, undefined=StrictUndefined
        )

    def overview(self, _: Request) -> Response:
        return self._page("overview.html", "Runs", {"runs": self._listed()})

    def listing(self, _: Request) -> Response:
        return JSONResponse({"now": _now(), "runs": self._listed()})

    def run(self, request: Request) -> Response:
        run = self._named(request)
        if summary_of(run).state == "unreadable":
            raise HTTPException(403, f"{run.record.name} of this run cannot be read; let the console's user read it")
        page = "site.html" if run.site else "run.html"
        return self._page(page, run.facts.name or run.key, {"facts": _facts(run)})

    def facts(self, request: Request) -> Response:
        return JSONResponse(_facts(self._named(request)))

    def events(self, request: Request) -> Response:
        run = self._named(request)
        # A browser that was cut off names the last message it had; one that opens a new stream asks for it by `after`.
        had = request.headers.get("last-event-id") or request.query_params.get("after", "")
        shown = shown_event if run.site is None else shown_entry
        return StreamingResponse(stream_of(run.record, Position.parse(had), shown), media_type="text/event-stream")

    def report(self, request: Request) -> Response:
        report = self._named(request).report
        if report is None:
            raise HTTPException(404, "the run has no report yet")
        return FileResponse(report, media_type="text/html", headers={"content-security-policy": _REPORT_POLICY})

    async def login(self, request: Request) -> Response:
        if not self._access.token:
            return RedirectResponse("/", status_code=303)
        if request.method == "GET":
            return self._page("login.html", "Log in", {"wrong": False})
        if not self._access.knows_token(await _token_in(request)):
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
            return self._page("refused.html", "Not here", {"reason": error.detail}, status=error.status_code)
        return self._page("refused.html", "A fault", {"reason": type(error).__name__}, status=500)

    def _page(self, template: str, title: str, values: Mapping[str, Any], *, status: int = 200) -> Response:
        known = {**values, "title": neutralise(title), "role": self._runs.role}
        return HTMLResponse(self._templates.get_template(template).render(known), status_code=status)

    def _named(self, request: Request) -> WatchedRun:
        run = self._runs.one(request.path_params["key"])
        if run is None:
            raise HTTPException(404, "there is no such run; it may have been moved")
        return run

    def _listed(self) -> list[dict[str, Any]]:
        found = [_row(run) for run in self._runs.all()]
        return sorted(found, key=lambda facts: (-(facts["summary"]["time"] or 0), facts["key"]))


def _row(run: WatchedRun) -> dict[str, Any]:
    """A run in the list; whatever is wrong with it, its name is there, and the other runs are as they are."""
    try:
        return _facts(run) | {"summary": asdict(summary_of(run))}
    except Exception as error:
        _log.warning("a run cannot be listed: %s", type(error).__name__)  # of which a message may quote the record
        bare = WatchedRun(run.key, run.record, StudyFacts(), site=run.site)
        return _facts(bare) | {"summary": asdict(Summary("unreadable"))}


def _facts(run: WatchedRun) -> dict[str, Any]:
    """All that is told of a run beside its record; no path."""
    facts: Mapping[str, Any] = asdict(run.facts)
    site = None if run.site is None else asdict(run.site)
    return {
        **facts,
        "key": neutralise(run.key),
        "address": quote(run.key),
        "row": neutralise(run.row),
        "report": run.report is not None,
        "protection": protection_in_words(run.facts),
        "site": site,
    }


def _now() -> float:
    return datetime.now(UTC).timestamp()


async def _token_in(request: Request) -> str:
    """What was typed into the form; a body that is too long holds no token."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST_LOGIN:
            return ""
    return parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
