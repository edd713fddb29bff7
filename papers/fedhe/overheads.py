"""Measure what encryption costs: bytes, seconds and the coordinator's memory (Tables 2 and 3, Figure 1).

    python -m papers.fedhe.overheads --out runs/fedhe/overheads.json

Updates are random numbers, because the cost does not depend on their values. Sealing is clipping, packing, encrypting,
serialising and tagging; opening is checking the tag of a sum, decrypting it and unpacking it; both on one core. The
coordinator is a separate process that reads sealed updates from a file and keeps their sum.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from wardround.federation.message import Array, Message
from wardround.secure_aggregation import bfv, ckks
from wardround.secure_aggregation.bfv import Ciphertexts
from wardround.secure_aggregation.codecs import BfvCodec, CkksCodec, Codec, NumberLayout
from wardround.secure_aggregation.mac import CiphertextHash, MacTag, add_tags, derive_pad
from wardround.secure_aggregation.packing import Layout, SlotLayout
from wardround.secure_aggregation.transcript import sealed_digest

__all__ = ["aggregation", "cost", "main", "parameters_of"]

NETWORKS = ("bert-tiny", "bert-mini", "minilm", "bert-small", "bert-base")
WAYS = ("bfv", "bfv-compact", "ckks")
_PACKINGS = {"bfv": "standard", "bfv-compact": "compact"}
AGGREGATED = ("bert-tiny", "bert-mini")  # the networks of Figure 1
CLIENTS = (2, 4, 8, 14, 16, 22, 64)
_ROOT = Path(__file__).resolve().parents[2]
_TAGS = 3  # BIO of one type
_CLIP = 0.1
_SHARE = 0.5  # of one of the two clients of Table 4
_LARGEST_CKKS = 12_000_000  # parameters; an update of a larger network takes gigabytes
_GROUP_KEY, _CONTEXT = bytes(32), bytes(32)  # of the tags; their values do not change the cost
_STORED = 2  # sealed updates on disk, used in turn


@dataclass(frozen=True)
class Repeats:
    """How often each operation is timed."""

    quick: int = 20
    slow: int = 5  # with CKKS, or for a hundred million parameters

    def of(self, way: str, parameters: int) -> int:
        """Return the repeats of one way and one size."""
        return self.slow if way == "ckks" or parameters > 10**8 else self.quick


class Adder(Protocol):
    """The coordinator's sum."""

    def add(self, ciphertexts: Ciphertexts) -> None:
        """Add the update of one client."""


@dataclass(frozen=True)
class Sealed:
    """An encrypted update, or the sum of one client."""

    arrays: dict[str, Array]
    digest: str
    tag: MacTag

    @property
    def bytes(self) -> int:
        """Return the bytes that are sent, including the tag."""
        return sum(array.nbytes for array in self.arrays.values()) + 8 * len(self.tag)


class Way:
    """One way to encrypt an update: everything that a client does except signing."""

    def __init__(self, layout: SlotLayout, codec: Codec, secret: bytes, public: bytes = b"") -> None:
        self._layout, self._codec, self._secret = layout, codec, secret
        self.public = public  # what the coordinator needs; empty: nothing

    def seal(self, update: Array) -> Sealed:
        """Encrypt an update at a client, times its share."""
        slots = self._layout.pack({"update": update}, share=_SHARE).slots
        arrays, hashed = self._codec.seal(slots, self._secret, self._hash_key())
        digest = sealed_digest(Message({}, arrays))
        return Sealed(arrays, digest, add_tags([hashed, self._pad(digest)], self._codec.moduli))

    def sum(self, sealed: Sealed) -> Sealed:
        """Return the coordinator's sum of one client."""
        running = self._codec.sum(self._layout.slots)
        running.add(sealed.arrays)
        return Sealed(running.total(), sealed.digest, sealed.tag)

    def open(self, total: Sealed) -> Array:
        """Check the tag at a client, then decrypt."""
        hashed = self._codec.hash(total.arrays, self._layout.slots, self._secret, self._hash_key())
        assert add_tags([hashed, self._pad(total.digest)], self._codec.moduli) == total.tag
        slots = self._codec.open(total.arrays, self._layout.slots, self._secret)
        return self._layout.unpack(slots, share=_SHARE, sites=1)["update"]

    def _hash_key(self) -> CiphertextHash:
        return self._codec.hash_key(_GROUP_KEY, _CONTEXT, self._layout.slots)

    def _pad(self, digest: str) -> MacTag:
        return derive_pad(_GROUP_KEY, context=_CONTEXT, site="client", digest=digest, moduli=self._codec.moduli)


def way_of(name: str, numbers: int) -> Way:
    """Return a way by name: BFV packs several fixed-point numbers into a slot; CKKS, the paper's way, takes floats."""
    shapes, clips = {"update": (numbers,)}, {"update": _CLIP}
    if name == "ckks":
        secret = ckks.new_secret()
        return Way(NumberLayout(shapes, clips), CkksCodec(), secret, ckks.public_part(secret))
    parameters = bfv.BfvParameters(_PACKINGS[name])
    layout = Layout(shapes, clips, parameters.packing)
    return Way(layout, BfvCodec(parameters), parameters.new_secret())


def adder_of(name: str, numbers: int, public: bytes) -> Adder:
    """Return the sum of a coordinator without a key, on one core."""
    return ckks.CkksSum(public, numbers) if name == "ckks" else bfv.BfvSum(bfv.BfvParameters(_PACKINGS[name]))


def parameters_of(network: str) -> int:
    """Return the number of parameters of the whole tagger; no weight is loaded."""
    # Imported here, so that the coordinator's process does not load torch.
    import torch
    from transformers import BertConfig

    from wardround.models.encoders import encoder_folder, fresh_configuration
    from wardround.models.pretrained import fresh_network, load_configuration

    compact = fresh_configuration(network)
    if compact is None:
        compact = BertConfig() if network == "bert-base" else load_configuration(encoder_folder(network))
    compact.num_labels = _TAGS
    with torch.device("meta"):
        model = fresh_network(compact)
    return sum(parameter.numel() for parameter in model.parameters())


def update_of(numbers: int) -> Array:
    """Return random numbers within the clip."""
    return np.random.default_rng(0).uniform(-_CLIP, _CLIP, numbers).astype(np.float32)


def timed(work: Callable[[], Any], repeats: int) -> list[float]:
    """Return the seconds of each call."""
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        found.append(round(time.perf_counter() - started, 4))
    return found


def cost(way: str, numbers: int, repeats: int) -> dict[str, Any]:
    """Return the bytes of a sealed update, the seconds to seal and to open it, and the largest error."""
    sealing, update = way_of(way, numbers), update_of(numbers)
    sealed = sealing.seal(update)
    total = sealing.sum(sealed)
    error = float(np.abs(sealing.open(total) - update).max())
    return {
        "bytes": sealed.bytes,
        "seal": timed(lambda: sealing.seal(update), repeats),
        "open": timed(lambda: sealing.open(total), repeats),
        "largest_error": error,
    }


# The coordinator.


def aggregation(way: str, numbers: int, clients: Sequence[int]) -> list[dict[str, Any]]:
    """Return seconds and peak memory of a coordinator by number of clients."""
    with tempfile.TemporaryDirectory() as folder:
        sealing, update = way_of(way, numbers), update_of(numbers)
        for number in range(_STORED):
            arrays = sealing.seal(update).arrays
            arrays["sealed"].tofile(Path(folder) / f"data-{number}")
            arrays["lengths"].tofile(Path(folder) / f"lengths-{number}")
        (Path(folder) / "public").write_bytes(sealing.public)
        options = [way, str(numbers), folder, ",".join(map(str, clients))]
        command = [sys.executable, "-m", "papers.fedhe.overheads", "--coordinator", *options]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=_ROOT)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def coordinator(way: str, numbers: int, folder: Path, clients: Sequence[int]) -> list[dict[str, Any]]:
    """Add one client after the other, in a process that has sealed nothing, so that it measures the sum's memory."""
    adder = adder_of(way, numbers, (folder / "public").read_bytes())
    found, seconds = [], 0.0
    for number in range(1, max(clients) + 1):
        stored = number % _STORED
        data = np.fromfile(folder / f"data-{stored}", np.uint8)
        lengths = np.fromfile(folder / f"lengths-{stored}", np.int32)
        started = time.perf_counter()
        adder.add(Ciphertexts(data, lengths))
        seconds += time.perf_counter() - started
        if number in clients:
            found.append({"clients": number, "seconds": round(seconds, 3), "peak_mb": round(peak_memory())})
    return found


def peak_memory() -> float:
    """Return megabytes; `getrusage` would include the memory that the parent had when it started this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


# All of it.


def measured(networks: Sequence[str], repeats: Repeats, clients: Sequence[int]) -> dict[str, Any]:
    """Measure every network and way; CKKS only if an update fits into memory."""
    found: dict[str, Any] = {"machine": machine(), "networks": {}}
    for network in networks:
        numbers = parameters_of(network)
        ways = [way for way in WAYS if way != "ckks" or numbers <= _LARGEST_CKKS]
        found["networks"][network] = {"parameters": numbers, "ways": {}, "aggregation": {}}
        for way in ways:
            own = found["networks"][network]
            own["ways"][way] = cost(way, numbers, repeats.of(way, numbers))
            if network in AGGREGATED:
                own["aggregation"][way] = aggregation(way, numbers, clients)
            print(f"{network}, {way}: done", file=sys.stderr, flush=True)
    return found


def machine() -> str:
    """Describe the machine, without its name."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def main() -> None:
    """Measure and write the results, or run as the coordinator that is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("overheads.json"))
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(NETWORKS))
    parser.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=list(CLIENTS))
    parser.add_argument("--repeats", type=int, default=Repeats().quick)
    parser.add_argument(
        "--slow-repeats", type=int, default=Repeats().slow, help="with CKKS, and for the largest network"
    )
    parser.add_argument("--coordinator", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.coordinator:
        way, numbers, folder, clients = options.coordinator
        print(json.dumps(coordinator(way, int(numbers), Path(folder), [int(n) for n in clients.split(",")])))
        return
    found = measured(options.networks, Repeats(options.repeats, options.slow_repeats), options.clients)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
