"""The table of mechanisms: what `[privacy] mechanism` can name.

It stands in this package, and not beside the mechanisms that only add, so that it can list those that wrap another one.
"""

from __future__ import annotations

from wardround.secure_aggregation.mechanisms import Masked, Mechanism, Plain, Sealed, SealedMasked

__all__ = ["MECHANISMS"]

MECHANISMS: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        Plain(),
        Masked(),
        Sealed(),
        SealedMasked(),
    )
}
