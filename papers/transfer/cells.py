"""Names and numbers as the page has them."""

from __future__ import annotations

from papers.common.page import NOTHING
from papers.transfer.measured import Saved, Spread
from papers.transfer.variations import NONE

TITLES = {
    **{"meddocan": "MEDDOCAN", "synthetic": "synthetic hospitals", "presidio": "presidio"},
    **{"token-embeddings": "token embeddings", "character-embeddings": "character embeddings"},
    **{"character-lstm": "character LSTM", "token-lstm": "token LSTM", "fully-connected": "fully connected"},
    **{"all": "sequence optimisation: all", NONE: "none"},
    **{"sgd": "SGD", "adam": "Adam"},
}


def percent(share: float) -> str:
    """With one digit."""
    return f"{100 * share:.1f}"


def with_interval(spread: Spread | None) -> str:
    """A mean and its interval, in percent."""
    if spread is None:
        return NOTHING
    if spread.interval is None:
        return percent(spread.mean)
    low, high = spread.interval
    return f"{percent(spread.mean)} ({percent(low)} – {percent(high)})"


def points(spread: Spread | None) -> str:
    """A gain and its interval, in points."""
    if spread is None:
        return NOTHING
    ends = "" if spread.interval is None else " ({:+.1f} to {:+.1f})".format(*(100 * end for end in spread.interval))
    return f"{100 * spread.mean:+.1f}{ends}"


def needed_without(saved: Saved, smallest: int) -> str:
    """The size that is needed without transfer, as far as it was measured."""
    if saved.without is None:
        return f"more than {saved.largest:g}%"
    return f"{smallest}% or less" if saved.without <= smallest else f"{saved.without:.0f}%"


def share_saved(saved: Saved) -> str:
    """Of the labels that are needed without transfer; nothing, where transfer is no better."""
    if saved.without is None:
        return f"{100 * saved.share:.0f}% or more" if saved.share > 0 else "some"
    return f"{100 * saved.share:.0f}%" if saved.share > 0 else "none"
