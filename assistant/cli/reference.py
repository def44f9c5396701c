"""Generator of the reference of commands and options, `docs/reference/cli.md`.

Write it anew with `python -m assistant.cli.reference > docs/reference/cli.md`.
"""

from typing import Any

import typer

from assistant.cli.main import COMMANDS, DeferredCommand, app

WIDTH = 100


def command_reference() -> str:
    """Return the help of every command as Markdown."""
    root = typer.main.get_command(app)
    parts = [
        "# Commands and options",
        "Generated from the commands themselves: `python -m assistant.cli.reference`.",
        _help(root, "copperline"),
    ]
    for path, (target, line) in COMMANDS.items():
        command = DeferredCommand(path.split()[-1], target, line).load()
        parts += [f"## copperline {path}", _help(command, f"copperline {path}")]
    return "\n\n".join(parts) + "\n"


def _help(command: Any, name: str) -> str:
    context = typer.Context(command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"```\n{text.strip()}\n```"


if __name__ == "__main__":
    typer.echo(command_reference(), nl=False)
