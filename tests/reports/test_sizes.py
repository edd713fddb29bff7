from __future__ import annotations

import pytest

from wardround.reports.sizes import size_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (4_002, "4.0 KB"),
        (49_999, "50.0 KB"),
        (1_250_000, "1.2 MB"),
        (1_250_000_000, "1.2 GB"),
        (1_234_500_000_000, "1,234.5 GB"),
    ],
)
def test_bytes_in_words(count: int, text: str) -> None:
    assert size_text(count) == text
