#!/usr/bin/env python3
"""Print constraints.txt: the exact versions that `make` and CI install, read from the environment that runs this.

.venv/bin/python scripts/write_constraints.py > constraints.txt
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

HEAD = (
    "# The exact versions that `make` and CI install: pip install --constraint constraints.txt …",
    "# Written by scripts/write_constraints.py from an environment that passed all tests, on Linux with Python 3.11.",
)


def pins(frozen: Iterable[str]) -> list[str]:
    """Return the pins among the lines of `pip freeze`, sorted; without the project, paths, and local versions."""
    found = []
    for line in frozen:
        name, separator, version = line.strip().partition("==")
        if separator and not line.startswith(("#", "-")) and name.lower() != "wardround":
            found.append(f"{name}=={version.partition('+')[0]}")  # "2.13.0+cpu" exists on one platform only
    return sorted(found, key=str.lower)


if __name__ == "__main__":
    command = [sys.executable, "-m", "pip", "freeze", "--exclude-editable", "--disable-pip-version-check"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    print("\n".join([*HEAD, *pins(listed.splitlines())]))
