"""A site's update through the phases of secure aggregation: announced, submitted, unmasked, opened as part of a sum.

Every submission and every unmasking is recorded in `submissions.json` before an answer leaves. The record is not
restored with the site's state: an update that was unmasked in one sum is never submitted to another. If its round is
requested again, the site draws other sentences.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from wardround.errors import MessageError, RefusedSumError
from wardround.federation.aggregation import Reader, Tensors, dense, share_limit
from wardround.federation.message import Array, Message, Value, grouped
from wardround.federation.site_history import SiteHistory, most_repeats
from wardround.parsing import read_json
from wardround.secure_aggregation.client import SealedUpdate, SecureAggregationClient
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.replica import Replica
from wardround.training.state_files import fsync_path, tensors_under

if TYPE_CHECKING:
    from wardround.federation.site_runtime import Site

__all__ = ["Submission", "SubmissionRecord", "replica_steps"]

_FILE, _OLD_FILE = "submissions.json", "given.json"  # 0.1 wrote the second
_PRIVATE = 0o600
_FAR = 1000.0  # a clip this many times above or below the site's largest number would destroy its update
_ROUNDING = 1e-9


@dataclass(frozen=True)
class SubmissionRecord:
    """The site's last submission, and how often it drew other sentences after an update was unmasked."""

    round: int = 0
    nonce: str = ""
    nonces: tuple[str, ...] = ()  # of all exchanges of the round, this one included
    digest: str = ""
    seed: str = ""  # of its own mask, until it is sent
    revealed: int = 0  # the last round whose update was unmasked and must not be submitted again
    redraws: int = 0

    def after_submission(self, exchange: Exchange, sealed: SealedUpdate) -> SubmissionRecord:
        """Return the record after a submission; the previous seed is dropped."""
        before = self.nonces if exchange.round == self.round else ()
        return replace(
            self,
            round=exchange.round,
            nonce=exchange.nonce,
            nonces=(*before, exchange.nonce),
            digest=sealed.digest,
            seed=sealed.seed.hex(),
        )


class Submission:
    """A site's end of a protecting mechanism: holds the update between the phases and records its use."""

    unit_privacy = None

    def __init__(
        self,
        client: SecureAggregationClient,
        folder: Path,
        *,
        clips: Mapping[str, float],
        feedback: bool = False,
        durable: bool = False,
        largest_share: float = 1.0,
    ) -> None:
        self.client = client
        self.history = SiteHistory(folder, durable=durable)
        self._largest_share = largest_share  # of one site in a mean, as the study allows
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._feedback, self._durable = folder / _FILE, feedback, durable
        self._configured_clips = dict(clips)  # set by the study
        self._clips: dict[str, float] = {}  # used in the exchanges so far
        self._update: dict[str, Tensor] = {}
        self._residue: dict[str, Tensor] = {}  # the part that rounding removed from the last update that is in a mean
        self._pending_residue: dict[str, Tensor] = {}  # of the last update that was submitted and is not in a mean yet
        self._weight = 0.0
        self._largest_by_group: dict[str, float] = {}  # of the update that is held
        self.changes = 0  # of the state; a new held update does not count
        old = folder / _OLD_FILE
        self.record = _read_record(old if old.is_file() and not self._path.is_file() else self._path)

    @property
    def redraws(self) -> int:
        """Return how often this site drew other sentences because its update had been unmasked."""
        return self.record.redraws

    def steps(self, replica: Replica | None) -> dict[str, Callable[[Site, Message], Message]]:
        """Return the steps of the later phases; with a copy of the shared half, also those that open the sum here."""
        steps: dict[str, Callable[[Site, Message], Message]] = {
            "submit": lambda site, message: self.submit(
                message, name=site.name, round_number=site.round, rounds=site.rounds
            ),
            "unmask": lambda site, message: self.unmask(message),
        }
        if self.client.mechanism.mean_comes_back and self.client.reader is Reader.SITE:
            steps["open_mean"] = lambda site, message: Message({}, grouped("mean", self.open(message)))
        return steps | (replica_steps(replica, self) if replica is not None else {})

    def begin(self, round_number: int, *, after: int, most_redraws: int = most_repeats(0)) -> None:
        """Prepare for training from the state after round `after`; count a redraw if a later round was unmasked.

        Otherwise a site that was restored to an old state could submit again, under another round number, an update
        that was already unmasked.
        """
        if after < self.record.revealed:
            if self.record.redraws >= most_redraws:
                raise MessageError("repeats", "too many rounds were repeated after their updates were unmasked")
            # Earlier rounds stay marked as unmasked, because their updates may still be held.
            revealed = min(self.record.revealed, round_number - 1)
            self._write_record(replace(self.record, revealed=revealed, redraws=self.record.redraws + 1))

    def announce(
        self, update: Tensors, *, weight: float, values: Mapping[str, Value], learn_clips: bool = False
    ) -> Message:
        """Hold an update until it is known who takes part; while clips are learned, announce its largest numbers."""
        whole = {name: np.array(dense(part)) for name, part in update.items()}
        for name, residue in self._residue.items():
            whole[name] += residue.numpy()
        self._largest_by_group = self.client.largest_by_group(whole)
        if learn_clips:
            self._clips = {}
        self._update = {name: torch.from_numpy(array) for name, array in whole.items()}
        self._weight = weight
        announced: dict[str, Value] = {**values, "weight": weight}
        if not self._clips:
            announced["largest_by_group"] = {
                group: size for group, size in self._largest_by_group.items() if group not in self._configured_clips
            }
        return Message(announced, {}, {"public_keys": self.client.public_keys})

    def submit(self, message: Message, *, name: str, round_number: int, rounds: int = 0) -> Message:
        """Protect the held update for the sites of an exchange; `rounds` is the number of rounds of the study."""
        exchange = Exchange.from_values(message.value("exchange", dict))
        self._check(exchange, name, round_number)
        self.history.check_clips(exchange.clips, rounds=rounds)
        sealed = self.client.seal(
            {part: tensor.numpy() for part, tensor in self._update.items()},
            exchange=exchange,
            public_keys={site.removeprefix("public_keys/"): keys for site, keys in message.blobs.items()},
        )
        self.changes += self._clips != exchange.clips
        self._clips = dict(exchange.clips)
        residue = sealed.residue if self._feedback else {}
        self._pending_residue = {part: torch.from_numpy(array) for part, array in residue.items()}
        self._write_record(self.record.after_submission(exchange, sealed))
        return sealed.message

    def unmask(self, message: Message) -> Message:
        """Return the seed of this site's own mask; the update is never submitted again."""
        if not self.record.seed or message.value("nonce", str) != self.record.nonce:
            raise MessageError("nonce", "this site has no submission in this exchange to unmask")
        seed = bytes.fromhex(self.record.seed)
        self._write_record(replace(self.record, seed="", revealed=self.record.round))
        self._commit_residue()
        return Message({}, {}, {"seed": seed})

    def open(self, message: Message) -> dict[str, Array]:
        """Return the mean of an exchange."""
        exchange = Exchange.from_values(message.value("exchange", dict))
        self.history.check_sum(exchange.nonce, exchange.epoch)
        own = self.record.digest if exchange.nonce == self.record.nonce else None
        try:
            mean = self.client.open(message, own=own)
        except RefusedSumError as error:
            if error.counts:
                self.history.note_refused(exchange.epoch)
            raise
        self.history.note_opened(exchange.nonce)
        if own is not None:
            self._commit_residue()
        return mean

    def state(self) -> dict[str, Tensor]:
        """Return what must be saved with the state of the site."""
        tensors = {f"update/{name}": tensor for name, tensor in self._update.items()}
        tensors |= {f"residue/{name}": tensor for name, tensor in self._residue.items()}
        tensors |= {f"left/{name}": tensor for name, tensor in self._pending_residue.items()}
        tensors |= {f"clip/{group}": torch.tensor(clip, dtype=torch.float64) for group, clip in self._clips.items()}
        tensors |= {
            f"largest/{group}": torch.tensor(size, dtype=torch.float64)
            for group, size in self._largest_by_group.items()
        }
        return tensors | {"weight": torch.tensor(self._weight, dtype=torch.float64)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore from `state()`."""
        self._update, self._residue = tensors_under("update", tensors), tensors_under("residue", tensors)
        self._pending_residue = tensors_under("left", tensors)
        self._clips = {group: float(clip) for group, clip in tensors_under("clip", tensors).items()}
        largest = tensors_under("largest", tensors) or tensors_under("extent", tensors)  # the key in earlier versions
        self._largest_by_group = {group: float(size) for group, size in largest.items()}
        self._weight = float(tensors["weight"])

    def _check(self, exchange: Exchange, name: str, round_number: int) -> None:
        self.client.check_exchange(exchange)
        self.history.check_key(exchange.epoch)
        if not self._update or exchange.round != round_number:
            raise MessageError("round", "this site holds no update of the round")
        if exchange.round <= self.record.revealed:
            raise MessageError("spent", "this update was unmasked in another exchange; it is not submitted again")
        if exchange.nonce in self.record.nonces:
            raise MessageError("replay", "this site has submitted to the exchange before")
        self._check_weight(exchange, name)
        agreed = self._clips or self._configured_clips
        if any(exchange.clips.get(group) != clip for group, clip in agreed.items()):
            raise MessageError("clip", "the exchange has another clip than the study or the earlier rounds")
        for group, clip in exchange.clips.items():
            largest = self._largest_by_group.get(group, 0.0)
            if group not in agreed and largest and not largest / _FAR <= clip <= largest * _FAR:
                raise MessageError("clip", "a learned clip is far from the largest number of this site's update")

    def _check_weight(self, exchange: Exchange, name: str) -> None:
        """Raise a `MessageError` for a weight that is neither this site's own nor capped as the study says."""
        if name not in exchange.weights:
            raise MessageError("weight", "the exchange has no weight for this site")
        weight, share = exchange.weights[name], exchange.share_of(name)
        largest = share_limit(len(exchange.weights), self._largest_share)
        if share > largest + _ROUNDING:
            raise MessageError("weight", "this site's update would be most of the sum")
        capped = weight < self._weight and abs(share - largest) <= _ROUNDING
        if weight != self._weight and not capped:
            raise MessageError("weight", "the exchange gives this site another weight than its own")

    def _commit_residue(self) -> None:
        """Keep the part that rounding removed, to be added to the next update: the last one is in a mean.

        With masks and encryption this is called twice: when the update is unmasked and when the mean is opened.
        """
        if self._pending_residue:
            self._residue, self._pending_residue = self._pending_residue, {}
            self.changes += 1

    def _write_record(self, record: SubmissionRecord) -> None:
        """Write the record to disk before anything leaves."""
        partial = self._path.with_name(_FILE + ".partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
        with os.fdopen(descriptor, "w") as stream:
            json.dump(asdict(record), stream)
        if self._durable:
            fsync_path(partial)
        partial.replace(self._path)
        if self._durable:
            fsync_path(self._path.parent)  # otherwise a power cut could undo the renaming and lose the new record
        self.record = record


def _read_record(path: Path) -> SubmissionRecord:
    if not path.is_file():
        return SubmissionRecord()
    try:
        found = read_json(path)
        return SubmissionRecord(**{**found, "nonces": tuple(found["nonces"])})
    except (ValueError, TypeError, KeyError):
        raise MessageError("state", f"{path.name} is damaged") from None


def replica_steps(replica: Replica, submission: Submission) -> dict[str, Callable[[Site, Message], Message]]:
    """Return the steps of a site that opens sums itself and steps its own copy of the shared half."""
    client = submission.client

    def open_sum(site: Site, message: Message) -> Message:
        """Open the sum of a round and step this site's copy of the shared half."""
        number = message.value("round", int)
        replica.arrays(after=number - 1)  # refuse a wrong round before anything is opened
        replica.step(submission.open(message), message.values, number=number)
        site.extend_hash_chain(replica.shared_bytes())
        return Message({"shared": client.fingerprint(replica.shared_bytes())})

    def share_copy(site: Site, message: Message) -> Message:
        """Send this site's copy of the shared half to a site that is behind, encrypted for the study's sites."""
        number = message.value("round", int)
        replica.arrays(after=number)
        return Message({}, {}, {"copy": client.encrypt_for_sites(replica.to_bytes(), purpose=f"copy/{number}")})

    def load_copy(site: Site, message: Message) -> Message:
        """Continue from another site's copy of the shared half, if this one's is older or differs."""
        number = message.value("round", int)
        if replica.number > number:
            raise MessageError("round", f"this site's shared half belongs to round {replica.number}")
        copy = client.decrypt_from_site(message.blobs.get("copy", b""), purpose=f"copy/{number}")
        with site.all_or_nothing():
            replica.load_bytes(copy)
            replica.arrays(after=number)
            site.extend_hash_chain(replica.shared_bytes())
        return Message({"shared": client.fingerprint(replica.shared_bytes())})

    def begin(site: Site, message: Message) -> Message:
        """Load the shared half that the study starts from."""
        replica.begin(message.group("shared"))
        return Message()

    steps: dict[str, Callable[[Site, Message], Message]] = {
        "open_sum": open_sum,
        "share_copy": share_copy,
        "load_copy": load_copy,
    }
    return steps | ({"begin": begin} if replica.receives_start else {})
