"""The commands together, and the one place where errors become exit codes."""

import sys

import typer

from assistant.cli import commands
from assistant.cli.console import ERR, EXIT_BAD_INPUT, EXIT_INTERRUPTED
from assistant.errors import AssistantError
from assistant.starting import version
from sim.errors import SimError
from strategies.errors import StrategyError

# Typer carries a Click of its own in some versions; its root error is found through its leaves.
_ClickError: type[Exception] = next(
    kind
    for kind in typer.BadParameter.__mro__
    if issubclass(kind, Exception) and kind.__name__ == "ClickException"
)

app = typer.Typer(
    name="copperline",
    help="Steer a parameter sweep: propose configurations, run them, learn what matters, report."
    "\n\nExit codes: 0 done; 1 a fault of ours; 2 bad input; 3 nothing feasible found; "
    "4 the run that was tried failed; 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
commands.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"copperline {version()}")
        raise typer.Exit


@app.callback()
def _options(
    _version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Steer a parameter sweep: propose configurations, run them, learn what matters, report."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with a documented code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        result = app(args=arguments, prog_name="copperline", standalone_mode=False)
    except (AssistantError, SimError, StrategyError) as error:
        return _refuse(error)
    except _ClickError as error:
        return _refuse(error)
    except (typer.Abort, KeyboardInterrupt):
        ERR.print("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return 0
    return result if isinstance(result, int) else 0


def _refuse(error: Exception) -> int:
    message = getattr(error, "format_message", error.__str__)()
    name = "" if type(error).__name__ == "NoArgsIsHelpError" else "copperline: "
    ERR.print(f"{name}{message}", soft_wrap=True)
    return EXIT_BAD_INPUT
