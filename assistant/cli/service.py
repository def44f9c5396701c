"""``copperline serve`` and ``copperline work``: the service, and workers for it."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

from assistant.applications.rest_address import origin_of
from assistant.cli.console import OUT, StoreOption, say, store_path
from assistant.cli.crew import LOOK_S, TOKEN, Wanted, crew, wanted_workers
from assistant.cli.permitted import ANYTHING, Permitted
from assistant.client import HttpClaims, Link, Worker
from assistant.client.working import LEASE_S
from assistant.codec import decode_event
from assistant.door import needs_service
from assistant.errors import NotLetInError, ServiceError, SettingsError
from assistant.events import ExperimentOpened
from assistant.executors import make_executor
from assistant.outside import asks_for_runs
from assistant.ports import Executor
from assistant.starting import rebuild
from assistant.store import Claim, SqliteStore

DEFAULT_PORT = 8765

LogFormat = Annotated[
    Literal["text", "json"], typer.Option("--log-format", help="One line an event, on stderr.")
]


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = DEFAULT_PORT,
    workers: Annotated[
        int, typer.Option(help="Processes on this machine that execute runs.", min=0, max=1024)
    ] = 0,
    execute: Annotated[
        bool,
        typer.Option(
            "--execute",
            help="Execute what is started here, of each experiment as many runs at once as it "
            "says.",
        ),
    ] = False,
    name: Annotated[
        list[str] | None,
        typer.Option(help="A host name under which it is reached; repeat it.", show_default=False),
    ] = None,
    allow_programs: Annotated[
        bool,
        typer.Option(
            "--allow-programs", help="Let every steerer open experiments that start programs."
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
            help="A program over HTTP that requests may name; repeat it.",
            show_default=False,
        ),
    ] = None,
    log_format: LogFormat = "text",
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option("--log-level", help="What is less is not told."),
    ] = "info",
    parent: Annotated[int | None, typer.Option(help="Process that it ends with.", hidden=True)] = (
        None
    ),
    store: StoreOption = None,
) -> int:
    """Serve the stored experiments over HTTP: steer, watch and execute them from elsewhere.

    Only this machine is served unless another address is named; tokens for each role are kept in
    a file beside the store. SIGTERM or Ctrl-C lets requests in flight finish.
    """
    from assistant.service.app import make_service
    from assistant.service.auth import Role, read_or_make_tokens, tokens_path
    from assistant.service.endpoint import Key, find
    from assistant.service.house import House
    from assistant.service.logs import Log
    from assistant.service.server import Server, bind
    from assistant.service.token_book import TokenBook, book_path

    path = store_path(store)
    adapters = tuple(map(origin_of, adapter or ()))
    key = Key.take(path)
    if key is None:
        there = find(path)
        where = "" if there is None else f" and is reached at {there.url} (process {there.pid})"
        raise ServiceError(
            f"another process holds the store '{path}'{where}; end it first, or use it"
        )
    with key:
        opened = SqliteStore(path)
        log = Log(shape=log_format, level=log_level)
        listening = bind(host, port, tokens=tokens_path(path))  # refused before tokens are made
        tokens = read_or_make_tokens(tokens_path(path)).with_owner()
        book = TokenBook(book_path(path))
        house = House(
            opened, log, book=book, programs=allow_programs, files=files, adapters=adapters
        )
        service = make_service(house, tokens, log, names=tuple(name or ()))
        server = Server(service.asgi, listening, log, drain=service.context.drain)
        key.publish(server.url, tokens.by_role[Role.OWNER])
        if log_level in ("debug", "info"):
            say(f"Serving '{path}' at {server.url}; tokens are in '{tokens_path(path)}'.")
        house.executes = execute

        def wanted() -> Wanted:
            own = wanted_workers(house) if execute else {}
            return {"": workers, **own} if workers else own

        with crew(wanted, server.url, tokens.by_role[Role.WORKER]) as names:
            if parent is not None:
                _end_with(parent)
            server.run()
        for one in names:  # they were ended by us, and have not failed
            house.queue.give_back_of(one, "the service was ended")
        opened.close()
    return 0


def work(
    url: Annotated[
        str | None,
        typer.Option(help="Of the service; found beside the store if not given."),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Only runs of this experiment.", show_default=False)
    ] = None,
    lease: Annotated[
        float, typer.Option(help="Seconds a run is held without a heartbeat.")
    ] = LEASE_S,
    name: Annotated[
        str | None, typer.Option(help="Of this worker, for people.", show_default=False)
    ] = None,
    allow_programs: Annotated[
        bool,
        typer.Option(
            "--allow-programs", help="With --url: execute whatever program the service names."
        ),
    ] = False,
    program: Annotated[
        list[str] | None,
        typer.Option(
            help="With --url: a program that commands may start; repeat it.", show_default=False
        ),
    ] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End once nothing waits.")
    ] = False,
    parent: Annotated[
        int | None, typer.Option(help="Process that it ends with, after its run.", hidden=True)
    ] = None,
    idle: Annotated[
        float, typer.Option(help="End after so many seconds without a run.", hidden=True)
    ] = math.inf,
    store: StoreOption = None,
) -> int:
    """Execute runs for a service, one at a time, until it is ended; start more for more.

    With --url the token of a worker comes from $COPPERLINE_TOKEN, and only applications that are
    built in are executed, unless programs are allowed here: the service says which. Killed, its
    run goes to another worker; Ctrl-C or SIGTERM lets the run end, and the second one gives it
    back at once. A run that is cancelled is stopped. Without an answer of the service for ten
    minutes, it ends.
    """
    link = needs_service(store_path(store)) if url is None else Link(url, _token())
    if url is None and (allow_programs or program):
        raise SettingsError(
            "--allow-programs and --program go with --url; a worker of the store here executes "
            "what stands in it"
        )
    permitted = ANYTHING if url is None else Permitted(allow_programs, tuple(program or ()))
    claims = HttpClaims(link, only=experiment, worker=name, lease_s=lease)
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        if ended.is_set():
            raise KeyboardInterrupt
        ended.set()

    rest = _Rest(ended, 0.0 if until_idle else idle)

    def stop() -> bool:
        rest.is_over()
        return ended.is_set() or (parent is not None and os.getppid() != parent)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    main = threading.get_ident()
    worker = Worker(
        claims,
        lambda claim: executor_of(link, claim, permitted),
        refused=say,
        lost=lambda: signal.pthread_kill(main, signal.SIGUSR1),
    )
    signal.signal(signal.SIGUSR1, lambda _number, _frame: worker.abandon())
    told = worker.work(stop, rest, ended.wait)
    OUT.print(f"{told} results told.")
    return 0


def _end_with(parent: int) -> None:
    """End this process, as SIGTERM does, once its parent is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="copperline-parent", daemon=True).start()


class _Rest:
    """Waits while there is nothing to do, and ends the worker after so long of it at a time."""

    def __init__(self, ended: threading.Event, most_s: float) -> None:
        self._ended, self._most_s = ended, most_s
        self._rested_s, self._resting = 0.0, False

    def __call__(self, seconds: float) -> None:
        if self._rested_s >= self._most_s:
            self._ended.set()
        self._ended.wait(seconds)
        self._rested_s, self._resting = self._rested_s + seconds, True

    def is_over(self) -> None:
        """Note that it is looked for work: what was not rest since the last time was work."""
        if not self._resting:
            self._rested_s = 0.0
        self._resting = False


def executor_of(link: Link, claim: Claim, permitted: Permitted = ANYTHING) -> Executor:
    """Return what executes the runs of an experiment, by the claim of one of them.

    Raises:
        NotExecutedHereError: it is nothing that this worker may execute.
        AssistantError: it cannot be built here.
    """
    told = link.get(f"/v1/claims/{claim.token}/application")
    opened = decode_event(_line(told["opened"]))
    if not isinstance(opened, ExperimentOpened):
        raise ServiceError("the service tells of an experiment what is none")
    if asks_for_runs(opened):
        raise NotLetInError(
            f"the program of experiment '{claim.experiment_id}' asks for its runs itself, and no "
            "worker can make them"
        )
    permitted.check(opened)
    return make_executor(rebuild(opened), 1)


def _line(told: object) -> str:
    return json.dumps(told)


def _token() -> str:
    token = os.environ.get(TOKEN)
    if not token:
        raise SettingsError(
            f"set ${TOKEN} to the worker's token of the service (it stands in the file of tokens "
            "beside the store)"
        )
    return token
