"""The attacks on what a reader sees of one round: changed rows, and the span test with the assembly of sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wardround.privacy.audit.changed_rows import row_scores
from wardround.privacy.audit.readers import PieceReader, TokenReader
from wardround.privacy.audit.recovery import Recovery, recover
from wardround.privacy.audit.sentences import assemble
from wardround.privacy.audit.span import Passed, Span, spans_of, token_distances

__all__ = ["ROWS", "SPAN", "Attacked", "Seen", "attack", "tokens_in"]

Array = np.ndarray[Any, Any]

_CLOSE = 1e-6  # distances below this are rounding

ROWS, SPAN = "changed rows", "span test"


@dataclass(frozen=True)
class Seen:
    """What a reader sees of a round: an update, a sum of updates, or what a step changed."""

    arrays: Mapping[str, Array]
    before: Mapping[str, Array] | None = None  # the shared half before a step, if the arrays are what it changed


@dataclass(frozen=True)
class Attacked:
    """The result of one attack."""

    attack: str
    tokens: Recovery
    whole: int | None = None  # sentences recovered whole, special pieces included; None if the attack does not try
    length_found: bool | None = None  # whether the length of the longest sentence was read; None if it is not shown


def attack(reader: TokenReader, seen: Seen, sentences: Sequence[Sequence[int]]) -> list[Attacked]:
    """Run every attack that fits the arrays; `sentences` are the tokens behind them, with which names are compared."""
    found, candidates = list[Attacked](), reader.candidates
    there = tokens_in(reader, sentences)
    if reader.table in seen.arrays:
        scores = row_scores(seen.arrays[reader.table], None if seen.before is None else seen.before[reader.table])
        scores = scores[reader.rows(reader.candidates)]
        tokens, _ = recover(reader.candidates, scores, there)
        found.append(Attacked(ROWS, tokens, length_found=_length_found(reader, seen, sentences)))
        # Who sees that most rows did not change asks only about the others.
        changed = np.isfinite(scores)
        if 2 * changed.sum() < len(changed):
            candidates = candidates[changed]
    rows = reader.gradient_rows(seen.arrays, 0)
    if rows is not None:
        found.append(_span_test(reader, seen, rows, candidates, sentences))
    return found


def tokens_in(reader: TokenReader, sentences: Sequence[Sequence[int]]) -> set[int]:
    """Return the tokens that the attacks look for."""
    return {token for sentence in sentences for token in reader.words(sentence)}


def _span_test(
    reader: TokenReader, seen: Seen, rows: Array, candidates: Array, sentences: Sequence[Sequence[int]]
) -> Attacked:
    there, spans = tokens_in(reader, sentences), spans_of(rows)
    tries_sentences = isinstance(reader, PieceReader)
    nothing, _ = recover(reader.candidates, np.full(len(reader.candidates), np.inf), there)
    best, best_span = nothing, None
    positions = max(map(len, sentences)) if tries_sentences else 1
    passed = token_distances(reader, spans, candidates, positions=positions) if spans and len(candidates) else []
    for span, each in zip(spans, passed, strict=False):
        scores = np.full(len(reader.candidates), np.inf)
        scores[np.searchsorted(reader.candidates, candidates)] = each.distances
        tokens, _ = recover(reader.candidates, scores, there)
        if best_span is None or (tokens.recall, tokens.precision) > (best.recall, best.precision):
            best, best_span = tokens, (span, each)
    whole = None
    if tries_sentences:
        whole = 0 if best_span is None else _whole(reader, seen, *best_span, sentences)
    return Attacked(SPAN, best, whole)


def _whole(reader: TokenReader, seen: Seen, first: Span, passed: Passed, sentences: Sequence[Sequence[int]]) -> int:
    """Return how many sentences are assembled exactly."""
    rows = reader.gradient_rows(seen.arrays, 1)
    assert isinstance(reader, PieceReader)
    size = int(reader.candidates.max()) + 1
    true = {place * size + token for sentence in sentences for place, token in enumerate(sentence)}
    pairs = passed.places * size + passed.tokens
    _, named = recover(pairs, passed.pair_distances, true)
    if rows is None or not len(named):
        return 0
    is_named = np.isin(pairs, named)
    highest, next_one = passed.pair_distances[is_named].max(), passed.pair_distances[~is_named].min(initial=1.0)
    highest = float(np.sqrt(max(highest, _CLOSE) * max(next_one, _CLOSE)))  # between the two, on a scale of factors
    there = set(map(tuple, sentences))
    return max(
        (len(assemble(reader, first, second, passed, highest=highest) & there) for second in spans_of(rows)), default=0
    )


def _length_found(reader: TokenReader, seen: Seen, sentences: Sequence[Sequence[int]]) -> bool | None:
    """Return whether the last changed row of the positions is that of the end of the longest sentence."""
    if reader.positions not in seen.arrays:
        return None
    before = None if seen.before is None else seen.before[reader.positions]
    changed = np.flatnonzero(np.isfinite(row_scores(seen.arrays[reader.positions], before)))
    return bool(len(changed)) and int(changed[-1]) == reader.first_position + max(map(len, sentences)) - 1
