from __future__ import annotations

import runpy

from tests.docs.pages import ROOT, text_of

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "write_command_pages.py"))


def test_the_page_is_that_of_the_commands() -> None:
    assert text_of("commands.md") == SCRIPT["page"](), "run python scripts/write_command_pages.py"


def test_a_command_shows_its_arguments_options_and_defaults() -> None:
    name, command = next(iter(SCRIPT["commands"]("data")))
    assert name == "data check"
    assert SCRIPT["usage"](name, command.params) == "wardround data check PATH --format … [OPTIONS]"
    assert "| `--option NAME=VALUE` |  | An option of the format. |" in SCRIPT["table"](command.params)


def test_hidden_commands_are_left_out() -> None:
    from wardround.cli.site import app

    hidden = [command.name for command in app.registered_commands if command.hidden]
    assert hidden
    assert not [name for name, _ in SCRIPT["commands"]("site") if name.split()[1] in hidden]
