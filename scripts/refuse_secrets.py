#!/usr/bin/env python3
"""Refuse a commit that holds a key, a pickle or model weights; run by pre-commit over the staged files."""

from __future__ import annotations

import sys
from pathlib import Path

_ENDINGS = {".key", ".pem", ".p12", ".pfx", ".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npz"}
_ENDINGS |= {".vault", ".sealed"}  # of sealing keys
_MARKS = (b"PRIVATE KEY" + b"-----", b"AGE-SECRET-" + b"KEY-")
_SEAL = b"\x5e\xa1\x10"  # how whatever SEAL saves begins, secret keys among it
_MESSAGE, _SECRET = b"WRM1", b"wardround-sealing-secret"  # our own file of one
_LARGEST = 500_000


def problems(path: Path) -> list[str]:
    """What speaks against committing the file."""
    content = path.read_bytes()
    found = []
    if path.suffix.lower() in _ENDINGS:
        found.append(f"{path}: files ending in {path.suffix} are never committed")
    if any(mark in content for mark in _MARKS):
        found.append(f"{path}: holds a private key")
    if content.startswith(_SEAL) or (content.startswith(_MESSAGE) and _SECRET in content[:1000]):
        found.append(f"{path}: holds a sealing key, or what was sealed")
    if len(content) > _LARGEST:
        found.append(f"{path}: is larger than {_LARGEST:,} bytes")
    return found


if __name__ == "__main__":
    said = [line for name in sys.argv[1:] if Path(name).is_file() for line in problems(Path(name))]
    for line in said:
        print(line)
    sys.exit(bool(said))
