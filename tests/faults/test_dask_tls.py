"""Who is let in: a scheduler elsewhere wants certificates, our own is reached from here only."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from assistant.config.sweep_file import check_settings, read_settings
from assistant.core.errors import ExecutorError
from assistant.core.ports import ExecutionRequest
from assistant.executors import dask, make_executor
from assistant.executors.dask import DaskExecutor
from assistant.executors.dask_clusters import LocalDaskWorkers, make_certificates
from assistant.executors.spec import ExecutorSpec, TlsCertificates
from benchmarks.browsing import free_port
from tests.assistant.examples import Bowl

WITHIN_S = 600.0


def authority(folder: Path, name: str) -> list[Path]:
    """Return a key and a certificate that others can be signed with."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    _openssl("req", "-x509", *NEW, key, "-out", certificate, "-subj", f"/CN={name}", "-days", "2")
    return [key, certificate]


def signed(folder: Path, name: str, by: list[Path]) -> TlsCertificates:
    """Return the files of somebody whom an authority vouches for."""
    key, asked, certificate = (folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
    _openssl("req", *NEW, key, "-out", asked, "-subj", f"/CN={name}")
    _openssl("x509", "-req", "-in", asked, "-CAkey", by[0], "-CA", by[1], "-CAcreateserial",
             "-out", certificate, "-days", "2")  # fmt: skip
    return TlsCertificates(by[1], certificate, key)


NEW = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout")


def _openssl(*told: object) -> None:
    subprocess.run(["openssl", *map(str, told)], check=True, capture_output=True, timeout=WITHIN_S)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A scheduler and one worker that speak TLS only, in processes of their own."""
    theirs = signed(tmp_path, "cluster", authority(tmp_path, "ours"))
    tls = ["--tls-ca-file", str(theirs.authority), "--tls-cert", str(theirs.certificate)]
    tls += ["--tls-key", str(theirs.key), "--host", "127.0.0.1", "--protocol", "tls"]
    port = free_port()
    at = f"tls://127.0.0.1:{port}"
    worker = ["worker", at, "--nthreads", "1", "--no-nanny", "--memory-limit", "0"]
    processes = []
    try:
        for told in (["scheduler", "--port", str(port)], worker):
            with (tmp_path / f"{told[0]}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "dask", *told, *tls, "--no-dashboard",
                         "--dashboard-address", "127.0.0.1:0"],
                        stdout=log, stderr=log, cwd=tmp_path,
                        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                    )
                )  # fmt: skip
        yield at
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.faults
def test_a_scheduler_elsewhere_is_spoken_to_with_certificates_only(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = [tmp_path / "ours.key", tmp_path / "ours.pem"]
    mine = signed(tmp_path, "steerer", ours)
    assert mine.authority == tmp_path / "ours.pem"
    (tmp_path / "sweep.toml").write_text(
        f"[executor]\nkind = 'dask'\naddress = '{address}'\n"
        "authority = 'ours.pem'\ncertificate = 'steerer.pem'\nkey = 'steerer.key'\n"
    )
    place = check_settings(read_settings(tmp_path / "sweep.toml"), "sweep.toml").place
    with _connected(place) as executor:
        executor.submit(ExecutionRequest(1, {"x": 2, "y": 1, "mode": "plain"}, seed=1))
        (completion,) = executor.collect()
    assert completion.measures == _here({"x": 2, "y": 1, "mode": "plain"})

    monkeypatch.setattr(dask, "CONNECT_S", 1.0)
    stranger = signed(tmp_path, "stranger", authority(tmp_path, "theirs"))
    half = TlsCertificates(ours[1], stranger.certificate, stranger.key)  # knows whom it talks to
    for others in (stranger, half):
        with pytest.raises(ExecutorError, match="does not answer"):
            DaskExecutor(Bowl(), 1, address=address, certificates=others)
    with pytest.raises(ExecutorError, match="does not answer"):
        DaskExecutor(Bowl(), 1, address=address.replace("tls://", "tcp://"))


def _here(values: dict[str, object]) -> object:
    with make_executor(Bowl(), 1) as executor:
        executor.submit(ExecutionRequest(1, values, seed=1))  # type: ignore[arg-type]
        return executor.collect()[0].measures


def _connected(place: ExecutorSpec) -> DaskExecutor:
    """Return an executor as soon as there is a worker."""
    until_s = time.monotonic() + WITHIN_S
    while True:
        try:
            return make_executor(Bowl(), 1, place)  # type: ignore[return-value]
        except ExecutorError:
            if time.monotonic() > until_s:
                raise


@pytest.mark.slow
def test_workers_of_our_own_are_reached_from_this_machine_only_and_show_no_pages() -> None:
    cluster = LocalDaskWorkers(1)
    try:
        me = psutil.Process()
        listening = [
            (one.pid, found.laddr.ip)
            for one in (me, *me.children(recursive=True))
            for found in one.net_connections(kind="inet")
            if found.status == psutil.CONN_LISTEN
        ]
        assert len({pid for pid, _ in listening}) > 1
        assert {ip for _, ip in listening} == {"127.0.0.1"}
        at = cluster.cluster.scheduler.http_server
        for page in ("status", "info/main/workers.html", "json/identity.json", "metrics"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{at.port}/{page}", timeout=WITHIN_S)
    finally:
        cluster.close()


def test_a_key_of_our_own_is_nobody_elses(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    assert made.authority == made.certificate
    assert made.key.stat().st_mode & 0o077 == 0
    assert "PRIVATE KEY" in made.key.read_text()
    assert "CERTIFICATE" in made.certificate.read_text()
