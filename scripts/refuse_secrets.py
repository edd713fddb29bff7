#!/usr/bin/env python3
"""Refuse a commit that holds a key, a pickle or model weights; run by pre-commit over the staged files."""

from __future__ import annotations

import sys
from pathlib import Path

_ENDINGS = {".key", ".pem", ".p12", ".pfx", ".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npz"}
_MARKS = (b"PRIVATE KEY" + b"-----", b"AGE-SECRET-" + b"KEY-")
_LARGEST = 500_000


def problems(path: Path) -> list[str]:
    """What speaks against committing the file."""
    content = path.read_bytes()
    found = []
    if path.suffix.lower() in _ENDINGS:
        found.append(f"{path}: files ending in {path.suffix} are never committed")
    if any(mark in content for mark in _MARKS):
        found.append(f"{path}: holds a private key")
    if len(content) > _LARGEST:
        found.append(f"{path}: is larger than {_LARGEST:,} bytes")
    return found


if __name__ == "__main__":
    said = [line for name in sys.argv[1:] if Path(name).is_file() for line in problems(Path(name))]
    for line in said:
        print(line)
    sys.exit(bool(said))
