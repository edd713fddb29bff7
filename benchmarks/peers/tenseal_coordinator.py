"""A coordinator with TenSEAL's CKKSVector: it collects the updates of all sites, then weights and adds them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import tenseal
from json_script import answer, peak_megabytes


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Add the same update once for each site, with `block` numbers in each vector."""
    block = request["block"]
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 40, 60])
    context.global_scale = 2**40
    public = tenseal.context_from(context.serialize())
    update = np.random.default_rng(0).standard_normal(request["numbers"], np.float32)
    starts = range(0, len(update), block)
    upload = [tenseal.ckks_vector(context, update[start : start + block]).serialize() for start in starts]
    started = time.perf_counter()
    sites = [[tenseal.ckks_vector_from(public, part) for part in upload] for _ in range(request["sites"])]
    share = 1 / len(sites)
    total = [vector * share for vector in sites[0]]
    for site in sites[1:]:
        total = [partial + vector * share for partial, vector in zip(total, site, strict=True)]
    return {"seconds": time.perf_counter() - started, "peak_mb": peak_megabytes()}


if __name__ == "__main__":
    answer(measure)
