"""Experiments whose program asks for its runs itself: only it can make them. Pure.

Such an experiment is of the kind ``rest`` without a ``url``. No worker of Copperline is given its
runs, and no executor can make them.
"""

import json
from typing import Any

from assistant.events import ExperimentOpened


def asks_for_runs(opened: ExperimentOpened) -> bool:
    """Return whether the program of an experiment asks for its runs itself."""
    return opened.application == "rest" and bool(opened.recipe) and is_asking(_of(opened.recipe))


def is_asking(application: Any) -> bool:
    """Return whether the table ``[application]`` is of a program that asks for its runs itself."""
    return (
        isinstance(application, dict)
        and application.get("kind") == "rest"
        and application.get("url") is None
    )


def _of(recipe: str) -> Any:
    return json.loads(recipe).get("application")
