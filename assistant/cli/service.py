"""``copperline serve`` and ``copperline work``: the service, and workers for it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

from assistant.cli.console import OUT, StoreOption, say, store_path
from assistant.client import HttpClaims, Link, Worker
from assistant.client.working import LEASE_S
from assistant.codec import decode_event
from assistant.door import needs_service
from assistant.errors import ServiceError, SettingsError
from assistant.events import ExperimentOpened
from assistant.executors import make_executor
from assistant.ports import Executor
from assistant.starting import rebuild
from assistant.store import Claim, SqliteStore

DEFAULT_PORT = 8765
TOKEN = "COPPERLINE_TOKEN"  # noqa: S105 - the name of an environment variable

LogFormat = Annotated[
    Literal["text", "json"], typer.Option("--log-format", help="One line an event, on stderr.")
]


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = DEFAULT_PORT,
    workers: Annotated[
        int, typer.Option(help="Processes on this machine that execute runs.", min=0, max=1024)
    ] = 0,
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
    log_format: LogFormat = "text",
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

    path = store_path(store)
    key = Key.take(path)
    if key is None:
        there = find(path)
        where = "" if there is None else f" and is reached at {there.url} (process {there.pid})"
        raise ServiceError(
            f"another process holds the store '{path}'{where}; end it first, or use it"
        )
    with key:
        opened = SqliteStore(path)
        log = Log(shape=log_format)
        listening = bind(host, port, tokens=tokens_path(path))  # refused before tokens are made
        tokens = read_or_make_tokens(tokens_path(path)).with_owner()
        house = House(opened, log, programs=allow_programs, files=files)
        service = make_service(house, tokens, log, names=tuple(name or ()))
        server = Server(service.asgi, listening, log, drain=service.context.drain)
        key.publish(server.url, tokens.by_role[Role.OWNER])
        say(f"Serving '{path}' at {server.url}; tokens are in '{tokens_path(path)}'.")
        with _workers(workers, server.url, tokens.by_role[Role.WORKER]) as names:
            server.run()
        for one in names:  # they were ended by us, and have not failed
            house.queue.give_back_of(one, "the service was ended")
        opened.close()
    return 0


@contextlib.contextmanager
def _workers(n: int, url: str, token: str) -> Iterator[list[str]]:
    """Keep ``n`` workers in processes of their own; one that dies is replaced.

    If this process dies, they end after the run that they execute. Yields their names.
    """
    ended = threading.Event()
    parent, names = os.getpid(), list[str]()
    command = [sys.executable, "-m", "assistant.cli", "work", "--url", url]
    command += ["--parent", str(parent), "--name"]
    environment = {**os.environ, TOKEN: token}

    def started() -> subprocess.Popen[bytes]:
        names.append(f"{socket.gethostname()}-{parent}-{len(names) + 1}")
        return subprocess.Popen([*command, names[-1]], env=environment)  # noqa: S603 - our own

    def keep() -> None:
        running: list[subprocess.Popen[bytes]] = []
        while not ended.wait(0.5):
            running = [one for one in running if one.poll() is None]
            running += [started() for _ in range(n - len(running))]
        for one in running:
            one.terminate()
        for one in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(timeout=5)
            one.kill()

    if n == 0:
        yield names
        return
    keeper = threading.Thread(target=keep, name="copperline-workers", daemon=True)
    keeper.start()
    try:
        yield names
    finally:
        ended.set()
        keeper.join()


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
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End once nothing waits.")
    ] = False,
    parent: Annotated[
        int | None, typer.Option(help="Process that it ends with, after its run.", hidden=True)
    ] = None,
    store: StoreOption = None,
) -> int:
    """Execute runs for a service, one at a time, until it is ended; start more for more.

    With --url the token of a worker comes from $COPPERLINE_TOKEN. Killed, its run goes to another
    worker; Ctrl-C or SIGTERM lets the run end, and the second one gives it back at once. A run
    that is cancelled is stopped. Without an answer of the service for ten minutes, it ends.
    """
    link = needs_service(store_path(store)) if url is None else Link(url, _token())
    claims = HttpClaims(link, only=experiment, worker=name, lease_s=lease)
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        if ended.is_set():
            raise KeyboardInterrupt
        ended.set()

    def idle(seconds: float) -> None:
        if until_idle:
            ended.set()
        ended.wait(seconds)

    def executor_of(claim: Claim) -> Executor:
        return _executor(link, claim)

    def stop() -> bool:
        return ended.is_set() or (parent is not None and os.getppid() != parent)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    main = threading.get_ident()
    worker = Worker(claims, executor_of, lost=lambda: signal.pthread_kill(main, signal.SIGUSR1))
    signal.signal(signal.SIGUSR1, lambda _number, _frame: worker.abandon())
    told = worker.work(stop, idle, ended.wait)
    OUT.print(f"{told} results told.")
    return 0


def _executor(link: Link, claim: Claim) -> Executor:
    told = link.get(f"/v1/claims/{claim.token}/application")
    opened = decode_event(_line(told["opened"]))
    if not isinstance(opened, ExperimentOpened):
        raise ServiceError("the service tells of an experiment what is none")
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
