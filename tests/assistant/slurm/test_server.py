"""What is said between the workers in jobs of Slurm and their server: TLS, tickets and junk."""

import json
import socket
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from assistant.core.errors import AccessDeniedError, LeaseLostError, ServiceError, SettingsError
from assistant.core.ports import ExecutionRequest
from assistant.core.run import RunOutput
from assistant.executors.dask_clusters import make_certificates
from assistant.executors.slurm import server
from assistant.executors.slurm.dispatcher import PilotDispatcher
from assistant.executors.slurm.protocol import ABOUT, PilotTicket, about_as_header
from assistant.executors.slurm.server import WorkerServer
from assistant.executors.spec import TlsCertificates
from tests.assistant.slurm.house import VALUES, WITHIN_S, House, result, until


def test_a_run_is_leased_reported_and_completed(service: House) -> None:
    leases = service.leases()
    assert leases.lease() is None
    service.dispatcher.take(ExecutionRequest(7, VALUES, 2**40, 1.5))
    lease = leases.lease()
    assert lease is not None
    assert (lease.run_id, lease.values, lease.seed, lease.limit_s) == (7, VALUES, 2**40, 1.5)
    assert leases.heartbeat(lease.token) == lease.lease_s
    leases.report(lease.token, {"height": 3.0, "s": (1.0,), "n": None})
    assert service.reports == [(7, {"height": 3.0, "s": (1.0,), "n": None})]
    done = result(run_id=7, output=RunOutput("out", "err"))
    leases.complete(lease.token, done)
    assert service.over == [done]
    with pytest.raises(LeaseLostError):
        leases.complete(lease.token, done)


def test_a_lost_and_a_failed_run_are_said(service: House) -> None:
    leases = service.leases()
    for run_id in (1, 2):
        service.dispatcher.take(ExecutionRequest(run_id, VALUES, 0))
    first = leases.lease()
    assert first is not None
    leases.give_back(first.token, "its process died", lost=True)
    second = leases.lease()
    assert second is not None
    leases.complete(second.token, result(measures=None, failure="x is 1"))
    assert [(one.run_id, one.failure, one.lost) for one in service.over] == [
        (1, "its process died", True), (2, "x is 1", False),
    ]  # fmt: skip


def test_an_unknown_secret_is_refused_and_so_is_a_revoked_one(service: House) -> None:
    ticket = service.ticket()
    with pytest.raises(AccessDeniedError, match="not that of a ticket"):
        service.leases(PilotTicket(**_fields(ticket, secret="0" * 64))).lease()
    service.dispatcher.end()
    with pytest.raises(AccessDeniedError, match="not valid any more"):
        service.leases(ticket).lease()


def test_a_worker_accepts_the_certificate_of_its_ticket_only(
    service: House, tmp_path: Path
) -> None:
    other = make_certificates(tmp_path).certificate.read_text()
    with pytest.raises(ServiceError, match=r"(?i)certificate"):
        service.leases(service.ticket(certificate=other)).lease()
    with pytest.raises(httpx.TransportError):  # nothing is answered in clear
        httpx.get(f"http://127.0.0.1:{service.server.port}/v1/leases", timeout=WITHIN_S)


def _fields(ticket: PilotTicket, **changes: Any) -> dict[str, Any]:
    return {name: getattr(ticket, name) for name in PilotTicket.__slots__} | changes


def said(service: House, path: str, content: bytes, **headers: str) -> httpx.Response:
    """Return the answer to a request with a ticket that counts."""
    tls = ssl.create_default_context(cadata=service.certificate.read_text())
    tls.check_hostname = False
    ticket = service.ticket()
    known = {"Authorization": f"Bearer {ticket.secret}", **about_as_header()}
    with httpx.Client(verify=tls, timeout=WITHIN_S) as client:
        url = f"https://127.0.0.1:{service.server.port}{path}"
        return client.post(url, content=content, headers={**known, **headers})


@pytest.mark.parametrize(
    ("path", "content", "said_of_it"),
    [
        ("/v1/leases", b"{", "not JSON"),
        ("/v1/leases", b"[" * 100_000, "not JSON"),
        ("/v1/leases", b"[]", "not an object"),
        ("/v1/leases", b"{}", "'worker' is not a text"),
        ("/v1/leases", json.dumps({"worker": "x" * 5000}).encode(), "at most 4000 characters"),
        ("/v1/other", b"{}", "no such address"),
        ("/v1/leases/a/other", b"{}", "no such address"),
        ("/v1/leases/a/report", b'{"measures": [1]}', "measures are not an object"),
        ("/v1/leases/a/report", b'{"measures": {"a": "b"}}', "'a' is neither a number"),
        ("/v1/leases/a/result", b"{}", "either measures or the text of a failure"),
        ("/v1/leases/a/result", b'{"failure": "f", "duration_s": "1"}', "'duration_s' is not"),
        ("/v1/leases/a/result", b'{"failure": "f", "output": {"a": "b"}}', "'output' is not"),
    ],
)  # fmt: skip
def test_a_malformed_request_is_refused_in_words(
    service: House, path: str, content: bytes, said_of_it: str
) -> None:
    answer = said(service, path, content)
    assert answer.status_code == 400
    assert said_of_it in answer.json()["detail"]
    assert service.leases().lease() is None


def test_a_request_that_is_too_long_is_not_read(
    service: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_BYTES", 100)
    answer = said(service, "/v1/leases", b"x" * 101)
    assert answer.status_code == 400
    assert "at most 100 bytes" in answer.json()["detail"]


def test_a_worker_of_another_protocol_ends_the_sweep_with_a_sentence(service: House) -> None:
    answer = said(service, "/v1/leases", b'{"worker": "w"}', **{ABOUT: "protocol=1"})
    assert answer.status_code == 403
    assert "a job has protocol 1, this machine has" in (service.dispatcher.broken or "")


def test_strangers_are_bounded_and_sent_away_and_workers_do_not_notice(
    service: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_STRANGERS", 8)
    leases = service.leases()
    assert leases.lease() is None
    address = ("127.0.0.1", service.server.port)
    crowd = [socket.create_connection(address, timeout=WITHIN_S) for _ in range(40)]
    try:
        until(lambda: len(service.server._server.strangers) == 8)
        assert leases.lease() is None
    finally:
        for one in crowd:
            one.close()
    until(lambda: not service.server._server.strangers)
    assert service.leases().lease() is None


def test_a_stranger_who_says_nothing_is_sent_away(
    service: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FIRST_S", 0.05)
    with socket.create_connection(("127.0.0.1", service.server.port), timeout=WITHIN_S) as raw:
        assert raw.recv(1) == b""


def test_the_server_listens_at_an_address_of_this_machine_only(
    certificates: TlsCertificates,
) -> None:
    ours = PilotDispatcher(lambda _: None, lambda *_: None)
    with pytest.raises(SettingsError, match=r"cannot listen at '192\.0\.2\.1'"):
        WorkerServer(ours, "192.0.2.1", certificates.certificate, certificates.key)
