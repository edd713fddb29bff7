from __future__ import annotations

import re
import runpy

import pytest
from tests.docs.pages import DOCS, ROOT, commands, plain_commands, text_of

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


PAGES = ["../README.md", *sorted(path.name for path in DOCS.glob("*.md") if path.name != "commands.md")]
ALL = {
    name: {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for group in SCRIPT["_COMMANDS"]
    for name, command in SCRIPT["commands"](group)
}


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_exist_with_their_options(page: str) -> None:
    for line in [*plain_commands(page), *(command for command, _ in commands(page))]:
        words = line.split(" | ")[-1].split("#")[0].split()
        while words[1:] and re.match("--?[a-z]", words[1]):  # an option of the program: test_cli.py knows them
            del words[1]
        if words[0] != "wardround" or not words[1:]:
            continue
        name = " ".join(words[1:3]) if " ".join(words[1:3]) in ALL else words[1]
        assert name in ALL, line
        assert {word for word in words if re.match("--[a-z]", word)} - {"--help"} <= ALL[name], line


def test_the_guides_show_commands() -> None:
    for page in ("engineer.md", "data-scientist.md", "coordinator.md", "hospital-it.md", "data-protection.md"):
        assert plain_commands(page), page
