"""A site's permanent record, which restoring an earlier state does not change.

`history.jsonl` in the site's folder only grows. It records the rounds the site trained in and the question of each; the
sums it opened, and how many it refused under each sealing key; the clips it used; and the sizes of the other sites. A
coordinator therefore gains nothing by restoring a site to an earlier state:

- a repeated round draws other sentences, unless the question and everything before it are the same, so that the answer
  is the same too;
- a sum is opened once;
- refused sums are counted permanently, and too many under one key end the use of that key;
- noisy releases are counted permanently, so that a privacy budget is spent once, whatever is restored.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wardround.errors import MessageError
from wardround.parsing import parse_json

__all__ = ["MOST_REFUSED_SUMS", "Draw", "SiteHistory", "most_repeats"]

MOST_REFUSED_SUMS = 32  # under one sealing key; finding the one of 100 sites that spoils sums takes up to 9
_FILE = "history.jsonl"
_PRIVATE = 0o600
_REPEATS, _ROUNDS_PER_REPEAT = 16, 10  # repeated rounds in one study: 16, and one more for every ten rounds
_SCORINGS = 16  # scorings of a site's notes, in addition to two for each round


class Draw(NamedTuple):
    """How a site drew the sentences of a round."""

    question: str  # digest of the question and of everything before it
    redraw: int  # 0 is the first draw


def most_repeats(rounds: int) -> int:
    """Return how often rounds may be repeated with other sentences in a study of `rounds` rounds."""
    return _REPEATS + rounds // _ROUNDS_PER_REPEAT


class SiteHistory:
    """The record of one site; `durable` forces each line to disk, which studies on one machine do not need."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._durable = folder / _FILE, durable
        self._rounds: dict[int, Draw] = {}
        self._opened: set[str] = set()  # nonces of exchanges
        self._refused: Counter[int] = Counter()  # by epoch
        self._sizes: dict[str, int] = {}
        self._clips: dict[str, float] = {}  # of the last exchange, by layer group
        self.released = 0  # noisy releases, under differential privacy
        self._counts: Counter[str] = Counter()  # repeats, learnings, changes of clips, scorings
        self._read()

    def draw_index(self, number: int, question: str, *, after: int, rounds: int) -> int:
        """Return the index of the draw for a round: a new one if the site was restored to an older state.

        From an older state the site would draw sentences that it drew before, whatever number the round has. Only the
        same question from the same state gets the same draw.

        Args:
            number: the requested round.
            question: digest of the question and of everything that led to the state.
            after: the last round that the state has seen.
            rounds: number of rounds of the study, which limits the number of new draws.
        """
        if self.is_known(number, question):
            return self._rounds[number].redraw
        if after >= max(self._rounds, default=0):
            return self._counts["repeat"]
        if self._counts["repeat"] >= most_repeats(rounds):
            raise MessageError("repeats", "too many rounds of this study were repeated with other questions")
        return self._counts["repeat"] + 1

    def is_known(self, number: int, question: str) -> bool:
        """Return whether this was the last question for the round."""
        before = self._rounds.get(number)
        return before is not None and before.question == question

    def note_round(self, number: int, drawn: Draw) -> None:
        """Record that the site draws the sentences of a round."""
        if self._rounds.get(number) != drawn:
            self._write({"round": number, "question": drawn.question, "redraw": drawn.redraw})

    def check_sum(self, nonce: str, epoch: int) -> None:
        """Raise a `MessageError` for a sum that was opened before, or a key under which too many sums were refused."""
        if nonce in self._opened:
            raise MessageError("replay", "this site has opened the sum of the exchange before")
        self.check_key(epoch)

    def check_key(self, epoch: int) -> None:
        """Raise a `MessageError` for a sealing key under which too many sums were refused."""
        if self._refused[epoch] >= MOST_REFUSED_SUMS:
            raise MessageError(
                "rotate", f"{MOST_REFUSED_SUMS} sums were refused under the key of epoch {epoch}; have the keys rotated"
            )

    def note_opened(self, nonce: str) -> None:
        """Record that the sum of an exchange was opened."""
        self._write({"opened": nonce})

    def note_refused(self, epoch: int) -> None:
        """Record that a sum was refused for a reason that depends on a secret."""
        self._write({"refused": epoch})

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raise a `MessageError` for a size that differs from an earlier one; record the sizes of new sites."""
        if any(self._sizes.get(site, size) != size for site, size in sizes.items()):
            raise MessageError("sizes", "a site's size differs from an earlier round")
        new = {site: size for site, size in sizes.items() if site not in self._sizes}
        if new:
            self._write({"sizes": new})

    def count_scoring(self, *, rounds: int) -> None:
        """Count a scoring of the site's notes; raise if a study of `rounds` rounds does not need so many."""
        self._count("scoring", _SCORINGS + 2 * rounds, "this site's notes were scored too often")

    def count_learning(self, *, rounds: int) -> None:
        """Count that the site reveals how large the numbers of a new update are, to learn clips."""
        self._count("learning", most_repeats(rounds), "clips were learned too often")

    def check_clips(self, clips: Mapping[str, float], *, rounds: int) -> None:
        """Raise if clips change too often: how many numbers they cut reveals something about an update."""
        if dict(clips) != self._clips:
            self._count("clips", most_repeats(rounds), "clips were changed too often")
            self._write({"clips": dict(clips)})

    def spend(self, releases: int, *, most: int) -> None:
        """Record that noisy releases follow; raise a `MessageError` if the site's privacy budget allows only `most`."""
        if self.released + releases > most:
            raise MessageError("budget", "this site's privacy budget is spent")
        self._write({"released": releases})

    def _count(self, kind: str, most: int, reason: str) -> None:
        if self._counts[kind] >= most:
            raise MessageError("repeats", reason)
        self._write({"count": kind})

    def _write(self, line: Mapping[str, Any]) -> None:
        """Write a line to disk before anything leaves."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _PRIVATE)
        try:
            os.write(descriptor, json.dumps(line).encode() + b"\n")
            if self._durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._take(line)

    def _read(self) -> None:
        """Read the lines; an incomplete last line, left by a power cut, was never acted upon and is removed."""
        if not self._path.is_file():
            return
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self._path, len(whole))
        try:
            for line in whole.splitlines():
                self._take(parse_json(line))
        except (ValueError, KeyError, TypeError):
            raise MessageError("state", f"{self._path.name} is damaged") from None

    def _take(self, line: Mapping[str, Any]) -> None:
        if "round" in line:
            redraw = int(line["redraw"])
            self._rounds[int(line["round"])] = Draw(line["question"], redraw)
            self._counts["repeat"] = max(self._counts["repeat"], redraw)
        elif "opened" in line:
            self._opened.add(line["opened"])
        elif "refused" in line:
            self._refused[int(line["refused"])] += 1
        elif "clips" in line:
            self._clips = {group: float(clip) for group, clip in line["clips"].items()}
        elif "released" in line:
            self.released += int(line["released"])
        elif "sizes" in line:
            self._sizes.update(line["sizes"])
        else:
            self._counts[line["count"]] += 1
