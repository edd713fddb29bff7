"""One GPU for many processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["shared_gpu"]

_PIPES, _LOG = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
_PROBE = "import torch; torch.zeros(1, device='cuda')"


@contextmanager
def shared_gpu(device: str, *, say: Callable[[str], None]) -> Iterator[None]:
    """Let processes share the GPU through its multi-process service, where that is there and answers.

    One that runs already, as its variable says, is used as it is.
    """
    started = device == "cpu" or _PIPES in os.environ
    control = None if started else shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ |= {_PIPES: f"{folder}/pipe", _LOG: f"{folder}/log"}
        subprocess.run([control, "-d"], check=False)  # noqa: S603 – the service's own command
        answers = subprocess.run([sys.executable, "-c", _PROBE], check=False).returncode == 0  # noqa: S603
        say(f"multi-process service: {'used' if answers else 'does not answer; not used'}")
        try:
            if not answers:
                _quit(control)
            yield
        finally:
            if answers:
                _quit(control)


def _quit(control: str) -> None:
    subprocess.run([control], input=b"quit\n", check=False)  # noqa: S603
    del os.environ[_PIPES], os.environ[_LOG]
