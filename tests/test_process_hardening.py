"""A hardened process still works; tests/attacks/test_hardening.py tests what it hides from other processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wardround import process_hardening

ROOT = Path(__file__).resolve().parents[1]
TWICE = """
import ctypes, os, resource
from wardround.process_hardening import forbid_core_dumps
forbid_core_dumps()
forbid_core_dumps()
print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
file = os.memfd_create("own")
os.write(file, b"still readable")
print(open(f"/proc/self/fd/{file}").read())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_DUMPABLE is Linux's own")
def test_hardening_is_idempotent_and_the_process_can_still_open_its_own_files() -> None:
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["(0, 0) 0", "still readable"]


def test_a_system_without_resource_limits_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_hardening, "resource", None)
    monkeypatch.setattr(sys, "platform", "win32")
    process_hardening.forbid_core_dumps()
