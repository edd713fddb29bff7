#!/usr/bin/env python3
"""Refuse a commit that contains a key, a pickle or model weights; pre-commit runs it on the staged files."""

from __future__ import annotations

import sys
from pathlib import Path

_ENDINGS = {".key", ".pem", ".p12", ".pfx", ".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npz"}
_ENDINGS |= {".vault", ".sealed"}  # sealing keys
_MARKS = (b"PRIVATE KEY" + b"-----", b"AGE-SECRET-" + b"KEY-")
_SEAL = b"\x5e\xa1\x10"  # the first bytes of every file that SEAL writes, including secret keys
_MESSAGE, _SECRET = b"WRM1", b"wardround-sealing-secret"  # our own file format of a secret
_LARGEST = 500_000


def problems(path: Path) -> list[str]:
    """Return the reasons why the file must not be committed."""
    content = path.read_bytes()
    found = []
    if path.suffix.lower() in _ENDINGS:
        found.append(f"{path}: files ending in {path.suffix} are never committed")
    if any(mark in content for mark in _MARKS):
        found.append(f"{path}: contains a private key")
    if content.startswith(_SEAL) or (content.startswith(_MESSAGE) and _SECRET in content[:1000]):
        found.append(f"{path}: contains a sealing key or sealed data")
    if len(content) > _LARGEST:
        found.append(f"{path}: is larger than {_LARGEST:,} bytes")
    return found


if __name__ == "__main__":
    found = [line for name in sys.argv[1:] if Path(name).is_file() for line in problems(Path(name))]
    for line in found:
        print(line)
    sys.exit(bool(found))
