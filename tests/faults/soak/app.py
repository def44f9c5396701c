"""What is executed in the soak: results that follow from the levels, and runs that go wrong.

One application is a function, executed in the worker's own process; the other is a command. The
level ``behaviour`` says what becomes of a run, so that every outcome is known beforehand.
"""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MARK = "COPPERLINE_SOAK"
"""A variable of the environment by which what a soak started is known."""

BAD: Mapping[str, tuple[str, ...]] = {
    "function": ("raise", "nan", "poison"),
    "command": ("exit", "crash", "hang", "garbage", "poison"),
}
"""Behaviours other than ``good``, by application: each ends as a failed run."""

LEVELS = {"a": 10, "b": 10, "c": 5, "d": 5}
HANG_LIMIT_S = 30.0

SCRIPT = """\
case $5 in
good) sleep $(test $((($1 + $2) % 10)) = 9 && echo 2.5 || echo 0.05); echo "{\\"height\\": $((
    5 + ($1 - 3) * ($1 - 3) + 2 * $2 + (7 * $1 + 5 * $2 + 3 * $3 + $4) % 11))}" ;;
exit) echo 'it does not converge' >&2; exit 1 ;;
crash) kill -SEGV $$ ;;
hang) sleep 1000 ;;
garbage) echo 'height is about three' ;;
poison) kill -KILL $PPID; sleep 1 ;;
esac
"""


def height(values: Mapping[str, Any]) -> Mapping[str, float]:
    """Return what a good run measures."""
    a, b, c, d = (int(values[name]) for name in LEVELS)
    return {"height": float(5 + (a - 3) ** 2 + 2 * b + (7 * a + 5 * b + 3 * c + d) % 11)}


def measure(a: int, b: int, c: int, d: int, behaviour: str) -> float:
    """Execute a run in the worker's own process."""
    time.sleep(2.5 if (a + b) % 10 == 9 else 0.01 * ((a + b) % 10))  # so that much is interrupted
    if behaviour == "raise":
        raise ArithmeticError("it does not converge")
    if behaviour == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "nan":
        return float("nan")
    return height({"a": a, "b": b, "c": c, "d": d})["height"]


def tables(kind: str, folder: Path, runs: int) -> dict[str, Any]:
    """Return the settings of an experiment, as a sweep file has them."""
    parameters = [{"name": n, "levels": list(range(size))} for n, size in LEVELS.items()]
    behaviours = {"name": "behaviour", "levels": ["good", *BAD[kind]], "kind": "nominal"}
    application: dict[str, Any] = {"kind": "function", "function": f"{__name__}:measure"}
    if kind == "command":
        script = folder / "run.sh"
        script.write_text(SCRIPT)
        words = ["sh", str(script), *(f"{{{name}}}" for name in (*LEVELS, "behaviour"))]
        application = {"kind": "command", "command": words, "limit": HANG_LIMIT_S}
        application["inherit"] = [MARK]  # by which the soak knows what it started
    application["noisy"] = True  # so that runs may be repeated
    return {
        "runs": runs,
        "application": application,
        "objective": {"minimise": "height"},
        "parameters": [*parameters, behaviours],
    }
