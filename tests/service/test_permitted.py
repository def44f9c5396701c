"""What a worker executes of what a service sends: nothing that its own operator does not allow."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assistant.cli.commands.service import ALLOW_ALL, ExecutionPolicy, executor_of
from assistant.client.api import ApiClient
from assistant.client.worker import HttpLeaseSource, Worker
from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import CodecError, ExecutionRefusedError, SettingsError
from assistant.service.api_tokens import Role
from assistant.service.app import make_service
from assistant.service.experiment_service import ExperimentService, IdempotentRequest
from assistant.service.observability import ServiceLog
from assistant.service.server import HttpServer, bind
from assistant.store.event_store import SqliteStore
from tests.service.real import TOKENS

PARAMETERS = [{"name": "x", "levels": [1, 2, 3]}]


def command(canary: Path) -> dict[str, Any]:
    return {
        "runs": 2,
        "parameters": PARAMETERS,
        "objective": {"minimise": "wall_s"},
        "application": {"command": ["sh", "-c", f"touch {canary}", "sh", "{x}"]},
    }


def function(folder: Path, canary: Path) -> dict[str, Any]:
    (folder / "evil.py").write_text(
        f"open({str(canary)!r}, 'w').close()\ndef f(x):\n    return {{'y': x}}\n"
    )
    return {
        "runs": 2,
        "parameters": PARAMETERS,
        "objective": {"minimise": "y"},
        "application": {"function": "evil:f", "folder": str(folder)},
    }


def table(folder: Path) -> dict[str, Any]:
    (folder / "t.csv").write_text("x,objective\n1,1\n2,2\n3,3\n")
    return {"runs": 2, "application": {"table": str(folder / "t.csv")}}


@contextmanager
def serving(folder: Path) -> Iterator[tuple[ExperimentService, str]]:
    store, log = SqliteStore(folder / "store.db"), ServiceLog(level="error")
    service = ExperimentService(store, log, programs=True)
    app = make_service(service, TOKENS, log)
    with HttpServer(app.asgi, bind(), log, drain=app.context.drain, drain_s=2) as server:
        yield service, server.url
    store.close()


def opened(service: ExperimentService, tables: dict[str, Any], name: str) -> str:
    """Open an experiment as a steerer would, with two runs that wait."""
    found = service.open_settings(tables, name, IdempotentRequest()).experiment_id
    session = service.session(found)
    session.submit(session.suggest(2))
    return found


def worked(
    url: str, permitted: ExecutionPolicy, only: str | None = None
) -> tuple[int, list[str], int]:
    """Work until nothing waits for this worker: results told, sentences, claims made."""
    link, ended = ApiClient(url, TOKENS.by_role[Role.WORKER]), threading.Event()
    said: list[str] = []
    leases: list[Any] = []
    claiming = HttpLeaseSource(link, worker="w", only=only)

    def make(lease: Any) -> Any:
        leases.append(lease)
        if len(leases) > 20:  # it would go on for ever
            ended.set()
        return executor_of(link, lease, permitted)

    worker = Worker(claiming, make, say=said.append)
    try:
        told = worker.work(ended.is_set, lambda _s: ended.set())
    finally:
        link.close()
    return told, said, len(leases)


@pytest.mark.parametrize("kind", ["command", "function"])
def test_a_worker_starts_no_program_that_its_operator_does_not_allow(
    tmp_path: Path, kind: str
) -> None:
    canary = tmp_path / "canary"
    tables = command(canary) if kind == "command" else function(tmp_path, canary)
    with serving(tmp_path) as (service, url):
        evil = opened(service, tables, "evil")
        good = opened(service, table(tmp_path), "good")  # later, so that the evil one comes first
        canary.unlink(missing_ok=True)  # the service builds a function to open its experiment
        told, said, n_claims = worked(url, ExecutionPolicy())
        assert told == 2  # the other experiment goes on
        assert not canary.exists()
        assert n_claims == 1 + 1  # it is not asked for again and again; the other is built once
        assert len(said) == 1
        assert f"'{evil}'" in said[0]
        assert "--allow-programs" in said[0]
        session = service.session(evil)
        session.catch_up()
        assert [str(run.state) for run in session.experiment.runs] == ["queued", "queued"]
        assert [run.lost for run in session.experiment.runs] == [0, 0]  # it does not fail of this
        lines = [json.loads(line) for line in service.store.lines(evil)]
        (returned,) = [line for line in lines if line["type"] == "RunReturned"]
        assert returned["reason"] == said[0]
        assert service.store.length(good) > 1
        assert worked(url, ExecutionPolicy(programs=True))[0] == 2
        assert canary.exists()


def test_a_worker_of_one_experiment_says_why_it_ends(tmp_path: Path) -> None:
    with serving(tmp_path) as (service, url):
        evil = opened(service, command(tmp_path / "canary"), "evil")
        with pytest.raises(
            ExecutionRefusedError, match="a command that starts 'sh', which this worker does not"
        ):
            worked(url, ExecutionPolicy(), only=evil)
    assert not (tmp_path / "canary").exists()


def recipe(tmp_path: Path, tables: dict[str, Any]) -> Any:
    with serving(tmp_path) as (service, _):
        return service.store.opened(opened(service, tables, "e"))


def test_a_named_program_is_started_and_no_other(tmp_path: Path) -> None:
    told = recipe(tmp_path, command(tmp_path / "canary"))
    ExecutionPolicy(program_names=("sh",)).check(told)
    ExecutionPolicy(program_names=("ls", "sh")).check(told)
    ALLOW_ALL.check(told)
    with pytest.raises(ExecutionRefusedError, match="starts 'sh'"):
        ExecutionPolicy(program_names=("ls",)).check(told)
    with pytest.raises(ExecutionRefusedError, match="--program sh, or --allow-programs"):
        ExecutionPolicy().check(told)
    for name in ("no-such-program", "./sh", "", "../bin/sh"):
        with pytest.raises(SettingsError, match="there is no such program"):
            ExecutionPolicy(program_names=(name,))


@pytest.mark.parametrize("first", ["./tool", "bin/tool", "{x}", "sh{x}"])
def test_no_recipe_leads_a_named_program_elsewhere(tmp_path: Path, first: str) -> None:
    """A path from a folder that the recipe chooses, or a level in the place of the program."""
    told = recipe(tmp_path, command(tmp_path / "canary"))
    tables = deepcopy(told.recipe)
    tables["application"]["command"][0] = first
    with pytest.raises(ExecutionRefusedError, match="starts '"):
        ExecutionPolicy(program_names=("sh",)).check(replace(told, recipe=tables))
    tables["application"]["command"][0] = "sh"
    tables["application"]["inherit"] = ["AWS_*"]
    with pytest.raises(ExecutionRefusedError, match="takes over the variable 'AWS_"):
        ExecutionPolicy(program_names=("sh",)).check(replace(told, recipe=tables))
    del tables["application"]["inherit"]
    tables["application"]["env"] = {"LD_PRELOAD": "/tmp/evil.so"}
    with pytest.raises(ExecutionRefusedError, match="sets the variable 'LD_PRELOAD'"):
        ExecutionPolicy(program_names=("sh",)).check(replace(told, recipe=tables))


@pytest.mark.parametrize(
    ("allowed", "env", "inherit", "refused"),
    [
        ((), {"OMP_NUM_THREADS": "{x}"}, (), None),  # what only numbers threads is harmless
        (("MODE",), {"MODE": "{x}"}, (), None),
        (("CUDA_*",), {"CUDA_HOME": "/cuda"}, ("CUDA_*", "CUDA_PATH"), None),
        (("MODE",), {"MODES": "{x}"}, (), "sets the variable 'MODES'.*--env MODES, or --allow"),
        (("CUDA_HOME",), {}, ("CUDA_*",), r"takes over the variable 'CUDA_\*'.*--env 'CUDA_\*'"),
        (("C*",), {}, ("[A-C]*",), "takes over the variable"),
    ],
)
def test_the_operator_of_a_worker_names_the_variables_of_commands(
    tmp_path: Path,
    allowed: tuple[str, ...],
    env: dict[str, str],
    inherit: tuple[str, ...],
    refused: str | None,
) -> None:
    told = recipe(tmp_path, command(tmp_path / "canary"))
    tables = deepcopy(told.recipe)
    tables["application"] |= {"env": env, "inherit": list(inherit)}
    policy = ExecutionPolicy(program_names=("sh",), variables=allowed)
    if refused is None:
        policy.check(replace(told, recipe=tables))
    else:
        with pytest.raises(ExecutionRefusedError, match=refused):
            policy.check(replace(told, recipe=tables))


def test_a_recipe_that_is_none_is_refused_in_a_sentence(tmp_path: Path) -> None:
    told = recipe(tmp_path, table(tmp_path))
    ExecutionPolicy().check(told)
    line = json.loads(encode_event(told))
    for text in ("{", "[" * 100_000):
        with pytest.raises(CodecError, match="damaged at 'recipe'"):
            decode_event(json.dumps({**line, "recipe": text}))
    with pytest.raises(SettingsError, match="there is no setting"):
        ExecutionPolicy().check(replace(told, recipe={"aplication": {}}))
