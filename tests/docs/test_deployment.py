from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.docs.pages import commands, output_of, plain_commands, squeezed

pytest.importorskip("nvflare", reason="kits need the extra flare")

PAGE = "deployment.md"


def test_the_page_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, shown in commands(PAGE):
        found = squeezed(output_of(shlex.split(command)[1:], capsys))
        assert [line for line in shown if squeezed(line) not in found] == [], command


def test_every_step_of_the_flow_is_shown() -> None:
    said = [" ".join(command.split()[1:3]) for command, _ in commands(PAGE)]
    flow = ("coordinator open", "site request", "coordinator approve", "site complete", "site review")
    assert [step for step in said if step in flow][:5] == list(flow)


@pytest.mark.parametrize("command", sorted(set(plain_commands(PAGE))))
def test_what_is_not_run_here_exists_with_its_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)[1:]
    helped = re.sub(r"\x1b\[[0-9;]*m", "", output_of([*words[:2], "--help"], capsys))
    assert [word for word in words if word.startswith("--") and word not in helped] == []
