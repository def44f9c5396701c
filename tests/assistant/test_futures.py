"""Configurations judged over futures: the same for all, known answers, one story everywhere."""

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

from assistant.applications.scheduling import CurrentPolicies, Scheduling
from assistant.applications.scheduling_futures import (
    FutureAggregate,
    FutureScheduling,
    WorkloadFutures,
    future_scheduling,
)
from assistant.config.snapshot import config_snapshot, open_sweep, rebuild
from assistant.config.sweep_file import build_sweep, check_settings, parse_settings
from assistant.core.errors import ApplicationError, RunError, SettingsError
from assistant.executors.serial import SerialExecutor
from assistant.service.experiment_service import apply_request_policy
from assistant.simtools.measured_tables import TabulationTask, tabulate
from assistant.simtools.schedule import schedule_of
from assistant.store.event_store import MemoryStore
from sim.api import SimError, WorkloadError
from sim.formats import write_swf
from sim.generators import Model, default_workload, fit, published_model, save_model

DAY_S = 86_400.0
LEVELS = {"order": ("fcfs", "sjf"), "backfill": ("easy", "none")}


def lublin() -> Model:
    return published_model("lublin")


def application(**more: object) -> FutureScheduling:
    told = {"count": 3, "duration_s": DAY_S / 2, "scale": 0.5} | more
    futures = WorkloadFutures(lublin(), **told)  # type: ignore[arg-type]
    return future_scheduling(futures, threads=1, split=False, levels=LEVELS)


# -- what is judged, on answers known by hand ------------------------------------------------------

EACH = tuple(
    {"mean_wait_s": float(wait), "utilisation": wait / 100.0, "procs": 8.0, "small": small}
    for wait, small in ((10, None), (40, 1.0), (20, None), (30, 3.0))
)


@pytest.mark.parametrize(
    ("aggregate", "quantile", "wait", "utilisation"),
    [
        ("mean", 0.9, 25.0, 0.25),
        ("worst", 0.9, 40.0, 0.1),  # the longest wait, the lowest utilisation
        ("quantile", 0.75, 30.0, 0.2),  # three of four futures are no worse
        ("quantile", 0.76, 40.0, 0.1),
        ("quantile", 0.25, 10.0, 0.4),
        ("quantile", 1.0, 40.0, 0.1),
    ],
)
def test_a_judge_by_hand(
    aggregate: FutureAggregate, quantile: float, wait: float, utilisation: float
) -> None:
    futures = WorkloadFutures(lublin(), 4, aggregate=aggregate, quantile=quantile)
    found = futures.judged(EACH)
    assert found["mean_wait_s"] == pytest.approx(wait)
    assert found["utilisation"] == pytest.approx(utilisation)
    assert found["mean_wait_s.mean"] == 25.0
    assert found["mean_wait_s.worst"] == 40.0
    assert found["mean_wait_s.spread"] == pytest.approx(np.std([10, 40, 20, 30], ddof=1))
    assert found["procs"] == 8.0
    assert "procs.mean" not in found
    assert found["small.mean"] == 2.0  # of the futures that have small jobs


def test_nothing_known_of_any_future_is_unknown() -> None:
    found = WorkloadFutures(lublin()).judged([{"small": None}, {"small": None}])
    assert found == dict.fromkeys(("small", "small.mean", "small.worst", "small.spread"))
    alone = WorkloadFutures(lublin(), 1).judged([{"mean_wait_s": 4.0}])
    assert alone["mean_wait_s.spread"] is None
    assert alone["mean_wait_s.worst"] == 4.0


def test_a_tenth_of_ten_is_a_whole_future() -> None:
    """0.7 of 10 futures are 7, whatever 0.7 * 10 is in floating point."""
    each = [{"mean_wait_s": float(i)} for i in range(1, 11)]
    for tenths in range(1, 11):
        futures = WorkloadFutures(lublin(), aggregate="quantile", quantile=tenths / 10)
        assert futures.judged(each)["mean_wait_s"] == tenths


# -- which futures there are -----------------------------------------------------------------------


def test_futures_differ_and_more_of_them_begin_with_those_there_were() -> None:
    three, five = (WorkloadFutures(lublin(), n, DAY_S / 2, seed=4).draw() for n in (3, 5))
    assert len({one.digest for one in five}) == 5
    assert five[:3] == three
    other = WorkloadFutures(lublin(), 3, DAY_S / 2, seed=5).draw()
    assert not {one.digest for one in other} & {one.digest for one in three}


def test_every_configuration_meets_the_same_futures_whatever_the_seed_of_the_run() -> None:
    steered = application()
    drawn = {steered.simulated(steered.baseline, seed)[0].workload.digest for seed in (0, 1, 2)}
    assert len(drawn) == 1
    for configuration in steered.space.configurations():
        values = steered.space.values(configuration)
        each = steered.each(values, seed=9)
        alone = [
            Scheduling(one, split=False, levels=LEVELS).evaluate(values, 0)
            for one in steered.futures.draw()
        ]
        assert list(each) == alone  # as if each future were a log of its own
        assert steered.evaluate(values, 9) == steered.futures.judged(alone)


def test_the_same_bytes_in_another_process() -> None:
    steered = application(aggregate="worst")
    again = pickle.loads(pickle.dumps(steered))
    assert again.futures.digest == steered.futures.digest
    assert again.evaluate(steered.baseline, 0) == steered.evaluate(steered.baseline, 0)


def test_two_threads_give_what_one_gives() -> None:
    steered = application()
    beside = dataclasses.replace(steered, threads=2)
    assert beside.evaluate(steered.baseline, 0) == steered.evaluate(steered.baseline, 0)


def test_a_future_is_no_replicate_unless_every_run_draws_its_own() -> None:
    same, anew = application(), application(anew=True)
    assert same.deterministic
    assert not anew.deterministic
    assert same.evaluate(same.baseline, 1) == same.evaluate(same.baseline, 2)
    first, other = (anew.evaluate(anew.baseline, seed) for seed in (1, 2))
    assert first != other
    assert anew.evaluate(anew.baseline, 1) == first
    with pytest.raises(ApplicationError, match="may vary from run to run"):
        TabulationTask.of(anew)


def test_levels_suit_all_futures() -> None:
    steered = future_scheduling(WorkloadFutures(lublin(), 3, DAY_S / 2), preset="paper")
    widest = max(one.widest_procs for one in steered.workloads)
    room = steered.space.parameters[0].levels[-1]
    assert room == steered.cluster_procs - widest or widest == steered.cluster_procs
    assert steered.workload.n_jobs == sum(one.n_jobs for one in steered.workloads)


def test_jobs_of_tasks_are_said_to_be_simulated_as_rigid_ones() -> None:
    graphs = future_scheduling(
        WorkloadFutures(published_model("graphs"), 2, DAY_S / 4),
        procs=64,
        split=False,
        levels=LEVELS,
    )
    assert graphs.have_tasks
    assert any(fact.label == "Tasks" and "rigid" in fact.text for fact in graphs.facts)
    assert not any(fact.label == "Tasks" for fact in application().facts)


def test_many_at_once_are_what_one_by_one_gives(tmp_path: Path) -> None:
    steered = application(aggregate="quantile", quantile=0.5)
    wanted = [steered.space.values(one) for one in steered.space.configurations()]
    seen: list[int] = []
    found = list(steered.evaluate_many(wanted, threads=2, progress=seen.append))
    assert found == [(values, steered.evaluate(values, 0)) for values in wanted]
    assert seen == [1, 2, 3, 4]
    told = tabulate(TabulationTask.of(steered), tmp_path / "table.csv", threads=1)
    assert told.rows == 4


def test_one_that_cannot_be_is_left_out_of_many() -> None:
    steered = future_scheduling(
        WorkloadFutures(lublin(), 2, DAY_S / 2),
        levels={"small_procs": (0, 8, 128)},
        too_wide="clip",
    )
    nothing_left = {**steered.baseline, "small_procs": 128}
    with pytest.raises(RunError):
        steered.evaluate(nothing_left, 0)
    found = list(steered.evaluate_many([nothing_left, steered.baseline], threads=1))
    assert [values for values, _ in found] == [steered.baseline]


def test_a_refusal_says_which_future(monkeypatch: pytest.MonkeyPatch) -> None:
    steered = application()
    small = steered.futures.draw()
    wide = dataclasses.replace(small[1], procs=np.full(small[1].n_jobs, 4096))
    monkeypatch.setattr(WorkloadFutures, "draw", lambda self, of_run=None: (small[0], wide))
    too_wide = {"too_wide": "refuse"}
    refusing = dataclasses.replace(steered, **too_wide)  # type: ignore[arg-type]
    with pytest.raises(RunError, match=r"future 2 of 3: .*4096"):
        refusing.evaluate(steered.baseline, 0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"count": 0}, "number of futures is 0; allowed are 1 to 1,000"),
        ({"aggregate": "best"}, "not by 'best'"),
        ({"quantile": 0.0}, "quantile of the futures is 0.0"),
        ({"quantile": float("nan")}, "quantile of the futures is nan"),
    ],
)
def test_what_cannot_be_is_refused(more: dict, words: str) -> None:
    with pytest.raises(ApplicationError, match=words):
        WorkloadFutures(lublin(), **more)


# -- settings: one story for script, command line, service and browser -----------------------------


def tables(**futures: object) -> dict:
    told = {"generator": "lublin", "count": 3, "duration": "12h", "scale": 0.5} | futures
    told = {name: value for name, value in told.items() if value is not None}
    return {
        "application": {
            "split": False, "levels": {n: list(one) for n, one in LEVELS.items()}, "futures": told,
        }
    }  # fmt: skip


def test_settings_are_the_same_application_as_a_script() -> None:
    built = build_sweep(check_settings(tables(aggregate="worst"), "x")).application
    by_hand = application(aggregate="worst")
    assert isinstance(built, FutureScheduling)
    assert built.futures == by_hand.futures
    assert built.space.lineage == by_hand.space.lineage
    assert built.facts == by_hand.facts
    assert built.evaluate(built.baseline, 0) == by_hand.evaluate(by_hand.baseline, 0)


def test_the_seed_of_the_sweep_draws_no_other_futures() -> None:
    one, other = (
        build_sweep(check_settings({**tables(), "seed": seed}, "x")).application for seed in (1, 2)
    )
    assert isinstance(one, FutureScheduling)
    assert isinstance(other, FutureScheduling)
    assert one.futures.digest == other.futures.digest


def test_several_runs_at_once_leave_the_cores_to_each_other() -> None:
    alone, beside = (
        build_sweep(check_settings({**tables(), "workers": n}, "x")).application for n in (1, 2)
    )
    assert isinstance(alone, FutureScheduling)
    assert isinstance(beside, FutureScheduling)
    assert (alone.threads, beside.threads) == (None, 1)


def test_a_generator_is_fitted_to_the_log_and_a_model_file_is_that_model(tmp_path: Path) -> None:
    log = default_workload(seed=3, n_jobs=400)
    write_swf(log, tmp_path / "log.swf")
    model = fit("lublin", log)
    save_model(model, tmp_path / "model.json")
    fitted = tables(count=2)
    fitted["application"]["log"] = str(tmp_path / "log.swf")
    loaded = tables(generator=None, model=str(tmp_path / "model.json"), count=2)
    found = [build_sweep(check_settings(one, "x")).application for one in (fitted, loaded)]
    assert all(isinstance(one, FutureScheduling) for one in found)
    assert found[0].futures.model == found[1].futures.model == model  # type: ignore[attr-defined]
    loaded["application"]["log"] = str(tmp_path / "log.swf")
    with pytest.raises(SettingsError, match="fitted already"):
        build_sweep(check_settings(loaded, "x"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"model": "a.json"}, "exactly one of model"),
        ({"generator": None}, "exactly one of model"),
        ({"quantile": 0.5}, "set both, or leave it out"),
        ({"aggregate": "best"}, "'mean', 'quantile' or 'worst'"),
        ({"count": 0}, "application.futures.count"),
        ({"counts": 1}, "no setting 'application.futures.counts'.*did you mean 'count'"),
        ({"scale": 0.0}, "application.futures.scale"),
        ({"generator": None, "model": "a.json", "knobs": {"x": 1}}, "for a fit; name what to fit"),
        ({"knobs": {"x": 1}}, "name the log with log"),
    ],
)
def test_settings_are_refused_in_one_sentence(more: dict, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        build_sweep(check_settings(tables(**more), "x"))


def test_what_the_simulator_refuses_is_its_own_sentence(tmp_path: Path) -> None:
    with pytest.raises(SimError, match=r"generator 'lubin'.*Known: lublin"):
        build_sweep(check_settings(tables(generator="lubin"), "x"))
    with pytest.raises(SimError, match="nowhere"):
        build_sweep(check_settings(tables(generator=None, model="nowhere.json"), "x"))
    with pytest.raises(WorkloadError):
        build_sweep(check_settings(tables(duration="1s", scale=0.001), "x"))


def test_a_path_of_a_model_is_relative_to_its_sweep_file(tmp_path: Path) -> None:
    text = '[application.futures]\nmodel = "m.json"\n'
    found = parse_settings(text, "the file", tmp_path, "x")
    assert found["application"]["futures"]["model"] == str(tmp_path / "m.json")


def test_a_request_names_models_of_the_services_folder_only(tmp_path: Path) -> None:
    asked = tables(generator=None, model="m.json")
    with pytest.raises(SettingsError, match="reads no files"):
        apply_request_policy(asked, programs=False, files=None)
    with pytest.raises(SettingsError, match="outside"):
        apply_request_policy(
            tables(generator=None, model="../m.json"), programs=False, files=tmp_path
        )
    found = apply_request_policy(asked, programs=False, files=tmp_path)
    assert found["application"]["futures"]["model"] == str(tmp_path.resolve() / "m.json")
    assert asked["application"]["futures"]["model"] == "m.json"


def test_a_stored_sweep_does_not_go_on_over_other_futures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(lublin(), tmp_path / "m.json")
    asked = tables(generator=None, model="m.json", count=2)
    asked["application"]["procs"] = 128
    built = build_sweep(check_settings(asked, "x"))
    session = open_sweep(built, MemoryStore(), "x", config_snapshot(asked, ()))
    opened = session.experiment.opened
    named = opened.recipe["application"]["futures"]["model"]
    assert named == str(tmp_path / "m.json")
    assert rebuild(opened).facts == built.application.facts
    other = lublin().with_parameters({"types": "batch"})
    save_model(other, tmp_path / "m.json")
    with pytest.raises(SettingsError, match="has changed, so its results could not be compared"):
        rebuild(opened)


def test_a_schedule_is_that_of_the_first_future_beside_the_measures_of_all() -> None:
    steered = application(aggregate="worst")
    first = steered.futures.draw()[0]
    drawn = schedule_of(steered, steered.baseline, 0)
    assert np.array_equal(drawn.submit_s, first.submit_s)
    assert drawn.measures == steered.evaluate(steered.baseline, 0)


def test_a_whole_sweep_over_futures_finds_the_best_of_all() -> None:
    from agents import Follower
    from assistant import Sla, open_session

    steered = future_scheduling(
        WorkloadFutures(lublin(), 3, DAY_S / 2, scale=0.5, aggregate="worst"),
        threads=1, split=False, levels=LEVELS, current_policies=CurrentPolicies(backfill="none"),
    )  # fmt: skip
    session = open_session(steered, store=MemoryStore(), sla=Sla(max_runs=4), seed=1, name="x")
    session.finish(Follower().steer(session, SerialExecutor(steered)))
    best = session.experiment.best
    assert best is not None
    assert best.outcome is not None
    found = {
        str(values): steered.objective.assess(measures).quality
        for values, measures in steered.evaluate_many(
            [steered.space.values(one) for one in steered.space.configurations()], threads=1
        )
    }
    assert best.outcome.quality == max(found.values())
