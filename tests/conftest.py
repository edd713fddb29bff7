"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest
import torch

from tests.browser import browser, browser_page, screenshots

__all__ = ["browser", "browser_page", "screenshots", "shared_data"]  # fixtures

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may depend on a hub
# How long an example takes says how busy the machine is, and nothing about what is tested. Examples are drawn anew each
# time, but for a change that is to be judged: what fails there must fail again.
hypothesis.settings.register_profile(
    "any machine",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("any machine")
torch.set_num_threads(1)  # workers of pytest-xdist share the cores; two threads each would only wait for one another

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real corpora beside the checkout; a test that asks for them skips where they are absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the real corpora are not here: {SHARED_DATA} is absent")
    return SHARED_DATA


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the modules of slow tests, so that at the end no worker waits for another one's long module."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
