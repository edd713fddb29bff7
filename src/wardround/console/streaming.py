"""A record as server-sent events: what a browser has not had yet, then every new line, until it goes away."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from wardround.reports.event_file import Chunk, Position, read_after

__all__ = ["Shown", "frame_of", "stream_of"]

Shown = Callable[[Mapping[str, Any]], dict[str, Any] | None]

_LOOK_SECONDS = 0.5
_QUIET_SECONDS = 10.0  # after which something is sent, so that either side notices when the other is gone
_RETRY_MILLISECONDS = 1000


async def stream_of(record: Path, position: Position, shown: Shown) -> AsyncIterator[str]:
    """Frames without end. The first tells where things stand, even where nothing is new."""
    yield f"retry: {_RETRY_MILLISECONDS}\n\n"
    said = None  # when something was sent last
    while True:
        chunk = await anyio.to_thread.run_sync(partial(_read, record, position))
        if chunk.position != position or chunk.restarted or said is None or time.monotonic() - said >= _QUIET_SECONDS:
            said = time.monotonic()
            yield frame_of(chunk, shown)
        elif chunk.position == position:
            await anyio.sleep(_LOOK_SECONDS)
        position = chunk.position


def _read(record: Path, position: Position) -> Chunk:
    """What is new; a record that may not be read for a while is asked again, and the page keeps what it has."""
    try:
        return read_after(record, position)
    except OSError:
        return Chunk((), position)


def frame_of(chunk: Chunk, shown: Shown) -> str:
    """One message; its id is the position behind its lines, which the browser gives back when it comes again."""
    events = [event for line in chunk.events if (event := shown(line)) is not None]
    body = {"now": round(time.time(), 3), "anew": chunk.restarted, "events": events}
    data = json.dumps(body, separators=(",", ":"), allow_nan=False)
    return f"id: {chunk.position}\ndata: {data}\n\n"
