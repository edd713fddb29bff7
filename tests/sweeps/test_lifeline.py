from __future__ import annotations

import os
import subprocess
import sys

from wardround.sweeps.lifeline import Lifeline, end_with_parent

CHILD = "from wardround.sweeps.lifeline import end_with_parent; end_with_parent(); import time; time.sleep(60)"


def test_a_process_ends_when_the_other_end_is_closed() -> None:
    with Lifeline() as line:
        environment = os.environ | line.environment
        child = subprocess.Popen([sys.executable, "-c", CHILD], env=environment, pass_fds=(line.descriptor,))
        assert child.poll() is None
    assert child.wait(60) == 75


def test_without_a_holder_nothing_happens() -> None:
    assert "WARDROUND_LIFELINE" not in os.environ
    end_with_parent()
