"""Search spaces that are drawn, of many laws: the forecast is fitted on them.

`drawn_space` draws one of the laws of `LAWS`: sums of curves and of products, regimes, bottlenecks,
terraces, needles, trees, waves, scaling laws, formulas, bowls, basins; with noise, with failures,
on many scales. `test_space` is a published test function of engineering or of optimisation on a
drawn grid. The same number gives the same space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.spaces import Problem, level_ids
from strategies import Parameter, ParameterSpace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Generator = np.random.Generator

SIZES = (100, 20_000)
LEAST_VALID, LEAST_DISTINCT = 40, 8


@dataclass(frozen=True, slots=True)
class Grid:
    """Level ids of every combination, int64 [size, d], the levels of each parameter, its order."""

    ids: Ints
    n_levels: tuple[int, ...]
    is_ordered: tuple[bool, ...]

    @property
    def d(self) -> int:
        """Number of parameters."""
        return len(self.n_levels)

    def positions(self, i: int) -> Floats:
        """Return the position of each combination's level of a parameter, 0 to 1, [size]."""
        return np.asarray(self.ids[:, i] / max(self.n_levels[i] - 1, 1))


def _draw_grid(rng: Generator, least: int = 3, most: int = 9) -> tuple[ParameterSpace, Grid]:
    size = np.exp(rng.uniform(*np.log(SIZES)))
    kind = rng.choice(["binary", "ordered", "unordered", "mixed", "mixed", "mixed"])
    while True:
        d = int(rng.integers(least, 13 if kind == "binary" else most))
        n_levels, is_ordered = [], []
        for _ in range(d):
            share = {"binary": 0.1, "ordered": 1.0, "unordered": 0.0}.get(str(kind), 0.6)
            two = rng.random() < (0.85 if kind == "binary" else 0.2)
            ordered = rng.random() < share
            n_levels.append(2 if two else int(rng.integers(3, 11 if ordered else 8)))
            is_ordered.append(ordered and not two)
        if 0.7 * size < np.prod(n_levels) < 1.4 * size:
            break
    parameters = []
    for i, (n, ordered) in enumerate(zip(n_levels, is_ordered, strict=True)):
        levels: tuple[str | int, ...] = tuple(f"v{level}" for level in range(n))
        if ordered or (n == 2 and rng.random() < 0.7):
            doubling = rng.random() < 0.5
            levels = tuple(2**level if doubling else level + 1 for level in range(n))
        parameters.append(Parameter(f"p{i}", levels))
    space = ParameterSpace(tuple(parameters))
    return space, Grid(level_ids(space), tuple(n_levels), tuple(is_ordered))


def _curve(rng: Generator, n: int, is_ordered: bool) -> Floats:
    """Return the effect of each level of a parameter, from 0 to 1, float64 [n]."""
    if not is_ordered:
        effects = rng.exponential(size=n) * (rng.random(n) < 0.8)
    else:
        x = np.arange(n) / (n - 1)
        form = rng.choice(["power", "power", "valley", "saturating", "step", "rough valley"])
        if form == "power":
            effects = x ** rng.uniform(0.4, 2.5)
        elif form == "valley":
            effects = np.abs(x - rng.uniform(0.1, 0.9)) ** rng.uniform(1, 2)
        elif form == "saturating":
            effects = np.exp(-rng.uniform(2, 8) * x)
        elif form == "step":
            effects = (x > rng.uniform(0.1, 0.9)).astype(np.float64)
        else:
            effects = 4 * (x - rng.uniform(0.2, 0.8)) ** 2 + 0.3 * rng.uniform(size=n)
        effects = effects[::-1] if rng.random() < 0.5 else effects
    effects = effects - effects.min()
    return np.asarray(effects / max(float(effects.max()), 1e-9))


def _surface(rng: Generator, grid: Grid, i: int, j: int) -> Floats:
    """Return the joint effect of two parameters, float64 [size]."""
    if not (grid.is_ordered[i] and grid.is_ordered[j]) or rng.random() < 0.4:
        effects = rng.normal(size=(grid.n_levels[i], grid.n_levels[j]))
        return np.asarray(effects[grid.ids[:, i], grid.ids[:, j]])
    x, y = grid.positions(i), grid.positions(j)
    form = rng.choice(["ridge", "saddle", "weakest", "corner"])
    if form == "ridge":
        return np.abs(x - y * rng.uniform(0.5, 1.5) - rng.uniform(-0.3, 0.3))
    if form == "saddle":
        return np.asarray(4 * (x - 0.5) * (y - 0.5) * rng.choice([-1, 1]))
    if form == "weakest":
        return np.maximum(x, 1 - y) if rng.random() < 0.5 else np.maximum(x, y)
    return np.asarray(-((x > 0.6) & (y > 0.6)).astype(np.float64))


def _field(
    rng: Generator, grid: Grid, main: float, pairs: float, triples: float, noise: float
) -> Floats:
    """Return a sum of main effects, pairs, triples and noise, with the weights of each."""
    total = np.zeros(len(grid.ids))
    weights = rng.gamma(0.6, size=grid.d) * (rng.random(grid.d) < rng.uniform(0.3, 1))
    if not weights.any():
        weights[rng.integers(grid.d)] = 1.0
    for i in range(grid.d):
        curve = _curve(rng, grid.n_levels[i], grid.is_ordered[i])
        total += main * weights[i] * curve[grid.ids[:, i]]
    for i, j in _pairs(rng, grid.d) if pairs else ():
        both = np.sqrt((weights[i] + 0.1) * (weights[j] + 0.1))
        total += pairs * rng.gamma(0.5) * both * _surface(rng, grid, i, j)
    for _ in range(grid.d if triples and grid.d >= 3 else 0):
        a, b, c = rng.choice(grid.d, 3, replace=False)
        table = rng.uniform(size=(grid.n_levels[a], grid.n_levels[b], grid.n_levels[c]))
        drawn = table[grid.ids[:, a], grid.ids[:, b], grid.ids[:, c]]
        total += triples * rng.gamma(0.7) * drawn
    return _scaled(total) + noise * rng.normal(size=len(total))


def _pairs(rng: Generator, d: int) -> list[tuple[int, int]]:
    share = min(1.0, 4 / d)
    return [(i, j) for i in range(d) for j in range(i) if rng.random() < share]


def _scaled(values: Floats) -> Floats:
    spread = float(values.std())
    return np.asarray((values - values.mean()) / spread if spread > 0 else values * 0.0)


def _additive(rng: Generator, grid: Grid, noise: float) -> Floats:
    return _field(rng, grid, 1, 0, 0, noise)


def _paired(rng: Generator, grid: Grid, noise: float) -> Floats:
    return _field(rng, grid, 0.7, 1, 0, noise)


def _rugged(rng: Generator, grid: Grid, noise: float) -> Floats:
    return _field(rng, grid, 0.3, 0.3, 1, max(noise, 0.1))


def _mixed(rng: Generator, grid: Grid, noise: float) -> Floats:
    return _field(rng, grid, 1, 0.6, 0.3 * rng.random(), noise)


def _bottleneck(rng: Generator, grid: Grid, noise: float) -> Floats:
    """Return the slower of two parts."""
    first, second = (_field(rng, grid, 1, 0.3, 0, 0) for _ in range(2))
    slower = np.maximum(first, second + rng.uniform(-1, 1))
    return np.asarray(slower + noise * rng.normal(size=len(slower)))


def _regimes(rng: Generator, grid: Grid, noise: float) -> Floats:
    """Return one law at one level of a parameter and another law elsewhere."""
    i = int(rng.integers(grid.d))
    there = grid.ids[:, i] == rng.integers(grid.n_levels[i])
    special = _field(rng, grid, 1, 0.5, 0, noise) - rng.uniform(-1, 2)
    return np.where(there, special, _field(rng, grid, 1, 0.5, 0, noise))


def _terraces(rng: Generator, grid: Grid, noise: float) -> Floats:
    """Return steps, or a floor that a share of the space reaches."""
    smooth = _scaled(_field(rng, grid, 1, 0.6, 0.3 * rng.random(), noise))
    if rng.random() < 0.5:
        n_steps = int(rng.integers(5, 40))
        return np.asarray(np.floor(smooth * n_steps / 4) / n_steps * 4)
    return np.maximum(smooth, np.quantile(smooth, rng.choice([0.003, 0.02, 0.1, 0.25])))


def _needle(rng: Generator, grid: Grid, noise: float) -> Floats:
    """Return a field with a dip around one combination."""
    smooth = _field(rng, grid, 1, 0.5, 0.2, noise)
    away = (grid.ids != grid.ids[rng.integers(len(grid.ids))]).sum(axis=1)
    dip = rng.uniform(1, 4) * (away <= rng.choice([0, 1, 1, 2]))
    return np.asarray(smooth - dip * rng.uniform(0.5, 1, size=len(smooth)))


def _tree(rng: Generator, grid: Grid, noise: float) -> Floats:
    """Return a regression tree: each split asks for a level, or for a part of an order."""
    total = 0.3 * _field(rng, grid, 1, 0.2, 0, noise)
    for _ in range(int(rng.integers(1, 4))):
        nodes = [np.ones(len(total), dtype=np.bool_)]
        for depth in range(int(rng.integers(2, 6))):
            split = []
            for node in nodes:
                i = int(rng.integers(grid.d))
                at = int(rng.integers(grid.n_levels[i]))
                side = grid.ids[:, i] <= at if grid.is_ordered[i] else grid.ids[:, i] == at
                split += [node & side, node & ~side]
                total[node & side] += rng.normal() / (1 + depth)
            nodes = split
    return total


def _waves(rng: Generator, grid: Grid, noise: float) -> Floats:
    """Return a draw of a smooth random function (random Fourier features)."""
    n_waves = 60
    points = _points(rng, grid)
    rates = rng.gamma(1.0, size=grid.d) * rng.choice([0.5, 1, 2.5])
    angles = points @ (rng.normal(size=(grid.d, n_waves)) * rates[:, None])
    smooth = np.cos(angles + rng.uniform(0, 2 * np.pi, n_waves)) @ rng.normal(size=n_waves)
    return _scaled(smooth) + noise * rng.normal(size=len(smooth))


def _scaling(rng: Generator, grid: Grid, noise: float) -> Floats:
    """Return the logarithm of a run time: work that is divided, overhead that grows, cliffs."""
    work, overhead = np.ones(len(grid.ids)), np.full(len(grid.ids), rng.uniform(0.005, 0.2))
    for i in range(grid.d):
        size = 2.0 ** grid.ids[:, i] if grid.is_ordered[i] else None
        form = rng.choice(["divides", "costs", "cliff", "choice", "nothing"])
        if size is None or form == "choice":
            work *= np.exp(rng.normal(size=grid.n_levels[i]) * rng.gamma(0.5))[grid.ids[:, i]]
        elif form == "divides":
            work /= size ** rng.uniform(0.2, 1)
            overhead *= size ** rng.uniform(0.1, 0.8)
        elif form == "costs":
            overhead *= size ** rng.uniform(-0.5, 0.7)
        elif form == "cliff":
            i_other = int(rng.integers(grid.d))
            full = grid.positions(i) + grid.positions(i_other) > rng.uniform(0.7, 1.6)
            work *= np.where(full, rng.uniform(1.2, 4), 1)
    time = np.log(work + overhead)
    return _scaled(time) + noise * rng.normal(size=len(time))


def _points(rng: Generator, grid: Grid) -> Floats:
    """Return the combinations as points of the unit cube, float64 [size, d]."""
    columns = [
        grid.positions(i) if grid.is_ordered[i] else rng.random(n)[grid.ids[:, i]]
        for i, n in enumerate(grid.n_levels)
    ]
    return np.stack(columns, axis=1)


def _formula(rng: Generator, grid: Grid, noise: float) -> Floats:
    """Return a sum of products of powers, as in formulas of engineering."""
    x = rng.choice([0.1, 0.3, 1.0]) + _points(rng, grid)
    total = np.zeros(len(x))
    for _ in range(int(rng.integers(1, 5))):
        powers = rng.choice([-2, -1, -0.5, 0, 0, 0.5, 1, 2], size=grid.d)
        total += rng.gamma(1.0) * np.prod(x**powers, axis=1)
    smooth = _scaled(np.log(total) if rng.random() < 0.5 else total)
    return np.asarray(smooth + 0.3 * noise * rng.normal(size=len(smooth)))


def _bowl(rng: Generator, grid: Grid, noise: float) -> Floats:
    """Return a valley askew to the axes: a quadratic form around a point."""
    away = _points(rng, grid) - rng.random(grid.d)
    skew = rng.normal(size=(grid.d, grid.d)) * np.sqrt(rng.gamma(0.7, size=(grid.d, 1)))
    form = skew.T @ skew / grid.d + 0.02 * np.eye(grid.d)
    smooth = _scaled(np.einsum("ri,ij,rj->r", away, form, away) ** rng.uniform(0.4, 1))
    return np.asarray(smooth + 0.3 * noise * rng.normal(size=len(smooth)))


def _basins(rng: Generator, grid: Grid, noise: float) -> Floats:
    """Return several smooth dips of different depths and widths in a plain."""
    x, total = _points(rng, grid), np.zeros(len(grid.ids))
    matters = rng.random(grid.d) < rng.uniform(0.4, 1)
    for _ in range(int(rng.integers(1, 7))):
        away = (((x - rng.random(grid.d)) * matters) ** 2).sum(axis=1)
        total -= rng.gamma(2.0) * np.exp(-away / rng.uniform(0.05, 0.6) ** 2 / 2)
    smooth = _scaled(total)
    return np.asarray(smooth + 0.3 * noise * rng.normal(size=len(smooth)))


LAWS: Mapping[str, Callable[[Generator, Grid, float], Floats]] = {
    "additive": _additive,
    "paired": _paired,
    "rugged": _rugged,
    "mixed": _mixed,
    "bottleneck": _bottleneck,
    "regimes": _regimes,
    "terraces": _terraces,
    "needle": _needle,
    "tree": _tree,
    "waves": _waves,
    "scaling": _scaling,
    "failing": _mixed,
    "formula": _formula,
    "bowl": _bowl,
    "basins": _basins,
}


def _on_a_scale(rng: Generator, law: Floats) -> Floats:
    """Return the objective: the law on one of the scales that programs have."""
    form = rng.choice(["exponential", "exponential", "exponential", "base", "base", "negative",
                       "zero", "logarithmic"])  # fmt: skip
    if form == "exponential":
        values = rng.uniform(0.1, 1000) * np.exp(rng.choice([0.05, 0.2, 0.5, 1, 1.8]) * law)
    elif form == "base":
        values = law - law.min() + rng.choice([0.02, 0.2, 1, 5, 30]) * 4 * law.std()
    elif form == "negative":
        values = -rng.uniform(1, 100) * np.exp(-rng.choice([0.1, 0.3, 0.7, 1.2]) * law)
    elif form == "zero":
        values = law - law.min()
    else:
        values = 10 * np.log1p(np.exp(law - law.min()))
    if rng.random() < 0.15:
        unit = values.std() / rng.choice([3, 10, 50])
        values = np.round(values / unit) * unit
    return np.asarray(values)


def _failures(rng: Generator, grid: Grid, values: Floats) -> NDArray[np.bool_]:
    """Return which combinations fail: beyond a capacity, in pairs, at random, slow, in blocks."""
    n = len(values)
    fails = np.zeros(n, dtype=np.bool_)
    form = rng.choice(["capacity", "pairs", "random", "slow", "blocks"])
    if form == "capacity":
        needs = rng.random(grid.d) * (rng.random(grid.d) < 0.6)
        need = sum(needs[i] * grid.positions(i) for i in range(grid.d))
        fails = np.asarray(need > np.quantile(need, 1 - rng.uniform(0.1, 0.6)))
    elif form == "pairs":
        for _ in range(int(rng.integers(1, 5))):
            i, j = rng.choice(grid.d, 2, replace=False)
            at, fits = rng.integers(grid.n_levels[i]), rng.integers(grid.n_levels[j])
            fails |= (grid.ids[:, i] == at) & (grid.ids[:, j] != fits)
    elif form == "random":
        fails = rng.random(n) < rng.choice([0.1, 0.3, 0.6])
    elif form == "slow":
        fails = values > np.quantile(values, 1 - rng.uniform(0.05, 0.4))
    else:
        i, j = rng.choice(grid.d, 2, replace=False)
        blocks = rng.random((grid.n_levels[i], grid.n_levels[j])) < rng.uniform(0.3, 0.7)
        fails = blocks[grid.ids[:, i], grid.ids[:, j]] | (rng.random(n) < 0.1)
    return fails & (rng.random(n) < 0.7) if fails.mean() > 0.85 else fails


def drawn_space(number: int) -> Problem:
    """Draw a space of a law of `LAWS`, in turn; what is too small or too even is drawn again."""
    law = tuple(LAWS)[number % len(LAWS)]
    for attempt in range(100):
        rng = np.random.default_rng([20_261_124, number, attempt])
        space, grid = _draw_grid(rng)
        noise = float(rng.choice([0, 0, 0.02, 0.1, 0.3]))
        values = _on_a_scale(rng, _scaled(LAWS[law](rng, grid, noise)))
        if law == "failing" or rng.random() < 0.25:
            values = np.where(_failures(rng, grid, values), np.nan, values)
        valid = values[~np.isnan(values)]
        enough = len(valid) >= LEAST_VALID and len(np.unique(valid)) >= LEAST_DISTINCT
        if enough and valid.min() < np.median(valid):
            return Problem(f"drawn-{law} {number}", "drawn", space, values, noise=noise)
    raise AssertionError(f"the law {law} gives no space")


@dataclass(frozen=True, slots=True)
class TestFunction:
    """A published function with the range of each of its parameters.

    Args:
        at: values of points, float64 [m, d] to [m].
        ranges: lower and upper bound of each parameter.
    """

    at: Callable[[Floats], Floats]
    ranges: Sequence[tuple[float, float]]


def _borehole(x: Floats) -> Floats:
    radius, reach, upper_t, upper_h, lower_t, lower_h, length, conductivity = x.T
    ratio = np.log(reach / radius)
    inner = 1 + 2 * length * upper_t / (ratio * radius**2 * conductivity) + upper_t / lower_t
    return np.asarray(2 * np.pi * upper_t * (upper_h - lower_h) / (ratio * inner))


def _circuit(x: Floats) -> Floats:
    b1, b2, f, c1, c2, beta = x.T
    base = 12 * b2 / (b1 + b2) + 0.74
    gain = beta * (c2 + 9)
    return np.asarray(
        base * gain / (gain + f) + 11.35 * f / (gain + f) + 0.74 * f * gain / ((gain + f) * c1)
    )


def _piston(x: Floats) -> Floats:
    mass, area, volume, spring, pressure, ambient, filling = x.T
    force = pressure * area + 19.62 * mass - spring * volume / area
    gas = pressure * volume / filling * ambient
    moved = area / (2 * spring) * (np.sqrt(force**2 + 4 * spring * gas) - force)
    return np.asarray(2 * np.pi * np.sqrt(mass / (spring + area**2 * gas / moved**2)))


def _wing(x: Floats) -> Floats:
    area, fuel, aspect, sweep, dynamic, taper, thickness, load, weight, paint = x.T
    cosine = np.cos(np.deg2rad(sweep))
    return np.asarray(
        0.036 * area**0.758 * fuel**0.0035 * (aspect / cosine**2) ** 0.6 * dynamic**0.006
        * taper**0.04 * (100 * thickness / cosine) ** -0.3 * (load * weight) ** 0.49 + area * paint
    )  # fmt: skip


def _arm(x: Floats) -> Floats:
    angles, lengths = np.cumsum(x[:, :4], axis=1), x[:, 4:]
    across, up = (lengths * np.cos(angles)).sum(axis=1), (lengths * np.sin(angles)).sum(axis=1)
    return np.asarray(np.hypot(across, up))


def _ackley(x: Floats) -> Floats:
    bowl = -20 * np.exp(-0.2 * np.sqrt((x**2).mean(axis=1)))
    return np.asarray(bowl - np.exp(np.cos(2 * np.pi * x).mean(axis=1)) + 20 + np.e)


def _rastrigin(x: Floats) -> Floats:
    return np.asarray(10 * x.shape[1] + (x**2 - 10 * np.cos(2 * np.pi * x)).sum(axis=1))


def _rosenbrock(x: Floats) -> Floats:
    ahead, here = x[:, 1:], x[:, :-1]
    return np.asarray((100 * (ahead - here**2) ** 2 + (1 - here) ** 2).sum(axis=1))


def _griewank(x: Floats) -> Floats:
    roots = np.sqrt(np.arange(1, x.shape[1] + 1))
    return np.asarray((x**2).sum(axis=1) / 4000 - np.cos(x / roots).prod(axis=1) + 1)


def _levy(x: Floats) -> Floats:
    w = 1 + (x - 1) / 4
    middle = ((w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2)).sum(axis=1)
    end = (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)
    return np.asarray(np.sin(np.pi * w[:, 0]) ** 2 + middle + end)


def _michalewicz(x: Floats) -> Floats:
    steep = np.sin(np.arange(1, x.shape[1] + 1) * x**2 / np.pi) ** 20
    return np.asarray(-(np.sin(x) * steep).sum(axis=1))


def _styblinski(x: Floats) -> Floats:
    return np.asarray(0.5 * (x**4 - 16 * x**2 + 5 * x).sum(axis=1))


def _hartmann(x: Floats) -> Floats:
    heights = np.array([1.0, 1.2, 3.0, 3.2])
    slopes = np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14],
         [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    )  # fmt: skip
    centres = 1e-4 * np.array(
        [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
         [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]
    )  # fmt: skip
    away = (slopes[None] * (x[:, None, :] - centres[None]) ** 2).sum(axis=2)
    return np.asarray(-(np.exp(-away) @ heights))


def _friedman(x: Floats) -> Floats:
    a, b, c, d, e = x.T
    return np.asarray(30 - 10 * np.sin(np.pi * a * b) - 20 * (c - 0.5) ** 2 - 10 * d - 5 * e)


TEST_FUNCTIONS: Mapping[str, TestFunction] = {
    "borehole": TestFunction(
        _borehole,
        ((0.05, 0.15), (100, 50_000), (63_070, 115_600), (990, 1110), (63.1, 116), (700, 820),
         (1120, 1680), (9855, 12_045)),
    ),
    "circuit": TestFunction(
        _circuit, ((50, 150), (25, 70), (0.5, 3), (1.2, 2.5), (0.25, 1.2), (50, 300))
    ),
    "piston": TestFunction(
        _piston,
        ((30, 60), (0.005, 0.02), (0.002, 0.01), (1000, 5000), (9e4, 1.1e5), (290, 296),
         (340, 360)),
    ),
    "wing": TestFunction(
        _wing,
        ((150, 200), (220, 300), (6, 10), (-10, 10), (16, 45), (0.5, 1), (0.08, 0.18), (2.5, 6),
         (1700, 2500), (0.025, 0.08)),
    ),
    "arm": TestFunction(_arm, ((0, 2 * np.pi),) * 4 + ((0, 1),) * 4),
    "ackley": TestFunction(_ackley, ((-15, 30),) * 6),
    "rastrigin": TestFunction(_rastrigin, ((-5.12, 5.12),) * 5),
    "rosenbrock": TestFunction(_rosenbrock, ((-5, 10),) * 5),
    "griewank": TestFunction(_griewank, ((-60, 90),) * 5),
    "levy": TestFunction(_levy, ((-10, 10),) * 6),
    "michalewicz": TestFunction(_michalewicz, ((0, np.pi),) * 5),
    "styblinski": TestFunction(_styblinski, ((-5, 5),) * 5),
    "hartmann": TestFunction(_hartmann, ((0, 1),) * 6),
    "friedman": TestFunction(_friedman, ((0, 1),) * 5),
}  # fmt: skip
"""Surjanovic & Bingham, Virtual Library of Simulation Experiments; Friedman 1991."""


def test_space(name: str, seed: int) -> Problem:
    """Return a test function on a drawn grid; an odd seed adds 2 % noise and failures.

    Raises KeyError for a name that is not in `TEST_FUNCTIONS`.
    """
    function = TEST_FUNCTIONS[name]
    rng = np.random.default_rng([20_261_125, seed, *name.encode()])
    d = len(function.ranges)
    while True:
        n_levels = rng.integers(2, 9, size=d)
        if 1_000 <= np.prod(n_levels) <= 10_000:
            break
    parameters, values = [], []
    for i, (n, (low, high)) in enumerate(zip(n_levels, function.ranges, strict=True)):
        cuts = (
            np.sort(rng.uniform(low, high, n)) if rng.random() < 0.3 else np.linspace(low, high, n)
        )
        values.append(cuts)
        parameters.append(Parameter(f"p{i}", tuple(range(1, int(n) + 1))))
    space = ParameterSpace(tuple(parameters))
    ids = level_ids(space)
    points = np.stack([values[i][ids[:, i]] for i in range(d)], axis=1)
    objective = function.at(points)
    if seed % 2:
        objective = objective + 0.02 * objective.std() * rng.normal(size=len(objective))
        grid = Grid(ids, tuple(map(int, n_levels)), (True,) * d)
        objective = np.where(_failures(rng, grid, objective), np.nan, objective)
    return Problem(f"{name} {seed}", "drawn", space, objective)
