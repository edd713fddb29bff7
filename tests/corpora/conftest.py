"""Commands, for what they do with a corpus."""

from __future__ import annotations

from tests.cli.conftest import run

__all__ = ["run"]  # a fixture
