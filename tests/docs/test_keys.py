from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path

import pytest
from tests.docs.pages import codes, commands, output_of, plain_commands, rows, section, squeezed
from tests.studies.tiny_studies import text_of

pytest.importorskip("nvflare", reason="kits need the extra flare")
pytest.importorskip("tenseal", reason="keys need the extra sealed")

from wardround.cli.keys import app
from wardround.secure_aggregation.keys import key_service as key_service
from wardround.secure_aggregation.keys import party as party_keys
from wardround.secure_aggregation.keys import service_state as key_state
from wardround.secure_aggregation.keys.passphrase import VARIABLE

PAGE = "keys.md"


def test_the_page_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "correct horse battery")
    study = {"name": "adverse-effects"}
    Path("study.toml").write_text(text_of(study=study, privacy={"mechanism": "sealed", "minimum_sites": 2}))
    for command, shown in commands(PAGE):
        found = squeezed(output_of(shlex.split(command)[1:], capsys))
        parts = [squeezed(part) for line in shown for part in line.split("…")]
        assert [part for part in parts if part not in found] == [], command


@pytest.mark.parametrize("command", sorted(set(plain_commands(PAGE))))
def test_what_is_not_run_here_exists_with_its_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)[1:]
    helped = re.sub(r"\x1b\[[0-9;]*m", "", output_of([*words[:2], "--help"], capsys))
    assert [word for word in words if word.startswith("--") and word not in helped] == []


def test_every_command_is_shown() -> None:
    shown = {" ".join(command.split()[1:3]) for command in [*dict(commands(PAGE)), *plain_commands(PAGE)]}
    names = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert {f"keys {name}" for name in names} | {"site key", "coordinator key"} <= shown


def test_every_code_has_a_line() -> None:
    raised = set()
    for module in (key_service, key_state, party_keys):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "MessageError":
                raised |= {part.value for part in node.args[:1] if isinstance(part, ast.Constant)}
    said = {code for row in rows(section(PAGE, "## Codes")) for code in codes(row["code"])}
    assert raised - {"request"} <= said  # which no party of ours ever asks
    assert said - raised == {"log", "KeyMaterialError"}
