"""The flood model: known answers of soil and wave, no water made or lost, where it is flat."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from sim.model.errors import SetupError
from sim.testbeds.flood import (
    LEVELS,
    MEASURES,
    STEP_S,
    Flows,
    SoilParameters,
    Terrain,
    capacity_m,
    hyetograph,
    make_calibration,
    make_terrain,
    simulate,
    soil_parameters,
    truth,
)


def make_plane(n_cells: int, cell_m: float, slope: float) -> Terrain:
    """Return a single column of cells with an even slope."""
    cells = np.arange(n_cells)
    downstream = np.append(cells[1:], -1)
    plain = np.ones(n_cells)
    fall_m = slope * cell_m * cells[::-1]
    return Terrain(1, cell_m, fall_m.astype(np.float64), downstream, slope * plain, plain)


MM_PER_HOUR = 1.0 / 3.6e6


PAVED = {"conductivity_mmh": 0.0, "rain_factor": 1.0, "moisture_deficit": 0.0, "roughness": 0.1}


def ground(**columns: float) -> SoilParameters:
    return SoilParameters(
        *(np.array([value]) for value in {**PAVED, **columns}.values()), suction_m=0.11
    )


def imbalance(flows: Flows) -> float:
    kept = flows.infiltrated_m3 + flows.outflow_m3 + flows.stored_m3
    return float((np.abs(flows.rain_m3 - kept) / np.maximum(flows.rain_m3, 1e-300)).max())


# --- soil


@pytest.mark.parametrize("conductivity_mmh", [1.0, 6.0, 30.0])
@pytest.mark.parametrize("drawn_m", [0.002, 0.02, 0.05])
def test_a_soil_under_water_takes_in_what_green_and_ampt_say(
    conductivity_mmh: float, drawn_m: float
) -> None:
    step_s, n_steps = 15.0, 480
    taken_m = np.zeros(1)
    for _ in range(n_steps):
        conducted_m = np.array([conductivity_mmh * MM_PER_HOUR * step_s])
        taken_m = taken_m + capacity_m(taken_m, conducted_m, np.array([drawn_m]))
    k_m = conductivity_mmh * MM_PER_HOUR * step_s * n_steps
    exact_m = brentq(lambda f: f - drawn_m * np.log1p(f / drawn_m) - k_m, k_m, 100.0)
    assert taken_m[0] == pytest.approx(exact_m, rel=0.004)


@given(st.floats(0, 0.5), st.floats(1e-9, 0.01), st.floats(0, 0.1))
def test_a_soil_takes_in_at_least_what_it_conducts(
    taken: float, conducted: float, drawn: float
) -> None:
    taken_m, conducted_m, drawn_m = (np.array([one]) for one in (taken, conducted, drawn))
    assert capacity_m(taken_m, conducted_m, drawn_m)[0] >= conducted * (1 - 1e-6)


def test_ponding_begins_when_green_and_ampt_say() -> None:
    """Under even rain water stands from K S / (i (i - K)) on (Mein and Larson 1973)."""
    terrain = make_plane(1, 50.0, 0.01)
    rain_mmh, k_mmh = 30.0, 8.0
    found = simulate(
        terrain, np.full(720, rain_mmh), ground(conductivity_mmh=k_mmh, moisture_deficit=0.1),
        step_s=5.0, sensors=(0,), steps_per_sample=1,
    )  # fmt: skip
    drawn_m = 0.11 * 0.1
    ponded_s = k_mmh * drawn_m / (rain_mmh * MM_PER_HOUR * (rain_mmh - k_mmh))
    first = int(np.flatnonzero(found.discharge_m3s[0, 0])[0]) * 5.0
    assert first == pytest.approx(ponded_s, rel=0.02)


# --- wave


def plane_run(n_cells: int, rain_mmh: float, minutes: int) -> tuple[Flows, float]:
    """Return the flow off 200 m of a plane with a slope of 1 in 100, and alpha of its wave."""
    terrain = make_plane(n_cells, 200.0 / n_cells, 0.01)
    step_s = 1.0
    rain = np.full(minutes * 60, rain_mmh)
    flows = simulate(
        terrain, rain, ground(roughness=0.05), step_s=step_s, sensors=(n_cells - 1,),
        steps_per_sample=60,
    )  # fmt: skip
    return flows, np.sqrt(0.01) / 0.05


def test_a_plane_drains_as_the_kinematic_wave_says() -> None:
    """Rising limb q = alpha (i t)^(5/3) until t = (L i^(-2/3) / alpha)^(3/5), then i L for ever."""
    rain_mmh, n_cells = 60.0, 80
    flows, alpha = plane_run(n_cells, rain_mmh, 40)
    i, width_m = rain_mmh * MM_PER_HOUR, 200.0 / n_cells
    equilibrium_s = (200.0 * i ** (-2 / 3) / alpha) ** 0.6
    per_width = flows.discharge_m3s[0, 0] / width_m
    at_s = (np.arange(per_width.size) + 0.5) * 60.0
    rising = (at_s > 90.0) & (at_s < 0.8 * equilibrium_s)
    assert rising.sum() >= 4
    assert per_width[rising] == pytest.approx(alpha * (i * at_s[rising]) ** (5 / 3), rel=0.03)
    steady = at_s > 1.5 * equilibrium_s
    assert per_width[steady] == pytest.approx(np.full(steady.sum(), i * 200.0), rel=0.005)
    early = at_s < 0.9 * equilibrium_s
    assert (per_width[early] < 0.9 * i * 200.0).all()


# --- balance


@settings(max_examples=15)
@example(seed=0, k=0.0, factor=2.0, deficit=0.0, n=0.002)
@given(
    seed=st.integers(0, 50),
    k=st.floats(0, 60),
    factor=st.floats(0, 2),
    deficit=st.floats(0, 0.4),
    n=st.floats(0.002, 0.5),
)
def test_no_water_is_made_or_lost(
    seed: int, k: float, factor: float, deficit: float, n: float
) -> None:
    terrain = make_terrain(np.random.SeedSequence(seed), size=6)
    columns = {"conductivity_mmh": k, "rain_factor": factor, "moisture_deficit": deficit}
    flows = simulate(
        terrain, hyetograph(80, 60.0), ground(**columns, roughness=n), step_s=60.0,
        sensors=terrain.sensors, steps_per_sample=4, deepest=True,
    )  # fmt: skip
    assert imbalance(flows) < 1e-12
    assert flows.deepest_m is not None
    assert (flows.deepest_m >= 0).all()
    assert (flows.discharge_m3s >= 0).all()
    outlet_m3 = flows.discharge_m3s[:, 0].sum(axis=1) * 240.0
    assert outlet_m3 == pytest.approx(flows.outflow_m3, rel=1e-12)


def test_a_row_is_the_same_alone_and_beside_others() -> None:
    calibration = make_calibration(3)
    some = [dict(zip(LEVELS, levels, strict=True)) for levels in zip(*LEVELS.values(), strict=True)]
    together = calibration.measures(soil_parameters(some))
    for values, found in zip(some[:3], together, strict=False):
        assert calibration.measures(soil_parameters([values])) == [found]
        assert tuple(found) == MEASURES


# --- terrain


def drains(terrain: Terrain, cell: int) -> bool:
    for _ in range(terrain.n_cells):
        if terrain.downstream[cell] < 0:
            return True
        if not terrain.elevation_m[terrain.downstream[cell]] < terrain.elevation_m[cell]:
            return False
        cell = int(terrain.downstream[cell])
    return False


@pytest.mark.parametrize("seed", range(4))
def test_all_water_runs_down_to_the_one_outlet(seed: int) -> None:
    terrain = make_terrain(np.random.SeedSequence(seed), size=12)
    assert (terrain.downstream < 0).sum() == 1
    assert terrain.outlet >= terrain.n_cells - terrain.columns, "on the lower edge"
    assert all(drains(terrain, cell) for cell in range(terrain.n_cells))
    assert terrain.drained_cells[terrain.outlet] == terrain.n_cells
    assert len(set(terrain.sensors)) == 3
    assert (np.abs(terrain.soil - 1) < 0.15 + 1e-12).all()


# --- calibration


def test_where_the_soil_conducts_more_than_it_rains_nothing_matters_any_more() -> None:
    calibration = make_calibration(0)
    corners = itertools.product(LEVELS["conductivity_mmh"][-2:], *([v[0], v[-1]] for v in
                                list(LEVELS.values())[1:]))  # fmt: skip
    flat = [dict(zip(LEVELS, corner, strict=True)) for corner in corners]
    found = calibration.measures(soil_parameters(flat))
    assert {one["runoff_m3"] for one in found} == {0.0}
    assert {one["rmse_m3s"] for one in found} == {found[0]["rmse_m3s"]}
    assert found[0]["rmse_m3s"] == np.sqrt((calibration.observed_m3s**2).mean())
    least = LEVELS["conductivity_mmh"][-2] * calibration.terrain.soil.min()
    assert least > calibration.rain_mmh.max() * LEVELS["rain_factor"][-1], "that is why"
    wet = calibration.measures(soil_parameters([{**flat[0], "conductivity_mmh": 1.5}]))[0]
    assert wet["runoff_m3"] > 0


def test_the_truth_fits_best_and_is_no_level() -> None:
    calibration, hidden = make_calibration(0), truth(0)
    assert all(hidden[name] not in levels for name, levels in LEVELS.items())
    near = [{**hidden, name: value * by} for name, value in hidden.items() for by in (0.8, 1.25)]
    best, *others = calibration.measures(soil_parameters([hidden, *near]))
    assert 0 < best["rmse_m3s"] < 0.5 * min(one["rmse_m3s"] for one in others)
    assert best["nse"] > 0.99


@pytest.mark.parametrize("seed", range(4))
def test_waves_pass_at_most_a_cell_in_a_step(seed: int) -> None:
    calibration = make_calibration(seed)
    wildest = {name: levels[0] for name, levels in LEVELS.items()} | {"rain_factor": 1.2}
    deepest_m = calibration.run(soil_parameters([wildest]), deepest=True).deepest_m
    assert deepest_m is not None
    terrain = calibration.terrain
    speed_ms = np.sqrt(terrain.slope) / wildest["roughness"] * deepest_m[0] ** (2 / 3)
    assert 0.3 < (5 / 3 * speed_ms * STEP_S / terrain.cell_m).max() < 1


def test_seeds_give_other_questions_and_the_same_one_again() -> None:
    make_calibration.cache_clear()
    first = make_calibration(1)
    make_calibration.cache_clear()
    again, other = make_calibration(1), make_calibration(2)
    assert (first.observed_m3s == again.observed_m3s).all()
    assert (first.terrain.elevation_m == again.terrain.elevation_m).all()
    assert (first.observed_m3s != other.observed_m3s).any()
    assert min(make_calibration(s).observed_m3s[0].max() for s in range(4)) > 1.0, "it floods"


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(SetupError, match=r"seed is -1; allowed are whole numbers from 0"):
        make_calibration(-1)
    with pytest.raises(SetupError, match=r"no 'rain_factor'; it needs conductivity_mmh, rain"):
        soil_parameters([{"conductivity_mmh": 1.0}])
    with pytest.raises(SetupError, match="Manning's n must be above 0"):
        ground(roughness=0.0)
    with pytest.raises(SetupError, match="must be at least 0"):
        ground(rain_factor=-1.0)
    with pytest.raises(SetupError, match="are no multiple of samples of 4 steps"):
        simulate(
            make_plane(3, 1.0, 0.1), np.ones(5), ground(), step_s=1.0, sensors=(2,),
            steps_per_sample=4,
        )  # fmt: skip
    with pytest.raises(SetupError, match="allowed are 4 rows or more"):
        make_terrain(np.random.SeedSequence(0), size=3)
    with pytest.raises(SetupError, match="allowed are 1 or more, above 0 s"):
        hyetograph(3, 0.0)
