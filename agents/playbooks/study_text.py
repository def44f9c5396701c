"""A study as the TOML file that `agents.study_file` reads, so that others can play it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os.path import relpath
from pathlib import Path

from agents.study import Chosen, Study


def study_text(study: Study, folder: Path) -> str:
    """Return the file of a study, with the paths of its tables as seen from a folder."""
    stop = study.stop
    top = {
        "name": study.name,
        "seed": study.seed,
        "replications": study.replications,
        "tables": [Path(relpath(table.path, folder)).as_posix() for table in study.tables],
        "strategies": [_strategy(one) for one in study.strategies],
        "kinds": list(study.kinds),
        "insights": list(study.insights),
        "confidences": list(study.confidences),
        "learning": list(study.learning),
    }
    ends: dict[str, object] = {
        "runs": list(stop.runs),
        "advised_from": stop.advised_from,
        "censored_at": stop.censored_at,
        "run_s": stop.run_s,
    }
    if stop.exploitation != (None,):
        ends["exploitation"] = ["none" if one is None else one for one in stop.exploitation]
    for name in ("deadline_s", "goal"):
        value = getattr(stop, name, None)
        if value is not None:
            ends[name] = value
    insight = {name: value for name, value in asdict(study.insight).items() if name != "kind"}
    manner = {name: value for name, value in asdict(study.manner).items() if name != "confidence"}
    parts = {"stop": ends, "insight": insight, "learner": asdict(study.learner), "analyst": manner}
    text = _lines(top)
    for name, table in parts.items():
        text += f"\n[{name}]\n{_lines(table)}"
    return text


def _strategy(chosen: Chosen) -> object:
    return {"name": chosen.name, **dict(chosen.options)} if chosen.options else chosen.name


def _lines(table: Mapping[str, object]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in table.items())


def _value(value: object) -> str:
    """Return a value as TOML; texts, numbers and truths are written as JSON writes them."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_value(one)}" for name, one in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
