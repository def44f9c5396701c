"""Bad input to the queue over HTTP (C), and who may do what on the real routes (A).

The numbers are those of the list in the security notes; each has its status and its sentence, and
after each the service still answers.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from assistant.service.api_tokens import Role
from tests.service.examples import eventually
from tests.service.real import (
    AT,
    Real,
    emptied,
    event_log,
    leased,
    refused,
    result,
    serving,
    with_runs,
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with serving(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def real(service: Real) -> Iterator[Real]:
    with_runs(emptied(service))
    yield service
    assert httpx.get(f"{service.url}/health").status_code == 200
    assert not [line for line in service.log() if line["event"] == "fault"]


@pytest.fixture
def owner(real: Real) -> httpx.Client:
    return real.client()


def state(client: httpx.Client, run: int = 1) -> str:
    return str(client.get(f"{AT}/runs/{run}").json()["state"])


# A. Who may do what


@pytest.mark.soak
def test_a1_every_route_but_health_asks_for_a_token(real: Real) -> None:
    for path, operations in real.app.app.openapi()["paths"].items():
        for method in operations:
            at = path.replace("{experiment}", "bowl").replace("{run}", "1").replace("{number}", "1")
            at = at.replace("{token}", "x")
            answer = httpx.request(method, f"{real.url}{at}")
            wanted = (200,) if path == "/health" else (401, 429)
            assert answer.status_code in wanted, path


def test_a5_a_viewer_decides_nothing_and_a_steerer_claims_nothing(real: Real) -> None:
    viewer, steerer = real.client(Role.VIEWER), real.client(Role.STEERER)
    before = event_log(viewer)
    refused(viewer.patch(f"{AT}/runs/2", json={"priority": 9}), 403, "steerer", "viewer")
    refused(viewer.post(f"{AT}/runs/2/cancel", json={}), 403, "steerer")
    refused(viewer.post("/v1/leases", json={"worker": "w"}), 403, "worker")
    refused(steerer.post("/v1/leases", json={"worker": "w"}), 403, "worker", "steerer")
    assert steerer.patch(f"{AT}/runs/2", json={"priority": 9}).status_code == 200
    assert viewer.post(f"{AT}/what-if", json={"max_runs": 600}).status_code == 200
    assert len(event_log(viewer)) == len(before) + 1


def test_a6_a_worker_sees_no_more_than_what_it_claimed(real: Real) -> None:
    worker = real.client(Role.WORKER)
    for path in ("/v1/experiments", AT, f"{AT}/runs/1", f"{AT}/events", f"{AT}/export", "/metrics"):
        refused(worker.get(path), 403, "viewer", "worker")
    refused(worker.patch(f"{AT}/runs/1", json={"priority": 1}), 403, "steerer")
    told = leased(worker)
    shown = worker.get(f"/v1/leases/{told['token']}/application").json()
    assert shown["experiment"] == "bowl"
    result(worker, told["token"])
    refused(worker.get(f"/v1/leases/{told['token']}/application"), 409, "not leased")
    refused(worker.get("/v1/leases/unknown/application"), 404, "ever leased")


def test_a8_names_and_origins_of_others_are_refused_on_real_routes(owner: httpx.Client) -> None:
    refused(owner.get("/v1/experiments", headers={"Host": "evil.example"}), 421, "host")
    refused(
        owner.patch(f"{AT}/runs/1", json={"priority": 1}, headers={"Origin": "http://evil"}), 403
    )


@pytest.mark.parametrize(
    ("content", "status"),
    [(b'{"priority": NaN}', 422), (b'{"priority": 1, "priority": 2}', 400), (b"[]", 422),
     (b'{"priority": 1, "extra": 1}', 422), (b'{"priority": true}', 422), (b"\xff", 400),
     (b'{"priority": 1e999}', 422), (b"", 422)],
)  # fmt: skip
def test_b_a_priority_is_strict_json(owner: httpx.Client, content: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    refused(owner.patch(f"{AT}/runs/1", content=content, headers=headers), status)
    assert owner.get(f"{AT}/runs/1").json()["priority"] == 0


def test_b18_a_form_is_no_json(owner: httpx.Client) -> None:
    refused(owner.post(f"{AT}/finish", data={"reason": "x"}), 415)
    assert owner.get(AT).json()["finished"] is None


# C. The queue


def test_c33_a_result_of_an_unknown_claim(owner: httpx.Client) -> None:
    told = refused(result(owner, "nothing"), 404, "no run was ever leased under this token")
    assert told["error"] == "UnknownLeaseError"
    refused(result(owner, "x" * 65), 422, "token")
    refused(result(owner, "a%00b"), 422, "token")
    refused(owner.get(f"{AT}/runs/99"), 404, "no run 99")
    refused(owner.patch(f"{AT}/runs/99", json={"priority": 1}), 409, "99")
    refused(owner.get("/v1/experiments/nothing"), 404, "no experiment 'nothing'")


def test_c34_a_result_under_a_stale_token_is_kept_as_late(owner: httpx.Client) -> None:
    first = leased(owner, "a", lease_s=0.05)
    assert eventually(lambda: state(owner) == "queued")
    second = leased(owner, "b")
    assert (second["run"], second["attempt"]) == (first["run"], 2)
    refused(result(owner, first["token"], 99.0), 409, "given to another worker")
    (late,) = event_log(owner, "ResultRefused")
    assert (late["worker"], late["measures"]) == ("a", {"height": 99.0})
    assert result(owner, second["token"], 2.0).status_code == 200
    assert owner.get(f"{AT}/runs/1").json()["value"] == 2.0


def test_c35_the_same_result_twice(owner: httpx.Client) -> None:
    token = leased(owner)["token"]
    assert result(owner, token).json() == {"recorded": True, "first_time": True}
    assert result(owner, token).json() == {"recorded": True, "first_time": False}
    assert len(event_log(owner, "RunCompleted")) == 1


def test_c36_another_result_under_the_same_token(owner: httpx.Client) -> None:
    token = leased(owner)["token"]
    result(owner, token, 1.0)
    refused(result(owner, token, 2.0), 409, "another result was recorded")
    assert owner.get(f"{AT}/runs/1").json()["value"] == 1.0
    assert len(event_log(owner, "ResultRefused")) == 1


def test_c37_a_result_before_any_claim(owner: httpx.Client) -> None:
    # Without a claim there is no token; the nearest thing is the token of a run that waits again.
    token = leased(owner)["token"]
    assert owner.post(f"/v1/leases/{token}/return", json={}).status_code == 204
    refused(result(owner, token), 409, "waits again")
    assert state(owner) == "queued"
    assert owner.post(f"/v1/leases/{token}/return", json={}).status_code == 204


def test_c38_a_heartbeat_after_the_lease(owner: httpx.Client) -> None:
    token = leased(owner, lease_s=0.05)["token"]
    assert eventually(lambda: state(owner) == "queued")
    refused(owner.post(f"/v1/leases/{token}/heartbeat"), 409, "stop it")
    refused(
        owner.post(f"/v1/leases/{token}/report", json={"measures": {"height": 1}}), 409, "stop it"
    )
    assert owner.get(f"{AT}/runs/1").json()["reported"] is None


@pytest.mark.parametrize("lease", ["0", "-1", "NaN", "1e12", "true", '"30"', "null", "0.049"])
def test_c39_a_lease_that_cannot_be(owner: httpx.Client, lease: str) -> None:
    body = f'{{"worker": "w", "lease_s": {lease}}}'
    headers = {"Content-Type": "application/json"}
    refused(owner.post("/v1/leases", content=body, headers=headers), 422)
    assert state(owner) == "queued"


@pytest.mark.parametrize("priority", ["NaN", "Infinity", "-Infinity", "1e308", '"high"', "null"])
def test_c40_a_priority_that_cannot_be(owner: httpx.Client, priority: str) -> None:
    content, headers = f'{{"priority": {priority}}}', {"Content-Type": "application/json"}
    answer = owner.patch(f"{AT}/runs/2", content=content, headers=headers)
    told = refused(answer, 422, *(["1,000,000"] if priority == "1e308" else []))
    assert told["detail"]
    assert owner.get(f"{AT}/runs/2").json()["priority"] == 0


def test_c41_a_run_that_does_not_wait_has_no_priority(owner: httpx.Client) -> None:
    token = leased(owner)["token"]
    refused(owner.patch(f"{AT}/runs/1", json={"priority": 1}), 409, "run 1 is running")
    refused(owner.patch(f"{AT}/runs/1", json={"priority": "first"}), 409, "run 1 is running")
    refused(owner.post(f"{AT}/runs/1/hold"), 409, "run 1 is running")
    result(owner, token)
    refused(owner.patch(f"{AT}/runs/1", json={"priority": 1}), 409, "run 1 is completed")
    refused(owner.post(f"{AT}/runs/1/release"), 409, "run 1 is completed")
    refused(owner.post(f"{AT}/runs/1/cancel", json={}), 409, "has completed already")
    owner.post(f"{AT}/runs/2/cancel", json={})
    refused(owner.patch(f"{AT}/runs/2", json={"priority": 1}), 409, "run 2 is cancelled")


def test_c42_cancelled_twice(owner: httpx.Client) -> None:
    first = owner.post(f"{AT}/runs/2/cancel", json={"reason": "a"})
    second = owner.post(f"{AT}/runs/2/cancel", json={"reason": "b"})
    assert first.status_code == second.status_code == 200
    assert [one["reason"] for one in first.json()["events"]] == ["a"]
    assert second.json()["events"] == []
    assert state(owner, 2) == "cancelled"


def test_c43_a_result_of_a_run_that_was_cancelled(owner: httpx.Client) -> None:
    token = leased(owner)["token"]
    owner.post(f"{AT}/runs/1/cancel", json={})
    refused(owner.post(f"/v1/leases/{token}/heartbeat"), 409, "is cancelled")
    refused(result(owner, token), 409, "is cancelled")
    assert state(owner) == "cancelled"
    assert len(event_log(owner, "ResultRefused")) == 1


def test_c44_two_workers_of_one_name(owner: httpx.Client) -> None:
    first, second = leased(owner, "twin"), leased(owner, "twin")
    assert first["run"] != second["run"]
    for token in (first["token"], second["token"]):
        assert owner.post(f"/v1/leases/{token}/heartbeat").status_code == 200
        assert result(owner, token).status_code == 200


def test_c45_a_result_without_the_measure_that_was_declared(owner: httpx.Client) -> None:
    token = leased(owner)["token"]
    body = {"measures": {"hieght": 1.0}, "duration_s": 1.0}
    assert owner.post(f"/v1/leases/{token}/result", json=body).status_code == 200
    shown = owner.get(f"{AT}/runs/1").json()
    assert shown["state"] == "failed"
    assert "height" in shown["failure"]
    assert owner.get(AT).json()["best"] is None


@pytest.mark.parametrize(
    ("height", "status"),
    [("NaN", 422), ("Infinity", 422), ("1e999", 422), ('"1,5"', 422), ("true", 422),
     ("null", 200), ("1e300", 200), ("[1.0]", 200)],
)  # fmt: skip
def test_c46_a_measure_that_is_no_number_is_never_the_best(
    owner: httpx.Client, height: str, status: int
) -> None:
    token = leased(owner)["token"]
    content = f'{{"measures": {{"height": {height}}}, "duration_s": 1}}'
    headers = {"Content-Type": "application/json"}
    answer = owner.post(f"/v1/leases/{token}/result", content=content, headers=headers)
    assert answer.status_code == status
    if status == 200:
        shown = owner.get(f"{AT}/runs/1").json()
        assert shown["state"] == "failed"
        assert shown["failure"]
    else:
        assert state(owner) == "running"
    assert owner.get(AT).json()["best"] is None


@pytest.mark.parametrize(
    "body",
    [
        {"measures": {"height": 1.0}, "failure": "both", "duration_s": 1},
        {"duration_s": 1},
        {"measures": {"height": 1.0}, "duration_s": -1},
        {"measures": {"height": 1.0}, "duration_s": 1, "token": "x"},
        {"measures": [], "duration_s": 1},
    ],
)
def test_c46_a_result_is_one_thing(owner: httpx.Client, body: dict[str, Any]) -> None:
    token = leased(owner)["token"]
    refused(owner.post(f"/v1/leases/{token}/result", json=body), 422)
    assert state(owner) == "running"


def test_c47_a_clock_that_jumps_ends_no_lease(
    real: Real, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = leased(owner)["token"]
    now_s = real.service.clock.now_s
    for jump in (3600.0, -3600.0):
        monkeypatch.setattr(real.service.clock, "now_s", lambda jump=jump: now_s() + jump)
        real.service.look_after()
        assert owner.post(f"/v1/leases/{token}/heartbeat").status_code == 200
    assert result(owner, token).status_code == 200


def test_c48_a_key_for_another_body(owner: httpx.Client) -> None:
    key = {"Idempotency-Key": "one"}
    assert owner.patch(f"{AT}/runs/2", json={"priority": 1}, headers=key).status_code == 200
    refused(owner.patch(f"{AT}/runs/2", json={"priority": 2}, headers=key), 409, "another request")
    refused(owner.patch(f"{AT}/runs/3", json={"priority": 1}, headers=key), 409)
    refused(owner.post("/v1/leases", json={"worker": "w"}, headers=key), 409, "another request")
    assert len(event_log(owner, "RunPrioritised")) == 1
    for wrong in ("", "a b", "x" * 201, "caf\xe9".encode("latin-1")):
        headers = {"Idempotency-Key": wrong}
        refused(owner.patch(f"{AT}/runs/2", json={"priority": 1}, headers=headers), 400)  # type: ignore[dict-item]


def test_c49_claims_on_an_empty_queue_leave_nothing(real: Real, owner: httpx.Client) -> None:
    for _ in range(5):
        leased(owner)
    n = len(event_log(owner))
    changes = real.service.store.changes
    for i in range(200):
        headers = {"Idempotency-Key": f"k{i}"}
        answer = owner.post("/v1/leases", json={"worker": "w"}, headers=headers)
        assert answer.status_code == 204
        assert answer.content == b""
    assert len(event_log(owner)) == n
    assert real.service.store.changes == changes


def test_a_claim_of_one_experiment_only(owner: httpx.Client) -> None:
    body = {"worker": "w", "experiment": "nothing"}
    assert owner.post("/v1/leases", json=body).status_code == 204
    assert owner.post("/v1/leases", json={**body, "experiment": "bowl"}).status_code == 200
    for wrong in ("", "a\nb", "\x00"):
        refused(owner.post("/v1/leases", json={"worker": wrong}), 422, "worker")


def test_a_full_journal_can_be_exported(owner: httpx.Client) -> None:
    lines = owner.get(f"{AT}/export").text.splitlines()
    assert [json.loads(line) for line in lines] == event_log(owner)
