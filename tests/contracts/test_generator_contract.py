"""What every registered generator of workloads promises. Being registered means being tested here.

Seeds are fixed, so nothing here is left to chance: a red test is a change of the code.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sim.api import describe
from sim.generators.generator import (
    Generator,
    Horizon,
    Json,
    Model,
    RandomStreams,
    fit,
    generate,
    generator_named,
    load_model,
    published_model,
    registered_generators,
    save_model,
)
from sim.generators.resampling import measure_moments
from sim.model.errors import SimError, UnknownNameError, WorkloadError
from sim.model.workload import Workload

DAY_S = 86400.0
COLUMNS = ("submit_s", "runtime_s", "requested_s", "procs", "user", "queue")
SPARSER: dict[str, dict[str, float]] = {"joulie": {"mean_inter_arrival_sec": 300.0}}
"""Of published models that draw a job every few seconds, which months need not have here."""

CALMER: dict[str, dict[str, float]] = {
    "three_stage": {"penalty": 0.1},
    "simple_batch": {"penalty": 0.1},
}
"""Knobs of those whose days take a whole day of the history: so few days as here vary too much to
say anything of means, unless days are held to be alike."""

STATING = [generator for generator in registered_generators() if generator.moments is not None]
EXTENDING = [generator for generator in registered_generators() if generator.extends]
"""Those that promise more than all must: moments, and a longer workload that begins the same."""

SURE = 4.0
"""Standard deviations that are allowed; one check in 16,000 would be beyond by chance."""


@dataclass(frozen=True)
class Tampered(RandomStreams):
    """Streams of which one has another seed, as if its stage drew something else; it says which
    were asked for.
    """

    changed: tuple[str, ...] = ()
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def sequence(self, name: str) -> np.random.SeedSequence:
        path = (*self.within, name)
        self.asked.append(path)
        seed = self.seed + (10**9 if path == self.changed else 0)
        return RandomStreams(seed, self.within).sequence(name)

    def inside(self, name: str) -> "Tampered":
        return Tampered(self.seed, (*self.within, name), self.changed, self.asked)


@cache
def a_log() -> Workload:
    """Return three weeks of jobs of users, which every generator can be fitted to."""
    drawn = generate(published_model("lublin"), duration_s=21 * DAY_S, seed=5)
    rng = np.random.default_rng(5)
    return Workload.from_arrays(
        submit_s=drawn.submit_s,
        runtime_s=drawn.runtime_s,
        procs=drawn.procs,
        requested_s=drawn.requested_s,
        user=rng.zipf(1.6, drawn.n_jobs) % 40,
        queue=drawn.queue,
        name="a log",
        max_procs=drawn.max_procs,
        start_unix_s=drawn.start_unix_s,
        time_zone="UTC",
    )


@cache
def model_of(name: str) -> Model:
    """Return the published model of a generator, or the one fitted to the log."""
    generator = generator_named(name)
    if generator.published is None:
        return fit(name, a_log(), CALMER.get(name))
    return published_model(name).with_parameters(SPARSER.get(name, {}))


@cache
def drawn_of(name: str, days: float, seed: int, scale: float = 1.0) -> Workload:
    return generate(model_of(name), duration_s=days * DAY_S, seed=seed, scale=scale)


@pytest.fixture(params=registered_generators(), ids=lambda generator: generator.name)
def generator(request: pytest.FixtureRequest) -> Generator:
    chosen: Generator = request.param
    return chosen


def test_the_columns_are_those_of_a_workload(generator: Generator) -> None:
    workload = drawn_of(generator.name, 4, 1)
    assert workload.n_jobs > 10
    assert workload.submit_s[0] == 0
    assert (np.diff(workload.submit_s) >= 0).all()
    assert 0 < workload.span_s < 4 * DAY_S
    assert (workload.runtime_s > 0).all()
    assert workload.requested_is_runtime or (workload.requested_s > 0).all()
    assert (workload.procs >= 1).all()
    assert workload.max_procs is None or workload.widest_procs <= workload.max_procs
    assert workload.tasks is None or workload.tasks.n_jobs == workload.n_jobs
    assert describe(workload).n_jobs == workload.n_jobs
    for name in COLUMNS:
        assert not getattr(workload, name).flags.writeable


def test_it_says_when_it_begins(generator: Generator) -> None:
    workload = drawn_of(generator.name, 4, 1)
    assert workload.start_unix_s is not None
    assert workload.start_unix_s + workload.span_s < 253_370_764_800.0


def test_the_same_seed_gives_the_same_workload_and_another_another(generator: Generator) -> None:
    model = model_of(generator.name)
    first = generate(model, duration_s=3 * DAY_S, seed=7)
    assert generate(model, duration_s=3 * DAY_S, seed=RandomStreams(7)) == first
    assert generate(model, duration_s=3 * DAY_S, seed=8) != first


def test_streams_are_independent(generator: Generator) -> None:
    """Whatever one stage draws, another stage's columns stay as they are."""
    model, horizon = model_of(generator.name), Horizon(3 * DAY_S)
    plain = Tampered(3)
    base = generator.draw(model, horizon, plain)
    assert base == generator.draw(model, horizon, RandomStreams(3)), (
        "a stream beside those of names"
    )
    assert plain.asked, "nothing was drawn from a named stream"
    assert len(set(plain.asked)) == len(plain.asked), "two stages draw the same numbers"
    moved: dict[tuple[str, ...], set[str]] = {}
    for name in sorted(plain.asked):
        other = generator.draw(model, horizon, Tampered(3, changed=name))
        moved[name] = {
            c for c in COLUMNS if not np.array_equal(getattr(base, c), getattr(other, c))
        }
        if base.tasks != other.tasks:
            moved[name].add("tasks")
    assert any("submit_s" in columns for columns in moved.values()), "nothing draws the arrivals"
    if len(moved) > 1:
        later = [name for name, columns in moved.items() if "submit_s" not in columns]
        assert later, "every stage moves the arrivals"


@pytest.mark.parametrize("generator", STATING, ids=lambda generator: generator.name)
def test_what_a_model_states_is_measured(generator: Generator) -> None:
    assert generator.moments is not None
    stated = generator.moments(model_of(generator.name))
    for seed in (1, 2):
        horizon = Horizon(100 * DAY_S)
        workload = drawn_of(generator.name, 100, seed)
        found = measure_moments(workload, horizon)
        assert set(stated) <= set(found)
        for name, moment in stated.items():
            n = 100.0 if name == "jobs_per_day" else float(workload.n_jobs)
            allowed = SURE * moment.sd / np.sqrt(n) + 1e-9
            assert abs(found[name] - moment.mean) <= allowed, (name, seed, found[name], moment)
            assert allowed < 1.0 or allowed < 0.5 * moment.mean, "this says nothing"


def test_scale_10_gives_10_times_the_jobs_of_the_same_kinds(generator: Generator) -> None:
    seeds = range(8)
    ones = [drawn_of(generator.name, 5, seed) for seed in seeds]
    tens = [drawn_of(generator.name, 5, seed + 100, 10.0) for seed in seeds]
    one, ten = (np.array([w.n_jobs for w in many], dtype=float) for many in (ones, tens))
    spread = np.sqrt((ten.var(ddof=1) + 100 * one.var(ddof=1)) / len(seeds))
    allowed = SURE * spread + 10.0
    assert abs(ten.mean() - 10 * one.mean()) <= allowed, (one, ten)
    assert allowed < 0.8 * ten.mean(), "this says nothing"
    logs = [
        np.array([measure_moments(w, Horizon(5 * DAY_S))["log_runtime"] for w in many])
        for many in (ones, tens)
    ]
    spread = np.sqrt(sum(values.var(ddof=1) for values in logs) / len(seeds))
    assert abs(logs[0].mean() - logs[1].mean()) <= SURE * spread + 0.05, logs


@pytest.mark.parametrize("generator", EXTENDING, ids=lambda generator: generator.name)
def test_a_longer_workload_begins_with_a_shorter_one(generator: Generator) -> None:
    short, long = drawn_of(generator.name, 3, 9), drawn_of(generator.name, 11, 9)
    assert short.n_jobs < long.n_jobs
    head = long.head(short.n_jobs)
    for name in COLUMNS:
        assert np.array_equal(getattr(head, name), getattr(short, name)), name
    assert head.tasks == short.tasks
    assert head.start_unix_s == short.start_unix_s


def test_what_is_fitted_to_a_generated_workload_generates_the_like(generator: Generator) -> None:
    horizon = Horizon(30 * DAY_S)
    taught = generate(model_of(generator.name), duration_s=horizon.duration_s, seed=21)
    learnt = fit(generator.name, taught, CALMER.get(generator.name))
    again = generate(learnt, duration_s=horizon.duration_s, seed=22)
    before, after = measure_moments(taught, horizon), measure_moments(again, horizon)
    assert abs(np.log(after["jobs_per_day"] / before["jobs_per_day"])) < 0.35
    assert abs(after["log_runtime"] - before["log_runtime"]) < 0.35
    assert abs(after["log2_procs"] - before["log2_procs"]) < 0.35
    assert abs(after["serial"] - before["serial"]) < 0.1
    assert learnt.source
    few = drawn_of(generator.name, 14, 6)
    assert fit(generator.name, few) == fit(generator.name, few), "fitting drew something"


def test_a_saved_model_generates_the_same(generator: Generator, tmp_path: Path) -> None:
    for model in (model_of(generator.name), fit(generator.name, fitting_sample(generator.name))):
        path = tmp_path / "model.json"
        save_model(model, path)
        back = load_model(path)
        assert back == model
        first = generate(model, duration_s=2 * DAY_S, seed=1)
        assert generate(back, duration_s=2 * DAY_S, seed=1) == first


def fitting_sample(name: str) -> Workload:
    """Return what a generator can be fitted to, whatever it needs of a log."""
    return drawn_of(name, 21, 4)


def test_what_no_parameter_can_be_is_refused_in_words(generator: Generator) -> None:
    """Whatever a parameter is, also inside tables, it is not of another type."""
    model = model_of(generator.name)
    for key, value in model.parameters.items():
        for changed in _spoiled(value):
            spoiled = model.with_parameters({key: changed})
            with pytest.raises(WorkloadError) as refused:
                generate(spoiled, duration_s=DAY_S, seed=1)
            _is_a_sentence(refused.value)


def _spoiled(value: Json) -> list[Json]:
    """Return values of another type than a parameter has; within a table, one entry spoiled."""
    if isinstance(value, bool):
        return ["perhaps"]
    if isinstance(value, int | float):
        return ["many", -1e300, [], True]
    if isinstance(value, str):
        return ["no such choice", 17]
    if isinstance(value, dict) and value:
        key = sorted(value)[0]
        rest = {name: one for name, one in value.items() if name != key}
        return ["a text", *({**rest, key: bad} for bad in _spoiled(value[key]))]
    if isinstance(value, list) and value:
        return ["a text", *([bad, *value[1:]] for bad in _spoiled(value[0]))]
    return []


def _is_a_sentence(error: SimError) -> None:
    told = str(error)
    assert "\n" not in told
    assert told.endswith(".")
    assert "Traceback" not in told
    assert len(told) > 20


def test_a_parameter_that_is_missing_is_named(generator: Generator) -> None:
    model = model_of(generator.name)
    for key in model.parameters:
        rest = {name: value for name, value in model.parameters.items() if name != key}
        without = Model(generator.name, rest, model.arrays)
        try:
            same = generate(without, duration_s=DAY_S, seed=1)
        except WorkloadError as refused:
            said = str(refused)
        else:
            assert same == generate(model, duration_s=DAY_S, seed=1), f"'{key}' has a silent usual"
            continue
        assert key in said


@pytest.mark.parametrize("duration_s", [0.0, -5.0, float("nan"), float("inf"), "long", True])
def test_a_duration_that_cannot_be(generator: Generator, duration_s: float) -> None:
    with pytest.raises(WorkloadError, match=r"duration_s is .*allowed are"):
        generate(model_of(generator.name), duration_s=duration_s, seed=1)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), "big"])
def test_a_scale_that_cannot_be(generator: Generator, scale: float) -> None:
    with pytest.raises(WorkloadError, match=r"scale is .*allowed are"):
        generate(model_of(generator.name), duration_s=DAY_S, seed=1, scale=scale)


@pytest.mark.parametrize("seed", [-1, 1.5, "seed", None, True])
def test_a_seed_that_cannot_be(generator: Generator, seed: int) -> None:
    with pytest.raises(WorkloadError, match=r"seed is .*allowed are whole numbers from 0"):
        generate(model_of(generator.name), duration_s=DAY_S, seed=seed)


def test_so_short_a_duration_that_nothing_falls_into_it(generator: Generator) -> None:
    with pytest.raises(WorkloadError, match="no job is submitted within"):
        generate(model_of(generator.name), duration_s=1e-3, seed=1, scale=1e-3)


def test_more_jobs_than_anyone_can_hold(generator: Generator) -> None:
    with pytest.raises(WorkloadError, match=r"jobs would be drawn.*are allowed"):
        generate(model_of(generator.name), duration_s=1e9 * DAY_S, seed=1, scale=10.0)


def test_knobs_are_refused_in_words(generator: Generator) -> None:
    with pytest.raises(UnknownNameError, match="knob of fitting"):
        fit(generator.name, a_log(), {"nonsense": 1.0})
    for knob in generator.knobs:
        assert knob.summary
        with pytest.raises(SimError, match=f"option '{knob.name}'"):
            fit(generator.name, a_log(), {knob.name: float("nan")})


def test_a_log_of_one_job_is_refused_in_words_or_fitted(generator: Generator) -> None:
    try:
        model = fit(generator.name, a_log().head(1))
    except WorkloadError as refused:
        _is_a_sentence(refused)
    else:
        generator.check(model)


def test_the_registry_names_each_generator_once() -> None:
    names = [generator.name for generator in registered_generators()]
    assert len(set(names)) == len(names)
    for generator in registered_generators():
        assert generator_named(generator.name) is generator
        assert generator.summary.endswith(".")
        if generator.published is not None:
            assert published_model(generator.name).source.endswith(".")
    with pytest.raises(UnknownNameError, match="no generator 'joulee'"):
        generator_named("joulee")
    with pytest.raises(UnknownNameError):
        generate(Model("nobody"), duration_s=1.0, seed=0)
