"""Every executor gives the same results as the serial one, and survives failing runs."""

import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from assistant import Measure, RunState, Sla, open_session
from assistant.cli.options import executor_table
from assistant.config.sweep_file import check_settings, read_settings
from assistant.core.errors import SettingsError
from assistant.core.ports import ExecutionRequest, ExecutionResult
from assistant.executors import EXECUTORS, ExecutorEntry, make_executor
from assistant.executors.spec import BatchSystem, ExecutorSpec, TlsCertificates
from assistant.service.experiment_service import apply_request_policy
from assistant.store.event_store import MemoryStore
from strategies import Level
from tests.assistant.examples import Bowl, Climb, TickingClock
from tests.slurm_cluster import SlurmCluster

MARKS = {"dask": [pytest.mark.slow], "slurm": [pytest.mark.slurm]}

every_executor = pytest.mark.parametrize(
    "entry",
    [pytest.param(entry, id=entry.name, marks=MARKS.get(entry.name, [])) for entry in EXECUTORS],
)
slurm_in_the_soak = pytest.mark.parametrize(
    "entry",
    [
        pytest.param(
            entry,
            id=entry.name,
            marks=[*MARKS.get(entry.name, []), *([pytest.mark.soak] * (entry.name == "slurm"))],
        )
        for entry in EXECUTORS
    ],
)
"""For what the equality of all results implies, or one executor of several shows."""


@pytest.fixture(scope="module")
def shared_slurm(scripts: Path) -> Iterator[SlurmCluster]:
    """A real Slurm for all tests here: none of them kills a part of it."""
    with SlurmCluster(scripts) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _slurm_where_it_is_needed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if "slurm" in (told.get("name"), getattr(told.get("entry"), "name", None)):
        cluster = request.getfixturevalue("shared_slurm")
        monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        monkeypatch.chdir(tmp_path)  # its folder is made here


@dataclass(frozen=True)
class Dying(Bowl):
    """Its process dies at x = 3, as if killed or out of memory; breaks at x = 1."""

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        if values["x"] == 3:
            os._exit(9)
        if values["x"] == 1:
            return {"height": 1 / int(values["y"])}
        return super().evaluate(values, seed)


@every_executor
def test_results_equal_those_of_the_serial_executor(entry: ExecutorEntry) -> None:
    def outcomes(chosen: ExecutorEntry) -> dict[object, object]:
        bowl = Bowl(fail_at_x=1)
        session = open_session(bowl, store=MemoryStore(), sla=Sla(24), clock=TickingClock())
        with chosen.build(bowl, 2) as executor:
            session.submit(session.suggest(24))
            session.run_queued(executor)
        return {r.configuration: (r.outcome, r.failure) for r in session.experiment.runs}

    assert outcomes(entry) == outcomes(EXECUTORS[0])


@every_executor
def test_numbers_that_are_not_finite_are_unknown(entry: ExecutorEntry) -> None:
    with entry.build(Bowl(), 1) as executor:
        executor.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        (completion,) = executor.collect()
    assert completion.measures is not None
    assert completion.measures["unknown"] is None
    assert completion.measures["series"] == (1.0, 0.0)
    assert completion.duration_s >= 0.0


@slurm_in_the_soak
def test_an_exception_is_a_failed_run_with_its_words(entry: ExecutorEntry) -> None:
    with entry.build(Dying(), 1) as executor:
        executor.submit(ExecutionRequest(1, {"x": 1, "y": 0, "mode": "plain"}, seed=1))
        (completion,) = executor.collect()
    assert completion.measures is None
    assert "ZeroDivisionError" in (completion.failure or "")


@pytest.mark.soak
@every_executor
def test_nothing_under_way_gives_nothing_and_cancel_forgets(entry: ExecutorEntry) -> None:
    with entry.build(Bowl(), 1) as executor:
        assert executor.collect() == ()
        executor.submit(ExecutionRequest(1, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        executor.cancel()
        assert executor.collect() == ()
        executor.submit(ExecutionRequest(2, {"x": 0, "y": 0, "mode": "plain"}, seed=1))
        assert [c.run_id for c in executor.collect()] == [2]


LONG: Mapping[str, Level] = {"x": 3, "y": 2, "mode": "plain"}


class Heard:
    """What an executor tells, and who waits for it."""

    def __init__(self) -> None:
        self.told: list[tuple[int, Mapping[str, Measure]]] = []
        self._changed = threading.Condition()

    def __call__(self, run_id: int, measures: Mapping[str, Measure]) -> None:
        with self._changed:
            self.told.append((run_id, measures))
            self._changed.notify_all()

    def wait_for(self, wanted: tuple[int, Mapping[str, Measure]]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: wanted in self.told, 300.0), self.told


@every_executor
def test_a_run_tells_what_it_has_measured_and_ends_when_somebody_wants_it(
    entry: ExecutorEntry,
) -> None:
    with entry.build(Climb(), 1) as executor:
        heard = Heard()
        executor.listen(heard)
        executor.submit(ExecutionRequest(7, LONG, seed=1))

        def stop() -> None:
            heard.wait_for((7, {"height": 98.0, "unknown": None}))  # the latest of three
            executor.stop(8)  # no such run: nothing happens
            executor.stop(7)

        with ThreadPoolExecutor(1) as other:
            stopping = other.submit(stop)
            (completion,) = executor.collect()
            stopping.result()
        assert completion.run_id == 7
        assert completion.stopped
        assert completion.measures is None
        if entry.name != "slurm":  # whose worker learns of it later
            assert completion.failure == "it was told to end"
        executor.stop(7)  # it is over: nothing happens
        executor.submit(ExecutionRequest(7, {**LONG, "x": 2}, seed=1))
        (again,) = executor.collect()
    assert again.measures is not None
    assert again.measures["height"] == 3.0
    assert not again.stopped


@pytest.mark.soak
@every_executor
def test_only_the_run_that_is_meant_is_ended(entry: ExecutorEntry) -> None:
    with entry.build(Climb(), 2) as executor:
        executor.submit(ExecutionRequest(1, LONG, seed=1))
        executor.submit(ExecutionRequest(2, {**LONG, "x": 0}, seed=1))
        executor.stop(1)
        found: dict[int, ExecutionResult] = {}
        while len(found) < 2:
            found |= {one.run_id: one for one in executor.collect()}
    assert found[1].stopped
    assert not found[2].stopped
    assert found[2].measures is not None


@slurm_in_the_soak
def test_a_run_that_cannot_be_watched_gives_its_result_all_the_same(entry: ExecutorEntry) -> None:
    with entry.build(Bowl(), 1) as executor:
        executor.listen(Heard())
        executor.submit(ExecutionRequest(1, LONG, seed=1))
        (completion,) = executor.collect()
        executor.stop(1)
    assert completion.measures is not None


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "n_runs"),
    [
        pytest.param("process_pool", 8, marks=pytest.mark.slow),
        pytest.param("dask", 8, marks=pytest.mark.slow),
        pytest.param("slurm", 8, marks=pytest.mark.slurm),
    ],
)
def test_a_worker_that_dies_fails_its_runs_and_the_sweep_goes_on(name: str, n_runs: int) -> None:
    dying = Dying()
    session = open_session(dying, store=MemoryStore(), sla=Sla(n_runs), clock=TickingClock())
    with make_executor(dying, 2, ExecutorSpec(name)) as executor:
        session.submit(session.suggest(n_runs))
        session.run_queued(executor)
    failed = session.experiment.runs_in(RunState.FAILED)
    died = [run for run in failed if "worker process died" in (run.failure or "")]
    assert died
    assert all((run.failure or "").startswith("3 workers were lost") for run in died)
    completed = session.experiment.runs_in(RunState.COMPLETED)
    assert completed
    assert len(failed) + len(completed) == n_runs
    space = dying.space
    assert all(space.values(run.configuration)["x"] != 3 for run in completed)
    assert all(run.lost < 3 for run in session.experiment.runs)


def test_no_workers_are_refused() -> None:
    with pytest.raises(SettingsError, match="at least 1, not 0"):
        make_executor(Bowl(), 0)


def test_a_place_is_refused_in_words_before_anything_starts(tmp_path: Path) -> None:
    pem = tmp_path / "a.pem"
    pem.write_text("")
    told = TlsCertificates(pem, pem, pem)
    for place, said in (
        (lambda: ExecutorSpec("dusk"), "no executor 'dusk'; did you mean 'dask'"),
        (lambda: ExecutorSpec("serial").check(2), "executes one run at a time, not 2"),
        (lambda: ExecutorSpec("process_pool", "tcp://127.0.0.1:1"), "only the executor 'dask'"),
        (lambda: ExecutorSpec("dask", "head:8786"), "not of the form tls://HOST:PORT"),
        (lambda: ExecutorSpec("dask", "tcp://127.0.0.1:99999"), "not of the form tls://HOST:PORT"),
        (lambda: ExecutorSpec("dask", "tcp://head:8786"), "tcp is not encrypted"),
        (lambda: ExecutorSpec("dask", "tcp://0.0.0.0:8786"), "tcp is not encrypted"),
        (lambda: ExecutorSpec("dask", "tls://head:8786"), "needs certificates"),
        (lambda: ExecutorSpec("dask", None, told), "certificates need the address"),
        (
            lambda: ExecutorSpec("serial", batch=BatchSystem()),
            "only the executors 'dask' and 'slurm'",
        ),
        (
            lambda: ExecutorSpec(
                "dask", "tls://head:1", TlsCertificates(pem, tmp_path / "no.pem", pem)
            ),
            "no.pem' \\(certificate of TLS\\) is missing",
        ),
    ):
        with pytest.raises(SettingsError, match=said):
            place()
    ExecutorSpec("dask", "tls://head:8786", told)
    ExecutorSpec("dask", "tcp://localhost:8786")
    ExecutorSpec("dask", "tcp://[::1]:8786")


def test_a_sweep_file_says_where_runs_are_executed(tmp_path: Path) -> None:
    text = "[executor]\nkind = 'dask'\naddress = 'tls://head:1'\n" + "".join(
        f"{name} = '{name}.pem'\n" for name in ("authority", "certificate", "key")
    )
    (tmp_path / "sweep.toml").write_text(text)
    told = check_settings(read_settings(tmp_path / "sweep.toml"), "sweep.toml")
    with pytest.raises(SettingsError, match="authority of TLS"):
        _ = told.place
    for name in ("authority", "certificate", "key"):
        (tmp_path / f"{name}.pem").write_text("")
    assert told.place.certificates == TlsCertificates(
        *(tmp_path / f"{name}.pem" for name in ("authority", "certificate", "key"))
    )
    with pytest.raises(SettingsError, match="TLS needs all of"):
        _ = check_settings(
            {"executor": {"kind": "dask", "address": "tls://head:1", "key": "a"}}, "x"
        ).place
    assert executor_table({"kind": "dask", "key": "a"}, "dask=tls://b:1") == {
        "kind": "dask", "key": "a", "address": "tls://b:1",
    }  # fmt: skip
    assert executor_table({"kind": "dask", "key": "a"}, "serial") == {"kind": "serial"}
    (tmp_path / "sweep.toml").write_text(
        "[executor]\nkind = 'slurm'\npartition = 'main'\nwalltime = '2h'\n"
        "options = ['--constraint=fast']\nfolder = 'tickets'\n"
    )
    told = check_settings(read_settings(tmp_path / "sweep.toml"), "sweep.toml")
    assert told.place.batch == BatchSystem(
        "slurm", "main", None, 7200.0, ("--constraint=fast",), None, tmp_path / "tickets"
    )
    with pytest.raises(SettingsError, match="partition"):
        check_settings({"executor": {"kind": "slurm", "partition": "--wrap=x"}}, "x")
    with pytest.raises(SettingsError, match="not to the executor of a sweep file"):
        apply_request_policy({"executor": {"kind": "serial"}}, programs=True, files=None)
