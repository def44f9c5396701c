"""People decide while runs execute: nothing that takes long delays a worker; what is counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Any

import httpx
import pytest

from assistant.client.api import ApiClient
from assistant.client.remote_session import RemoteSession
from assistant.core.early_stopping import EarlyStopping
from assistant.service.api_tokens import Role
from assistant.session import commands as session_commands
from tests.service.examples import eventually
from tests.service.real import (
    AT,
    NAME,
    TOKENS,
    Real,
    event_log,
    leased,
    refused,
    result,
    serving,
    with_runs,
)

PATIENCE_S = 120.0
KEY = {"Idempotency-Key": "k"}


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    with serving(tmp_path) as found:
        with_runs(found)
        yield found
        assert not [line for line in found.log() if line["event"] == "fault"]


@pytest.fixture
def owner(real: Real) -> httpx.Client:
    return real.client()


class Thinking:
    """A strategy that proposes nothing until it is let."""

    def __init__(self) -> None:
        self.has_begun, self.may_go = threading.Event(), threading.Event()

    def suggest(self, *_: Any) -> tuple[()]:
        self.has_begun.set()
        assert self.may_go.wait(PATIENCE_S)
        return ()


def test_a_suggestion_that_takes_long_delays_no_worker(
    real: Real, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    thinking = Thinking()
    monkeypatch.setattr(session_commands, "current_strategy", lambda _experiment: thinking)
    many = ThreadPoolExecutor(80)  # more than the service has threads and slots for people
    try:
        suggested = many.submit(lambda: owner.post(f"{AT}/suggestions", json={"n": 2}))
        assert thinking.has_begun.wait(PATIENCE_S)
        patched = many.submit(lambda: owner.patch(f"{AT}/runs/5", json={"priority": 7}))
        clients = [real.client(Role.VIEWER) for _ in range(6)]
        looked = [many.submit(clients[i % 6].get, f"{AT}/runs/1") for i in range(75)]
        worker = real.client(Role.WORKER)
        for run in (1, 2):
            told = leased(worker)
            assert told["run"] == run
            assert worker.post(f"/v1/leases/{told['token']}/heartbeat").status_code == 200
            assert result(worker, told["token"]).status_code == 200
        assert httpx.get(f"{real.url}/health").status_code == 200
        assert not suggested.done()
        assert not patched.done()
        thinking.may_go.set()
        assert suggested.result(PATIENCE_S).status_code == 200
        assert patched.result(PATIENCE_S).status_code == 200
        assert {one.result(PATIENCE_S).status_code for one in looked} <= {200, 503}
        assert leased(worker)["run"] == 5  # from the next claim on
    finally:
        thinking.may_go.set()
        many.shutdown()
    made = suggested.result().json()
    assert made["events"][0]["type"] == "BatchSuggested"
    assert event_log(owner)[made["first"]] == made["events"][0]


def test_priorities_hold_from_the_next_claim_on_while_runs_execute(owner: httpx.Client) -> None:
    first = leased(owner)
    owner.patch(f"{AT}/runs/4", json={"priority": 2})
    owner.patch(f"{AT}/runs/5", json={"priority": "first"})
    owner.post(f"{AT}/runs/2/hold")
    assert [one["run"] for one in owner.get(f"{AT}/queue").json()] == [5, 4, 3]
    owner.patch(f"{AT}/runs/4", json={"priority": -1})
    assert [leased(owner)["run"] for _ in range(3)] == [5, 3, 4]
    assert owner.post("/v1/leases", json={"worker": "w"}).status_code == 204
    owner.post(f"{AT}/runs/2/release")
    assert leased(owner)["run"] == 2
    assert result(owner, first["token"]).status_code == 200


def test_a_priority_outlives_the_loss_of_a_worker(owner: httpx.Client) -> None:
    owner.patch(f"{AT}/runs/3", json={"priority": 5})
    assert leased(owner, lease_s=0.05)["run"] == 3
    assert eventually(lambda: owner.get(f"{AT}/runs/3").json()["state"] == "queued")
    again = leased(owner)
    assert (again["run"], again["attempt"]) == (3, 2)


def test_looking_while_workers_write_never_fails(real: Real, owner: httpx.Client) -> None:
    session = real.session()
    session.submit(session.suggest(15))
    stop, failed = threading.Event(), list[int]()
    looker = real.client(Role.VIEWER)

    def look() -> None:
        while not stop.is_set():
            for path in ("", "/runs", "/queue", "/forecast", "/effects"):
                status = looker.get(f"{AT}{path}").status_code
                if status != 200:
                    failed.append(status)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        while (answer := owner.post("/v1/leases", json={"worker": "w"})).status_code == 200:
            assert result(owner, answer.json()["token"]).status_code == 200
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert failed == []
    assert owner.get(AT).json()["runs"]["completed"] == 20


def test_what_is_looked_at_stays_as_it_is(real: Real) -> None:
    view = real.service.look(NAME)
    before = view.experiment.n_events, view.experiment.run(2)
    real.session().hold(2)
    real.session().include({"x": 3, "y": 2, "mode": "odd"})
    assert (view.experiment.n_events, view.experiment.run(2)) == before
    assert len(view.experiment.runs) == 5
    assert real.service.look(NAME).experiment.run(2).held


def test_no_claims_while_the_service_ends(real: Real, owner: httpx.Client) -> None:
    real.app.context.drain.begin()
    assert httpx.get(f"{real.url}/health").json()["status"] == "draining"
    answer = owner.post("/v1/leases", json={"worker": "w"})
    refused(answer, 503, "shutting down")
    assert answer.headers["retry-after"]


def samples(client: httpx.Client) -> dict[str, float]:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_tell_what_happened(real: Real, owner: httpx.Client) -> None:
    first = leased(owner, headers=KEY)
    leased(owner, headers=KEY)
    result(owner, first["token"])
    result(owner, first["token"])
    result(owner, first["token"], 99.0)
    failed = leased(owner)
    owner.post(
        f"/v1/leases/{failed['token']}/result", json={"failure": "it broke", "duration_s": 1}
    )
    leased(owner, lease_s=0.05)
    assert eventually(lambda: samples(owner)["copperline_leases_lost_total"] == 1)
    owner.patch(f"{AT}/runs/4", json={"priority": 1}, headers={"Idempotency-Key": "p"})
    owner.patch(f"{AT}/runs/4", json={"priority": 1}, headers={"Idempotency-Key": "p"})
    owner.post(f"{AT}/runs/4/release")
    leased(owner)
    found = samples(owner)
    for name, value in {
        'copperline_leases_total{outcome="given"}': 4,
        'copperline_leases_total{outcome="again"}': 1,
        'copperline_results_total{kind="completed"}': 1,
        'copperline_results_total{kind="failed"}': 1,
        'copperline_results_total{kind="again"}': 1,
        'copperline_results_total{kind="refused"}': 1,
        'copperline_decisions_total{event="RunPrioritised"}': 1,
        'copperline_decisions_total{event="none"}': 1,
        'copperline_runs{state="queued"}': 2,
        'copperline_runs{state="running"}': 1,
        'copperline_runs{state="completed"}': 1,
        'copperline_runs{state="failed"}': 1,
        'copperline_runs{state="cancelled"}': 0,
        'copperline_http_requests_total{method="POST",route="/v1/leases",status="200"}': 5,
        'copperline_http_request_seconds_count{method="POST",route="/v1/leases"}': 5,
    }.items():
        assert found.get(name) == value, name
    while owner.post("/v1/leases", json={"worker": "w"}).status_code == 200:
        pass
    assert samples(owner)['copperline_leases_total{outcome="none"}'] == 1


def test_lines_of_the_log_about_work_name_run_experiment_and_worker(
    real: Real, owner: httpx.Client
) -> None:
    told = leased(owner, "worker-7")
    token = told["token"]
    owner.post(f"/v1/leases/{token}/heartbeat")
    owner.post(f"/v1/leases/{token}/report", json={"measures": {"height": 2}})
    result(owner, token)
    refused(result(owner, token, 9.0), 409)
    other = leased(owner, "worker-8")
    owner.post(f"/v1/leases/{other['token']}/return", json={})
    owner.patch(f"{AT}/runs/3", json={"priority": 1})
    assert eventually(lambda: any(line.get("method") == "PATCH" for line in real.log()))
    lines = [line for line in real.log() if line.get("path", "").startswith("/v1/leases")]
    assert len(lines) == 7
    for line in lines:
        wanted = (1, "worker-7") if lines.index(line) < 5 else (2, "worker-8")
        assert (line["experiment"], line["run"], line["worker"]) == ("bowl", *wanted), line
        assert line["request"]
    assert [line.get("state") for line in lines[3:5]] == ["completed", None]
    (decided,) = [line for line in real.log() if line.get("method") == "PATCH"]
    assert decided["experiment"] == "bowl"


def test_a_hopeless_report_ends_the_run_of_a_worker(tmp_path: Path) -> None:
    with serving(tmp_path) as found:
        with_runs(found, early_stopping=EarlyStopping("epoch", others=2))
        owner = found.client()
        tokens = [leased(owner)["token"] for _ in range(4)]
        for token, height in zip(tokens, (1.0, 2.0, 1.5, 3.0), strict=True):
            report = {"measures": {"epoch": 5, "height": height}}
            assert owner.post(f"/v1/leases/{token}/report", json=report).status_code == 204
        assert owner.post(f"/v1/leases/{tokens[0]}/heartbeat").status_code == 200
        refused(owner.post(f"/v1/leases/{tokens[3]}/heartbeat"), 409, "stop it")
        stopped = owner.get(f"{AT}/runs/4").json()
        assert (stopped["state"], stopped["value"]) == ("completed", 3.0)
        assert stopped["stopped"] == "at epoch 5, 3 of 3 other runs were better"


def test_many_idle_workers_are_asked_to_wait_longer(tmp_path: Path) -> None:
    with serving(tmp_path) as found:
        owner = found.client()

        def wait_s() -> str:
            answer = owner.post("/v1/leases", json={"worker": "w"})
            assert answer.status_code == 204
            return str(answer.headers["retry-after"])

        assert wait_s() == "1"
        for n, expected in ((150, "1"), (350, "3"), (2_000, "5")):
            for i in range(n):
                found.service.worker_liveness._calls[f"w{i}"] = (inf, None, frozenset())
            assert wait_s() == expected


def test_the_rule_that_stops_runs_is_set_over_the_service(real: Real) -> None:
    remote = RemoteSession(ApiClient(real.url, TOKENS.by_role[Role.STEERER]), "bowl")
    remote.change_early_stopping(EarlyStopping("epoch", "halving", first_step=2.0))
    assert real.session().experiment.early_stopping == remote.experiment.early_stopping
    steerer = real.client(Role.STEERER)
    answer = steerer.post(f"{AT}/early-stopping", json={"early_stopping": {"step": ""}})
    refused(answer, 422)
    assert steerer.post(f"{AT}/early-stopping", json={"early_stopping": None}).status_code == 200
    assert real.session().experiment.early_stopping is None


def test_the_token_of_a_claim_is_not_in_the_log(real: Real, owner: httpx.Client) -> None:
    token = leased(owner)["token"]
    result(owner, token)
    assert eventually(lambda: any("result" in line.get("path", "") for line in real.log()))
    assert token not in real.lines.getvalue()
