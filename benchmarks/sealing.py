"""What sealing an update costs: bytes, seconds and memory.

Ours against TenSEAL's CKKSVector used the usual way: the public key encrypts, the coordinator multiplies with a site's
share and adds, a site decrypts. The peer may have a vector for each 4096 numbers, or one for all, which it divides
itself; each figure of ours is held against the quicker of both. Then the coordinator with more sites, where the peer
collects what they sent before it adds, and an update of BERT-base's size through all its stations, each in a process of
its own.

Our coordinator adds on as many cores as in a study. Where one more site is added its lanes run already; where all are,
their start counts.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import Bar, arguments, finish, peer_python, run_json

from wardround.federation.message import Array, Message
from wardround.reports.tables import Row, Table
from wardround.secure_aggregation.bfv import BfvParameters
from wardround.secure_aggregation.codecs import BfvCodec
from wardround.secure_aggregation.mac import Tag, added, pad_of
from wardround.secure_aggregation.packing import Layout
from wardround.secure_aggregation.running_sum import RunningSum
from wardround.secure_aggregation.transcript import sealed_digest

PEERS = Path(__file__).parent / "peers"
ROLES = PEERS / "sealing_roles.py"
SEALY = "sealy==0.3.0"
BERT_TINY, BERT_BASE = 4_390_000, 108_000_000  # numbers of an update
QUICK, QUICK_LARGE = 819_000, 4_095_000
CLIP = 0.05
BLOCK = 4096  # numbers of one of TenSEAL's ciphertexts
BLOCKS, WHOLE = "blocks", "whole"  # how the peer has an update: a vector a ciphertext, or one for all
SITES, FEW_SITES, MANY_SITES = 8, 4, 64
NOTE = (
    "seconds, but for upload (× float32); sealing: pack, encrypt, tag; opening: check the tag, decrypt, unpack; "
    "ratio: peer over ours"
)

Measured = dict[str, float]

MOST_UPLOAD = {"standard": 1.05, "compact": 0.70}  # × float32
LEAST = {"seal": 10.0, "add one more site": 20.0, "open": 4.0}  # times faster than the peer, from BERT-tiny's size on
LEAST_SMALL = {**LEAST, "add one more site": 10.0}  # below it, asking the other processes takes as long as adding
MOST_MEMORY = 1.2  # of the coordinator, with many sites over with few
MOST_APART = 1.0  # of what quantisation may cost


@dataclass(frozen=True)
class Part:
    """One measurement: rows of the table, figures for the JSON line, and its bars."""

    rows: Sequence[Row] = ()
    figures: Sequence[dict[str, Any]] = ()
    bars: Sequence[Bar] = ()


@dataclass(frozen=True)
class Way:
    """One way to protect an update; `prepare` makes the sum to which `add` adds one more site."""

    seal: Callable[[Array], Any]
    size: Callable[[Any], int]  # bytes of what was sealed
    prepare: Callable[[Any], Any]
    add: Callable[[Any, Any], None]
    total: Callable[[Any], Any]
    open: Callable[[Any], Array]


def main() -> int:
    """Measure and report."""
    asked = arguments(__doc__)
    parts = compare(QUICK if asked.quick else BERT_TINY, repeats=3)
    with TemporaryDirectory() as scratch:
        parts.append(memory(QUICK if asked.quick else BERT_TINY, Path(scratch)))
        parts.append(large(QUICK_LARGE if asked.quick else BERT_BASE, Path(scratch)))
    parts.append(Part() if asked.quick else sealy())
    columns = ("what", "ours", "TenSEAL CKKS", "as", "ratio", "peak MB")
    table = Table("Sealing", columns, tuple(row for part in parts for row in part.rows), note=NOTE)
    figures = [figure for part in parts for figure in part.figures]
    return finish("sealing", table, figures, [bar for part in parts for bar in part.bars], check=asked.check)


def compare(numbers: int, repeats: int) -> list[Part]:
    """Bytes and seconds of both packings; each repeat of one way is held against the same repeat of the other."""
    update = np.random.default_rng(0).standard_normal(numbers, np.float32) * np.float32(0.01)
    np.clip(update, -CLIP, CLIP, out=update)  # so that both are held against the same numbers
    ways = {BLOCKS: the_usual_way(numbers, BLOCK), WHOLE: the_usual_way(numbers, numbers)}
    ways |= {name: our_way(name, numbers) for name in MOST_UPLOAD}
    measured: dict[str, list[Measured]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            measured[name].append(one_round(way, update))
    peers = {name: measured[name] for name in (BLOCKS, WHOLE)}
    return [_compared(name, measured[name], peers, numbers) for name in MOST_UPLOAD]


def one_round(way: Way, update: Array) -> Measured:
    """Seconds of each thing that two sites and a coordinator do; upload as a multiple of float32."""
    sealing, sealed = _timed(lambda: way.seal(update))
    running = way.prepare(sealed)
    adding, _ = _timed(lambda: way.add(running, sealed))
    total = way.total(running)
    opening, opened = _timed(lambda: way.open(total))
    apart = float(np.abs(opened - update).max())
    upload = way.size(sealed) / update.nbytes
    return {"upload": upload, "seal": sealing, "add one more site": adding, "open": opening, "apart": apart}


@dataclass(frozen=True)
class Tagged:
    """A sealed update and its tag; a sum has the digest and the tag of each update in it."""

    arrays: dict[str, Array]
    tags: tuple[tuple[str, Tag], ...]


@dataclass
class TaggedSum:
    """What a coordinator keeps."""

    sum: RunningSum[Mapping[str, Array]]
    tags: tuple[tuple[str, Tag], ...] = ()

    def add(self, sealed: Tagged) -> None:
        """Add one more site's."""
        self.sum.add(sealed.arrays)
        self.tags += sealed.tags

    def total(self) -> Tagged:
        """What the sites get."""
        return Tagged(self.sum.total(), self.tags)


def our_way(packing: str, numbers: int) -> Way:
    """Two sites of equal weight, under BFV: all that a site does to seal and to open but sign and check signatures."""
    parameters = BfvParameters(packing)
    layout = Layout({"update": (numbers,)}, {"update": CLIP}, parameters.packing)
    carrier, secret = BfvCodec(parameters), parameters.new_secret()
    group_key, context = bytes(32), bytes(32)

    def pad(digest: str) -> Tag:
        return pad_of(group_key, context=context, site="h1", digest=digest, moduli=carrier.moduli)

    def seal(update: Array) -> Tagged:
        slots = layout.pack({"update": update}, share=0.5).slots
        arrays, hashed = carrier.seal(slots, secret, carrier.hash_key(group_key, context, layout.slots))
        digest = sealed_digest(Message({}, arrays))
        return Tagged(arrays, ((digest, added([hashed, pad(digest)], carrier.moduli)),))

    def prepare(sealed: Tagged) -> TaggedSum:
        running = TaggedSum(carrier.sum(layout.slots))
        running.add(sealed)
        return running

    def open_mean(total: Tagged) -> Array:
        hashed = carrier.hash(total.arrays, layout.slots, secret, carrier.hash_key(group_key, context, layout.slots))
        found = added([hashed, *(pad(digest) for digest, _ in total.tags)], carrier.moduli)
        assert found == added([tag for _, tag in total.tags], carrier.moduli)
        slots = carrier.open(total.arrays, layout.slots, secret)
        return layout.unpack(slots, share=1.0, sites=2)["update"]

    def size(sealed: Tagged) -> int:
        return sum(array.nbytes for array in sealed.arrays.values()) + sum(8 * len(tag) for _, tag in sealed.tags)

    return Way(seal, size, prepare, TaggedSum.add, TaggedSum.total, open_mean)


def the_usual_way(numbers: int, block: int) -> Way:
    """Two sites of equal weight, as TenSEAL's tutorials and the FedHE paper have it; so many numbers a vector."""
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

    return Way(seal, lambda sealed: sum(map(len, sealed)), prepare, add, total, open_mean)


def memory(numbers: int, scratch: Path) -> Part:
    """The coordinator alone, with few sites and with many; they take turns to send the same few uploads."""
    uploads = [_sealed(seed, numbers, sites=FEW_SITES, scratch=scratch)[0] for seed in range(FEW_SITES)]
    figures = []
    for sites in (FEW_SITES, MANY_SITES):
        request = {"role": "add", "packing": "standard", "out": str(scratch / "total")}
        answer = run_json(sys.executable, ROLES, request | {"uploads": (uploads * sites)[:sites]})
        figures.append({"part": "memory", "sites": sites, "seconds": sum(answer["add_s"]), **answer})
    few, many = figures
    collected = {name: _collected(numbers, block) for name, block in ((BLOCKS, BLOCK), (WHOLE, numbers))}
    quicker = min(collected, key=lambda name: collected[name]["seconds"])
    peer = collected[quicker]
    ratio = peer["seconds"] / few["seconds"]
    what = f"{_millions(numbers)}: add"
    rows: list[Row] = [
        (f"{what} {FEW_SITES} sites", _s(few["seconds"]), _s(peer["seconds"]), quicker, _ratio(ratio), _mb(few)),
        (f"{what} {MANY_SITES} sites", _s(many["seconds"]), None, None, None, _mb(many)),
        (f"{what} {FEW_SITES} sites, the peer", None, _s(peer["seconds"]), quicker, None, _mb(peer)),
    ]
    growth = Bar(
        f"memory to add {MANY_SITES} sites over {FEW_SITES}", many["peak_mb"] / few["peak_mb"], most=MOST_MEMORY
    )
    return Part(rows, [*figures, {"part": "memory", "peer": collected}], [growth])


def large(numbers: int, scratch: Path) -> Part:
    """A large update sealed at each site, added, and opened."""
    made = [_sealed(seed, numbers, sites=SITES, scratch=scratch) for seed in range(SITES)]
    total, packing = str(scratch / "total"), {"packing": "standard"}
    request = {"role": "add", "uploads": [path for path, _ in made], "out": total}
    added = run_json(sys.executable, ROLES, packing | request)
    request = {"role": "open", "numbers": numbers, "key": str(scratch / "key"), "total": total}
    tags = [answer["tagged"] for _, answer in made]
    opened = run_json(sys.executable, ROLES, packing | request | {"tags": tags})
    sealing = median(answer["pack_s"] + answer["seal_s"] + answer["tag_s"] for _, answer in made)
    peak = max(answer["peak_mb"] for _, answer in made)
    size = _millions(numbers)
    rows: list[Row] = [
        _alone(f"{size}: seal, one site", sealing, peak),
        _alone(f"{size}: add {SITES} sites", sum(added["add_s"]), added["peak_mb"]),
        _alone(f"{size}: write the sum", added["total_s"]),
        _alone(f"{size}: check the tag, before opening", opened["check_s"]),
        _alone(f"{size}: open", opened["check_s"] + opened["open_s"] + opened["unpack_s"], opened["opening_mb"]),
    ]
    figures = [{"part": "large", "numbers": numbers, "seal_s": sealing, "seal_mb": peak, "add": added, "open": opened}]
    return Part(rows, figures, [Bar(f"{size}: mean apart, of what is allowed", opened["apart"], most=MOST_APART)])


def sealy() -> Part:
    """The FedHE paper's library, where it can be installed."""
    try:
        peer_python("sealy", SEALY)
    except (OSError, subprocess.CalledProcessError):
        return Part([_alone(f"{SEALY}: cannot be installed here")])
    return Part([_alone(f"{SEALY}: installed, and not measured yet")])


def _compared(name: str, ours: list[Measured], peers: dict[str, list[Measured]], numbers: int) -> Part:
    what = f"{name}, {_millions(numbers)}"
    rows: list[Row] = []
    ratios = {}
    for key in ("upload", *LEAST):
        quicker = min(peers, key=lambda way: _middle(peers[way], key))
        ratios[key] = median(peer[key] / own[key] for own, peer in zip(ours, peers[quicker], strict=True))
        middles = round(_middle(ours, key), 3), round(_middle(peers[quicker], key), 2)
        rows.append((f"{what}: {key}", *middles, quicker, _ratio(ratios[key]), None))
    errors = f"{_middle(ours, 'apart'):.0e}", f"{_middle(peers[BLOCKS], 'apart'):.0e}"
    rows.append((f"{what}: largest error", *errors, BLOCKS, None, None))
    bars = [Bar(f"{what}: upload, × float32", _middle(ours, "upload"), most=MOST_UPLOAD[name])]
    wanted = LEAST if numbers >= BERT_TINY else LEAST_SMALL
    bars += [Bar(f"{what}: times faster to {key}", ratios[key], least=least) for key, least in wanted.items()]
    return Part(rows, [{"part": "compare", "packing": name, "ratios": ratios, "ours": ours, "peer": peers}], bars)


def _collected(numbers: int, block: int) -> dict[str, Any]:
    """The peer's coordinator."""
    request = {"numbers": numbers, "sites": FEW_SITES, "block": block}
    return run_json(sys.executable, PEERS / "tenseal_coordinator.py", request)


def _sealed(seed: int, numbers: int, *, sites: int, scratch: Path) -> tuple[str, dict[str, Any]]:
    """A site's upload, as a file, and what it cost; all under one key."""
    key, out = scratch / "key", scratch / f"upload-{seed}"
    if not key.exists():
        key.touch(0o600)
        key.write_bytes(BfvParameters("standard").new_secret())
    request = {"role": "seal", "packing": "standard", "numbers": numbers, "sites": sites, "seed": seed}
    return str(out), run_json(sys.executable, ROLES, request | {"key": str(key), "out": str(out)})


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def _middle(measured: list[Measured], key: str) -> float:
    return median(each[key] for each in measured)


def _alone(what: str, seconds: float | None = None, megabytes: float | None = None) -> Row:
    """A row without a peer."""
    return what, seconds and round(seconds, 2), None, None, None, megabytes and round(megabytes)


def _mb(answer: dict[str, Any]) -> int:
    return round(float(answer["peak_mb"]))


def _s(seconds: float) -> float:
    return round(seconds, 3)


def _ratio(ratio: float) -> float:
    return round(ratio, 1)


def _millions(numbers: int) -> str:
    return f"{numbers / 1e6:.3g} M"


if __name__ == "__main__":
    sys.exit(main())
