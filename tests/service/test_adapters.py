"""Programs that ask for their runs themselves: only they are given them, and are told the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from assistant.cli.commands.service import executor_of, worker_demand
from assistant.client.api import ApiClient
from assistant.client.worker import HttpLeaseSource, Worker
from assistant.core.codec import event_tag
from assistant.core.errors import AccessDeniedError
from assistant.service import external_clients
from assistant.service.api_tokens import Role
from tests.service.examples import eventually
from tests.service.real import NAME, TOKENS, Real, refused, serving, with_runs

LINES = {"Accept": "text/plain"}
SETTINGS: dict[str, Any] = {
    "runs": 6,
    "initial": 3,
    "parameters": [
        {"name": "threads", "levels": [1, 2, 4, 8]},
        {"name": "mode", "levels": ["fast", "a=b c"]},
    ],
    "objective": {"minimise": "time_s"},
}


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    with serving(tmp_path) as found:
        yield found
        assert not [line for line in found.log() if line["event"] == "fault"]


@pytest.fixture
def steerer(real: Real) -> httpx.Client:
    return real.client(Role.STEERER)


def registering(client: httpx.Client, key: str | None = None, **more: Any) -> httpx.Response:
    body = {"name": "solver", "settings": SETTINGS, **more}
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post("/v1/adapters", json=body, headers=headers)


def adapter(real: Real, told: dict[str, Any]) -> httpx.Client:
    """Return a client with the token of a program that has registered."""
    client = real.client()
    client.headers["Authorization"] = f"Bearer {told['token']}"
    return client


def registered(real: Real, steerer: httpx.Client, **more: Any) -> tuple[str, httpx.Client]:
    answer = registering(steerer, **more)
    assert answer.status_code == 201, answer.text
    return answer.json()["experiment"], adapter(real, answer.json())


def asked(client: httpx.Client, **wishes: Any) -> httpx.Response:
    """Ask for a run until there is one, or the end."""
    answers: list[httpx.Response] = []

    def has_come() -> bool:
        answers.append(client.post("/v1/leases", json=wishes))
        return answers[-1].status_code != 204

    assert eventually(has_come)
    return answers[-1]


def given(client: httpx.Client, **wishes: Any) -> dict[str, Any]:
    answer = asked(client, **wishes)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def told(client: httpx.Client, lease: dict[str, Any], time_s: Any = 3.0) -> httpx.Response:
    measures = {"measures": {"time_s": time_s}}
    return client.post(f"/v1/leases/{lease['token']}/result", json=measures)


def test_a_program_makes_its_sweep_and_is_told_the_end(real: Real, steerer: httpx.Client) -> None:
    name, program = registered(real, steerer)
    for number in range(1, 7):
        lease = given(program)
        assert (lease["experiment"], lease["run"]) == (name, number)
        report = {"measures": {"time_s": 9.0}}
        assert program.post(f"/v1/leases/{lease['token']}/report", json=report).status_code == 204
        assert told(program, lease, lease["values"]["threads"]).status_code == 200
    end = refused(asked(program), 410, "the budget of 6 runs is used up")
    assert f"/v1/experiments/{name}" in end["hint"]
    found = program.get(f"/v1/experiments/{name}").json()
    assert found["finished"] == "the budget of 6 runs is used up"
    assert found["best"]["values"]["threads"] == min(
        run.outcome.value for run in real.service.session(name).experiment.runs if run.outcome
    )
    event_log = steerer.get(f"/v1/experiments/{name}/runs").json()
    assert {run["worker"] for run in event_log} == {name}
    assert all(run["duration_s"] >= 0 for run in event_log)


def test_lines_say_the_same_as_json_for_who_reads_none(real: Real, steerer: httpx.Client) -> None:
    answer = steerer.post(
        "/v1/adapters", json={"name": "solver", "settings": SETTINGS}, headers=LINES
    )
    assert answer.headers["content-type"].startswith("text/plain")
    lines = dict(line.partition("=")[::2] for line in answer.text.splitlines())
    program = adapter(real, lines)
    leases: list[dict[str, str]] = []

    def has_come() -> bool:
        answer = program.post("/v1/leases", headers=LINES)
        if answer.status_code == 200:
            leases.append(dict(one.partition("=")[::2] for one in answer.text.splitlines()))
        return answer.status_code == 200

    assert eventually(has_come)
    assert {key for key in leases[0] if key.startswith("values.")} == {
        "values.threads", "values.mode",
    }  # fmt: skip
    assert leases[0]["values.mode"] in ("fast", "a=b c")
    assert leases[0]["limit_s"] == ""
    assert told(program, leases[0]).status_code == 200
    found = program.get(f"/v1/experiments/{lines['experiment']}", headers=LINES).text.splitlines()
    assert "runs.completed=1" in found
    assert f"best.values.mode={leases[0]['values.mode']}" in found


def test_what_a_line_cannot_carry_is_refused(real: Real, steerer: httpx.Client) -> None:
    name, program = registered(real, steerer)
    lease = given(program)
    measures = {"measures": {"time_s": 1.0, "a=b": 2.0}}
    path = f"/v1/leases/{lease['token']}/result"
    assert program.post(path, json=measures).status_code == 200
    refused(program.get(f"/v1/experiments/{name}", headers=LINES), 406, "a=b")
    assert program.get(f"/v1/experiments/{name}").json()["best"]["measures"]["a=b"] == 2.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parameters": []}, "parameters"),
        ({"parameters": [{"name": "a", "levels": []}]}, "a"),
        ({"objective": {"minimise": "time_s", "weight": 2}}, "weight"),
        ({"runs": 0}, "runs"),
        ({"application": {"kind": "lookup", "table": "t.csv"}}, "takes its runs itself"),
        ({"application": {"kind": "rest", "url": "http://127.0.0.1:1/"}}, "takes its runs"),
        ({"application": {"kind": "rest", "limit": "1 min"}}, "run_limit"),
        ({"application": {"baseline": {"threads": 3, "mode": "fast"}}}, "3"),
        ({"executor": {"kind": "serial"}}, "executor"),
        ({"hooks": {"on_finish": ["true"]}}, "--allow-programs"),
        ({"results": ["old.csv"]}, "cannot read the results"),
        ({"name": "another"}, "name"),
    ],
)
def test_settings_that_cannot_be_are_refused_and_nothing_is_stored(
    real: Real, steerer: httpx.Client, change: dict[str, Any], words: str
) -> None:
    refused(registering(steerer, settings={**SETTINGS, **change}), 422, words)
    assert real.service.store.experiments() == ()
    assert real.service.book.holders() == ()


def test_who_may_not_steer_may_not_register(real: Real) -> None:
    for role in (Role.VIEWER, Role.WORKER):
        refused(registering(real.client(role)), 403, "steerer")
    assert real.service.store.experiments() == ()


def test_under_its_key_a_registration_is_one_with_the_latest_token(
    real: Real, steerer: httpx.Client
) -> None:
    first, second = registering(steerer, "k").json(), registering(steerer, "k").json()
    assert first["experiment"] == second["experiment"]
    assert len(real.service.store.experiments()) == 1
    assert adapter(real, first).post("/v1/leases").status_code == 401  # nobody received that answer
    assert given(adapter(real, second))["run"] == 1
    session = real.service.session(first["experiment"])
    handed = [one for one in session.events() if event_tag(one) == "HandedOver"]
    assert len(handed) == 1
    refused(registering(steerer, "k", name="another"), 409, "another request")


def test_a_program_that_comes_back_goes_on_with_its_experiment(
    real: Real, steerer: httpx.Client
) -> None:
    name, program = registered(real, steerer, resume=True)
    told(program, given(program))
    lost = given(program, lease_s=0.05)
    again = registering(steerer, resume=True).json()
    assert (again["experiment"], again["resumed"]) == (name, True)
    program = adapter(real, again)
    assert given(program)["run"] in (lost["run"], lost["run"] + 1)
    other = {**SETTINGS, "objective": {"maximise": "time_s"}}
    refused(registering(steerer, settings=other, resume=True), 409, "another objective")
    assert len(real.service.store.experiments()) == 1
    real.service.session(name).finish("enough")
    begun = registering(steerer, resume=True).json()
    assert (begun["experiment"] != name, begun["resumed"]) == (True, False)


def test_of_many_that_come_back_the_first_is_let_in_no_more(
    real: Real, steerer: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_clients, "MOST_PROGRAMS", 3)
    name, first = registered(real, steerer, resume=True)
    for _ in range(3):
        registering(steerer, resume=True)
    held = [one.name for one in real.service.book.holders()]
    assert sorted(held) == [f"{name}-{n}" for n in (2, 3, 4)]
    assert first.post("/v1/leases").status_code == 401


def test_tokens_of_finished_experiments_make_room(
    real: Real, steerer: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_clients, "FINISHED_KEPT", 1)
    names = [registered(real, steerer)[0] for _ in range(3)]
    for name in names:
        real.service.session(name).finish("enough")
    latest, _ = registered(real, steerer)
    assert len(real.service.book.holders()) == 2
    assert real.service.book.get(latest) is not None


def test_no_worker_is_given_its_runs(real: Real, steerer: httpx.Client) -> None:
    name, program = registered(real, steerer)
    assert eventually(lambda: real.service.session(name).experiment.waiting)
    worker = real.client(Role.WORKER)
    assert worker.post("/v1/leases", json={"worker": "w"}).status_code == 204
    assert worker_demand(real.service) == {}
    with_runs(real, 1)
    assert worker.post("/v1/leases", json={"worker": "w"}).json()["experiment"] == NAME
    execution = steerer.get(f"/v1/experiments/{name}/execution").json()
    assert execution["external"]
    assert 0 <= execution["last_call_s"] < 60
    assert not steerer.get(f"/v1/experiments/{NAME}/execution").json()["external"]
    assert given(program)["experiment"] == name


def test_a_worker_that_names_it_gives_the_run_back_and_ends(
    real: Real, steerer: httpx.Client
) -> None:
    name, _ = registered(real, steerer)
    assert eventually(lambda: real.service.session(name).experiment.waiting)
    link = ApiClient(real.url, TOKENS.by_role[Role.WORKER])
    worker = Worker(
        HttpLeaseSource(link, only=name, worker="w"), lambda lease: executor_of(link, lease)
    )
    with pytest.raises(AccessDeniedError, match="an external client executes the runs"):
        worker.work(lambda: False, lambda _s: None)
    link.close()
    assert real.service.queue.depth() == {"queued": 3}


def test_a_token_is_for_its_experiment_alone(real: Real, steerer: httpx.Client) -> None:
    name, program = registered(real, steerer)
    other, stranger = registered(real, steerer, name="other")
    lease = given(program)
    refused(stranger.post("/v1/leases", json={"experiment": name}), 403, other)
    refused(told(stranger, lease), 403)
    refused(stranger.post(f"/v1/leases/{lease['token']}/heartbeat"), 403)
    refused(stranger.get(f"/v1/experiments/{name}"), 403)
    refused(stranger.get(f"/v1/experiments/{other}/runs"), 403)
    refused(stranger.post(f"/v1/experiments/{other}/finish", json={}), 403)
    refused(registering(stranger), 403)
    assert told(program, lease).status_code == 200


def test_a_run_whose_program_falls_silent_waits_again(real: Real, steerer: httpx.Client) -> None:
    name, program = registered(real, steerer)
    lost = given(program, lease_s=0.05)
    session = real.service.session(name)

    def waits_again() -> bool:
        session.catch_up()
        return session.experiment.run(lost["run"]).lost == 1

    assert eventually(waits_again)
    again = given(program)
    assert (again["run"], again["attempt"]) == (lost["run"], 2)
    refused(program.post(f"/v1/leases/{lost['token']}/heartbeat"), 409)
    refused(told(program, lost), 409)
    assert told(program, again).json()["first_time"]
    assert not told(program, again).json()["first_time"]
    refused(told(program, again, 4.0), 409)


def test_a_run_that_is_cancelled_is_to_be_ended(real: Real, steerer: httpx.Client) -> None:
    name, program = registered(real, steerer)
    lease = given(program)
    steerer.post(f"/v1/experiments/{name}/runs/{lease['run']}/cancel", json={"reason": "enough"})
    refused(program.post(f"/v1/leases/{lease['token']}/heartbeat"), 409, "cancelled")
    report = {"measures": {"time_s": 1.0}}
    refused(program.post(f"/v1/leases/{lease['token']}/report", json=report), 409, "cancelled")
    refused(told(program, lease), 409)


def test_a_run_that_is_stopped_early_keeps_what_it_told(real: Real, steerer: httpx.Client) -> None:
    name, program = registered(real, steerer)
    lease = given(program)
    at = f"/v1/leases/{lease['token']}"
    assert program.post(f"{at}/report", json={"measures": {"time_s": 2.5}}).status_code == 204
    steerer.post(f"/v1/experiments/{name}/runs/{lease['run']}/stop", json={"keep": True})
    refused(program.post(f"{at}/heartbeat"), 409)
    refused(told(program, lease, 1.0), 409)
    found = steerer.get(f"/v1/experiments/{name}/runs/{lease['run']}").json()
    assert (found["state"], found["value"]) == ("completed", 2.5)


def test_what_cannot_be_a_result_is_refused_and_the_run_goes_on(
    real: Real, steerer: httpx.Client
) -> None:
    _, program = registered(real, steerer)
    lease = given(program)
    for bad in ("1,5", True, {"a": 1}):
        refused(told(program, lease, bad), 422)
    path = f"/v1/leases/{lease['token']}/result"
    headers = {"Content-Type": "application/json"}
    for body in (b'{"measures": {"time_s": NaN}}', b'{"measures": {"time_s": 1, "time_s": 2}}'):
        assert program.post(path, content=body, headers=headers).status_code in (400, 422)
    assert program.post(path, json={}).status_code == 422
    assert told(program, lease).status_code == 200


def test_a_person_may_steer_instead_and_pause(real: Real, steerer: httpx.Client) -> None:
    name, program = registered(real, steerer, auto_steering=False)
    at = f"/v1/experiments/{name}"
    waiting = program.post("/v1/leases")
    assert (waiting.status_code, waiting.headers["retry-after"]) == (204, "1")
    steerer.post(f"{at}/runs", json={"values": {"threads": 8, "mode": "fast"}})
    assert given(program)["values"] == {"threads": 8, "mode": "fast"}
    steerer.post(f"{at}/pause")
    waiting = program.post("/v1/leases")
    assert (waiting.status_code, waiting.headers["retry-after"]) == (204, "10")
    steerer.post(f"{at}/finish", json={"reason": "seen enough"})
    refused(program.post("/v1/leases"), 410, "seen enough")


def test_what_is_used_up_ends_once_nothing_goes_on(real: Real, steerer: httpx.Client) -> None:
    cost = {"limit": 1.0, "measure": "time_s"}
    name, program = registered(real, steerer, settings={**SETTINGS, "cost": cost})
    first, second = given(program), given(program)
    told(program, first)
    assert eventually(lambda: not real.service.queue.is_active(name))
    assert program.post("/v1/leases").status_code == 204  # the second one goes on
    assert program.post(f"/v1/leases/{second['token']}/heartbeat").status_code == 200
    told(program, second)
    refused(asked(program), 410, "the cost")
