"""Commands on stored experiments: ``experiments``, ``suggest``, ``queue``, ``report`` and more."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from assistant.analysis.experiment_state import (
    ExperimentState,
    experiment_state,
    refuse_if_executed,
    unreadable_state,
)
from assistant.analysis.response_map import expected_measure
from assistant.cli.console import (
    OUT,
    Json,
    StoreOption,
    closed_at_end,
    print_json,
    say,
    store_path,
    table_of,
)
from assistant.cli.decisions import QUEUE, Decision, decide, with_decisions
from assistant.cli.experiment_view import (
    copy_in_memory,
    existing,
    fresh_session,
    print_state,
    print_summary,
    print_warning,
    stored_execution,
    stored_session,
    stored_state,
    summary,
    warning_object,
)
from assistant.config.snapshot import cluster_settings, report_content
from assistant.core.codec import encode_event, event_tag
from assistant.core.commands import StopRun
from assistant.core.errors import (
    CodecError,
    DamagedEventError,
    NameTakenError,
    SettingsError,
    StoreError,
)
from assistant.core.events import Event, ExperimentFinished
from assistant.core.experiment import Experiment
from assistant.core.files import is_there
from assistant.core.objective import Objective
from assistant.core.ports import StoredExperiment, SystemClock
from assistant.core.run import Run, RunState
from assistant.presentation.report.data import collect
from assistant.presentation.report.forms import (
    form_of,
    read_bundle,
    render_summary,
    write_form,
)
from assistant.presentation.report.html import (
    render_comparison_report,
    write_page,
)
from assistant.presentation.tables.experiment_comparison import compare_experiments
from assistant.presentation.tables.experiment_summary import gain_words
from assistant.presentation.tables.queue import age_words, reason_text, reported_words
from assistant.presentation.text.number_format import level, moment, number
from assistant.service.store_connection import StoreConnection, open_store
from assistant.session.opening import load_session
from assistant.session.session import Session
from assistant.store.event_store import MemoryStore
from strategies import Suggestion

MAX_SHOWN = 160


def suggest(
    experiment: Annotated[
        str, typer.Argument(help="A stored experiment, 'latest', or a sweep file (TOML).")
    ] = "latest",
    n: Annotated[int, typer.Option("-n", "--count", help="Number of suggestions.")] = 5,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Suggest the next runs, with reasons, without running anything.

    The batch of an unfinished stored experiment is recorded, so that it is not suggested again.
    While a warning is open, its batch is shown again and nothing is recorded.
    """
    if experiment.endswith(".toml"):
        session = fresh_session(Path(experiment))
    else:
        session = stored_session(experiment, store)
    recorded = session.experiment.finished is None
    if not recorded:
        session = _afterwards(session)
    before = session.experiment.open_warning
    open_batch = session.experiment.open_batch if before is not None and recorded else None
    batch = open_batch or session.suggest(n)
    current = session.experiment
    warning = warning_object(current)
    if as_json:
        rows = [
            {
                "values": current.space.all_values(suggestion.configuration),
                "reason": reason_text(current, suggestion),
                **_expected(current, suggestion),
            }
            for suggestion in batch.suggestions
        ]
        print_json(
            {
                "experiment": session.id,
                "batch": batch.number,
                "recorded": recorded and open_batch is None,
                "exhausted": batch.exhausted,
                "warning": None if warning is None else warning["text"],
                "alternatives": [] if warning is None else warning["alternatives"],
                "suggestions": rows,
            }
        )
        return 0
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("no.", *current.space.names):
        table.add_column(name, justify="right")
    for position, suggestion in enumerate(batch.suggestions, 1):
        cells = [level(v) for v in current.space.all_values(suggestion.configuration).values()]
        table.add_row(str(position), *cells)
    OUT.print(table)
    for position, suggestion in enumerate(batch.suggestions, 1):
        OUT.print(f"{position}. {reason_text(current, suggestion)}", soft_wrap=True)
    if open_batch is not None:
        OUT.print("A warning is open: its batch is shown again, and nothing is recorded.")
    elif before is not None and recorded:
        OUT.print(f"Warning {before.number} was not answered; it expires with this batch.")
    if recorded:
        print_warning(current, OUT, store)
    if not recorded:
        print_state(stored_state(session, store), store)
    if batch.exhausted:
        OUT.print("The space is exhausted: every allowed configuration has been suggested or run.")
    return 0


def _expected(experiment: Experiment, suggestion: Suggestion) -> dict[str, object]:
    """Return value and 95% interval in the unit of the objective, and the chance to be the best."""
    prediction = expected_measure(experiment, suggestion.configuration)
    return {
        "expected": None if prediction is None else prediction.value,
        "interval": None if prediction is None else [prediction.low, prediction.high],
        "chance": suggestion.chance,
    }


def _afterwards(session: Session) -> Session:
    """Return a reopened copy of a finished experiment; nothing is stored."""
    store = MemoryStore()
    events = [e for e in session.events() if not isinstance(e, ExperimentFinished)]
    store.append(session.id, 0, events)
    return load_session(store, session.id)


def report(
    experiment: Annotated[
        list[str] | None,
        typer.Argument(
            help="A stored experiment, 'latest' if none is named; two to six are compared.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Path of the report; its ending chooses the form: .html, .md (with a folder of "
            "charts), .pdf (needs copperline[pdf]), or .zip (all data, for copperline import).",
            show_default=False,
        ),
    ] = None,
    slurm_conf: Annotated[
        bool,
        typer.Option(
            "--slurm-conf",
            help="Print the changed lines of slurm.conf instead, or write them to --out.",
        ),
    ] = False,
    kubernetes: Annotated[
        bool,
        typer.Option(
            "--kubernetes",
            help="Print the changed objects of Kueue, or the configuration of kube-scheduler for a "
            "sweep of placement, as YAML instead, or write them to --out.",
        ),
    ] = False,
    as_summary: Annotated[
        bool,
        typer.Option(
            "--summary",
            help="Print the first page as Markdown instead, such as for the summary of a job of "
            "GitHub Actions, or write it to --out.",
        ),
    ] = False,
    run: Annotated[
        int | None,
        typer.Option(
            help="Run whose configuration --slurm-conf or --kubernetes writes; the best one if "
            "none is named.",
            show_default=False,
        ),
    ] = None,
    optuna: Annotated[
        str | None,
        typer.Option(
            "--optuna",
            help="Write the ended runs as a study of Optuna instead, to a storage such as "
            "sqlite:///study.db (needs copperline[optuna]).",
            show_default=False,
        ),
    ] = None,
    mlflow: Annotated[
        str | None,
        typer.Option(
            "--mlflow",
            help="Write the runs to MLflow instead: the address of a server or a database, such as "
            "sqlite:///mlflow.db (needs copperline[mlflow]).",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Write the report of an experiment, or compare several."""
    address = optuna or mlflow
    texts = {"--slurm-conf": slurm_conf, "--kubernetes": kubernetes, "--summary": as_summary}
    chosen = [option for option, is_given in texts.items() if is_given]
    if address is not None:
        names = experiment or ["latest"]
        if (optuna and mlflow) or out or chosen or run or len(names) > 1:
            raise SettingsError(
                "--optuna and --mlflow write one experiment and no report; give one of them, and "
                "no other option of the report"
            )
        return _export(names[0], address, "Optuna" if optuna else "MLflow", store, as_json)
    if run is not None and not (slurm_conf or kubernetes):
        raise SettingsError(
            "--run names the configuration of --slurm-conf or --kubernetes; add one of them"
        )
    if len(chosen) > 1:
        raise SettingsError(f"{' and '.join(chosen)} print different texts; give one of them")
    if experiment is not None and len(experiment) > 1:
        if chosen:
            raise SettingsError(f"{chosen[0]} is of one experiment; name only one")
        return _compare(experiment, out, store, as_json)
    session = stored_session(experiment[0] if experiment else "latest", store)
    if slurm_conf:
        text = cluster_settings(session.experiment, "slurm", run)
        return _print_text("conf", "Lines of slurm.conf", text, session.experiment, out, as_json)
    if kubernetes:
        text = cluster_settings(session.experiment, "kubernetes", run)
        return _print_text("objects", "Objects", text, session.experiment, out, as_json)
    if as_summary:
        state = stored_state(session, store)
        text = render_summary(collect(session.experiment, session.events(), state=state))
        return _print_text("summary", "Summary", text, session.experiment, out, as_json)
    path = out or Path("copperline-out") / f"{session.id}.html"
    form_of(path)
    events = session.events()
    content = report_content(session.experiment, events, state=stored_state(session, store))
    written = write_form(content, path)
    if content.data.groups.missing:
        say(f"note: {content.data.groups.missing}")
    if as_json:
        print_json(summary(session.experiment, content.data, written))
    else:
        print_summary(content.data, written)
    return 0


def _export(name: str, address: str, to: str, store: Path | None, as_json: bool) -> int:
    """Write the runs of a stored experiment to Optuna or MLflow."""
    session = stored_session(name, store, take_key=False)
    try:
        if to == "Optuna":
            from assistant.integrations.optuna_study import export_study

            n = len(export_study(session.experiment, address).trials)
        else:
            from assistant.integrations.mlflow_log import MlflowLog

            faults: list[str] = []
            with MlflowLog(session, address, say=faults.append):
                n = len(session.experiment.runs)
            if faults:
                raise SettingsError(faults[0])
    except ImportError as error:
        raise SettingsError(f"to write to {to}, {error}") from error
    if as_json:
        print_json({"experiment": session.id, "runs": n, "written_to": address})
    else:
        say(f"Wrote {n} runs of '{session.id}' to {to} at {address}.")
    return 0


def import_bundle(
    file: Annotated[
        str,
        typer.Argument(
            help="A bundle made by copperline report --out FILE.zip, or the URL of a storage of "
            "Optuna, such as sqlite:///study.db (needs copperline[optuna])."
        ),
    ],
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Add the experiment of a bundle to the store, or each study of a storage of Optuna.

    The events of a bundle are as they were.
    """
    if "://" in file:
        return _import_studies(file, store, as_json)
    name, events = read_bundle(Path(file))
    _append(name, events, store)
    if as_json:
        print_json({"experiment": name, "events": len(events)})
    else:
        OUT.print(f"Imported {name}: {len(events)} events.", soft_wrap=True)
    return 0


def _import_studies(storage: str, store: Path | None, as_json: bool) -> int:
    try:
        from assistant.integrations.optuna_study import import_study, stored_studies
    except ImportError as error:
        raise SettingsError(f"to import from Optuna, {error}") from error
    imported = [import_study(study) for study in stored_studies(storage)]
    for study in imported:
        _append(study.opened.experiment_id, study.events, store)
    if as_json:
        rows = [
            {"experiment": s.opened.experiment_id, "runs": s.n_runs, "left_out": s.left_out}
            for s in imported
        ]
        print_json({"experiments": rows})
        return 0
    for study in imported:
        words = f"Imported {study.opened.experiment_id}: {study.n_runs} runs"
        if study.left_out:
            words += f"; left out, without an end or all values: {study.left_out}"
        OUT.print(f"{words}.", soft_wrap=True)
    return 0


def _append(name: str, events: Sequence[Event], store: Path | None) -> None:
    path = store_path(store)
    try:
        open_store(path).append(name, 0, events)
    except NameTakenError as error:
        raise StoreError(
            f"the store '{path}' has an experiment '{name}' already; import it into another one "
            "(--store), or remove that one first (copperline delete --purge)"
        ) from error


def _print_text(
    key: str, title: str, text: str, experiment: Experiment, out: Path | None, as_json: bool
) -> int:
    """Print a text about an experiment, or write it to a file; ``key`` is its name in JSON."""
    written = None if out is None else write_page(text, out)
    if as_json:
        report = None if written is None else str(written)
        print_json({"experiment": experiment.opened.experiment_id, key: text, "report": report})
    elif written is None:
        OUT.print(text, end="", markup=False, highlight=False, soft_wrap=True)
    else:
        OUT.print(f"{title}: {written}", soft_wrap=True)
    return 0


def _compare(names: list[str], out: Path | None, store: Path | None, as_json: bool) -> int:
    """Write one report over several stored experiments, and print what differs."""
    data = compare_experiments([stored_session(name, store).experiment for name in names])
    page = render_comparison_report(data)
    written = write_page(page, out or Path("copperline-out") / "comparison.html")
    if as_json:
        print_json({"report": str(written), **asdict(data)})
        return 0
    for group in data.groups:
        OUT.print(group.sentence, style="bold", soft_wrap=True)
    for title, rows in (("setting", data.settings), ("best configuration", data.best)):
        different = [row for row in rows if row.differs]
        if different:
            table = Table(title, *data.names, box=None, pad_edge=False, header_style="dim")
            for row in different:
                table.add_row(row.name, *row.texts)
            OUT.print(table)
    OUT.print(f"\nReport: {written}", soft_wrap=True)
    return 0


def print_events(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Only events of this type; repeatable.", show_default=False),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Print the event log: every decision, run, warning and answer."""
    session = stored_session(experiment, store)
    events = session.events()
    kinds = sorted({event_tag(event) for event in events})
    for name in kind or []:
        if name not in kinds:
            raise SettingsError(f"there is no event of type '{name}'; types: {', '.join(kinds)}")
    selected = [e for e in events if not kind or event_tag(e) in kind]
    if as_json:
        lines = [json.loads(encode_event(event)) for event in selected]
        print_json({"experiment": session.id, "events": lines})
        return 0
    first_s = events[0].at_s
    for event in selected:
        body = json.loads(encode_event(event))
        name = body.pop("type")
        text = json.dumps({k: v for k, v in body.items() if k not in ("v", "at_s", "space")})
        shortened = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ..."
        OUT.print(f"{event.at_s - first_s:9.3f} s  {name}  {shortened}", soft_wrap=True)
    return 0


def experiments(
    tag: Annotated[
        str | None, typer.Option(help="Only experiments with this tag.", show_default=False)
    ] = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="List the deleted experiments instead.")
    ] = False,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """List the stored experiments with state, progress and best, latest first."""
    path = store_path(store)
    stored: tuple[StoredExperiment, ...] = ()
    if is_there(path):
        stored = closed_at_end(open_store(path, take_key=False)).experiments(deleted=deleted)
    stored = tuple(entry for entry in stored if tag is None or tag in entry.tags)
    listed = _listed(path, stored) if stored else []
    if as_json:
        print_json({"store": str(path), "experiments": [entry.as_json() for entry in listed]})
        return 0
    if not stored:
        which = f"experiment with the tag '{tag}'" if tag is not None else "experiment yet"
        which = "deleted experiment" if deleted and tag is None else which
        OUT.print(f"The store '{path}' holds no {which}.", soft_wrap=True)
        return 0
    tags = ("tags",) if any(entry.stored.tags for entry in listed) else ()
    table = Table(box=None, header_style="dim", pad_edge=False)
    longest = max(len(entry.stored.id) for entry in listed)  # an identifier is never cut
    table.add_column("experiment", no_wrap=True, min_width=longest)
    for name in ("name", *tags, "state", "runs", "best", "next step", "opened"):
        table.add_column(name, no_wrap=name in ("state", "runs"))
    for entry in listed:
        state, listing = entry.state, entry.stored
        words = (f"{state.icon} {state.name}", entry.progress, entry.best)
        labels = (", ".join(listing.tags),) if tags else ()
        opened_at = moment(listing.opened_s)
        table.add_row(listing.id, listing.name, *labels, *words, str(state.next_step), opened_at)
    OUT.print(table)
    return 0


@dataclass(frozen=True, slots=True)
class ListedExperiment:
    """A stored experiment with its state, for the list; ``experiment`` is None if damaged."""

    stored: StoredExperiment
    experiment: Experiment | None
    state: ExperimentState

    @property
    def progress(self) -> str:
        """Ended runs of the budget, such as "12/40"."""
        if self.experiment is None:
            return ""
        n, budget = self.experiment.n_ended, self.experiment.sla.max_runs
        return str(n) if budget is None else f"{n}/{budget}"

    @property
    def best(self) -> str:
        """Value of the best configuration, with its gain over the current one."""
        if self.experiment is None:
            return ""
        run, objective = self.experiment.best, self.experiment.opened.objective
        summary = None if run is None else self.experiment.summary(run)
        if summary is None:
            return ""
        value = f"{number(summary.outcome.value)} {objective.unit}".strip()
        gain = gain_words(self.experiment)
        return f"{value} ({gain})" if gain else value

    def as_json(self) -> dict[str, object]:
        """Return the entry as a JSON object."""
        if self.experiment is None:
            return {
                **asdict(self.stored),
                "state": self.state.as_json(),
                "runs": None,
                "best": None,
            }
        run = self.experiment.best
        summary = None if run is None else self.experiment.summary(run)
        best = None
        if run is not None and summary is not None:
            values = self.experiment.space.all_values(run.configuration)
            best = {
                "run": run.id,
                "values": values,
                "value": summary.outcome.value,
                "feasible": summary.outcome.feasible,
            }
        runs = {"ended": self.experiment.n_ended, "budget": self.experiment.sla.max_runs}
        return {**asdict(self.stored), "state": self.state.as_json(), "runs": runs, "best": best}


def _listed(path: Path, stored: Sequence[StoredExperiment]) -> list[ListedExperiment]:
    """Return stored experiments with their present states."""
    opened, now_s = open_store(path, take_key=False), SystemClock().now_s()
    try:
        return [listed_experiment(opened, entry, now_s) for entry in stored]
    finally:
        opened.close()


def listed_experiment(
    opened: StoreConnection, entry: StoredExperiment, now_s: float
) -> ListedExperiment:
    """Return a stored experiment with its state at ``now_s``; a damaged one without its events."""
    try:
        experiment = Experiment.replay(opened.load(entry.id))
    except (DamagedEventError, CodecError) as error:  # others are listed all the same
        return ListedExperiment(entry, None, unreadable_state(str(error)))
    state = experiment_state(experiment, now_s, opened.execution(entry.id))
    return ListedExperiment(entry, experiment, state)


StoredName = Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")]


def rename(
    experiment: StoredName,
    name: Annotated[str, typer.Argument(help="Its new name.")],
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Give a stored experiment another name; its identifier stays."""
    session = stored_session(experiment, store)
    session.rename(name)
    if as_json:
        print_json({"experiment": session.id, "name": session.experiment.opened.name})
    else:
        OUT.print(f"{session.id} is now called '{session.experiment.opened.name}'.", soft_wrap=True)
    return 0


def tag_experiment(
    experiment: StoredName,
    tags: Annotated[list[str] | None, typer.Argument(help="Tags to add.")] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(metavar="TAG", help="Remove this tag; repeatable.", show_default=False),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Add tags to a stored experiment, or remove them; without any, show them."""
    session = stored_session(experiment, store)
    if tags or remove:
        session.tag(tags or (), remove or ())
    current = session.experiment.tags
    if as_json:
        print_json({"experiment": session.id, "tags": current})
    else:
        OUT.print(f"{session.id} has the tags: {', '.join(current) or 'none'}.", soft_wrap=True)
    return 0


def delete(
    experiment: Annotated[str, typer.Argument(help="A stored experiment.")],
    undo: Annotated[bool, typer.Option("--undo", help="Bring a deleted one back.")] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove it from the store for good, with its runs.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Delete a stored experiment: lists leave it out; `--undo` brings it back until `--purge`."""
    if undo and purge:
        raise SettingsError("--undo and --purge contradict each other; give one of them")
    session = stored_session(experiment, store)
    name, where = session.id, "" if store is None else f" --store {store}"
    if undo:
        session.undelete()
        done = f"{name} is back."
    elif purge:
        _confirm(f"Remove {name} and its {len(session.experiment.runs)} runs for good?", yes)
        if not session.experiment.is_deleted:
            refuse_if_executed(session.experiment, stored_execution(name, store))
            session.delete()
        closed_at_end(open_store(existing(store))).purge(name)
        done = f"{name} is removed for good."
    else:
        refuse_if_executed(session.experiment, stored_execution(name, store))
        _confirm(f"Delete {name} ({len(session.experiment.runs)} runs)?", yes)
        session.delete()
        done = f"{name} is deleted; bring it back with: copperline delete {name} --undo{where}"
    if as_json:
        print_json({"experiment": name, "deleted": not undo, "purged": purge})
    else:
        OUT.print(done, soft_wrap=True)
    return 0


def _confirm(question: str, yes: bool) -> None:
    """Ask a person; without a terminal only ``--yes`` is an answer. Raises SettingsError."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise SettingsError("nobody can be asked without a terminal; add --yes to delete it")
    if not typer.confirm(question):
        raise SettingsError("nothing was deleted")


@with_decisions(QUEUE, before="reason")
def queue(
    decisions: Sequence[Decision],
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    reason: Annotated[
        str, typer.Option(help="Reason, stored with the cancelled or stopped runs.")
    ] = "",
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Show running and waiting runs in order of their start, and change the queue.

    A new order applies from the next start. Running runs that are cancelled or stopped end soon,
    also if another process executes the experiment.
    """
    session = stored_session(experiment, store)
    decide(copy_in_memory(session), decisions, reason)  # a refused one leaves all as it is
    for command in decide(session, decisions, reason):
        if isinstance(command, StopRun) and not as_json:
            run = session.experiment.run(command.run)
            reported = reported_words(run, session.experiment.opened.objective)
            OUT.print(f"Run {run.id} is stopped; its last intermediate result counts: {reported}.")
    rows = [*session.experiment.runs_in(RunState.RUNNING), *session.experiment.waiting]
    rows += [run for run in session.experiment.runs_in(RunState.QUEUED) if run.held]
    if as_json:
        queue_rows = [_row(session, run) for run in rows]
        state = stored_state(session, store).as_json()
        print_json({"experiment": session.id, "state": state, "queue": queue_rows})
        return 0
    if not rows:
        OUT.print("No run is waiting or running.")
        print_state(stored_state(session, store), store)
        return 0
    objective, now_s = session.experiment.opened.objective, session.now_s()
    reports = [_reported(run, objective, now_s) for run in rows]
    more = ("intermediate result",) if any(reports) else ()
    table = table_of("run", "state", "priority", *session.experiment.space.names, *more, left=2)
    for run, report in zip(rows, reports, strict=True):
        values = session.experiment.space.all_values(run.configuration).values()
        cells = [*map(level, values), *([report] if more else [])]
        table.add_row(str(run.id), _state(run), f"{run.priority:g}", *cells)
    OUT.print(table)
    print_state(stored_state(session, store), store)
    return 0


def _state(run: Run) -> str:
    if run.held:
        return "held"
    return f"{run.state} ({run.worker})" if run.worker and run.started_s is not None else run.state


def _reported(run: Run, objective: Objective, now_s: float) -> str:
    if run.reported is None or run.state is not RunState.RUNNING:
        return ""
    return f"{reported_words(run, objective)} ({age_words(run, now_s)})"


def _row(session: Session, run: Run) -> dict[str, object]:
    return {
        "run": run.id,
        "state": str(run.state),
        "held": run.held,
        "priority": run.priority,
        "worker": run.worker or None,
        "values": dict(session.experiment.space.all_values(run.configuration)),
        "reason": run.reason,
        "reported": None if run.reported is None else dict(run.reported),
        "reported_s": run.reported_s,
    }
