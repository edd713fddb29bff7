from __future__ import annotations

from pathlib import Path

import pytest

from wardround.errors import StudyError
from wardround.studies.site_policy import POLICY, LeakagePolicy, SitePolicy, policy_digest, read_site_policy


def written(folder: Path, text: str) -> Path:
    (folder / POLICY).write_text(text, encoding="utf-8")
    return folder


def test_a_site_without_a_file_has_the_defaults(tmp_path: Path) -> None:
    assert read_site_policy(tmp_path) == SitePolicy(LeakagePolicy(1.0, None))
    assert policy_digest(tmp_path) == ""


def test_the_owner_sets_the_limits(tmp_path: Path) -> None:
    written(tmp_path, "[leakage]\nhighest_token_recall = 0.5\nfewest_tokens = 2000\n")
    assert read_site_policy(tmp_path).leakage == LeakagePolicy(0.5, 2000)


def test_an_empty_file_has_the_defaults_and_a_digest(tmp_path: Path) -> None:
    written(tmp_path, "")
    assert read_site_policy(tmp_path) == SitePolicy()
    assert len(policy_digest(tmp_path)) == 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[leakage]\nhighest_token_recal = 0.5\n", "did you mean 'highest_token_recall'"),
        ("[leekage]\n", r"\[leekage\] is not a section – did you mean 'leakage'"),
        ("[leakage]\nhighest_token_recall = 1.5\n", "is a share, from 0 to 1"),
        ("[leakage]\nfewest_tokens = -1\n", "0 for no limit"),
        ("[leakage]\nfewest_tokens = true\n", "whole number"),
        ("leakage = 1\n", "must be a section"),
        ("[leakage\n", "site_policy.toml"),
        ("[leakage]\nhighest_token_recall = nan\n", "site_policy.toml"),
    ],
)
def test_a_wrong_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=message):
        read_site_policy(written(tmp_path, text))
