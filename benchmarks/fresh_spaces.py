"""Search spaces that judge the forecast: real programs and models of laws that nothing is fit on.

``python -m benchmarks.search --fresh DIR`` writes each as a table (CSV) first. No time is measured:
a table depends on the seed and on the versions of zlib, lzma and scikit-learn. No law is of
`benchmarks.spaces` or `drawn_spaces`.
"""

import csv
import itertools
import lzma
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets, decomposition, ensemble, linear_model, neighbors, preprocessing, svm
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from benchmarks.spaces import LEAST_SIZE, MOST_SIZE, Problem, level_ids
from strategies import Parameter, ParameterSpace

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]  # by parameter, its value in each combination, [size]
Generator = np.random.Generator
Levels = Sequence[str | int | float]
Drawn = tuple[ParameterSpace, Floats]


def _product(rng: Generator, **candidates: Levels) -> tuple[ParameterSpace, Columns]:
    """Draw at least half of each parameter's candidates, until the size is right."""
    while True:
        parameters = []
        for name, levels in candidates.items():
            n = int(rng.integers(max(2, (len(levels) + 1) // 2), min(len(levels), 10) + 1))
            kept = np.sort(rng.choice(len(levels), n, replace=False))
            parameters.append(Parameter(name, tuple(levels[int(i)] for i in kept)))
        space = ParameterSpace(tuple(parameters))
        if LEAST_SIZE <= space.size <= MOST_SIZE:
            both = zip(parameters, level_ids(space).T, strict=True)
            return space, {one.name: np.array(one.levels)[ids] for one, ids in both}


def _of_texts(texts: NDArray[Any], **values: float) -> Floats:
    return np.array([values[text] for text in texts.tolist()], dtype=np.float64)


def _each(at: Columns, run: Callable[[SimpleNamespace], float]) -> Floats:
    """Return the result of one run per combination."""
    rows = zip(*(column.tolist() for column in at.values()), strict=True)
    return np.array([run(SimpleNamespace(**dict(zip(at, row, strict=True)))) for row in rows])


def _zlib(rng: Generator) -> Drawn:
    """Return the size of compressed log lines, plus a charge for the length of zlib's searches."""
    strategies = ("default", "filtered", "huffman", "rle", "fixed")  # 0 to 4 in zlib.h
    space, at = _product(
        rng, level=range(1, 10), wbits=range(9, 16), mem_level=range(1, 9), block_kb=(2, 4, 8),
        strategy=strategies, layout=("lines", "columns", "delta"),
    )  # fmt: skip
    words = ["".join(rng.choice(list("etaoinshrdlu"), rng.integers(3, 10))) for _ in range(150)]
    often = 1 / np.arange(1, 151)  # Zipf's law
    columns = [[f"12:{s // 60 % 60:02}:{s % 60:02}" for s in np.cumsum(rng.poisson(20, 130))]]
    columns += rng.choice(words, (4, 130), p=often / often.sum()).tolist()
    columns += [[str(int(n_bytes)) for n_bytes in rng.gamma(2, 400, 130)]]
    plain = "\n".join(" ".join(line) for line in zip(*columns, strict=True)).encode()
    delta = np.diff(np.frombuffer(plain, dtype=np.uint8), prepend=np.uint8(0)).tobytes()
    layouts = {"lines": plain, "columns": str(columns).encode(), "delta": delta}
    chains = (4, 5, 6, 16, 32, 128, 256, 1024, 4096)  # of levels 1 to 9, deflate.c of zlib
    most_bytes = int(rng.integers(150, 200)) * 1024

    def cost(row: SimpleNamespace) -> float:
        if (1 << (row.wbits + 2)) + (1 << (row.mem_level + 9)) > most_bytes:
            return np.nan  # zconf.h: the memory of a compressor
        data, step, n_bytes = layouts[row.layout], row.block_kb * 1024, 0
        settings = row.level, 8, row.wbits, row.mem_level, strategies.index(row.strategy)
        for start in range(0, len(data), step):
            one = zlib.compressobj(*settings)
            n_bytes += 4 + len(one.compress(data[start : start + step]) + one.flush())
        searches = 0.0 if row.strategy in ("huffman", "rle") else chains[row.level - 1] ** 0.5
        return float(n_bytes + 5e-4 * searches * len(data))

    return space, _each(at, cost)


def _lzma(rng: Generator) -> Drawn:
    """Return the size of compressed sensor records; some filter chains are not allowed."""
    space, at = _product(
        rng, lc=range(5), lp=range(4), pb=range(4), delta=(0, 1, 2, 4, 8, 12), mode=range(1, 3),
        mf=("HC3", "HC4", "BT2", "BT3", "BT4"), nice_len=(4, 8, 20, 99),
    )  # fmt: skip
    walk = np.cumsum(rng.normal(0, 30, (500, 2)), axis=0).astype("<i2").tobytes()
    codes = rng.choice(rng.integers(0, 65_536, 12), (500, 2)).astype("<u2").tobytes()
    stamp = np.cumsum(rng.poisson(9, 500)).astype("<u4").tobytes()
    data = b"".join(part[4 * i : 4 * i + 4] for i in range(500) for part in (walk, codes, stamp))
    options = {"id": lzma.FILTER_LZMA2, "dict_size": 1 << 14}

    def size(row: SimpleNamespace) -> float:
        lzma2 = vars(row) | options | {"mf": getattr(lzma, f"MF_{row.mf}")}
        delta = [{"id": lzma.FILTER_DELTA, "dist": lzma2.pop("delta")}]
        try:
            return len(lzma.compress(data, lzma.FORMAT_RAW, filters=[*delta[: row.delta], lzma2]))
        except lzma.LZMAError:  # lc + lp is more than 4
            return np.nan

    return space, _each(at, size)


SCALERS: Mapping[str, Callable[[], Any]] = {
    "none": preprocessing.FunctionTransformer, "standard": preprocessing.StandardScaler,
    "minmax": preprocessing.MinMaxScaler, "normalised": preprocessing.Normalizer,
}  # fmt: skip


def _learned(
    rng: Generator, data: Any, build: Callable[[SimpleNamespace], Any], **candidates: Levels
) -> Drawn:
    """Return 1 - accuracy, or 1 - R2, on other rows; a model that does not converge fails."""
    space, at = _product(rng, **candidates)
    fit, check = np.split(rng.permutation(len(data.target))[:650], [150])

    def error(row: SimpleNamespace) -> float:
        try:
            model = build(row).fit(data.data[fit], data.target[fit])
        except (ValueError, ConvergenceWarning):
            return np.nan
        return 1 - float(model.score(data.data[check], data.target[check]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", ConvergenceWarning)
        return space, _each(at, error)


def _knn(rng: Generator) -> Drawn:
    return _learned(
        rng, datasets.load_digits(),
        lambda row: make_pipeline(
            SCALERS[row.scaler](), decomposition.PCA(row.dimensions, svd_solver="full"),
            neighbors.KNeighborsClassifier(row.k, weights=row.weights, metric=row.metric),
        ),
        scaler=tuple(SCALERS), dimensions=(2, 4, 8, 12, 16, 24, 32), k=(1, 2, 3, 5, 8, 12, 20),
        metric=("euclidean", "manhattan", "chebyshev", "cosine"), weights=("uniform", "distance"),
    )  # fmt: skip


def _svc(rng: Generator) -> Drawn:
    return _learned(
        rng, datasets.load_breast_cancer(),
        lambda row: make_pipeline(
            SCALERS[row.scaler](),
            svm.SVC(kernel=row.kernel, C=row.c, gamma=row.gamma, degree=row.degree, max_iter=2_000,
                    class_weight=None if row.weight == "even" else "balanced"),
        ),
        kernel=("linear", "rbf", "poly", "sigmoid"), degree=(2, 3, 4), weight=("even", "balanced"),
        c=(0.01, 0.1, 1, 10, 100), gamma=(0.001, 0.003, 0.01, 0.1, 1), scaler=tuple(SCALERS),
    )  # fmt: skip


def _forest(rng: Generator) -> Drawn:
    return _learned(
        rng, datasets.load_diabetes(),
        lambda row: ensemble.RandomForestRegressor(
            row.n_trees, max_depth=row.depth, min_samples_leaf=row.least_leaf, random_state=1,
            max_features=row.features, criterion=row.criterion, bootstrap=row.bootstrap == "yes",
        ),
        n_trees=(2, 3, 5, 8), depth=(2, 3, 4, 6, 9), least_leaf=(1, 2, 4, 8, 16),
        features=(0.2, 0.5, 1.0), criterion=("squared_error", "poisson"), bootstrap=("yes", "no"),
    )  # fmt: skip


def _sgd(rng: Generator) -> Drawn:
    return _learned(
        rng, datasets.load_digits(),
        lambda row: linear_model.SGDClassifier(
            loss=row.loss, penalty=row.penalty, alpha=row.alpha, learning_rate=row.rate, tol=None,
            eta0=row.eta0, max_iter=row.epochs, average=row.average == "yes", random_state=1,
        ),
        loss=("hinge", "log_loss", "squared_error", "perceptron"), average=("yes", "no"),
        penalty=("l1", "l2", "elasticnet"), alpha=(1e-5, 1e-4, 1e-3, 0.01, 0.1), epochs=(2, 4, 8),
        rate=("constant", "optimal", "invscaling"), eta0=(1e-4, 0.001, 0.01, 0.1, 1.0),
    )  # fmt: skip


def _queue(rng: Generator) -> Drawn:
    """Return the hourly cost of an M/M/c service with setups; it fails where it is unstable."""
    space, at = _product(
        rng, machine=("small", "medium", "large", "arm", "gpu"), servers=range(4, 22), zones=(1, 2),
        idle=("on", "nap", "off"), contract=("own", "reserved", "spot"), cache_gb=(0, 1, 2, 4, 8),
    )  # fmt: skip
    speed = _of_texts(at["machine"], small=4, medium=7.5, large=14, arm=6, gpu=22)
    price = speed**0.85 * rng.uniform(0.07, 0.13, 30)[speed.astype(np.int64)]
    arrivals, zones, n = rng.uniform(30, 60), at["zones"], at["servers"]
    work = 1 - rng.uniform(0.3, 0.6) * (1 - np.exp(-at["cache_gb"] / rng.uniform(2, 6)))
    up = np.where(at["contract"] == "spot", np.floor(0.85 * n), n)
    rho, blocked = arrivals * work / speed / up, np.ones(len(n))
    for c in range(1, 22):  # Erlang B, one server after the other
        blocked = np.where(c <= up, rho * up * blocked / (c + rho * up * blocked), blocked)
    wait_s = blocked / (1 - rho * (1 - blocked)) / (up * speed / work - arrivals)  # Erlang C
    wait_s += 0.01 * (zones - 1) + _of_texts(at["idle"], on=0, nap=0.02, off=0.3) * (1 - rho)
    rate = _of_texts(at["contract"], own=1, reserved=0.65, spot=0.4)
    off = _of_texts(at["idle"], on=0, nap=0.4, off=0.8) * (1 - rho) * (at["contract"] != "reserved")
    late = 20 * wait_s + 12 * np.clip(wait_s / 0.05 - 1, 0, 4) ** 1.5 + 6 / zones**2
    cost = n * price * rate * (1 - off) + 0.12 * at["cache_gb"] + late + 0.3 * zones
    return space, np.where(rho < 1, cost * rng.normal(1, 0.01, len(n)), np.nan)


def _tiling(rng: Generator) -> Drawn:
    """Return the modelled time of a blocked matrix product; too large buffers fail."""
    sizes = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
    space, at = _product(
        rng, tile_m=sizes, tile_n=sizes, tile_k=sizes, unroll=(1, 2, 4, 8), packed=("yes", "no"),
        order=("ijk", "ikj", "jik", "jki", "kij", "kji"), threads=(1, 2, 4, 8),
    )  # fmt: skip
    n = float(rng.choice([512, 768, 1000, 1536]))
    m, w, k, packed = at["tile_m"], at["tile_n"], at["tile_k"], at["packed"] == "yes"
    threads, unroll, buffers = at["threads"], at["unroll"], 8 * (m * k + k * w + m * w)
    padded = np.ceil(n / m) * m * np.ceil(n / w) * w * np.ceil(n / k) * k
    inner = _of_texts(at["order"], ijk=2, ikj=1, jik=2.2, jki=5, kij=1.1, kji=5.5)
    work, n_tiles = 1 / unroll**0.6 + 0.3, np.ceil(n / m) * np.ceil(n / w)
    work *= np.where(unroll * np.minimum(w, 32) > 160, 1.6, 1.0)  # registers spill
    compute = padded * work * np.ceil(n_tiles / threads) / n_tiles
    missed = np.where(buffers > 32_768, 3.0, 1.0) * np.where(buffers > 262_144, 4.0, 1.0)
    walk = np.where(packed, 1 + 0.1 * inner, inner * np.where(w % 64 == 0, 1.5, 1.0))
    traffic = padded * (1 / m + 1 / w + 0.5 / k) * missed * walk / threads**0.4
    traffic += packed * 0.3 * n**3 * (1 / w + 1 / m) / threads**0.4  # copies
    time_s = (np.maximum(compute, 2 * traffic) + traffic) / 1e9 + 2e-4 * threads
    return space, np.where(
        buffers * threads > 3e6, np.nan, time_s * rng.normal(1, 0.02, space.size)
    )


def _placement(rng: Generator) -> Drawn:
    """Return the cost of services on hosts: power, delay, traffic between; too full hosts fail."""
    hosts, services = ("ash", "birch", "cedar", "elm"), ("web", "api", "auth", "find", "mail", "db")
    space, at = _product(rng, **dict[str, Levels](dict.fromkeys(services, hosts)))
    where = np.searchsorted(hosts, list(at.values()))  # host of each service, [6, size]
    need, memory = rng.uniform(0.5, 3, 6), rng.uniform(1, 5, 6)
    speed, power, far = rng.uniform(3, 8, 4), rng.uniform(0.5, 3, 4), rng.uniform(0.5, 3, (4, 4))
    cost, fits = np.zeros(space.size), np.ones(space.size, dtype=np.bool_)
    for host in range(4):
        load = need @ (where == host) / speed[host]
        fits &= (load < 0.9) & (memory @ (where == host) < 10)
        cost += np.where(load > 0, power[host], 0) + load / np.clip(1 - load, 0.05, None)
    for i, j in itertools.combinations(range(6), 2):
        cost += rng.gamma(0.4) * (where[i] != where[j]) * far[where[i], where[j]]
    return space, np.where(fits, cost, np.nan)


def _qubo(rng: Generator) -> Drawn:
    """Return a quadratic form of 12 binary choices with drawn, partly missing weights."""
    space = _product(rng, **{f"x{i}": (0, 1) for i in range(12)})[0]
    ids, form = level_ids(space), rng.normal(size=(12, 12)) * (rng.random((12, 12)) < 0.5)
    return space, np.einsum("ri,ij,rj->r", ids, form, ids)


def _network(rng: Generator) -> Drawn:
    """Return the output of a network with drawn weights, whose inputs are the parameters."""
    space = _product(
        rng, pressure=range(1, 8), heat=range(20, 100, 10), stir=(1, 2, 4, 8), hours=range(1, 5),
        solvent=("water", "ether", "ethanol", "toluene"), metal=("none", "copper", "nickel"),
    )[0]  # fmt: skip
    signal = np.zeros((space.size, len(space.parameters)))
    for i, parameter in enumerate(space.parameters):
        even, drawn = np.linspace(-1, 1, parameter.n_levels), rng.normal(size=parameter.n_levels)
        signal[:, i] = (even if parameter.kind == "ordinal" else drawn)[level_ids(space)[:, i]]
    for width in (24, 12):
        weights = rng.normal(0, 2 / np.sqrt(signal.shape[1]), (signal.shape[1], width))
        signal = np.tanh(signal @ weights + rng.normal(0, 0.5, width))
    output = 20 + 5 * signal @ rng.normal(size=signal.shape[1])
    return space, output + 0.03 * output.std() * rng.normal(size=len(output))


def _inventory(rng: Generator) -> Drawn:
    """Return the daily cost of an (s, S) policy with lead times; a contract asks 70 % service."""
    space, at = _product(
        rng, reorder_at=range(10, 110, 10), order_more=range(20, 200, 20), review_days=(1, 2, 4, 7),
        supplier=("near", "far", "bulk", "broker"), shortage=("wait", "lost"), rush=("no", "yes"),
    )  # fmt: skip
    low, supplier, is_lost = at["reorder_at"], at["supplier"], at["shortage"] == "lost"
    lead = _of_texts(supplier, near=2, far=8, bulk=5, broker=3).astype(np.int64)
    unit = _of_texts(supplier, near=1.6, far=0.8, bulk=1, broker=1.25)
    fixed = _of_texts(supplier, near=15, far=45, bulk=80, broker=25)
    late_share = _of_texts(supplier, near=0.02, far=0.2, bulk=0.1, broker=0.4)
    n_days, rows, coming = 300, np.arange(space.size), np.zeros((space.size, 314))
    season = 1 + 0.4 * np.sin(np.arange(n_days) / rng.uniform(6, 20))
    demand, luck = rng.poisson(rng.uniform(7, 14) * season), rng.random(n_days)
    stock, (cost, missed) = low + at["order_more"] + 0.0, np.zeros((2, space.size))
    for day in range(n_days):
        stock += coming[:, day] - demand[day]
        short = np.clip(-stock, 0, demand[day])
        missed, stock = missed + short, np.where(is_lost, np.clip(stock, 0, None), stock)
        cost += np.where(stock < 0, -0.8 * stock, 0.12 * stock) + 4 * is_lost * short
        position = stock + coming[:, day + 1 :].sum(axis=1)
        orders = (day % at["review_days"] == 0) & (position <= low)
        rush = orders & (stock <= 0) & (at["rush"] == "yes")
        n_units = np.where(orders, low + at["order_more"] - position, 0)
        coming[rows, day + 1 + np.where(rush, 1, lead + 3 * (luck[day] < late_share))] += n_units
        cost += np.where(orders, fixed + unit * n_units, 0) + 40 * rush
    return space, np.where(missed > 0.3 * demand.sum(), np.nan, cost / n_days)


def _lights(rng: Generator) -> Drawn:
    """Return the mean delay in s at two traffic lights in a row; it fails where they block."""
    space, at = _product(
        rng, green_main=range(12, 66, 6), green_side=range(8, 44, 6), offset_s=range(0, 50, 8),
        clear_s=(3, 5, 7), control=("fixed", "gap", "longest"), speed_kmh=(30, 40, 50),
    )  # fmt: skip
    n, n_s, clear, rows = space.size, 900, at["clear_s"], np.arange(space.size)
    travel_s = (rng.uniform(250, 450) * 3.6 / at["speed_kmh"]).astype(np.int64)
    arrive = rng.poisson(rng.uniform((0.12, 0.06, 0.06), (0.24, 0.13, 0.13)), (n_s, 3))
    queues = np.zeros((2, 2, n))  # by light, then main or side
    link, (delay, peak) = np.zeros((n_s + 100, n)), np.zeros((2, n))
    side, age = np.zeros((2, n), dtype=np.int64), np.stack([np.zeros(n), -at["offset_s"]])
    for second in range(n_s):
        queues[0, 0] += arrive[second, 0]
        queues[:, 1] += arrive[second, 1:, None]
        queues[1, 0] += link[second]
        for light in (0, 1):
            own, other = queues[light, side[light], rows], queues[light, 1 - side[light], rows]
            moves = (age[light] >= clear) * np.minimum(own, 0.5)
            queues[light, side[light], rows] -= moves
            if light == 0:
                link[second + travel_s, rows] += np.where(side[0], 0.2, 0.9) * moves
            green_s = age[light] - clear
            ends = green_s >= np.where(side[light], at["green_side"], at["green_main"])
            ends |= (at["control"] == "gap") & (green_s >= 6) & (own < 0.5) & (other > 0)
            ends |= (at["control"] == "longest") & (green_s >= 8) & (other > own + 6)
            side[light] ^= ends
            age[light] = np.where(ends, 0, age[light] + 1)
        delay, peak = delay + queues.sum(axis=(0, 1)), np.maximum(peak, queues[1, 0])
    risk = 0.004 * (at["speed_kmh"] - 30) ** 2 + 6 / clear
    return space, np.where(peak > 20, np.nan, delay / arrive.sum() + risk)


def fresh_space(name: str, seed: int) -> Problem:
    """Return one space; the same seed gives the same levels, data and objective.

    A space that `is_fair` refuses is drawn again. Raises KeyError for a name not in `FRESH`.
    """
    for attempt in range(20):
        rng = np.random.default_rng([20_261_126, seed, attempt, *name.encode()])
        with np.errstate(all="ignore"):
            problem = Problem(f"{name} {seed}", "fresh", *_LAWS[name](rng))
        if is_fair(problem):
            return problem
    raise AssertionError(f"{name} {seed} gives no fair space")


_LAWS = {law.__name__.strip("_"): law for law in (
    _zlib, _lzma, _knn, _svc, _forest, _sgd, _queue, _tiling, _placement, _qubo, _network,
    _inventory, _lights)}  # fmt: skip
FRESH: Mapping[str, Callable[[int], Problem]] = {name: partial(fresh_space, name) for name in _LAWS}


def is_fair(problem: Problem) -> bool:
    """Tell whether a space has something to find, and a valid run at every level."""
    valid, ids = problem.valid, level_ids(problem.space)[~np.isnan(problem.objective)]
    return (
        len(valid) >= 40
        and len(np.unique(valid)) >= 8
        and problem.n_within(0.05) <= 0.1 * len(valid)
        and [len(set(i)) for i in ids.T.tolist()] == [p.n_levels for p in problem.space.parameters]
    )


def write(problem: Problem, path: Path) -> None:
    """Write a space as a measured table (CSV); a failed run has no row."""
    levels = itertools.product(*(parameter.levels for parameter in problem.space.parameters))
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*(parameter.name for parameter in problem.space.parameters), "objective"])
        both = zip(levels, problem.objective.tolist(), strict=True)
        rows.writerows([*row, value] for row, value in both if not np.isnan(value))


def fresh_tables(folder: Path, seed: int = 0) -> list[Path]:
    """Return one table per space in a folder, made first where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}_{seed}.csv" for name in FRESH]
    for name, path in zip(FRESH, paths, strict=True):
        if not path.exists():
            write(fresh_space(name, seed), path)
    return paths
