"""Counts and durations for Prometheus. Labels are names of operations and status codes, never a path or a text."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from wardround import __version__

__all__ = ["METRICS_TYPE", "Metrics"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The figures of one service, in a registry of its own."""

    def __init__(self, kind: str) -> None:
        """Name the kind of the served model."""
        self._registry = ours = CollectorRegistry()
        self._requests = Counter("wardround_requests", "Answered requests.", ("operation", "status"), registry=ours)
        self._seconds = Histogram(
            "wardround_request_seconds", "Seconds until the answer.", ("operation",), buckets=_SECONDS, registry=ours
        )
        self.batches = Histogram(
            "wardround_batch_texts", "Texts that the model read at once.", buckets=_SIZES, registry=ours
        )
        self.waiting = Gauge("wardround_waiting_texts", "Texts that wait for the model.", registry=ours)
        self.texts = Counter("wardround_texts", "Texts that the model read.", registry=ours)
        self.characters = Counter("wardround_characters", "Characters of these texts.", registry=ours)
        model = Gauge("wardround_model_info", "The served model.", ("kind", "version"), registry=ours)
        model.labels(kind=kind, version=__version__).set(1)

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(operation=operation, status=str(status)).inc()
        self._seconds.labels(operation=operation).observe(seconds)

    def page(self) -> bytes:
        """Return the figures in Prometheus' text format."""
        return generate_latest(self._registry)
