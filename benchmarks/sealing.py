"""The cost of sealing an update: bytes, seconds and memory.

Ours is compared with the usual use of TenSEAL's CKKSVector: the public key encrypts, the coordinator multiplies by a
site's share and adds, a site decrypts. The peer uses one vector for each 4096 numbers, or one for all numbers, which it
splits itself; each figure of ours is compared with the faster of the two. Two more parts measure the coordinator with
more sites, where the peer collects all uploads before it adds them, and an update of BERT-base's size through all its
stages, each in a process of its own.

Our coordinator adds on as many cores as in a study. The time to add one more site excludes the start of its worker
processes; the time to add all sites includes it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import Bar, Options, Part, arguments, finish, installed

from wardround.federation.aggregation import RunningSum
from wardround.federation.message import Array, Message
from wardround.reports.tables import Row, Table
from wardround.secure_aggregation.bfv import BfvParameters
from wardround.secure_aggregation.codecs import BfvCodec
from wardround.secure_aggregation.mac import MacTag, add_tags, derive_pad
from wardround.secure_aggregation.packing import Layout
from wardround.secure_aggregation.transcript import sealed_digest

BERT_TINY, BERT_BASE = 4_390_000, 108_000_000  # numbers of an update
CLIP = 0.05
BLOCK = 4096  # numbers in one of TenSEAL's ciphertexts
BLOCKS, WHOLE = "blocks", "whole"  # the peer's vectors: one per ciphertext, or one for all numbers
NOTE = (
    "seconds, except upload (× float32); sealing: pack, encrypt, tag; opening: check the tag, decrypt, unpack; "
    "ratio: peer over ours"
)

Measured = dict[str, float]

MOST_UPLOAD = {"standard": 1.05, "compact": 0.70}  # × float32
LEAST = {"seal": 10.0, "add one more site": 20.0, "open": 4.0}  # times faster than the peer, from BERT-tiny's size on
LEAST_SMALL = {**LEAST, "add one more site": 10.0}  # below it, calling the worker processes takes as long as adding
MOST_MEMORY = 1.2  # of the coordinator, many sites over few
MOST_DISTANCE = 1.0  # of the mean from the plain mean, as a fraction of the quantisation bound


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    numbers: int  # of an update
    large: int  # of the large update
    repeats: int = 3
    sites: int = 8  # that seal the large update
    few: int = 4  # sites of the coordinator whose memory is measured
    many: int = 64


SIZES = {
    "full": Size(BERT_TINY, BERT_BASE),
    "quick": Size(819_000, 4_095_000),
    "smallest": Size(5_000, 10_000, repeats=1, sites=2, few=2, many=3),
}


@dataclass(frozen=True)
class Scheme:
    """One way to protect an update; `prepare` makes the sum to which `add` adds one more site."""

    seal: Callable[[Array], Any]
    size: Callable[[Any], int]  # in bytes
    prepare: Callable[[Any], Any]
    add: Callable[[Any, Any], None]
    total: Callable[[Any], Any]
    open: Callable[[Any], Array]


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    size = SIZES[options.size]
    parts = []
    if installed("tenseal", "pip install 'wardround[sealed]'"):
        parts = compare(size.numbers, size.repeats)
        with TemporaryDirectory() as scratch:
            parts.append(measure_memory(options, size, Path(scratch)))
            parts.append(measure_large(options, size, Path(scratch)))
    columns = ("what", "ours", "TenSEAL CKKS", "as", "ratio", "peak MB")
    table = Table("Sealing", columns, tuple(row for part in parts for row in part.rows), note=NOTE)
    figures = [figure for part in parts for figure in part.figures]
    return finish("sealing", table, figures, [bar for part in parts for bar in part.bars], check=options.check)


def compare(numbers: int, repeats: int) -> list[Part]:
    """Measure bytes and seconds of both packings; each repeat is compared with the same repeat of the peer."""
    update = np.random.default_rng(0).standard_normal(numbers, np.float32) * np.float32(0.01)
    np.clip(update, -CLIP, CLIP, out=update)  # so that ours and the peer's are compared with the same numbers
    schemes = {BLOCKS: tenseal_scheme(numbers, BLOCK), WHOLE: tenseal_scheme(numbers, numbers)}
    schemes |= {name: our_scheme(name, numbers) for name in MOST_UPLOAD}
    measured: dict[str, list[Measured]] = {name: [] for name in schemes}
    for _ in range(repeats):
        for name, scheme in schemes.items():
            measured[name].append(measure_round(scheme, update))
    peers = {name: measured[name] for name in (BLOCKS, WHOLE)}
    return [compared_with_peer(name, measured[name], peers, numbers) for name in MOST_UPLOAD]


def measure_round(scheme: Scheme, update: Array) -> Measured:
    """Return the seconds of each operation of two sites and a coordinator; upload as a multiple of float32."""
    times = [time.perf_counter()]
    sealed = scheme.seal(update)
    times.append(time.perf_counter())
    running = scheme.prepare(sealed)
    times.append(time.perf_counter())
    scheme.add(running, sealed)
    times.append(time.perf_counter())
    total = scheme.total(running)
    times.append(time.perf_counter())
    opened = scheme.open(total)
    times.append(time.perf_counter())
    sealing, _, adding, _, opening = (after - before for before, after in pairwise(times))
    apart = float(np.abs(opened - update).max())
    upload = scheme.size(sealed) / update.nbytes
    return {"upload": upload, "seal": sealing, "add one more site": adding, "open": opening, "apart": apart}


@dataclass(frozen=True)
class Tagged:
    """A sealed update with its digest and tag; a sum has those of every update in it."""

    arrays: dict[str, Array]
    tags: tuple[tuple[str, MacTag], ...]


@dataclass
class TaggedSum:
    """The coordinator's running sum."""

    sum: RunningSum[Mapping[str, Array]]
    tags: tuple[tuple[str, MacTag], ...] = ()

    def add(self, sealed: Tagged) -> None:
        """Add the update of one more site."""
        self.sum.add(sealed.arrays)
        self.tags += sealed.tags

    def total(self) -> Tagged:
        """Return the sum for the sites."""
        return Tagged(self.sum.total(), self.tags)


def our_scheme(packing: str, numbers: int) -> Scheme:
    """Return our scheme for two sites of equal weight under BFV: everything a site does except for signatures."""
    parameters = BfvParameters(packing)
    layout = Layout({"update": (numbers,)}, {"update": CLIP}, parameters.packing)
    codec, secret = BfvCodec(parameters), parameters.new_secret()
    group_key, context = bytes(32), bytes(32)

    def pad(digest: str) -> MacTag:
        return derive_pad(group_key, context=context, site="h1", digest=digest, moduli=codec.moduli)

    def seal(update: Array) -> Tagged:
        slots = layout.pack({"update": update}, share=0.5).slots
        arrays, hashed = codec.seal(slots, secret, codec.hash_key(group_key, context, layout.slots))
        digest = sealed_digest(Message({}, arrays))
        return Tagged(arrays, ((digest, add_tags([hashed, pad(digest)], codec.moduli)),))

    def prepare(sealed: Tagged) -> TaggedSum:
        running = TaggedSum(codec.sum(layout.slots))
        running.add(sealed)
        return running

    def open_mean(total: Tagged) -> Array:
        hashed = codec.hash(total.arrays, layout.slots, secret, codec.hash_key(group_key, context, layout.slots))
        found = add_tags([hashed, *(pad(digest) for digest, _ in total.tags)], codec.moduli)
        assert found == add_tags([tag for _, tag in total.tags], codec.moduli)
        slots = codec.open(total.arrays, layout.slots, secret)
        return layout.unpack(slots, share=1.0, sites=2)["update"]

    def size(sealed: Tagged) -> int:
        return sum(array.nbytes for array in sealed.arrays.values()) + sum(8 * len(tag) for _, tag in sealed.tags)

    return Scheme(seal, size, prepare, TaggedSum.add, TaggedSum.total, open_mean)


def tenseal_scheme(numbers: int, block: int) -> Scheme:
    """Return the scheme of TenSEAL's tutorials and the FedHE paper for two sites, with `block` numbers in a vector."""
    import tenseal

    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 40, 60])
    context.global_scale = 2**40
    public = tenseal.context_from(context.serialize())

    def seal(update: Array) -> list[bytes]:
        starts = range(0, numbers, block)
        return [tenseal.ckks_vector(context, update[start : start + block]).serialize() for start in starts]

    def prepare(sealed: list[bytes]) -> list[Any]:
        return [tenseal.ckks_vector_from(public, part) * 0.5 for part in sealed]

    def add(running: list[Any], sealed: list[bytes]) -> None:
        for place, part in enumerate(sealed):
            running[place] = running[place] + tenseal.ckks_vector_from(public, part) * 0.5

    def total(running: list[Any]) -> list[bytes]:
        return [vector.serialize() for vector in running]

    def open_mean(summed: list[bytes]) -> Array:
        return np.concatenate([tenseal.ckks_vector_from(context, part).decrypt() for part in summed])

    return Scheme(seal, lambda sealed: sum(map(len, sealed)), prepare, add, total, open_mean)


def measure_memory(options: Options, size: Size, scratch: Path) -> Part:
    """Measure the coordinator alone with few and with many sites, which send the same few uploads in turn."""
    uploads = [seal(options, seed, size.numbers, sites=size.few, scratch=scratch)[0] for seed in range(size.few)]
    figures = []
    for sites in (size.few, size.many):
        request = {"role": "add", "packing": "standard", "out": str(scratch / "total")}
        answer = options.run("sealing_roles", request | {"uploads": (uploads * sites)[:sites]})
        figures.append({"part": "memory", "sites": sites, "seconds": sum(answer["add_s"]), **answer})
    few, many = figures
    request = {"numbers": size.numbers, "sites": size.few}
    peers = {
        name: options.run("tenseal_coordinator", request | {"block": block})
        for name, block in ((BLOCKS, BLOCK), (WHOLE, size.numbers))
    }
    faster = min(peers, key=lambda name: peers[name]["seconds"])
    peer, what = peers[faster], f"{millions(size.numbers)}: add"
    ratio, peak = round(peer["seconds"] / few["seconds"], 1), round(few["peak_mb"])
    rows: list[Row] = [
        (f"{what} {size.few} sites", few["seconds"], peer["seconds"], faster, ratio, peak),
        (f"{what} {size.many} sites", many["seconds"], None, None, None, round(many["peak_mb"])),
        (f"{what} {size.few} sites, the peer", None, peer["seconds"], faster, None, round(peer["peak_mb"])),
    ]
    name = f"memory to add {size.many} sites over {size.few}"
    bars = [Bar(name, many["peak_mb"] / few["peak_mb"], most=MOST_MEMORY)]
    return Part(rows, [*figures, {"part": "memory", "peer": peers}], bars)


def measure_large(options: Options, size: Size, scratch: Path) -> Part:
    """Seal a large update at each site, add the updates, and open the mean."""
    made = [seal(options, seed, size.large, sites=size.sites, scratch=scratch) for seed in range(size.sites)]
    total, packing = str(scratch / "total"), {"packing": "standard"}
    request = {"role": "add", "uploads": [path for path, _ in made], "out": total}
    added = options.run("sealing_roles", packing | request)
    request = {"role": "open", "numbers": size.large, "key": str(scratch / "key"), "total": total}
    tags = [answer["tagged"] for _, answer in made]
    opened = options.run("sealing_roles", packing | request | {"tags": tags})
    sealing = median(answer["pack_s"] + answer["seal_s"] + answer["tag_s"] for _, answer in made)
    peak = max(answer["peak_mb"] for _, answer in made)
    opening = opened["check_s"] + opened["open_s"] + opened["unpack_s"]
    what = millions(size.large)
    rows: list[Row] = [
        (f"{what}: seal, one site", sealing, None, None, None, round(peak)),
        (f"{what}: add {size.sites} sites", sum(added["add_s"]), None, None, None, round(added["peak_mb"])),
        (f"{what}: write the sum", added["total_s"], None, None, None, None),
        (f"{what}: check the tag, before opening", opened["check_s"], None, None, None, None),
        (f"{what}: open", opening, None, None, None, round(opened["opening_mb"])),
    ]
    figure = {"part": "large", "numbers": size.large, "seal_s": sealing, "seal_mb": peak, "add": added, "open": opened}
    bars = [Bar(f"{what}: distance of the mean over the bound", opened["apart"], most=MOST_DISTANCE)]
    return Part(rows, [figure], bars)


def compared_with_peer(name: str, ours: list[Measured], peers: dict[str, list[Measured]], numbers: int) -> Part:
    """Compare our measurements under one packing with the faster form of the peer."""

    def middle(measured: list[Measured], key: str) -> float:
        return median(each[key] for each in measured)

    what = f"{name}, {millions(numbers)}"
    rows: list[Row] = []
    ratios = {}
    for key in ("upload", *LEAST):
        faster = min(peers, key=lambda form: middle(peers[form], key))
        ratios[key] = median(peer[key] / own[key] for own, peer in zip(ours, peers[faster], strict=True))
        medians = middle(ours, key), middle(peers[faster], key)
        rows.append((f"{what}: {key}", *medians, faster, round(ratios[key], 1), None))
    errors = f"{middle(ours, 'apart'):.0e}", f"{middle(peers[BLOCKS], 'apart'):.0e}"
    rows.append((f"{what}: largest error", *errors, BLOCKS, None, None))
    bars = [Bar(f"{what}: upload, × float32", middle(ours, "upload"), most=MOST_UPLOAD[name])]
    limits = LEAST if numbers >= BERT_TINY else LEAST_SMALL
    bars += [Bar(f"{what}: times faster to {key}", ratios[key], least=least) for key, least in limits.items()]
    return Part(rows, [{"part": "compare", "packing": name, "ratios": ratios, "ours": ours, "peer": peers}], bars)


def seal(options: Options, seed: int, numbers: int, *, sites: int, scratch: Path) -> tuple[str, dict[str, Any]]:
    """Seal a site's update into a file; return its path and its cost. All sites use one key."""
    key, out = scratch / "key", scratch / f"upload-{seed}"
    if not key.exists():
        key.touch(0o600)
        key.write_bytes(BfvParameters("standard").new_secret())
    request = {"role": "seal", "packing": "standard", "numbers": numbers, "sites": sites, "seed": seed}
    return str(out), options.run("sealing_roles", request | {"key": str(key), "out": str(out)})


def millions(numbers: int) -> str:
    """Return a number in millions."""
    return f"{numbers / 1e6:.3g} M"


if __name__ == "__main__":
    sys.exit(main())
