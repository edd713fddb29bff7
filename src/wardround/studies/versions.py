"""What a run was made with: the versions that decide what its numbers are."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

__all__ = ["versions"]

_PACKAGES = ("wardround", "torch", "transformers", "numpy", "safetensors", "tenseal", "cryptography", "nvflare", "peft")


def versions() -> dict[str, str]:
    """Python's, ours, and those of the libraries that are installed here."""
    return {"python": platform.python_version()} | {name: found for name in _PACKAGES if (found := _version(name))}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
