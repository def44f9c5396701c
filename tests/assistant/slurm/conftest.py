"""The server that all workers of these tests go to."""

from collections.abc import Iterator, Mapping

import pytest

from assistant import Measure
from assistant.core.ports import ExecutionResult
from assistant.executors.dask_clusters import make_certificates
from assistant.executors.slurm import dispatcher
from assistant.executors.slurm.dispatcher import PilotDispatcher
from assistant.executors.slurm.protocol import about
from assistant.executors.slurm.server import WorkerServer
from assistant.executors.spec import TlsCertificates
from tests.assistant.slurm.house import Hand, House


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TlsCertificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, certificates: TlsCertificates) -> Iterator[House]:
    monkeypatch.setattr(dispatcher, "WAIT_S", 0.05)
    over: list[ExecutionResult] = []
    reports: list[tuple[int, Mapping[str, Measure]]] = []
    clock = Hand()
    ours = PilotDispatcher(
        over.append, lambda run, told: reports.append((run, told)), about(), now_s=clock
    )
    server = WorkerServer(ours, "127.0.0.1", certificates.certificate, certificates.key)
    try:
        yield House(over, reports, clock, ours, server, certificates.certificate)
    finally:
        server.close()
