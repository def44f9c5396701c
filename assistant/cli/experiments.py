"""Commands over stored experiments: list, suggest, report, and the browser UI."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from assistant import Experiment, Store, load_session
from assistant.cli.console import (
    OUT,
    Json,
    StoreOption,
    print_json,
    store_path,
)
from assistant.cli.summary import print_summary, summary
from assistant.cli.warned import print_warning, warning_object
from assistant.codec import encode_event
from assistant.door import open_store
from assistant.errors import SettingsError, StoreError
from assistant.events import ExperimentFinished
from assistant.expectation import expectation
from assistant.files import is_there
from assistant.report import collect, write_report
from assistant.report.why import why
from assistant.report.words import level, moment
from assistant.session import Session
from assistant.settings import build_sweep, check_settings, read_settings
from assistant.starting import open_sweep, past_results
from assistant.store import MemoryStore
from strategies import Suggestion

MAX_SHOWN = 160


def suggest(
    experiment: Annotated[
        str, typer.Argument(help="A stored experiment, 'latest', or a sweep file (TOML).")
    ] = "latest",
    n: Annotated[int, typer.Option("-n", "--count", help="How many.")] = 5,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Say what should run next, and why, without running anything.

    For a stored experiment that goes on the batch is recorded, so that it is not proposed again.
    While a warning is open the batch that came with it is shown again, and nothing is recorded.
    """
    if experiment.endswith(".toml"):
        session = fresh_session(Path(experiment))
    else:
        session = stored_session(experiment, store)
    recorded = session.experiment.finished is None
    if not recorded:
        session = _afterwards(session)
    before = session.experiment.open_advice
    shown = session.experiment.open_batch if before is not None and recorded else None
    batch = shown or session.suggest(n)
    known = session.experiment
    warning = warning_object(known)
    if as_json:
        rows = [
            {
                "values": known.space.values(suggestion.configuration),
                "reason": why(known, suggestion),
                **_expected(known, suggestion),
            }
            for suggestion in batch.suggestions
        ]
        print_json(
            {
                "experiment": session.id,
                "batch": batch.number,
                "recorded": recorded and shown is None,
                "exhausted": batch.exhausted,
                "warning": None if warning is None else warning["text"],
                "alternatives": [] if warning is None else warning["alternatives"],
                "suggestions": rows,
            }
        )
        return 0
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("no.", *known.space.names):
        table.add_column(name, justify="right")
    for number, suggestion in enumerate(batch.suggestions, 1):
        cells = [level(v) for v in known.space.values(suggestion.configuration).values()]
        table.add_row(str(number), *cells)
    OUT.print(table)
    for number, suggestion in enumerate(batch.suggestions, 1):
        OUT.print(f"{number}. {why(known, suggestion)}", soft_wrap=True)
    if shown is not None:
        OUT.print("This batch came with a warning that is open; it is shown again, nothing is new.")
    elif before is not None and recorded:
        OUT.print(f"Warning {before.number} was not answered, and lapses with this batch.")
    if recorded:
        print_warning(known, OUT, store)
    if not recorded:
        OUT.print(
            f"The experiment is finished; go on with: copperline resume {session.id} --runs N"
        )
    if batch.exhausted:
        OUT.print("The space is exhausted: every allowed configuration has been proposed or run.")
    return 0


def _expected(known: Experiment, suggestion: Suggestion) -> dict[str, object]:
    """Return value and 95% interval in the unit of the objective, and the chance to be best."""
    found = expectation(known, suggestion.configuration)
    return {
        "expected": None if found is None else found.value,
        "interval": None if found is None else [found.low, found.high],
        "chance": suggestion.chance,
    }


def _afterwards(session: Session) -> Session:
    """Return a copy of a finished experiment that may be asked further; nothing is stored."""
    store = MemoryStore()
    events = [e for e in session.events() if not isinstance(e, ExperimentFinished)]
    store.append(session.id, 0, events)
    return load_session(store, session.id)


def fresh_session(path: Path) -> Session:
    """Return a session as a sweep file would open it; nothing is stored."""
    built = build_sweep(check_settings(read_settings(path), str(path)))
    session = open_sweep(built, MemoryStore(), path.stem, "")
    session.import_results(past_results(built), replicates=built.settings.replicates)
    return session


def stored_session(experiment: str, store: Path | None) -> Session:
    """Return a stored session; ``latest`` is the one opened last. Never makes a new store."""
    return session_in(open_store(existing(store)), experiment)


def existing(store: Path | None) -> Path:
    """Return where experiments are kept. Raises StoreError if nothing is there yet."""
    path = store_path(store)
    if not is_there(path):
        raise StoreError(
            f"there is no store '{path}' yet; run a sweep first, or name another with --store"
        )
    return path


def session_in(opened: Store, experiment: str) -> Session:
    """Return a session of a store; ``latest`` is the one opened last."""
    if experiment == "latest":
        stored = opened.experiments()
        if not stored:
            raise StoreError("the store holds no experiment yet; run a sweep first")
        experiment = stored[0].id
    return load_session(opened, experiment)


def report(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the HTML goes.", show_default=False)
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Write the report of a stored experiment, finished or not."""
    session = stored_session(experiment, store)
    data = collect(session.experiment, session.events())
    written = write_report(data, out or Path("copperline-out") / f"{session.id}.html")
    if as_json:
        print_json(summary(session.experiment, data, written))
    else:
        print_summary(data, written)
    return 0


def journal(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Only events of this type; repeat it.", show_default=False),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Print what happened, event by event: every decision, run, warning and answer."""
    session = stored_session(experiment, store)
    events = session.events()
    known = sorted({type(event).__name__ for event in events})
    for name in kind or []:
        if name not in known:
            raise SettingsError(f"no event of type '{name}' here; there are: {', '.join(known)}")
    chosen = [e for e in events if not kind or type(e).__name__ in kind]
    if as_json:
        lines = [json.loads(encode_event(event)) for event in chosen]
        print_json({"experiment": session.id, "events": lines})
        return 0
    first_s = events[0].at_s
    for event in chosen:
        body = json.loads(encode_event(event))
        name = body.pop("type")
        text = json.dumps({k: v for k, v in body.items() if k not in ("v", "at_s", "space")})
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ..."
        OUT.print(f"{event.at_s - first_s:9.3f} s  {name}  {shown}", soft_wrap=True)
    return 0


def experiments(store: StoreOption = None, as_json: Json = False) -> int:
    """List what is stored, latest first."""
    path = store_path(store)
    stored = open_store(path).experiments() if is_there(path) else ()
    if as_json:
        print_json({"store": str(path), "experiments": [asdict(e) for e in stored]})
        return 0
    if not stored:
        OUT.print(f"The store '{path}' holds no experiment yet.")
        return 0
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("experiment", "name", "opened", "events"):
        table.add_column(name)
    for e in stored:
        table.add_row(e.id, e.name, moment(e.opened_s), str(e.n_events))
    OUT.print(table)
    return 0
