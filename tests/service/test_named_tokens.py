"""Tokens with names over a real service: whose claims they speak of, and who hands them out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from assistant.core.sla import Sla
from assistant.service.api_tokens import ApiTokenStore, Role
from assistant.session.opening import open_session
from tests.assistant.examples import Bowl
from tests.queue.examples import HandClock
from tests.service.real import (
    AT,
    NAME,
    TOKENS,
    Real,
    emptied,
    event_log,
    leased,
    refused,
    result,
    serving,
    with_runs,
)

CLOCK = HandClock()
DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    folder = tmp_path_factory.mktemp("named")
    with serving(folder, book=ApiTokenStore(folder / "book", CLOCK)) as found:
        yield found


@pytest.fixture
def real(service: Real) -> Real:
    emptied(service)
    for one in service.service.book.holders():
        service.service.book.revoke(one.name)
    with_runs(service, 6)
    return service


def made(real: Real, name: str, role: str = "worker", **more: Any) -> httpx.Client:
    """Make a token over HTTP, and return a client that has it."""
    answer = real.client().post("/v1/tokens", json={"name": name, "role": role, **more})
    assert answer.status_code == 200, answer.text
    return real.client_with(answer.json()["token"])


def other_experiment(real: Real) -> str:
    open_session(
        Bowl(), store=real.service.store, sla=Sla(500), strategy="random", experiment_id="other"
    )
    session = real.service.session("other")
    session.submit(session.suggest(2))
    real.service.queue.set_active("other", True)
    return "other"


ACTS = {
    "heartbeat": None,
    "report": {"measures": {"height": 1.0}},
    "result": {"measures": {"height": 1.0}, "duration_s": 1.0},
    "return": {"reason": "none"},
}


def test_a6_only_its_own_claims_are_a_workers(real: Real) -> None:
    mine, other, shared = made(real, "mine"), made(real, "other"), real.client(Role.WORKER)
    tokens = {
        "mine": leased(mine, "mine/3")["token"],
        "shared": leased(shared, "anybody")["token"],
    }
    before = len(event_log(real.client()))
    for act, body in ACTS.items():
        for client, whose in ((other, "mine"), (other, "shared"), (shared, "mine")):
            answer = client.post(f"/v1/leases/{tokens[whose]}/{act}", json=body)
            refused(answer, 403, "another API token")
    for client, whose in ((other, "mine"), (shared, "mine"), (mine, "shared")):
        refused(client.get(f"/v1/leases/{tokens[whose]}/application"), 403, "another API token")
    assert len(event_log(real.client())) == before
    assert mine.post(f"/v1/leases/{tokens['mine']}/heartbeat").status_code == 200
    assert mine.get(f"/v1/leases/{tokens['mine']}/application").status_code == 200
    assert result(mine, tokens["mine"]).json() == {"recorded": True, "first_time": True}
    assert result(shared, tokens["shared"]).status_code == 200
    assert result(other, "nothing").status_code == 404


def test_a5_a_viewer_changes_no_priority(real: Real) -> None:
    viewer = made(real, "eye", "viewer")
    for client in (viewer, real.client(Role.VIEWER)):
        refused(client.patch(f"{AT}/runs/1", json={"priority": 5.0}), 403, "steerer", "viewer")
        assert client.get(f"{AT}/runs/1").json()["priority"] == 0.0


def test_a_worker_is_called_as_its_token_is(real: Real) -> None:
    mine, shared = made(real, "mine"), real.client(Role.WORKER)
    for worker in ("other", "mine2", "Mine", "x/mine", "/mine"):
        refused(mine.post("/v1/leases", json={"worker": worker}), 403, "'mine'", "have the name")
    for worker in ("mine", "mine/3"):
        refused(shared.post("/v1/leases", json={"worker": worker}), 403, "name of a token")
    leased(mine, "mine")
    leased(mine, "mine/3")
    leased(shared, "mine2")
    workers = [one["worker"] for one in event_log(real.client(), "RunStarted")]
    assert workers == ["mine", "mine/3", "mine2"]


def test_no_token_takes_the_name_of_a_worker_that_is_at_work(real: Real) -> None:
    leased(real.client(Role.WORKER), "gpu/1")
    answer = real.client().post("/v1/tokens", json={"name": "gpu"})
    refused(answer, 409, "a worker without this token has the name 'gpu' now")
    made(real, "gp")


def test_a_token_for_one_experiment_gets_no_other(real: Real) -> None:
    other = other_experiment(real)
    mine = made(real, "mine", experiment=other)
    assert leased(mine, "mine")["experiment"] == other  # though the first one was there before
    refused(mine.post("/v1/leases", json={"worker": "mine", "experiment": NAME}), 403, "only for")
    lease = leased(mine, "mine")
    assert mine.post("/v1/leases", json={"worker": "mine"}).status_code == 204
    assert result(mine, lease["token"]).status_code == 200
    refused(mine.get(f"/v1/experiments/{other}"), 403, "viewer")
    refused(real.client().post("/v1/tokens", json={"name": "n", "experiment": "nope"}), 422)


def test_an_adapter_sees_its_experiment_and_nothing_else(real: Real) -> None:
    other = other_experiment(real)
    adapter = made(real, "mine", "adapter", experiment=NAME)
    assert adapter.get(AT).json()["experiment"] == NAME
    for path in (f"/v1/experiments/{other}", "/v1/experiments/nope"):  # 403 whether there or not
        refused(adapter.get(path), 403, f"only for the experiment '{NAME}'")
    for path in ("/v1/experiments", f"{AT}/runs", f"{AT}/events", "/metrics", "/v1/tokens"):
        refused(adapter.get(path), 403)
    refused(adapter.post(f"{AT}/pause"), 403)
    assert result(adapter, leased(adapter, "mine/1")["token"]).status_code == 200
    refused(real.client().post("/v1/tokens", json={"name": "a", "role": "adapter"}), 422)
    refused(real.client(Role.ADAPTER).get(AT), 403, "a named token")


def test_a_revoked_token_is_refused_at_once_and_its_runs_wait_again(real: Real) -> None:
    mine, owner = made(real, "mine"), real.client()
    lease = leased(mine, "mine/1")
    assert owner.delete("/v1/tokens/mine").status_code == 204
    refused(mine.post(f"/v1/leases/{lease['token']}/heartbeat"), 401, "not valid")
    refused(result(mine, lease["token"]), 401)
    (returned,) = event_log(owner, "RunReturned")
    assert "revoked" in returned["reason"]
    assert not returned.get("lost")
    assert leased(real.client(Role.WORKER))["run"] == lease["run"]
    again = made(real, "mine")  # whoever has that name next
    refused(result(again, lease["token"]), 409, "given to another worker")


def test_a_token_whose_time_has_run_out_is_refused_and_says_so(real: Real) -> None:
    mine = made(real, "mine", expires_s=CLOCK.wall_s + 60)
    lease = leased(mine, "mine")
    CLOCK.wait(60)
    refused(result(mine, lease["token"]), 401, "has expired")
    fresh = made(real, "mine")
    refused(mine.get("/v1/caller"), 401, "not valid")
    assert fresh.get("/v1/caller").json()["name"] == "mine"
    assert event_log(real.client(), "RunReturned")  # what was held under the old one


def test_a_stream_ends_with_the_token_of_whoever_listens(real: Real) -> None:
    viewer = made(real, "eye", "viewer")
    headers = {"Accept": "text/event-stream"}
    with viewer.stream("GET", f"{AT}/events", headers=headers) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("id: 0")
        real.client().delete("/v1/tokens/eye")
        began_s = time.monotonic()
        for _ in lines:
            assert time.monotonic() - began_s < DEADLINE_S
    refused(viewer.get(f"{AT}/events"), 401)


def test_a_steerer_hands_out_no_more_than_it_may(real: Real) -> None:
    steerer = real.client(Role.STEERER)
    for role in ("viewer", "worker"):
        assert steerer.post("/v1/tokens", json={"name": role, "role": role}).status_code == 200
    refused(steerer.post("/v1/tokens", json={"name": "s", "role": "steerer"}), 403, "steerer")
    refused(steerer.post("/v1/tokens", json={"name": "o", "role": "owner"}), 422)
    made(real, "boss", "steerer")
    refused(steerer.delete("/v1/tokens/boss"), 403, "steerer")
    assert steerer.delete("/v1/tokens/worker").status_code == 204
    for role in (Role.VIEWER, Role.WORKER):
        client = real.client(role)
        refused(client.get("/v1/tokens"), 403)
        refused(client.post("/v1/tokens", json={"name": "x"}), 403)
        refused(client.delete("/v1/tokens/viewer"), 403)


def test_a_token_outlives_none_that_it_makes(real: Real) -> None:
    ends_s = CLOCK.wall_s + 100
    steerer = made(real, "guest", "steerer", expires_s=ends_s)
    for more in ({}, {"expires_s": ends_s + 1}):
        refused(steerer.post("/v1/tokens", json={"name": "w", **more}), 403, "cannot expire later")
    assert steerer.post("/v1/tokens", json={"name": "w", "expires_s": ends_s}).status_code == 200
    (found,) = [one for one in steerer.get("/v1/tokens").json() if one["name"] == "w"]
    assert (found["created_by"], found["expires_s"]) == ("guest", ends_s)


def test_neither_list_nor_log_nor_refusal_shows_a_token(real: Real) -> None:
    owner = real.client()
    token = owner.post("/v1/tokens", json={"name": "mine"}).json()["token"]
    digest = real.service.book.holders()[0].digest
    mine = real.client_with(token)
    leased(mine, "mine")
    listed = owner.get("/v1/tokens")
    assert [one["name"] for one in listed.json()] == ["mine"]
    taken = owner.post("/v1/tokens", json={"name": "mine"})
    refused(taken, 409, "already")
    refused(owner.delete(f"/v1/tokens/{token}"), 422)  # a token in the place of a name
    for text in (listed.text, taken.text, real.lines.getvalue()):
        assert token not in text
        assert digest not in text
    assert {"by": "mine"}.items() <= [one for one in real.log() if "worker" in one][-1].items()


def test_who_asks_is_told_who_it_is(real: Real) -> None:
    told = made(real, "mine", experiment=NAME).get("/v1/caller").json()
    assert told == {"role": "worker", "name": "mine", "experiment": NAME, "expires_s": None}
    shared = real.client(Role.VIEWER).get("/v1/caller").json()
    assert shared == {"role": "viewer", "name": None, "experiment": None, "expires_s": None}


def test_an_answer_that_was_lost_is_asked_for_again_under_its_key(real: Real) -> None:
    owner, key = real.client(), {"Idempotency-Key": "k1"}
    body = {"name": "mine"}
    lost, told = (owner.post("/v1/tokens", json=body, headers=key).json() for _ in range(2))
    refused(real.client_with(lost["token"]).get("/v1/caller"), 401)
    assert real.client_with(told["token"]).get("/v1/caller").status_code == 200
    refused(owner.post("/v1/tokens", json={"name": "b"}, headers=key), 409, "another request")
    refused(owner.post("/v1/tokens", json=body), 409, "already")
    gone = {"Idempotency-Key": "k2"}
    for _ in range(2):
        assert owner.delete("/v1/tokens/mine", headers=gone).status_code == 204
    refused(owner.delete("/v1/tokens/mine"), 404, "no token 'mine'")


def test_failures_are_counted_whatever_tokens_there_are(real: Real) -> None:
    mine = made(real, "mine")
    wrong = real.client_with("f" * 64)
    statuses = [wrong.get("/v1/caller").status_code for _ in range(60)]
    assert set(statuses) == {401, 429}
    assert statuses.count(401) <= 60 - statuses.count(429)
    assert statuses[-1] == 429
    assert mine.get("/v1/caller").status_code == 200  # nobody else is locked out


def test_experiments_that_a_worker_leaves_out_are_left_to_others(real: Real) -> None:
    other = other_experiment(real)
    worker = real.client(Role.WORKER)
    body = {"worker": "w", "without": [NAME]}
    assert worker.post("/v1/leases", json=body).json()["experiment"] == other
    body["without"] = [NAME, other]
    assert worker.post("/v1/leases", json=body).status_code == 204
    assert leased(worker)["experiment"] == NAME


def test_the_owner_speaks_of_every_claim(real: Real) -> None:
    lease = leased(made(real, "mine"), "mine")
    owner = real.client()
    assert owner.headers["authorization"] == f"Bearer {TOKENS.by_role[Role.OWNER]}"
    assert owner.post(f"/v1/leases/{lease['token']}/heartbeat").status_code == 200
