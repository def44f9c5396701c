"""An open warning on the command line: its words, its numbered alternatives, how to answer it."""

from pathlib import Path
from typing import Any

from rich.console import Console

from assistant.experiment import Experiment
from assistant.warning_words import proposal


def warning_object(experiment: Experiment) -> dict[str, Any] | None:
    """Return the open warning as JSON has it, alternatives numbered from 1; None if none is."""
    advice = experiment.open_advice
    if advice is None or experiment.finished is not None:
        return None
    return {
        "number": advice.number,
        "basis": advice.basis,
        "text": advice.text,
        "alternatives": [
            {"number": number, "kind": one.kind, "text": one.text, "chance": one.chance}
            for number, one in enumerate(advice.alternatives, 1)
        ],
    }


def print_warning(experiment: Experiment, console: Console, store: Path | None) -> None:
    """Print the open warning, what it proposes, and how to answer it; nothing if none is open."""
    advice = experiment.open_advice
    if advice is None or experiment.finished is not None:
        return
    console.print(f"warning: {advice.text}", style="yellow", soft_wrap=True)
    for number, one in enumerate(advice.alternatives, 1):
        console.print(f"  {number}. {proposal(one)}", soft_wrap=True)
    where = "" if store is None else f" --store {store}"
    accept = " --accept 1 (or" if advice.basis == "paper" or advice.alternatives else " (--change,"
    answer = f"copperline steer {experiment.opened.experiment_id}{where}{accept} --ignore)"
    console.print(f"Answer it with: {answer}", soft_wrap=True)
