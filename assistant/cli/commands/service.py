"""Commands ``copperline serve``, ``work`` and ``app``: the service, its workers and the browser UI.

Also the execution policy of a worker, and the supervisor that starts and replaces workers.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

import assistant
from assistant.applications.program import THREADS
from assistant.applications.rest_address import origin_of
from assistant.cli.console import EXIT_INTERRUPTED, OUT, StoreOption, say, store_path
from assistant.client.api import ApiClient
from assistant.client.worker import LEASE_S, HttpLeaseSource, Worker
from assistant.config.application import CommandSettings
from assistant.config.snapshot import rebuild
from assistant.config.sweep_file import check_settings
from assistant.core.codec import decode_event
from assistant.core.errors import (
    AccessDeniedError,
    DamagedEventError,
    ExecutionRefusedError,
    ServiceError,
    SettingsError,
)
from assistant.core.events import ExperimentOpened, has_external_client
from assistant.core.interrupts import stop_signals
from assistant.core.ports import Executor, RunLease
from assistant.executors import make_executor
from assistant.service.experiment_service import SAFE_APPLICATIONS, ExperimentService
from assistant.service.store_connection import ServiceSupervisor, needs_service
from assistant.store.event_store import SqliteStore


@dataclass(frozen=True, slots=True)
class ExecutionPolicy:
    """The policy on which programs a worker may execute for experiments.

    ``programs`` allows all; ``program_names`` are single ones, by name or absolute path, and
    ``variables`` the environment variables that these may set or take over, as names or patterns.
    Raises SettingsError if a program does not exist.
    """

    programs: bool = False
    program_names: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.program_names:
            if _program_path(name) is None:
                raise SettingsError(
                    f"--program {name}: there is no such program; give its name on the PATH, or "
                    "its absolute path"
                )

    def check(self, opened: ExperimentOpened) -> None:
        """Raise ExecutionRefusedError if an experiment would execute a forbidden program.

        Raises ExecutionRefusedError, or SettingsError for invalid settings.
        """
        if self.programs or not opened.recipe:
            return
        application = check_settings(opened.recipe, opened.experiment_id).application
        if application.kind in SAFE_APPLICATIONS:
            return
        subject, way_out = f"an application of kind '{application.kind}'", "--allow-programs"
        if isinstance(application, CommandSettings) and application.command:
            refused = self._refused(application)
            if refused is None:
                return
            subject, option = refused
            way_out = f"{option}, or {way_out}"
        raise ExecutionRefusedError(
            f"experiment '{opened.experiment_id}' is {subject}, which this worker does not "
            f"execute; its operator can allow it with {way_out}"
        )

    def _refused(self, application: CommandSettings) -> tuple[str, str] | None:
        """Return what is not allowed of a command, and the option that allows it; or None."""
        for name in application.env:  # it may name code to load
            if not self._allows(name):
                return f"a command that sets the variable '{name}'", f"--env {name}"
        for pattern in application.inherit:  # it may take over secrets
            if not self._allows(pattern):
                return f"a command that takes over the variable '{pattern}'", f"--env '{pattern}'"
        first = application.command[0] if application.command else ""
        program = None if "{" in first else _program_path(first)
        if program is None or program not in {_program_path(name) for name in self.program_names}:
            return f"a command that starts '{first}'", f"--program {first}"
        return None

    def _allows(self, variable: str) -> bool:
        """Return whether a variable, or all variables of a pattern, may be set or taken over."""
        is_pattern = any(character in variable for character in "*?[")
        return any(
            variable == allowed or (not is_pattern and fnmatchcase(variable, allowed))
            for allowed in (*THREADS, *self.variables)
        )


def _program_path(name: str) -> str | None:
    """Return the absolute path of a program; None if there is none or it depends on the folder."""
    if not name or ("/" in name and not Path(name).is_absolute()):
        return None
    return shutil.which(name)


ALLOW_ALL = ExecutionPolicy(programs=True)
"""For workers of the user's own store: its programs were allowed when it was opened."""

TOKEN = "COPPERLINE_TOKEN"  # noqa: S105 - the name of an environment variable
LOOK_S = 0.25
IDLE_S = 120.0  # how long a worker of an experiment waits for another run
MOST_WORKERS = 64

RESTART_PAUSE_S = 5.0  # no worker is started for so long after one failed

WorkerDemand = Mapping[str, int]
"""Required number of workers by experiment; the empty name stands for any experiment."""


def worker_demand(service: ExperimentService) -> WorkerDemand:
    """Return the required number of workers per experiment, from its number of parallel runs.

    None for experiments that were opened from Python, because only that Python can run their
    program, and none for those with an external client.
    """
    demand: dict[str, int] = {}
    for experiment_id, runs in service.queue.demand().items():
        try:
            opened = service.store.opened(experiment_id)
        except DamagedEventError:  # the queue leases none of its runs
            continue
        if opened.recipe and not service.queue.is_external(experiment_id):
            demand[experiment_id] = min(opened.workers, runs)
    return demand


@contextlib.contextmanager
def worker_supervisor(
    demand: Callable[[], WorkerDemand], url: str, token: str
) -> Iterator[list[str]]:
    """Start and replace workers during a block, and yield the names of all workers so far.

    ``demand`` is called every `LOOK_S`. If this process dies, the workers end after their current
    run. The token has the role worker.
    """
    ended = threading.Event()
    processes = _WorkerSupervisor(url, token)

    def keep() -> None:
        while not ended.wait(LOOK_S):
            processes.reach(demand())
        processes.end()

    keeper = threading.Thread(target=keep, name="copperline-workers", daemon=True)
    keeper.start()
    try:
        yield processes.names
    finally:
        ended.set()
        keeper.join()


@dataclass
class _WorkerSupervisor:
    url: str
    token: str
    names: list[str] = field(default_factory=list)
    running: list[tuple[str, subprocess.Popen[bytes]]] = field(default_factory=list)
    not_before_s: float = 0.0

    def reach(self, demand: WorkerDemand) -> None:
        """Start missing workers. Surplus workers end by themselves when they are idle."""
        if any((worker.poll() or 0) > 0 for _, worker in self.running):  # not for killed workers
            self.not_before_s = time.monotonic() + RESTART_PAUSE_S
        self.running = [worker for worker in self.running if worker[1].poll() is None]
        if time.monotonic() < self.not_before_s:
            return
        there = Counter(experiment_id for experiment_id, _ in self.running)
        for experiment_id, n in demand.items():
            missing = min(n - there[experiment_id], MOST_WORKERS - len(self.running))
            for _ in range(missing):
                self.running.append((experiment_id, self._started(experiment_id)))

    def end(self) -> None:
        """End all workers after a short time for their current runs."""
        for _, process in self.running:
            process.terminate()
        for _, process in self.running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            process.kill()

    def _started(self, experiment_id: str) -> subprocess.Popen[bytes]:
        parent = os.getpid()
        self.names.append(f"{socket.gethostname()}-{parent}-{len(self.names) + 1}")
        command = [sys.executable, "-m", "assistant.cli", "work", "--url", self.url]
        command += ["--parent", str(parent), "--name", self.names[-1]]
        command += ["--allow-programs"]  # allowed when the store was opened
        if experiment_id:
            command += ["--experiment", experiment_id, "--idle", str(IDLE_S)]
        environment = {**os.environ, TOKEN: self.token}
        return subprocess.Popen(  # noqa: S603 - our own
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )


DEFAULT_PORT = 8765

LogFormat = Annotated[
    Literal["text", "json"], typer.Option("--log-format", help="Format of the log on stderr.")
]


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any free port.", min=0, max=65535)] = DEFAULT_PORT,
    workers: Annotated[
        int, typer.Option(help="Processes on this machine that execute runs.", min=0, max=1024)
    ] = 0,
    execute: Annotated[
        bool,
        typer.Option(
            "--execute",
            help="Execute the experiments started here, each with its number of parallel runs.",
        ),
    ] = False,
    name: Annotated[
        list[str] | None,
        typer.Option(help="A host name of this service; repeatable.", show_default=False),
    ] = None,
    allow_programs: Annotated[
        bool,
        typer.Option(
            "--allow-programs", help="Let the role steerer open experiments that start programs."
        ),
    ] = False,
    files: Annotated[
        Path | None,
        typer.Option(help="Folder of job logs and tables that requests may name."),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="HTTP program that requests may name; repeatable.",
            show_default=False,
        ),
    ] = None,
    log_format: LogFormat = "text",
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option("--log-level", help="Lowest level to log."),
    ] = "info",
    parent: Annotated[int | None, typer.Option(help="End with this process.", hidden=True)] = (
        None
    ),
    store: StoreOption = None,
) -> int:
    """Serve the stored experiments over HTTP, to steer, watch and execute them remotely.

    Only this machine is served unless you give another address. A file beside the store contains
    the tokens of each role. SIGTERM or Ctrl-C lets open requests finish.
    """
    from assistant.service.api_tokens import ApiTokenStore, Role, token_store_path
    from assistant.service.app import make_service
    from assistant.service.auth import read_or_make_tokens, tokens_path
    from assistant.service.experiment_service import ExperimentService
    from assistant.service.observability import ServiceLog
    from assistant.service.server import HttpServer, bind
    from assistant.service.store_lock import StoreLock, find_endpoint

    path = store_path(store)
    adapters = tuple(map(origin_of, adapter or ()))
    key = StoreLock.take(path)
    if key is None:
        there = find_endpoint(path)
        where = "" if there is None else f" and serves it at {there.url} (process {there.pid})"
        raise ServiceError(
            f"another process uses the store '{path}'{where}; end it first, or use it"
        )
    with key:
        opened = SqliteStore(path)
        log = ServiceLog(shape=log_format, level=log_level)
        listening = bind(host, port, tokens=tokens_path(path))  # refused before tokens are made
        tokens = read_or_make_tokens(tokens_path(path)).with_owner()
        book = ApiTokenStore(token_store_path(path))
        service = ExperimentService(
            opened, log, book=book, programs=allow_programs, files=files, adapters=adapters
        )
        app = make_service(service, tokens, log, names=tuple(name or ()))
        server = HttpServer(app.asgi, listening, log, drain=app.context.drain)
        key.publish(server.url, tokens.by_role[Role.OWNER])
        if log_level in ("debug", "info"):
            say(f"Serving '{path}' at {server.url}; tokens are in '{tokens_path(path)}'.")
        service.executes = execute

        def demand() -> WorkerDemand:
            by_experiment = worker_demand(service) if execute else {}
            return {"": workers, **by_experiment} if workers else by_experiment

        with worker_supervisor(demand, server.url, tokens.by_role[Role.WORKER]) as names:
            if parent is not None:
                _end_with(parent)
            server.run()
        for worker_name in names:  # ended by this process, so they have not failed
            service.queue.give_back_of(worker_name, "the service was ended")
        opened.close()
    return 0


def work(
    url: Annotated[
        str | None,
        typer.Option(help="URL of the service; found beside the store if not given."),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Only runs of this experiment.", show_default=False)
    ] = None,
    lease: Annotated[
        float, typer.Option(help="Seconds that a lease lasts without a heartbeat.")
    ] = LEASE_S,
    name: Annotated[
        str | None, typer.Option(help="Name of this worker.", show_default=False)
    ] = None,
    allow_programs: Annotated[
        bool,
        typer.Option(
            "--allow-programs", help="With --url: execute any program that the service names."
        ),
    ] = False,
    program: Annotated[
        list[str] | None,
        typer.Option(
            help="With --url: a program that commands may start; repeatable.", show_default=False
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --url and --program: a variable that commands may set (env) or take over "
            "(inherit), or a pattern such as 'CUDA_*'; repeatable.",
            show_default=False,
        ),
    ] = None,
    until_idle: Annotated[
        bool,
        typer.Option(
            "--until-idle",
            help="End when no run is waiting and auto-steering suggests no more.",
        ),
    ] = False,
    parent: Annotated[
        int | None, typer.Option(help="End with this process, after the run.", hidden=True)
    ] = None,
    idle: Annotated[
        float, typer.Option(help="End after so many seconds without a run.", hidden=True)
    ] = math.inf,
    store: StoreOption = None,
) -> int:
    """Execute runs for a service, one at a time, until the worker is stopped.

    Start more workers to execute more runs at once. With --url, $COPPERLINE_TOKEN is the token of
    the worker, and only built-in applications are executed unless you allow programs. Ctrl-C or
    SIGTERM lets the run end; the second one returns it to the queue at once. The run of a killed
    worker goes to another worker; a cancelled run is stopped. Without an answer of the service
    for ten minutes, the worker ends.
    """
    link = needs_service(store_path(store)) if url is None else ApiClient(url, _token())
    if url is None and (allow_programs or program or env):
        raise SettingsError(
            "--allow-programs, --program and --env need --url; a worker of the local store "
            "executes all its programs"
        )
    permitted = ALLOW_ALL
    if url is not None:
        permitted = ExecutionPolicy(allow_programs, tuple(program or ()), tuple(env or ()))
    leases = HttpLeaseSource(link, only=experiment, worker=name, lease_s=lease)
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        if ended.is_set():
            raise KeyboardInterrupt
        ended.set()

    def stop() -> bool:
        return ended.is_set() or (parent is not None and os.getppid() != parent)

    def rest(seconds: float) -> None:
        if until_idle and not leases.expects_runs():
            ended.set()
        ended.wait(seconds)

    for number in stop_signals():
        signal.signal(number, end)
    main = threading.get_ident()
    worker = Worker(
        leases,
        lambda lease: executor_of(link, lease, permitted),
        say=say,
        lost=lambda: signal.pthread_kill(main, signal.SIGUSR1),
    )
    signal.signal(signal.SIGUSR1, lambda _number, _frame: worker.abandon())
    n_results = worker.work(stop, rest, ended.wait, idle_s=idle)
    OUT.print(f"{n_results} results sent.")
    return 0


def _end_with(parent: int) -> None:
    """End this process as SIGTERM does, once its parent has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="copperline-parent", daemon=True).start()


def executor_of(
    link: ApiClient, lease: RunLease, permitted: ExecutionPolicy = ALLOW_ALL
) -> Executor:
    """Return the executor for the run of a lease.

    Raises ExecutionRefusedError by the policy, and AssistantError if it cannot be built here.
    """
    reply = link.get(f"/v1/leases/{lease.token}/application")
    with link.reading():
        line = json.dumps(reply["opened"])
    opened = decode_event(line)
    if not isinstance(opened, ExperimentOpened):
        raise ServiceError("the service sent something that is not an experiment")
    if has_external_client(opened):
        raise AccessDeniedError(
            f"an external client executes the runs of experiment '{lease.experiment_id}', so no "
            "worker can"
        )
    permitted.check(opened)
    return make_executor(rebuild(opened), 1)


def _token() -> str:
    token = os.environ.get(TOKEN)
    if not token:
        raise SettingsError(
            f"set ${TOKEN} to the worker token of the service (see the file of tokens beside the "
            "store)"
        )
    return token


OPTIONS = {
    "server.fileWatcherType": "none",
    "server.showEmailPrompt": "false",
    "server.maxUploadSize": "512",
    "runner.postScriptGC": "false",
    "browser.gatherUsageStats": "false",
    "logger.hideWelcomeMessage": "true",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "theme.light.primaryColor": "#a4561f",
    "theme.light.textColor": "#1a1816",
    "theme.light.codeTextColor": "#1a1816",
    "theme.dark.primaryColor": "#b3602b",
    "theme.dark.codeTextColor": "#f4f2ef",
}
"""Options of Streamlit: no requests to other machines, and no address without its token.

Streamlit would collect garbage through all generations after every drawing, which takes longer
than the drawing; Python's collector suffices. Colours: white on a button and captions (40 % paler
than the text) keep a contrast of 4.5 to 1.
"""
PAGES_RESTART_S = 1.0


def pages_command(store: Path, port: int, address: str = "127.0.0.1") -> list[str]:
    """Return the command that serves the browser UI. Raises SettingsError if not installed."""
    script = Path(assistant.__file__).resolve().parent.parent / "streamlit_app.py"
    if not script.is_file():
        raise SettingsError("streamlit_app.py is not installed beside the packages; reinstall")
    command = [sys.executable, "-m", "assistant.ui", "run", str(script)]
    command += ["--server.address", address, "--server.port", str(port)]
    command += [f"--{name}={OPTIONS[name]}" for name in OPTIONS]
    return [*command, "--", str(store)]


def app(
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8501,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="A host name under which browsers reach the UI; repeatable.", show_default=False
        ),
    ] = None,
    store: StoreOption = None,
) -> int:
    """Open the browser UI for the stored experiments; Ctrl-C ends it.

    Only a browser that has opened the printed address, with its token, can use the UI. A service
    executes the runs; a service that already runs is used. If the service or the UI dies, it is
    restarted. Studies of analysts stop with the UI, and can be continued.
    """
    from assistant.service.browser_access import AccessPolicy, opening_page
    from assistant.service.server import free_address

    policy = AccessPolicy.from_environment(names=_with_host(name or [], host))
    command = pages_command(store_path(store), port, free_address(host, port))
    companion = ServiceSupervisor(store_path(store))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: leaves no process behind
    try:
        say("Starting the service and the pages ...")
        companion.reach()
        companion.keep()
        environment = {**os.environ, **policy.as_environment()}
        while True:
            code = subprocess.run(command, check=False, env=environment).returncode  # noqa: S603 - our own command
            if code >= 0:
                return code
            say("The browser UI was killed; it is restarted.")
            environment["STREAMLIT_SERVER_HEADLESS"] = "true"  # a browser is open already
            time.sleep(PAGES_RESTART_S)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        opening_page(store_path(store), port).unlink(missing_ok=True)
        _end_studies(store_path(store))
        companion.end()


def _with_host(names: list[str], host: str) -> list[str]:
    """Add the host of the address to the host names, unless it is a numeric address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return [*names, host]
    return names


def _end_studies(store: Path) -> None:
    """Stop the studies that were started from the pages; their episodes are kept."""
    from agents import StudyRepository

    StudyRepository.beside(store).end()
