from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "refuse_secrets.py"
# In two pieces, for this file is committed too.
MARKS = (
    "-----BEGIN " + "PRIVATE KEY" + "-----",
    "-----BEGIN OPENSSH " + "PRIVATE KEY" + "-----",
    "AGE-SECRET-" + "KEY-1",
)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("refuse_secrets", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*paths: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *paths], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "name",
    [
        "server.key",
        "ca.pem",
        "ca.PEM",
        "a.p12",
        "b.pfx",
        "c.pkl",
        "d.pickle",
        "m.pt",
        "m.pth",
        "m.ckpt",
        "m.bin",
        "k.vault",
        "h.key.sealed",
    ],
)
def test_a_file_of_a_forbidden_kind(script: ModuleType, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("harmless")
    assert script.problems(tmp_path / name) == [
        f"{tmp_path / name}: files ending in {(tmp_path / name).suffix} are never committed"
    ]


@pytest.mark.parametrize("mark", MARKS)
def test_a_key_under_a_harmless_name(script: ModuleType, tmp_path: Path, mark: str) -> None:
    (tmp_path / "notes.md").write_bytes(b"\xff\x00" + f"text\n{mark}\nabc".encode())
    assert script.problems(tmp_path / "notes.md") == [f"{tmp_path / 'notes.md'}: contains a private key"]


def test_a_sealing_key_under_a_harmless_name(script: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("tenseal", reason="install wardround[sealed]")
    from wardround.secure_aggregation.bfv import BfvParameters
    from wardround.secure_aggregation.keys.material import SealingSecret

    key = BfvParameters("standard").new_secret()
    for data in (key, SealingSecret(1, "bfv-standard", key).to_bytes()):
        (tmp_path / "table.txt").write_bytes(data)
        assert script.problems(tmp_path / "table.txt") == [
            f"{tmp_path / 'table.txt'}: contains a sealing key or sealed data"
        ]


def test_a_public_key_may_be_committed(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "ca.txt").write_text("-----BEGIN PUBLIC KEY-----\nabc\n")
    assert script.problems(tmp_path / "ca.txt") == []


def test_a_file_that_is_too_large(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 500_000)
    assert script.problems(tmp_path / "a.txt") == []
    (tmp_path / "a.txt").write_bytes(b"x" * 500_001)
    assert script.problems(tmp_path / "a.txt") == [f"{tmp_path / 'a.txt'}: is larger than 500,000 bytes"]


def test_all_that_is_wrong_is_said(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.key").write_text(MARKS[0] + "x" * 500_000)
    assert len(script.problems(tmp_path / "a.key")) == 3


def test_the_commit_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("x = 1\n")
    (tmp_path / "bad.npz").write_text("")
    refused = run(tmp_path / "good.py", tmp_path / "bad.npz")
    assert refused.returncode == 1
    assert refused.stdout == f"{tmp_path / 'bad.npz'}: files ending in .npz are never committed\n"


def test_the_commit_goes_on(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("x = 1\n")
    # A file that the commit removes is named too, and is not there.
    passed = run(tmp_path / "good.py", tmp_path / "removed.py")
    assert (passed.returncode, passed.stdout, passed.stderr) == (0, "", "")


def test_nothing_that_is_committed_would_be_refused(script: ModuleType) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    assert len(files) > 100
    assert [said for file in files if file.is_file() for said in script.problems(file)] == []
