"""Done once, and only on what was looked at: keys, versions, lost replies, restarts, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from assistant import Session
from assistant.client.api import ApiClient
from assistant.client.worker import HttpLeaseSource, Worker
from assistant.core.errors import AccessDeniedError, LeaseLostError, ServiceError, StoreFullError
from assistant.core.ports import ExecutionResult, RunLease
from assistant.executors.serial import SerialExecutor
from assistant.service import experiment_service as house_module
from assistant.service.api_tokens import Role
from assistant.session.opening import open_from_event
from tests.assistant.examples import TODAY, Bowl
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

KEY = {"Idempotency-Key": "once"}


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    with serving(tmp_path) as found:
        with_runs(found)
        yield found
        assert not [line for line in found.log() if line["event"] == "fault"]


@pytest.fixture
def owner(real: Real) -> httpx.Client:
    return real.client()


DECISIONS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", f"{AT}/suggestions", {"n": 3}),
    ("POST", f"{AT}/runs", {"values": {"x": 3, "y": 2, "mode": "odd"}}),
    ("PATCH", f"{AT}/runs/2", {"priority": "first"}),
    ("POST", f"{AT}/runs/2/hold", None),
    ("POST", f"{AT}/runs/3/cancel", {"reason": "no"}),
    ("POST", f"{AT}/sla", {"max_runs": 9}),
    ("POST", f"{AT}/levels", {"change": "close", "parameter": "mode", "value": "odd"}),
    ("POST", f"{AT}/steering", {"exploitation": 0.5}),
    ("POST", f"{AT}/plan", {"levels": {"x": [1]}}),
    ("POST", f"{AT}/finish", {"reason": "enough"}),
]


def test_the_same_key_does_it_once_also_after_a_restart(tmp_path: Path) -> None:
    def all_of_them(client: httpx.Client) -> list[dict[str, Any]]:
        return [
            client.request(method, path, json=body, headers={"Idempotency-Key": path}).json()
            for method, path, body in DECISIONS
        ]

    with serving(tmp_path) as real:
        with_runs(real)
        client = real.client()
        before = len(event_log(client))
        first, again = all_of_them(client), all_of_them(client)
    with serving(tmp_path) as real:
        client = real.client()
        later, stored = all_of_them(client), event_log(client)
    assert not any(one["again"] for one in first)
    assert all(one["again"] for one in [*again, *later])
    for answers in (first, again, later):
        assert [event for one in answers for event in one["events"]] == stored[before:]
        assert all(one["events"] for one in answers)


def test_what_changed_nothing_is_not_done_later_under_its_key(owner: httpx.Client) -> None:
    owner.post(f"{AT}/runs/2/hold")
    assert owner.post(f"{AT}/runs/2/hold", headers=KEY).json()["events"] == []
    owner.post(f"{AT}/runs/2/release")
    told = owner.post(f"{AT}/runs/2/hold", headers=KEY).json()  # late, on its way for long
    assert (told["events"], told["again"]) == ([], True)
    assert not owner.get(f"{AT}/runs/2").json()["held"]


def test_a_pause_that_comes_twice_is_one(owner: httpx.Client) -> None:
    for path in ("pause", "start"):
        assert owner.post(f"{AT}/{path}", headers={"Idempotency-Key": path}).status_code == 204
    assert owner.post(f"{AT}/pause", headers={"Idempotency-Key": "pause"}).status_code == 204
    assert owner.get(AT).json()["active"]


def test_an_experiment_is_opened_once_for_each_key(
    owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = threading.Semaphore(0)

    def slowly(*given: Any, **more: Any) -> Session:
        at_once.release()
        assert not (at_once.acquire() and at_once.acquire(timeout=0.2)), "two at once"
        return open_from_event(*given, **more)

    monkeypatch.setattr(house_module, "open_from_event", slowly)
    opened = event_log(owner, "ExperimentOpened")[0]
    described = {**opened, "experiment_id": ""}
    del described["type"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda _: owner.post(
                    "/v1/experiments", json={"described": described}, headers=KEY
                ).json(),
                range(8),
            )
        )
    assert len({one["experiment"] for one in answers}) == 1
    assert sum(not one["again"] for one in answers) == 1
    assert len(owner.get("/v1/experiments").json()) == 2


def test_a_request_that_was_refused_may_be_sent_again(owner: httpx.Client) -> None:
    refused(owner.post(f"{AT}/runs/1/release", headers={**KEY, "If-Match": '"999"'}), 412)
    assert owner.post(f"{AT}/runs/1/release", headers=KEY).status_code == 200


def test_the_same_key_at_once_from_eight_threads(owner: httpx.Client) -> None:
    body = {"values": {"x": 3, "y": 2, "mode": "odd"}}
    with ThreadPoolExecutor(8) as pool:
        send: Callable[[int], Any] = lambda _: owner.post(f"{AT}/runs", json=body, headers=KEY)  # noqa: E731
        answers = [one.json() for one in pool.map(send, range(8))]
    assert len({str(one["events"]) for one in answers}) == 1
    assert sum(not one["again"] for one in answers) == 1
    assert len(event_log(owner, "RunSubmitted")) == 6


# The version that was looked at


def test_an_old_version_is_refused_and_the_current_one_is_taken(owner: httpx.Client) -> None:
    tag = owner.get(AT).headers["etag"]
    first = owner.patch(f"{AT}/runs/2", json={"priority": 1}, headers={"If-Match": tag})
    assert first.status_code == 200
    told = refused(
        owner.patch(f"{AT}/runs/2", json={"priority": 2}, headers={"If-Match": tag}), 412, "load"
    )
    assert told["error"] == "VersionConflictError"
    current = {"If-Match": first.headers["etag"]}
    assert owner.patch(f"{AT}/runs/2", json={"priority": 2}, headers=current).status_code == 200
    for wrong in ("3", "*", 'W/"3"', '"x"', ""):
        headers = {"If-Match": wrong}
        refused(owner.patch(f"{AT}/runs/2", json={"priority": 3}, headers=headers), 400, "If-Match")


def test_a_repeated_request_is_not_judged_by_its_version_again(owner: httpx.Client) -> None:
    headers = {**KEY, "If-Match": owner.get(AT).headers["etag"]}
    first = owner.patch(f"{AT}/runs/2", json={"priority": 1}, headers=headers)
    again = owner.patch(f"{AT}/runs/2", json={"priority": 1}, headers=headers)
    assert first.json()["events"] == again.json()["events"]


def test_what_workers_do_leaves_the_version(owner: httpx.Client) -> None:
    before = owner.get(AT)
    tag = before.headers["etag"]
    told = leased(owner)
    owner.post(f"/v1/leases/{told['token']}/report", json={"measures": {"height": 3}})
    result(owner, told["token"])
    result(owner, told["token"], 99.0)
    owner.post(f"/v1/leases/{leased(owner)['token']}/return", json={})
    after = owner.get(AT)
    assert after.json()["version"] == before.json()["version"]
    assert after.headers["etag"] != tag  # the answer is another one, the version is the same
    answer = owner.patch(f"{AT}/runs/3", json={"priority": 1}, headers={"If-Match": tag})
    assert answer.status_code == 200


def test_of_eight_decisions_on_one_version_exactly_one_is_taken(owner: httpx.Client) -> None:
    for _ in range(3):
        before = owner.get(AT)
        headers = {"If-Match": before.headers["etag"]}
        start = threading.Barrier(8)

        def decide(i: int, headers: dict[str, str] = headers, start: Any = start) -> int:
            start.wait()
            answer = owner.post(f"{AT}/plan", json={"levels": {"x": [i % 4]}}, headers=headers)
            return answer.status_code

        with ThreadPoolExecutor(8) as pool:
            statuses = sorted(pool.map(decide, range(8)))
        assert statuses == [200] + [412] * 7
        assert owner.get(AT).json()["version"] == before.json()["version"] + 1


# Claims


def test_a_claim_asked_for_again_is_the_same_run(real: Real, owner: httpx.Client) -> None:
    first = leased(owner, headers=KEY)
    assert leased(owner, headers=KEY) == first
    assert leased(owner, headers={"Idempotency-Key": "two"})["run"] == 2
    assert len(event_log(owner, "RunStarted")) == 2
    refused(owner.post("/v1/leases", json={"worker": "other"}, headers=KEY), 409, "another request")
    result(owner, first["token"])
    refused(
        owner.post("/v1/leases", json={"worker": "w", "lease_s": 30.0}, headers=KEY),
        409, "not leased any more",
    )  # fmt: skip
    assert real.service.queue.depth()["queued"] == 3


def test_a_claim_is_the_same_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as real:
        with_runs(real)
        first = leased(real.client(), headers=KEY)
    with serving(tmp_path) as real:
        client = real.client()
        assert leased(client, headers=KEY) == first
        assert len(event_log(client, "RunStarted")) == 1
        assert result(client, first["token"]).status_code == 200


def test_a_claim_asked_for_again_renews_its_lease(real: Real, owner: httpx.Client) -> None:
    passed_s = 0.0
    steady_s = real.service.queue._steady_s
    real.service.queue._steady_s = lambda: steady_s() + passed_s
    first = leased(owner, headers=KEY)
    for _ in range(6):
        passed_s += 20.0
        assert leased(owner, headers=KEY) == first
    assert len(event_log(owner, "RunReturned")) == 0
    passed_s += 31.0
    refused(owner.post(f"/v1/leases/{first['token']}/heartbeat"), 409, "stop it")


def test_a_claim_that_was_lost_is_not_given_under_its_key(owner: httpx.Client) -> None:
    leased(owner, lease_s=0.05, headers=KEY)
    assert eventually(lambda: event_log(owner, "RunReturned"))
    body = {"worker": "w", "lease_s": 0.05}
    told = refused(owner.post("/v1/leases", json=body, headers=KEY), 409, "with a new key")
    assert told["error"] == "LeaseLostError"


class Lossy(httpx.BaseTransport):
    """Sends requests, and loses the answers that a test says."""

    def __init__(self, lose: Callable[[httpx.Request, int], bool]) -> None:
        self._real = httpx.HTTPTransport()
        self._lose = lose
        self.sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        answer = self._real.handle_request(request)
        answer.read()
        if self._lose(request, self.sent):
            raise httpx.ReadError("the answer was lost")
        return answer

    def close(self) -> None:
        self._real.close()


def lossy(real: Real, lose: Callable[[httpx.Request, int], bool], tries: int = 6) -> ApiClient:
    token = TOKENS.by_role[Role.OWNER]
    return ApiClient(real.url, token, tries=tries, transport=Lossy(lose), pause=lambda _s: None)


def test_an_answer_that_is_lost_is_asked_for_again(real: Real, owner: httpx.Client) -> None:
    link = lossy(real, lambda _request, sent: sent % 2 == 1)  # every first answer
    told = link.change("POST", f"{AT}/runs", {"values": {"x": 3, "y": 2, "mode": "odd"}})
    assert told["again"]
    assert len(event_log(owner, "RunSubmitted")) == 6
    leases = HttpLeaseSource(link, only=NAME, worker="w")
    runs = []
    for _ in range(3):
        lease = leases.lease()
        assert lease is not None
        runs.append(lease.run_id)
    assert runs == [1, 2, 3]
    assert len(event_log(owner, "RunStarted")) == 3
    link.close()


@pytest.mark.parametrize("tries", [1, 6])
def test_a_service_that_was_started_anew_is_found_again(tries: int) -> None:
    """It comes back where it was, with another token; whoever does not wait must find it, too."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.port != 2:
            raise httpx.ConnectError("refused", request=request)
        known = request.headers["Authorization"] == "Bearer new"
        return httpx.Response(200 if known else 401, json={"detail": "none of ours"})

    def link(url: str, token: str) -> ApiClient:
        """Return a connection to a service that was at another place or had another token."""
        return ApiClient(
            url, "old", find=lambda: ("http://127.0.0.1:2", token), tries=tries,
            transport=httpx.MockTransport(answer), pause=lambda _s: None,
        )  # fmt: skip

    there = {"detail": "none of ours"}
    assert link("http://127.0.0.1:2", "new").get("/") == there
    moved = link("http://127.0.0.1:1", "new")
    if tries == 1:
        with pytest.raises(ServiceError, match="does not answer"):
            moved.get("/")
    assert moved.get("/") == there
    with pytest.raises(AccessDeniedError):
        link("http://127.0.0.1:2", "old").get("/")


def test_a_claim_that_was_never_answered_is_asked_for_by_the_next_call(
    real: Real, owner: httpx.Client
) -> None:
    link = lossy(real, lambda _request, sent: sent <= 2, tries=2)
    leases = HttpLeaseSource(link, worker="w")
    with pytest.raises(ServiceError):
        leases.lease()
    lease = leases.lease()
    assert lease is not None
    assert (lease.run_id, lease.attempt) == (1, 1)
    assert len(event_log(owner, "RunStarted")) == 1
    link.close()


def test_a_claim_that_was_lost_meanwhile_is_made_anew(real: Real, owner: httpx.Client) -> None:
    link = lossy(real, lambda _request, sent: sent == 1, tries=1)
    leases = HttpLeaseSource(link, worker="w", lease_s=0.05)
    with pytest.raises(ServiceError):
        leases.lease()
    assert eventually(lambda: event_log(owner, "RunReturned"))
    lease = leases.lease()
    assert lease is not None
    assert (lease.run_id, lease.attempt) == (1, 2)
    with pytest.raises(LeaseLostError):
        leases.heartbeat(event_log(owner, "RunStarted")[0]["token"])
    link.close()


# A worker that waits things out


class Restarting:
    """Claims of a service that is away, then has no room, and takes everything in the end."""

    wait_s = 0.0

    def __init__(self, refusals: list[Exception], lost: bool = False) -> None:
        self._refusals, self._lost = refusals, lost
        self.told: list[str] = []
        self.returned: list[str] = []
        self.n_claims = 0

    def lease(self) -> RunLease | None:
        self.n_claims += 1
        if self.n_claims == 1:
            raise ServiceError("the service does not answer")
        return RunLease("bowl", 7, "t", 1, TODAY, 1, None, 30.0) if self.n_claims == 2 else None

    def heartbeat(self, token: str) -> float:
        return 30.0

    def complete(self, token: str, completion: ExecutionResult) -> None:
        if self._refusals:
            raise self._refusals.pop()
        if self._lost:
            raise LeaseLostError("too late")
        self.told.append(token)

    def give_back(self, token: str, reason: str, *, lost: bool = False) -> None:
        self.returned.append(token)


@pytest.mark.parametrize("lost", [False, True])
def test_a_worker_keeps_its_result_until_it_can_be_told(lost: bool) -> None:
    leases = Restarting([StoreFullError("no room"), ServiceError("away")], lost)
    waits: list[float] = []
    worker = Worker(leases, lambda _lease: SerialExecutor(Bowl()))  # type: ignore[arg-type]
    done = worker.work(lambda: leases.n_claims > 2, waits.append)
    assert done == (0 if lost else 1)
    assert leases.told == ([] if lost else ["t"])
    assert leases.returned == []
    assert len(waits) == 4  # away, no room, away, nothing to do


def test_a_worker_that_shall_stop_does_not_wait_for_ever() -> None:
    leases = Restarting([ServiceError("away")] * 9)
    worker = Worker(leases, lambda _lease: SerialExecutor(Bowl()))  # type: ignore[arg-type]
    with pytest.raises(ServiceError, match="away"):
        worker.work(lambda: len(leases._refusals) < 5 and leases.n_claims > 1, lambda _s: None)
    assert leases.returned == ["t"], "another worker can execute the run at once"


def test_a_full_disk_is_said_to_the_client(real: Real) -> None:
    full = httpx.MockTransport(
        lambda _request: httpx.Response(507, json={"detail": "there is no space left"})
    )
    link = ApiClient(real.url, "t", transport=full)
    with pytest.raises(StoreFullError, match="no space"):
        link.change("POST", "/v1/leases", {})
    link.close()
