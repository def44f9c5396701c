"""The command line.

Exit codes: 0 done, 1 a fault of ours, 2 bad input, 3 nothing feasible found, 130 interrupted
(what was finished is kept).
"""

from assistant.cli.main import app, main

__all__ = ["app", "main"]
