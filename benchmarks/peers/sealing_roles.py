"""One role of a sealed exchange, alone in its process: a site that seals, the coordinator, a site that opens.

Request and answer as JSON; updates lie on disk between the roles, and a site's is known by its seed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wardround.federation.message import Array, Message
from wardround.secure_aggregation.bfv import BfvParameters, Ciphertexts
from wardround.secure_aggregation.codecs import BfvCodec
from wardround.secure_aggregation.mac import Tag, added, pad_of
from wardround.secure_aggregation.packing import Layout
from wardround.secure_aggregation.running_sum import RunningSum
from wardround.secure_aggregation.transcript import sealed_digest
from wardround.secure_aggregation.workers import running_sum

GROUP_KEY, CONTEXT = bytes(32), bytes(32)
CLIP = 0.05  # five times what most numbers of an update are
STRETCH = 1_000_000  # numbers that are compared at once


def main() -> None:
    """Play the role that is asked for."""
    request = json.load(sys.stdin)
    role: Callable[..., dict[str, Any]] = {"seal": seal, "add": add, "open": open_mean}[request.pop("role")]
    answer = role(BfvParameters(request.pop("packing")), **request)
    print(json.dumps(answer | {"peak_mb": peak_megabytes()}))


def seal(parameters: BfvParameters, *, numbers: int, sites: int, seed: int, key: str, out: str) -> dict[str, Any]:
    """An update of one of several sites of equal weight, packed, sealed and tagged."""
    update: Array = np.empty(numbers, np.float32)
    for start, stretch in zip(range(0, numbers, STRETCH), update_of(seed, numbers), strict=True):
        update[start : start + len(stretch)] = stretch
    started = time.perf_counter()
    slots = layout_of(parameters, numbers).pack({"update": update}, share=1 / sites).slots
    packed = time.perf_counter()
    carrier = BfvCodec(parameters)
    arrays, hashed = carrier.seal(slots, Path(key).read_bytes(), carrier.hash_key(GROUP_KEY, CONTEXT, len(slots)))
    sealed = time.perf_counter()
    digest = sealed_digest(Message({}, arrays))
    tag = added([hashed, pad(carrier, seed, digest)], carrier.moduli)
    done = time.perf_counter()
    arrays["sealed"].tofile(out)
    return {
        "pack_s": packed - started,
        "seal_s": sealed - packed,
        "tag_s": done - sealed,
        "bytes": arrays["sealed"].nbytes,
        "tagged": {"seed": seed, "digest": digest, "tag": tag},
    }


def add(parameters: BfvParameters, *, uploads: list[str], out: str) -> dict[str, Any]:
    """One upload after the other, read and added, then the sum; on as many cores as in a study."""
    running = running_sum(parameters, Path(uploads[0]).stat().st_size // parameters.fresh.length)
    seconds = [add_one(running, read(upload, parameters.fresh.length)) for upload in uploads]
    started = time.perf_counter()
    running.total().data.tofile(out)
    return {"add_s": seconds, "total_s": time.perf_counter() - started}


def add_one(running: RunningSum[Ciphertexts], sealed: Ciphertexts) -> float:
    """Seconds to add one upload, which is let go of then."""
    started = time.perf_counter()
    running.add(sealed)
    return time.perf_counter() - started


def open_mean(
    parameters: BfvParameters, *, numbers: int, key: str, total: str, tags: list[dict[str, Any]]
) -> dict[str, Any]:
    """The mean of a sum that was checked before, and how far it is from the plain one.

    The distance is told as a part of what quantisation may cost. `tags` are those of the sites.
    """
    layout, summed = layout_of(parameters, numbers), read(total, parameters.summed.length)
    carrier, secret = BfvCodec(parameters), Path(key).read_bytes()
    arrays = {"sealed": summed.data, "lengths": summed.lengths}
    started = time.perf_counter()
    hashed = carrier.hash(arrays, layout.slots, secret, carrier.hash_key(GROUP_KEY, CONTEXT, layout.slots))
    pads = [pad(carrier, said["seed"], said["digest"]) for said in tags]
    assert added([hashed, *pads], carrier.moduli) == added([tuple(said["tag"]) for said in tags], carrier.moduli)
    checked = time.perf_counter()
    slots = carrier.open(arrays, layout.slots, secret)
    opened = time.perf_counter()
    mean = layout.unpack(slots, share=1.0, sites=len(tags))["update"]
    done = time.perf_counter()
    peak = peak_megabytes()
    bound = len(tags) * CLIP / 2**parameters.packing.width
    apart = furthest_apart(mean, [update_of(said["seed"], numbers) for said in tags])
    return {
        "check_s": checked - started,
        "open_s": opened - checked,
        "unpack_s": done - opened,
        "apart": apart / bound,
        "opening_mb": peak,
    }


def pad(carrier: BfvCodec, seed: int, digest: str) -> Tag:
    """Of the site whose update is known by its seed."""
    return pad_of(GROUP_KEY, context=CONTEXT, site=f"h{seed}", digest=digest, moduli=carrier.moduli)


def update_of(seed: int, numbers: int) -> Iterator[Array]:
    """A site's update, a stretch at a time."""
    generator = np.random.default_rng(seed)
    for start in range(0, numbers, STRETCH):
        drawn = generator.standard_normal(min(STRETCH, numbers - start), np.float32)
        drawn *= np.float32(0.01)
        yield drawn


def furthest_apart(mean: Array, updates: list[Iterator[Array]]) -> float:
    """The largest distance of the mean from that of the clipped updates; the rounding of float32 does not count."""
    apart, start = 0.0, 0
    for stretches in zip(*updates, strict=True):
        plain = sum(np.clip(stretch.astype(np.float64), -CLIP, CLIP) for stretch in stretches) / len(updates)
        own = mean[start : start + len(plain)]
        apart = max(apart, float((np.abs(own - plain) - np.spacing(np.abs(own)) / 2).max()))
        start += len(plain)
    return apart


def layout_of(parameters: BfvParameters, numbers: int) -> Layout:
    """One array of so many numbers."""
    return Layout({"update": (numbers,)}, {"update": CLIP}, parameters.packing)


def read(path: str, length: int) -> Ciphertexts:
    """Ciphertexts, all of one length, from a file."""
    data: Array = np.fromfile(path, np.uint8)
    return Ciphertexts(data, np.full(len(data) // length, length, np.int32))


def peak_megabytes() -> float:
    """Largest resident memory of this program and of the processes it has started, each at its own worst moment.

    `getrusage` would count the parent's, from before the program began.
    """
    tasks = Path("/proc/self/task").glob("*/children")
    children = [pid for task in tasks for pid in task.read_text(encoding="ascii").split()]
    return sum(map(_peak_kilobytes, ("self", *children))) / 1024


def _peak_kilobytes(process: str) -> int:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])


if __name__ == "__main__":
    main()
