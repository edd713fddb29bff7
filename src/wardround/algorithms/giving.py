"""A site's updates under a mechanism that seals them for one another: held, given, revealed, opened as a sum.

What was given and revealed is written to `given.json` before it leaves, and is not put back with the site's state: an
update that was revealed as part of one sum is never given to another. Where its round is asked for again, the site
draws anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wardround.algorithms.site_history import SiteHistory, most_repeats
from wardround.algorithms.state_files import force, under
from wardround.errors import MessageError, RefusedSumError
from wardround.federation.message import Array, Message, Value
from wardround.parsing import read_json
from wardround.privacy.aggregator import Exchange, Given, Giver, Rows, Tensors, share_limit

__all__ = ["Giving", "Record"]

_FILE = "given.json"
_PRIVATE = 0o600
_FAR = 1000.0  # times above or below a site's own largest number: a clip that would leave nothing of its update
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Record:
    """What a site has given last, and how often it had to draw anew."""

    round: int = 0
    nonce: str = ""
    nonces: tuple[str, ...] = ()  # of the round, the last among them
    digest: str = ""
    seed: str = ""  # of its own mask, until it is revealed
    revealed: int = 0  # the last round whose update must not be given again
    redraws: int = 0

    def having_given(self, exchange: Exchange, given: Given) -> Record:
        """The record after one more exchange; with it, the seed of the one before is gone."""
        before = self.nonces if exchange.round == self.round else ()
        return replace(
            self,
            round=exchange.round,
            nonce=exchange.nonce,
            nonces=(*before, exchange.nonce),
            digest=given.digest,
            seed=given.seed.hex(),
        )


class Giving:
    """What `Site` needs beside the giver: the update between two exchanges, and what was done with it."""

    def __init__(
        self,
        giver: Giver,
        folder: Path,
        *,
        clips: Mapping[str, float],
        feedback: bool = False,
        lasting: bool = False,
        largest_share: float = 1.0,
    ) -> None:
        self.giver = giver
        self.history = SiteHistory(folder, lasting=lasting)
        self._largest_share = largest_share  # that the study lets one site have in a mean
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._feedback, self._lasting = folder / _FILE, feedback, lasting
        self._agreed = dict(clips)  # of the study
        self._clips: dict[str, float] = {}  # of the exchanges so far
        self._update: dict[str, Tensor] = {}
        self._residue: dict[str, Tensor] = {}  # of the last update that was used
        self._left: dict[str, Tensor] = {}  # of the last one that was given
        self._weight = 0.0
        self._extents: dict[str, float] = {}  # largest numbers of the update that is held, by layer group
        self.changes = 0  # of what goes with the state of the site, beside the update
        self.record = _read(self._path)

    def begin(self, round_number: int, *, after: int, most_redraws: int = most_repeats(0)) -> None:
        """Before training from the state after a round; where a later one was revealed, what is drawn is drawn anew.

        Whatever its number, a round from an old state could else give once more what was revealed from there.
        """
        if after < self.record.revealed:
            if self.record.redraws >= most_redraws:
                raise MessageError("repeats", "too many rounds were asked again after their updates were revealed")
            # Of the rounds before it, what was revealed stays so: their updates may still be held.
            revealed = min(self.record.revealed, round_number - 1)
            self._note(replace(self.record, revealed=revealed, redraws=self.record.redraws + 1))

    def hold(
        self, update: Tensors, *, weight: float, values: Mapping[str, Value], learn_clips: bool = False
    ) -> Message:
        """Keep an update until it is known who else gives; while clips are learned, tell how large its numbers are."""
        whole = {name: part.whole() if isinstance(part, Rows) else np.array(part) for name, part in update.items()}
        for name, left in self._residue.items():
            whole[name] += left.numpy()
        self._extents = self.giver.extents(whole)
        if learn_clips:
            self._clips = {}
        self._update = {name: torch.from_numpy(array) for name, array in whole.items()}
        self._weight = weight
        said: dict[str, Value] = {**values, "weight": weight}
        if not self._clips:
            said["extents"] = {group: size for group, size in self._extents.items() if group not in self._agreed}
        return Message(said, {}, {"card": self.giver.card})

    def give(self, message: Message, *, name: str, round_number: int, rounds: int = 0) -> Message:
        """Seal the held update for the sites of an exchange; `rounds` are those of the study."""
        exchange = Exchange.from_values(message.value("exchange", dict))
        self._check(exchange, name, round_number)
        self.history.check_clips(exchange.clips, rounds=rounds)
        given = self.giver.seal(
            {part: tensor.numpy() for part, tensor in self._update.items()},
            exchange=exchange,
            cards={site.removeprefix("card/"): card for site, card in message.blobs.items()},
        )
        self.changes += self._clips != exchange.clips
        self._clips = dict(exchange.clips)
        residue = given.residue if self._feedback else {}
        self._left = {part: torch.from_numpy(array) for part, array in residue.items()}
        self._note(self.record.having_given(exchange, given))
        return given.message

    def reveal(self, message: Message) -> Message:
        """Give up the seed of this site's own mask, and with it the right to give the update again."""
        if not self.record.seed or message.value("nonce", str) != self.record.nonce:
            raise MessageError("nonce", "this site has given nothing to the exchange that could be revealed")
        seed = bytes.fromhex(self.record.seed)
        self._note(replace(self.record, seed="", revealed=self.record.round))
        self._used()
        return Message({}, {}, {"seed": seed})

    def open(self, message: Message) -> dict[str, Array]:
        """The mean of an exchange."""
        exchange = Exchange.from_values(message.value("exchange", dict))
        self.history.check_sum(exchange.nonce, exchange.epoch)
        own = self.record.digest if exchange.nonce == self.record.nonce else None
        try:
            mean = self.giver.open(message, own=own)
        except RefusedSumError as error:
            if error.counts:
                self.history.note_refused(exchange.epoch)
            raise
        self.history.note_opened(exchange.nonce)
        if own is not None:
            self._used()
        return mean

    def state(self) -> dict[str, Tensor]:
        """What goes with the state of the site."""
        tensors = {f"update/{name}": tensor for name, tensor in self._update.items()}
        tensors |= {f"residue/{name}": tensor for name, tensor in self._residue.items()}
        tensors |= {f"left/{name}": tensor for name, tensor in self._left.items()}
        tensors |= {f"clip/{group}": torch.tensor(clip, dtype=torch.float64) for group, clip in self._clips.items()}
        tensors |= {f"extent/{group}": torch.tensor(size, dtype=torch.float64) for group, size in self._extents.items()}
        return tensors | {"weight": torch.tensor(self._weight, dtype=torch.float64)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up what `state` gave."""
        self._update, self._residue = under("update", tensors), under("residue", tensors)
        self._left = under("left", tensors)
        self._clips = {group: float(clip) for group, clip in under("clip", tensors).items()}
        self._extents = {group: float(size) for group, size in under("extent", tensors).items()}
        self._weight = float(tensors["weight"])

    def _check(self, exchange: Exchange, name: str, round_number: int) -> None:
        self.giver.check_exchange(exchange)
        self.history.check_key(exchange.epoch)
        if not self._update or exchange.round != round_number:
            raise MessageError("round", "this site holds no update of the round")
        if exchange.round <= self.record.revealed:
            raise MessageError("spent", "this update was revealed in another exchange; it is not given again")
        if exchange.nonce in self.record.nonces:
            raise MessageError("replay", "this site has given to the exchange before")
        self._check_weight(exchange, name)
        agreed = self._clips or self._agreed
        if any(exchange.clips.get(group) != clip for group, clip in agreed.items()):
            raise MessageError("clip", "the exchange has another clip than the study, or than the rounds before")
        for group, clip in exchange.clips.items():
            extent = self._extents.get(group, 0.0)
            if group not in agreed and extent and not extent / _FAR <= clip <= extent * _FAR:
                raise MessageError("clip", "a learned clip is far from the largest number of this site's update")

    def _check_weight(self, exchange: Exchange, name: str) -> None:
        """Refuse a weight that is neither this site's nor what the study's largest share leaves of it."""
        if name not in exchange.weights:
            raise MessageError("weight", "the exchange has no weight for this site")
        weight, share = exchange.weights[name], exchange.share_of(name)
        largest = share_limit(len(exchange.weights), self._largest_share)
        if share > largest + _ROUNDING:
            raise MessageError("weight", "this site's update would be most of the sum")
        capped = weight < self._weight and abs(share - largest) <= _ROUNDING
        if weight != self._weight and not capped:
            raise MessageError("weight", "the exchange has another weight for this site than its own")

    def _used(self) -> None:
        """The update went into a mean: what rounding took from it is made up for next time.

        Under both masks and seals it is told so twice, when it is revealed and when the mean is opened.
        """
        if self._left:
            self._residue, self._left = self._left, {}
            self.changes += 1

    def _note(self, record: Record) -> None:
        """To disk before anything leaves."""
        partial = self._path.with_name(_FILE + ".partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
        with os.fdopen(descriptor, "w") as stream:
            json.dump(asdict(record), stream)
        if self._lasting:
            force(partial)
        partial.replace(self._path)
        if self._lasting:
            force(self._path.parent)  # else a power cut may take the new name back, and with it what was revealed
        self.record = record


def _read(path: Path) -> Record:
    if not path.is_file():
        return Record()
    try:
        found = read_json(path)
        return Record(**{**found, "nonces": tuple(found["nonces"])})
    except (ValueError, TypeError, KeyError):
        raise MessageError("state", f"{path.name} is damaged") from None
