"""A site's copy of the shared half, for sums that only sites can open: all sites start and step in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as save_bytes
from torch import Tensor

from wardround.errors import MessageError, TrainingError
from wardround.federation.coordinator import Coordinator
from wardround.federation.message import Array, Value
from wardround.training.state_files import copy_into, tensors_under

__all__ = ["Replica", "digest_of_start"]


def digest_of_start(shared: Mapping[str, Array]) -> str:
    """Return the digest that all parties compare, to check that a study starts from the same shared half."""
    digest = sha256()
    for name, array in sorted(shared.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


class Replica:
    """The shared half at a site: it is stepped as at the coordinator, and that of the best round is kept.

    `start_digest` is the digest of the starting point if it is sent to the sites; empty if the seed determines it.
    """

    def __init__(self, server: Coordinator, start_digest: str = "") -> None:
        self._server, self._start_digest = server, start_digest
        self._scored: dict[str, Tensor] = {}  # the shared half of the last round that was scored
        self._scored_round = 0
        self._best: dict[str, Tensor] = {}
        self._best_round = 0
        self.changes = 0  # grows whenever the state must be written again

    @property
    def number(self) -> int:
        """Return the last round that this copy has stepped."""
        return self._server.number

    def arrays(self, *, after: int) -> dict[str, Array]:
        """Return the shared half after a round, which must be the last round that this copy has stepped."""
        if not self.has_begun:
            raise MessageError("behind", "this site has not received the starting point of the study yet")
        if self.number < after:
            raise MessageError("behind", f"this site's shared half belongs to round {self.number}")
        if self.number > after:
            raise MessageError("round", f"this site's shared half belongs to round {self.number}")
        return self._server.shared_views()

    @property
    def receives_start(self) -> bool:
        """Return whether the starting point is sent to the sites."""
        return bool(self._start_digest)

    @property
    def has_begun(self) -> bool:
        """Return whether this copy has its starting point."""
        if not self._start_digest or self.number:
            return True
        return digest_of_start(self._server.shared_views()) == self._start_digest

    def begin(self, shared: Mapping[str, Array]) -> None:
        """Load the starting point, which must have the study's digest; a copy that has begun stays unchanged."""
        if not self._start_digest or digest_of_start(shared) != self._start_digest:
            raise MessageError("start", "is not the starting point of the study")
        if self.has_begun:
            return
        try:
            copy_into(self._server.shared, {name: torch.from_numpy(array.copy()) for name, array in shared.items()})
        except TrainingError:
            raise MessageError("shapes", "the start has other names or shapes than this site's model") from None
        self.changes += 1

    def optimizer_state(self) -> dict[str, Tensor]:
        """Return the optimizer state that belongs to the shared half."""
        return self._server.optimizer_state()

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value], *, number: int) -> None:
        """Step with the mean of round `number`."""
        self.arrays(after=number - 1)
        self._server.step(mean, values)
        self._server.number = number
        self.changes += 1

    def stepped(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> dict[str, Array]:
        """Return the shared half as a step with this mean would leave it; the copy stays as it is."""
        return self._server.stepped(mean, values)

    def skip(self, number: int) -> None:
        """Finish round `number` without a step."""
        self.arrays(after=number - 1)
        self._server.number = number
        self.changes += 1

    def keep_scored(self, best_round: int) -> None:
        """Keep the shared half that is being scored; `best_round` is the best round before it."""
        if best_round == self._scored_round:
            self._best, self._best_round = self._scored, best_round
        self._scored = {name: tensor.clone() for name, tensor in self._server.shared.items()}
        self._scored_round = self.number
        self.changes += 1

    def best(self, best_round: int) -> dict[str, Array]:
        """Return the shared half of the best round, the last scored or the best before it; for 0, the present one."""
        if not best_round:
            return self.arrays(after=self.number)
        for number, kept in ((self._scored_round, self._scored), (self._best_round, self._best)):
            if number == best_round and kept:
                return {name: tensor.numpy() for name, tensor in kept.items()}
        raise MessageError("behind", "this site has not kept the shared half of that round")

    def state(self) -> dict[str, Tensor]:
        """Return everything that must be saved on the site's disk."""
        tensors = {f"server/{name}": tensor for name, tensor in self._server.state().items()}
        for round_number, kept, prefix in (
            (self._scored_round, self._scored, "scored"),
            (self._best_round, self._best, "best"),
        ):
            tensors |= {f"{prefix}-{round_number}/{name}": tensor for name, tensor in kept.items()}
        return tensors

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore from another copy's `state()`."""
        self._server.load_state(tensors_under("server", tensors))
        self._scored_round, self._scored = _kept("scored", tensors)
        self._best_round, self._best = _kept("best", tensors)

    def shared_bytes(self) -> bytes:
        """Return the bytes of the shared half only, to compare two copies."""
        return b"".join(self._server.shared[name].numpy().tobytes() for name in sorted(self._server.shared))

    def to_bytes(self) -> bytes:
        """Return the whole state as bytes, for a site that is behind."""
        return save_bytes({name: tensor.detach().contiguous() for name, tensor in self.state().items()})

    def load_bytes(self, data: bytes) -> None:
        """Restore from another site's `to_bytes()`."""
        try:
            self.load(parse_safetensors(data))
        except (SafetensorError, TrainingError, KeyError, ValueError):
            raise MessageError("state", "is not a copy of this study's shared half") from None
        self.changes += 1


def _kept(prefix: str, tensors: Mapping[str, Tensor]) -> tuple[int, dict[str, Tensor]]:
    for name in tensors:
        head = name.partition("/")[0]
        if head.startswith(f"{prefix}-"):
            return int(head.removeprefix(f"{prefix}-")), tensors_under(head, tensors)
    return 0, {}
