"""The command line: `copperline`."""

from assistant.cli.main import main

__all__ = ["main"]
