"""Calibration: make the probabilities of predictions agree with how often the predictions are right.

A calibration is a logistic regression from the logit of a probability to whether the prediction was right (Platt 1999),
fitted on development notes. It keeps the order of the probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardround.text.document import Document

__all__ = ["Calibration", "JudgedScores", "calibration_error", "judge"]

_FEWEST = 20  # predictions to fit on; with fewer, or if all are right or all are wrong, nothing is fitted
_EDGE = 1e-6  # probabilities are kept this far from 0 and 1, where the logit is infinite
_STEPS, _TOLERANCE = 100, 1e-10
_PRIOR = 1.0  # precision of normal priors around the identity: few predictions move the calibration little
_BINS = 10


@dataclass(frozen=True)
class Calibration:
    """The map p → σ(slope · logit p + intercept)."""

    slope: float = 1.0
    intercept: float = 0.0

    def __call__(self, probability: float) -> float:
        """Return the calibrated probability."""
        value = self.slope * _logit(probability) + self.intercept
        return 1.0 / (1.0 + math.exp(-value)) if value >= 0 else math.exp(value) / (1.0 + math.exp(value))

    @classmethod
    def fit(cls, probabilities: Sequence[float], right: Sequence[bool]) -> Calibration | None:
        """Return the most probable calibration; None if there is too little to fit it on."""
        if len(right) < _FEWEST or all(right) or not any(right):
            return None
        x = np.array([[_logit(probability), 1.0] for probability in probabilities])
        y = np.array(right, dtype=np.float64)
        identity = np.array([1.0, 0.0])

        def loss(weights: NDArray[np.float64]) -> float:
            values, moved = x @ weights, weights - identity
            return float((np.logaddexp(0.0, values) - y * values).sum() + 0.5 * _PRIOR * (moved @ moved))

        weights = identity
        for _ in range(_STEPS):  # Newton's method; far from the minimum a full step would overshoot, so it is halved
            predicted = 1.0 / (1.0 + np.exp(-np.clip(x @ weights, -700, 700)))
            gradient = x.T @ (predicted - y) + _PRIOR * (weights - identity)
            curvature = (x * (predicted * (1 - predicted))[:, None]).T @ x + _PRIOR * np.eye(2)
            step = np.linalg.solve(curvature, gradient)
            before = loss(weights)
            while loss(weights - step) > before and float(np.abs(step).max()) > _TOLERANCE:
                step = step / 2
            weights = weights - step
            if float(np.abs(step).max()) <= _TOLERANCE:
                break
        slope, intercept = map(float, weights)
        # A slope of zero or below would reverse the order of the predictions.
        return cls(slope, intercept) if slope > 0 and math.isfinite(slope) and math.isfinite(intercept) else None

    @classmethod
    def from_values(cls, values: Any) -> Calibration | None:
        """Read what `as_values` returned, from a file that may hold anything; None if it is not a calibration."""
        found = [values.get(name) for name in ("slope", "intercept")] if isinstance(values, Mapping) else [None]
        numbers = [value for value in found if isinstance(value, float) and math.isfinite(value)]
        return cls(*numbers) if len(numbers) == 2 and numbers[0] > 0 else None

    def as_values(self) -> dict[str, float]:
        """Return plain values for a file."""
        return {"slope": self.slope, "intercept": self.intercept}


def calibration_error(probabilities: Sequence[float], right: Sequence[bool]) -> float:
    """Return the expected calibration error: the mean gap, in ten bins, between probability and share that is right."""
    if not right:
        return 0.0
    bins = np.minimum((np.array(probabilities) * _BINS).astype(int), _BINS - 1)
    gaps = np.array(probabilities) - np.array(right, dtype=np.float64)
    return float(sum(abs(gaps[bins == place].sum()) for place in range(_BINS)) / len(right))


@dataclass
class JudgedScores:
    """The probabilities of some predictions, and whether each was right."""

    probabilities: list[float] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)

    def add(self, probability: float | None, right: bool) -> None:
        """Add a prediction; one without a probability is left out."""
        if probability is not None:
            self.probabilities.append(probability)
            self.right.append(right)

    def fit(self) -> dict[str, Any]:
        """Return a calibration as plain values, with the errors before and after it; empty if there is none."""
        calibration = Calibration.fit(self.probabilities, self.right)
        if calibration is None:
            return {}
        calibrated = list(map(calibration, self.probabilities))
        return {
            **calibration.as_values(),
            "predictions": len(self.right),
            "error_before": calibration_error(self.probabilities, self.right),
            "error_after": calibration_error(calibrated, self.right),
        }


def judge(pairs: Iterable[tuple[Document, Document]], types: Collection[str]) -> dict[str, JudgedScores]:
    """Compare predicted with annotated documents; return the judged scores of "entities" and "relations".

    Entities of other types than `types` are left out: where nobody annotated a type, nothing says what is right.
    """
    judged = {"entities": JudgedScores(), "relations": JudgedScores()}
    for found, gold in pairs:
        entities, relations = _keys(gold)
        own_entities, own_relations = _keys(found)
        for entity, key in zip(found.entities, own_entities, strict=True):
            if entity.type in types:
                judged["entities"].add(entity.score, key in entities)
        for relation, pair in zip(found.relations, own_relations, strict=True):
            judged["relations"].add(relation.score, pair in relations)
    return judged


def _keys(document: Document) -> tuple[list[Any], list[Any]]:
    """Return what identifies each entity and each relation; ends of relations by place, because ids differ."""
    places = {entity.id: (entity.type, entity.ranges) for entity in document.entities}
    relations = [
        (relation.type, places.get(relation.head, relation.head), places.get(relation.tail, relation.tail))
        for relation in document.relations
    ]
    return list(places.values()), relations


def _logit(probability: float) -> float:
    kept = min(max(probability, _EDGE), 1 - _EDGE)
    return math.log(kept / (1 - kept))
