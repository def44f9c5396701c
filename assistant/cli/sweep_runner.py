"""Run a sweep to its end, show its progress and write its report.

The runs execute here, or an external client of an embedded service requests and executes them.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from assistant.analysis.broken_program import broken_program
from assistant.analysis.experiment_state import experiment_state
from assistant.analysis.recommendation import KEPT_FROM, kept_runs
from assistant.applications import application_entry
from assistant.applications.scheduling import READING, RECORDED_WAITS
from assistant.cli.console import (
    ERR,
    EXIT_INTERRUPTED,
    EXIT_NOTHING_FEASIBLE,
    EXIT_PROGRAM_FAILED,
    OUT,
    print_json,
    say,
)
from assistant.cli.experiment_view import (
    LiveView,
    print_next_step,
    print_state,
    print_summary,
    print_warning,
    summary,
)
from assistant.client.remote_session import RemoteSession
from assistant.config.snapshot import past_results, report_content
from assistant.config.sweep_file import BuiltSweep
from assistant.core.errors import ExperimentError, SettingsError
from assistant.core.events import Event, ExperimentOpened, WarningIssued
from assistant.core.files import replace_private
from assistant.core.ports import Result
from assistant.core.sla import AutoSteering
from assistant.executors import make_executor
from assistant.hooks.notices import HookCommands
from assistant.hooks.notifier import Notifier
from assistant.presentation.report.forms import write_form
from assistant.presentation.tables.experiment_summary import borrowed_from
from assistant.presentation.tables.sla import sla_words
from assistant.service.store_connection import needs_service
from assistant.session.auto_steering import auto_steer
from assistant.session.session import ExperimentQueries, Session
from assistant.simtools.workload_log import reading_line
from strategies import Level

GRACE_S = 15.0  # Maximum wait for a last request of the client, which then learns of the end (s)
LOOK_S = 0.2


def refuse_elsewhere(built: BuiltSweep) -> None:
    """Raise SettingsError for settings that a sweep with an external client cannot have."""
    if built.settings.executor is not None:
        raise SettingsError(
            "an external client executes the runs of this sweep; remove --executor and [executor]"
        )
    from assistant.service.external_clients import LIMIT_OF_A_RUN

    if getattr(built.settings.application, "limit", None) is not None:
        raise SettingsError(LIMIT_OF_A_RUN)
    if built.settings.hooks.build().kinds:
        raise SettingsError(
            "the command line starts no hooks for a sweep with an external client; open it at a "
            "service: copperline serve --allow-programs, then POST /v1/adapters"
        )


def open_external_sweep(path: Path, tables: Mapping[str, Any], name: str) -> RemoteSession:
    """Open an experiment for an external client, and write a file with the client's access."""
    return _registered(path, tables, name, {"auto_steering": None})


def resume_external_sweep(path: Path, opened: ExperimentOpened) -> RemoteSession:
    """Resume an experiment for an external client, and write a file with its access.

    Raises ExperimentError if a later experiment of its name is not finished either.
    """
    session = _registered(path, dict(opened.recipe), opened.name, {"resume": True})
    if session.id != opened.experiment_id:
        raise ExperimentError(
            f"the external client would continue '{session.id}', a later experiment with the name "
            f"'{opened.name}'; finish that one first"
        )
    return session


def run_external_sweep(
    session: RemoteSession,
    built: BuiltSweep,
    first_runs: Sequence[Mapping[str, Level]],
    results: Sequence[Result],
) -> None:
    """Auto-steer an experiment whose external client executes the runs, until the end."""
    settings = built.settings
    experiment = session.experiment
    if results:
        session.import_results(results, replicates=True)
    is_new = experiment.auto_steering is None
    if is_new:
        session.submit_baseline()
    _include(session, first_runs)
    if is_new:
        session.set_auto_steering(AutoSteering(settings.batch, settings.initial, settings.warnings))
    session.start()
    try:
        with LiveView(session, ERR, session.execution) as view:

            def on_event(event: Event) -> None:
                if isinstance(event, WarningIssued):
                    view.on_warning(event.warning)
                run_id = getattr(event, "run_id", None)
                if run_id is not None:
                    view.on_change(session.experiment.run(run_id))

            session.follow(on_event, lambda: session.experiment.finished is not None)
            _linger(session)
    except KeyboardInterrupt:
        session.pause()
        raise


def _include(session: Session | RemoteSession, first_runs: Sequence[Mapping[str, Level]]) -> None:
    """Submit the first runs whose configurations were not submitted yet."""
    for values in first_runs:
        submitted = {run.configuration for run in session.experiment.runs}
        if session.experiment.space.from_values(values) not in submitted:
            session.include(values)


def _interrupted(session: ExperimentQueries, path: Path, error: KeyboardInterrupt) -> int:
    """Say what an interrupted sweep has and how it continues, and return the exit code."""
    experiment, by = session.experiment, str(error) or "Ctrl-C"
    if experiment.finished is not None:
        say(f"Interrupted by {by}.")
        print_state(experiment_state(experiment, session.now_s()), path, ERR)
    else:
        say(
            f"Interrupted by {by} after {experiment.n_ended} of {len(experiment.runs)} submitted "
            f"runs; continue with: copperline resume {session.id} --store {path}"
        )
    return EXIT_INTERRUPTED


@contextlib.contextmanager
def _warnings_said() -> Iterator[None]:
    """Print what executors log, such as a lost worker, as progress messages during a block."""
    logger, handler = logging.getLogger("copperline"), _ProgressHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _ProgressHandler(logging.Handler):
    """Standard-library logging handler that prints records as progress messages."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), style="yellow")


def _linger(session: RemoteSession) -> None:
    """Wait until the client has learned of the end, at most `GRACE_S`."""
    ended = session.experiment.finished
    until_s = time.monotonic() + GRACE_S
    while ended is not None and time.monotonic() < until_s:
        last_call_s = session.execution().last_call_s
        if last_call_s is not None and last_call_s < session.now_s() - ended.at_s:
            return
        time.sleep(LOOK_S)


def _registered(
    path: Path, tables: Mapping[str, Any], name: str, more: Mapping[str, Any]
) -> RemoteSession:
    from assistant.service.schemas import plain_text

    link = needs_service(path)
    settings = {
        key: value for key, value in tables.items() if key not in ("name", "results", "run")
    }
    registration = link.change("POST", "/v1/adapters", {"name": name, "settings": settings, **more})
    file = path.absolute().with_name(f"{registration['experiment']}.adapter")
    way_in = {
        "url": link.url,
        "experiment": registration["experiment"],
        "token": registration["token"],
    }
    replace_private(file, plain_text(way_in).encode())
    say(f"The external client requests runs at {link.url}; its token is in '{file}'.")
    return RemoteSession(link, registration["experiment"])


def wait_for_client(
    session: RemoteSession,
    built: BuiltSweep,
    first_runs: tuple[dict[str, Level], ...],
    results: Sequence[Result],
    path: Path,
    report: Path | None,
    as_json: bool,
) -> int:
    """Steer while a client executes the runs, write the report and return the exit code."""
    try:
        if not as_json:
            _introduce(session)
        run_external_sweep(session, built, first_runs, results)
        return _finish(session, built, path, report, as_json)
    except KeyboardInterrupt as error:
        return _interrupted(session, path, error)


def follow(
    session: Session,
    built: BuiltSweep,
    first_runs: tuple[dict[str, Level], ...],
    path: Path,
    report: Path | None,
    as_json: bool,
    hooks: HookCommands,
    mlflow: str | None,
) -> int:
    """Steer a sweep to its end, write a report, print the result and return the exit code."""
    try:
        if not as_json:
            _introduce(session)
        if hooks.kinds:
            say(str(hooks))  # the programs to be started are shown in every output format
        with _mlflow_log(session, mlflow):
            _run(session, built, first_runs, hooks, quiet=as_json)
        return _finish(session, built, path, report, as_json)
    except KeyboardInterrupt as error:
        return _interrupted(session, path, error)


def check_mlflow(address: str | None, *, is_external: bool) -> None:
    """Raise SettingsError if a sweep cannot be written to MLflow at an address."""
    if address is None:
        return
    if is_external:
        raise SettingsError(
            "the command line writes no sweep with an external client to MLflow while it goes on; "
            "write it afterwards with: copperline report --mlflow ADDRESS"
        )
    from assistant.integrations.mlflow_log import check_server

    check_server(address)


def _mlflow_log(session: Session, address: str | None) -> AbstractContextManager[object]:
    if address is None:
        return contextlib.nullcontext()
    from assistant.integrations.mlflow_log import MlflowLog

    return MlflowLog(session, address, say=say)


def _finish(
    session: Session | RemoteSession,
    built: BuiltSweep,
    path: Path,
    report: Path | None,
    as_json: bool,
) -> int:
    """Write the report of a sweep, print the result and return the exit code."""
    target = report or Path("copperline-out") / f"{session.id}.html"
    content = report_content(
        session.experiment, session.events(), application=lambda: built.application
    )
    data, written = content.data, write_form(content, target)
    is_broken = broken_program(session.experiment) is not None
    if as_json:
        print_json(summary(session.experiment, data, written))
    else:
        print_summary(data, written)
        if session.experiment.open_warning is not None and session.experiment.finished is None:
            print_warning(session.experiment, OUT, path)
        if is_broken:
            print_next_step(data.state, path)
    if is_broken:
        return EXIT_PROGRAM_FAILED
    has_answer = data.answer.verdict not in ("no_runs", "nothing_feasible")
    return 0 if has_answer else EXIT_NOTHING_FEASIBLE


def take_in(session: Session, results: Sequence[Result], *, replicates: bool, quiet: bool) -> None:
    """Import earlier results, and print how many were left out."""
    taken = session.import_results(results, replicates=replicates)
    left_out = len(results) - taken
    if taken and left_out and not quiet:
        why = "they are stored already"
        if not replicates:
            why = "their configurations have a result (--replicates imports further results)"
        say(f"  {taken} earlier results imported, {left_out} left out: {why}")


def _run(
    session: Session,
    built: BuiltSweep,
    first_runs: tuple[dict[str, Level], ...],
    hooks: HookCommands,
    *,
    quiet: bool,
) -> None:
    settings = built.settings
    how = AutoSteering(settings.batch, settings.initial, settings.warnings)
    with (
        _warnings_said(),
        Notifier(hooks, say) as notifier,
        make_executor(built.application, settings.workers, settings.place) as executor,
        LiveView(session, ERR) as view,
    ):
        notifier.follow(session)
        past, replicates = past_results(built), built.settings.replicates
        take_in(session, past, replicates=replicates, quiet=quiet)
        session.submit_baseline()
        _include(session, first_runs)
        ended = auto_steer(
            session, executor, how, on_change=view.on_change, on_warning=view.on_warning
        )
        if settings.warnings == "wait" and session.experiment.open_warning is not None:
            notifier.steering_ended(ended)  # not finished: it continues after an answer
        else:
            session.finish(ended)


def _introduce(session: ExperimentQueries) -> None:
    opened = session.experiment.opened
    space = session.experiment.space
    allowed = space.count_allowed()
    say(f"{opened.name}  {opened.objective}", style="bold")
    for constraint in opened.objective.constraints:
        say(f"  subject to: {constraint}")
    agreement = (fact for fact in opened.facts[3:] if fact.label == RECORDED_WAITS)
    for fact in (*opened.facts[:3], *agreement):
        say(f"  {fact.label.lower()}: {fact.text}")
    decisions = [fact.text for fact in opened.facts if fact.label == READING]
    n = len(space.parameters)
    reading = reading_line(decisions, "the report lists them")
    if reading is not None:
        say(f"  {reading}")
    say(
        f"  {space.n_combinations:,} combinations of {n} parameter{'' if n == 1 else 's'}"
        + (f", {allowed:,} allowed" if allowed not in (None, space.n_combinations) else "")
        + f"; {_limits(session)}"
    )
    for sweep in opened.earlier:
        say(f"  learns from {borrowed_from(session.experiment, sweep)}")
    limit = session.experiment.sla.max_runs
    if session.experiment.is_noisy and limit is not None and limit >= KEPT_FROM:
        say(
            "  results vary from run to run: the last "
            f"{kept_runs(limit)} runs are kept to repeat the best"
        )
    entry = application_entry(opened.application)
    if entry is not None and entry.compiles and _compiling():
        say(
            "  compiling the simulator in the background, once per machine and version; "
            "until then runs take longer, with the same results"
        )


def _limits(session: ExperimentQueries) -> str:
    """Return the SLA in words."""
    sla, words = session.experiment.sla, sla_words(session.experiment)
    if sla.goal is None:
        return ", ".join(words) or "no limit"
    goal = f"goal {words[-1]}" + ("" if sla.at_goal == "go_on" else ", which ends the sweep")
    return ", ".join([*words[:-1], goal])


def _compiling() -> bool:
    from sim.engines.compilation import Readiness, begin_to_compile, compilation_state

    begin_to_compile()
    return compilation_state().readiness is Readiness.PREPARING
