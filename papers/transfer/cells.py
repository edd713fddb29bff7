"""Names and numbers as the page has them."""

from __future__ import annotations

from papers.transfer.measured import Saved
from papers.transfer.variations import NONE

TITLES = {
    **{"meddocan": "MEDDOCAN", "synthetic": "synthetic hospitals", "presidio": "presidio"},
    **{"token-embeddings": "token embeddings", "character-embeddings": "character embeddings"},
    **{"character-lstm": "character LSTM", "token-lstm": "token LSTM", "fully-connected": "fully connected"},
    **{"all": "sequence optimisation: all", NONE: "none"},
    **{"sgd": "SGD", "adam": "Adam"},
}


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
