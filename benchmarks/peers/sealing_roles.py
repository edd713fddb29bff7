"""One role of a sealed exchange, in its own process: a site that seals, the coordinator, a site that opens.

Updates are files between the roles; a site's update is generated from its seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from json_script import answer, peak_megabytes

from wardround.federation.message import Array, Message
from wardround.secure_aggregation.bfv import BfvParameters, Ciphertexts
from wardround.secure_aggregation.codecs import BfvCodec
from wardround.secure_aggregation.mac import MacTag, add_tags, derive_pad
from wardround.secure_aggregation.packing import Layout
from wardround.secure_aggregation.transcript import sealed_digest
from wardround.secure_aggregation.workers import running_sum

GROUP_KEY, CONTEXT = bytes(32), bytes(32)
CLIP = 0.05  # five standard deviations of the updates
CHUNK = 1_000_000  # numbers that are generated and compared at once


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Run the requested role."""
    role: Callable[..., dict[str, Any]] = {"seal": seal, "add": add, "open": open_mean}[request.pop("role")]
    return role(BfvParameters(request.pop("packing")), **request) | {"peak_mb": peak_megabytes()}


def seal(parameters: BfvParameters, *, numbers: int, sites: int, seed: int, key: str, out: str) -> dict[str, Any]:
    """Pack, seal and tag the update of one of several sites of equal weight."""
    update: Array = np.empty(numbers, np.float32)
    for start, chunk in zip(range(0, numbers, CHUNK), update_of(seed, numbers), strict=True):
        update[start : start + len(chunk)] = chunk
    started = time.perf_counter()
    slots = layout_of(parameters, numbers).pack({"update": update}, share=1 / sites).slots
    packed = time.perf_counter()
    codec = BfvCodec(parameters)
    arrays, hashed = codec.seal(slots, Path(key).read_bytes(), codec.hash_key(GROUP_KEY, CONTEXT, len(slots)))
    sealed = time.perf_counter()
    digest = sealed_digest(Message({}, arrays))
    tag = add_tags([hashed, pad(codec, seed, digest)], codec.moduli)
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
    """Read and add the uploads one by one, then write the sum; on as many cores as in a study."""
    running = running_sum(parameters, Path(uploads[0]).stat().st_size // parameters.fresh.length)
    seconds = []
    for upload in uploads:
        sealed = read(upload, parameters.fresh.length)
        started = time.perf_counter()
        running.add(sealed)
        seconds.append(time.perf_counter() - started)
        del sealed  # so that at most one upload is in memory
    started = time.perf_counter()
    running.total().data.tofile(out)
    return {"add_s": seconds, "total_s": time.perf_counter() - started}


def open_mean(
    parameters: BfvParameters, *, numbers: int, key: str, total: str, tags: list[dict[str, Any]]
) -> dict[str, Any]:
    """Check the sum, open its mean, and measure how far it is from the plain mean.

    The distance is a fraction of the quantisation bound. `tags` are the sites' tags.
    """
    layout, summed = layout_of(parameters, numbers), read(total, parameters.summed.length)
    codec, secret = BfvCodec(parameters), Path(key).read_bytes()
    arrays = {"sealed": summed.data, "lengths": summed.lengths}
    started = time.perf_counter()
    hashed = codec.hash(arrays, layout.slots, secret, codec.hash_key(GROUP_KEY, CONTEXT, layout.slots))
    pads = [pad(codec, tagged["seed"], tagged["digest"]) for tagged in tags]
    assert add_tags([hashed, *pads], codec.moduli) == add_tags([tuple(tagged["tag"]) for tagged in tags], codec.moduli)
    checked = time.perf_counter()
    slots = codec.open(arrays, layout.slots, secret)
    opened = time.perf_counter()
    mean = layout.unpack(slots, share=1.0, sites=len(tags))["update"]
    done = time.perf_counter()
    peak = peak_megabytes()
    bound = len(tags) * CLIP / 2**parameters.packing.width
    apart = furthest_apart(mean, [update_of(tagged["seed"], numbers) for tagged in tags])
    return {
        "check_s": checked - started,
        "open_s": opened - checked,
        "unpack_s": done - opened,
        "apart": apart / bound,
        "opening_mb": peak,
    }


def pad(codec: BfvCodec, seed: int, digest: str) -> MacTag:
    """Return the one-time pad of the site with this seed."""
    return derive_pad(GROUP_KEY, context=CONTEXT, site=f"h{seed}", digest=digest, moduli=codec.moduli)


def update_of(seed: int, numbers: int) -> Iterator[Array]:
    """Yield a site's update in chunks."""
    generator = np.random.default_rng(seed)
    for start in range(0, numbers, CHUNK):
        drawn = generator.standard_normal(min(CHUNK, numbers - start), np.float32)
        drawn *= np.float32(0.01)
        yield drawn


def furthest_apart(mean: Array, updates: list[Iterator[Array]]) -> float:
    """Return the largest distance from the mean of the clipped updates; the rounding of float32 does not count."""
    apart, start = 0.0, 0
    for chunks in zip(*updates, strict=True):
        plain = sum(np.clip(chunk.astype(np.float64), -CLIP, CLIP) for chunk in chunks) / len(updates)
        own = mean[start : start + len(plain)]
        apart = max(apart, float((np.abs(own - plain) - np.spacing(np.abs(own)) / 2).max()))
        start += len(plain)
    return apart


def layout_of(parameters: BfvParameters, numbers: int) -> Layout:
    """Return the layout of one array."""
    return Layout({"update": (numbers,)}, {"update": CLIP}, parameters.packing)


def read(path: str, length: int) -> Ciphertexts:
    """Read ciphertexts of equal length from a file."""
    data: Array = np.fromfile(path, np.uint8)
    return Ciphertexts(data, np.full(len(data) // length, length, np.int32))


if __name__ == "__main__":
    answer(measure)
