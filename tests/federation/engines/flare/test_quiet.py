from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from wardround.federation.engines.flare.quiet import LOG_FOLDER

LOUD = """
import logging, os, sys, warnings
from pathlib import Path
from wardround.federation.engines.flare.quiet import redirect_output
terminal = redirect_output(Path(sys.argv[1]))
print("printed")
print("complained", file=sys.stderr)
sys.stdout.flush()
os.write(1, b"written\\n")
os.system("echo shouted")
logging.getLogger("nvflare.anything").info("logged")
print("said", file=terminal, flush=True)
"""


def test_only_intended_output_reaches_the_terminal(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LOUD, str(tmp_path)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("said\n", "")
    output = (tmp_path / LOG_FOLDER / "output.log").read_text().split()
    assert sorted(output) == ["complained", "printed", "shouted", "written"]
    assert "INFO nvflare.anything logged" in (tmp_path / LOG_FOLDER / "engine.log").read_text()
    assert (tmp_path / LOG_FOLDER).stat().st_mode & 0o077 == 0


def test_a_long_output_file_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / LOG_FOLDER
    folder.mkdir()
    (folder / "output.log").write_bytes(b"x" * 5_000_001)
    subprocess.run([sys.executable, "-c", LOUD, str(tmp_path)], capture_output=True, check=True)
    assert (folder / "output.log").stat().st_size < 1000
    subprocess.run([sys.executable, "-c", LOUD, str(tmp_path)], capture_output=True, check=True)
    assert (folder / "output.log").read_text().count("printed") == 2


def test_a_signal_becomes_an_exit_code() -> None:
    program = (
        "import os, signal\n"
        "from wardround.federation.engines.flare.quiet import Interruption\n"
        "first = Interruption()\n"
        "assert first.code == 0\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print(first.code)\n"
        "second = Interruption(raises=True)\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('missed')\n"
        "except KeyboardInterrupt:\n"
        "    print(second.code)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [int(line) for line in done.stdout.split()] == [128 + signal.SIGTERM, 128 + signal.SIGINT]
