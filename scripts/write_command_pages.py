#!/usr/bin/env python3
"""Write docs/commands.md from the help of the commands: `python scripts/write_command_pages.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from wardround.cli.main import _COMMANDS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
_HEAD = """# Commands

Every command with its arguments and options, as `--help` shows them. [The command line](cli.md) describes what all
commands have in common. This page is written by `python scripts/write_command_pages.py`; a test compares it
with the commands.
"""


def commands(name: str) -> Iterator[tuple[str, Any]]:
    """Yield the commands of a module of `wardround.cli` under their full names, the hidden ones left out."""
    module = import_module(f"wardround.cli.{name}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False)
        app.command(name)(module.command)
        yield name, typer.main.get_command(app)
        return
    for part, command in typer.main.get_group(app).commands.items():
        if not command.hidden:
            yield f"{name} {part}", command


def usage(name: str, parameters: list[Any]) -> str:
    """Return the line that shows how a command is called: its arguments and required options."""
    words = ["wardround", name]
    for parameter in parameters:
        if _is_argument(parameter):
            shown = parameter.name.upper() + ("…" if parameter.nargs == -1 or parameter.multiple else "")
            words.append(shown if parameter.required else f"[{shown}]")
        elif parameter.required:
            words.append(f"{parameter.opts[0]} {parameter.metavar or '…'}")
    if any(not _is_argument(parameter) and not parameter.required for parameter in parameters):
        words.append("[OPTIONS]")
    return " ".join(words)


def table(parameters: list[Any]) -> str:
    """Return the arguments and options as a Markdown table."""
    lines = ["| argument or option | default | meaning |", "| --- | --- | --- |"]
    for parameter in parameters:
        metavar = f" {parameter.metavar}" if parameter.metavar and not _is_argument(parameter) else ""
        opts = [parameter.name.upper()] if _is_argument(parameter) else [*parameter.opts, *parameter.secondary_opts]
        names = ", ".join(f"`{name}{metavar}`" for name in opts)
        meaning = " ".join((parameter.help or "").split()).replace("|", "\\|")
        lines.append(f"| {names} | {_default(parameter)} | {meaning} |")
    return "\n".join(lines)


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for name, line in _COMMANDS.items():
        parts.append(f"## {name}\n\n{line}\n")
        for full_name, command in commands(name):
            parameters = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
            if full_name != name:
                parts.append(f"### {full_name}\n")
            if command.help and command.help.strip() != line:
                parts.append(_paragraphs(command.help) + "\n")
            parts.append(f"```\n{usage(full_name, parameters)}\n```\n")
            if parameters:
                parts.append(table(parameters) + "\n")
    return "\n".join(parts)


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    if value is None or value is False or value == "" or callable(value) or isinstance(value, list | tuple):
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`" if value is not True else "on"


def _paragraphs(text: str) -> str:
    """Return a help text with each paragraph on one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.replace("\b", "").split("\n\n"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name}: {len(page().splitlines())} lines\n")
