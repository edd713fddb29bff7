"""TenSEAL's CKKSVector at a coordinator that collects what all sites sent, then weighs and adds it; JSON in and out."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import tenseal
from sealing_roles import peak_megabytes


def main() -> None:
    """The sum of as many sites as asked for, so many numbers a vector; all send the same."""
    request = json.load(sys.stdin)
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
        total = [mine + vector * share for mine, vector in zip(total, site, strict=True)]
    print(json.dumps({"seconds": time.perf_counter() - started, "peak_mb": peak_megabytes()}))


if __name__ == "__main__":
    main()
