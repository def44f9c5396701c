"""Real programs to search: the parameters of each, and what a run of it returns.

`PROGRAMS` has a function for each that prepares it: it draws its data by a fixed seed, and says in
its first line what is minimised. Times are CPU seconds of one thread.
"""

import itertools
import lzma
import math
import os
import sqlite3
import statistics
import subprocess
import tempfile
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numba import njit
from scipy import integrate, optimize, signal, sparse
from scipy.sparse import linalg
from sklearn import cluster, datasets, decomposition, ensemble, feature_extraction, tree
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, v_measure_score
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

from assistant.core.errors import RunError
from benchmarks.fresh_spaces import SCALERS
from benchmarks.harness import cpu_s
from strategies import Parameter, ParameterSpace

SEED = 20_261_129

Levels = Sequence[str | int | float]


@dataclass(frozen=True, slots=True)
class ProgramSpace:
    """A prepared program: its run, the levels of its parameters, the errors that are failures.

    A run takes the values of a combination as attributes and returns what is minimised; a result
    that is not finite is a failure too.
    """

    run: Callable[[SimpleNamespace], float]
    levels: Mapping[str, Levels]
    failures: tuple[type[Exception], ...] = (RunError,)

    @property
    def space(self) -> ParameterSpace:
        """The full product of levels."""
        return ParameterSpace(tuple(Parameter(n, tuple(ls)) for n, ls in self.levels.items()))

    def result(self, values: Mapping[str, Any]) -> float:
        """Run once; NaN is a failure."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                for warning in self.failures:
                    if issubclass(warning, Warning):
                        warnings.simplefilter("error", warning)
                value = float(self.run(SimpleNamespace(**values)))
        except self.failures:
            return math.nan
        return value if math.isfinite(value) else math.nan


def _median_cpu_s(work: Callable[[], object]) -> float:
    return statistics.median(cpu_s(work) for _ in range(3))


def _lines(n: int) -> bytes:
    """Return log lines of drawn words, times and sizes."""
    rng = np.random.default_rng(SEED)
    words = ["".join(rng.choice(list("etaoinshrdlu"), rng.integers(3, 10))) for _ in range(150)]
    often = 1 / np.arange(1, 151)  # Zipf's law
    stamps, sizes = np.cumsum(rng.poisson(20, n)), rng.gamma(2, 400, n).astype(int)
    drawn = rng.choice(words, (n, 5), p=often / often.sum())
    lines = (f"{s} {' '.join(w)} {b}" for s, w, b in zip(stamps, drawn, sizes, strict=True))
    return "\n".join(lines).encode()


def _zlib_lines() -> ProgramSpace:
    """Bytes of compressed log lines, and 300 for each CPU millisecond."""
    data = _lines(800)
    strategies = ("default", "filtered", "huffman", "rle", "fixed")  # 0 to 4 in zlib.h

    def run(at: SimpleNamespace) -> float:
        def compressed() -> bytes:
            strategy = strategies.index(at.strategy)
            one = zlib.compressobj(at.level, zlib.DEFLATED, -at.wbits, at.mem_level, strategy)
            return one.compress(data) + one.flush()

        return len(compressed()) + 3e5 * _median_cpu_s(compressed)

    levels: dict[str, Levels] = {
        "level": range(1, 10), "strategy": strategies, "mem_level": (1, 2, 4, 6, 8, 9),
        "wbits": (9, 10, 12, 15),
    }  # fmt: skip
    return ProgramSpace(run, levels)


def _lzma_lines() -> ProgramSpace:
    """Bytes of compressed log lines, and 20 for each CPU millisecond; some filters are refused."""
    data = _lines(500)

    def run(at: SimpleNamespace) -> float:
        lzma2 = vars(at) | {"id": lzma.FILTER_LZMA2, "mf": getattr(lzma, f"MF_{at.mf}")}
        lzma2["dict_size"] = at.dict_size * 1024

        def compressed() -> bytes:
            return lzma.compress(data, lzma.FORMAT_RAW, filters=[lzma2])

        return len(compressed()) + 2e4 * _median_cpu_s(compressed)

    levels: dict[str, Levels] = {
        "mf": ("HC3", "HC4", "BT2", "BT3", "BT4"), "mode": (1, 2), "nice_len": (2, 3, 8, 32, 128),
        "lc": (0, 2, 4), "lp": (0, 1, 2), "depth": (1, 16), "dict_size": (4, 32),
    }  # fmt: skip
    return ProgramSpace(run, levels, (lzma.LZMAError,))


def _sqlite_orders() -> ProgramSpace:
    """CPU milliseconds of inserts, updates and queries; a database over its quota fails."""
    rng = np.random.default_rng(SEED)
    rows = [
        (i, f"item {i * 7919 % 997}", float(p), "x" * int(n))
        for i, p, n in zip(range(400), rng.gamma(2, 9, 400), rng.integers(5, 150, 400), strict=True)
    ]

    def work(at: SimpleNamespace, path: Path) -> None:
        path.unlink(missing_ok=True)
        database = sqlite3.connect(path, isolation_level=None)
        try:
            run = database.execute
            run(f"pragma page_size = {at.page_size}")
            run(f"pragma max_page_count = {128 * 1024 // at.page_size}")
            run(f"pragma journal_mode = {at.journal}")
            run(f"pragma synchronous = {at.synchronous}")
            run(f"pragma cache_size = -{at.cache_kb}")
            without = "" if at.rowid == "yes" else "without rowid"
            run(f"create table orders (id integer primary key, item, price, note) {without}")
            if at.index == "first":
                run("create index items on orders (item, price)")
            for start in range(0, len(rows), at.batch):
                run("begin")
                values = rows[start : start + at.batch]
                database.executemany("insert into orders values (?, ?, ?, ?)", values)
                run("commit")
            if at.index == "last":
                run("create index items on orders (item, price)")
            for i in range(0, 400, 8):
                run("select sum(price) from orders where item = ?", (f"item {i}",)).fetchone()
            run("delete from orders where id % 5 = 0")
        finally:
            database.close()

    def run(at: SimpleNamespace) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return 1e3 * _median_cpu_s(lambda: work(at, Path(folder) / "orders.db"))

    levels: dict[str, Levels] = {
        "page_size": (512, 1024, 4096, 16_384), "journal": ("delete", "wal", "memory", "off"),
        "synchronous": ("off", "full"), "cache_kb": (8, 2000), "rowid": ("yes", "no"),
        "index": ("first", "last", "none"), "batch": (20, 400),
    }  # fmt: skip
    return ProgramSpace(run, levels, (sqlite3.Error,))


MIXED = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define N 6000
static double a[N], b[N]; static unsigned s = 7; static int heap[N];
static unsigned next(void) { s = s * 1664525u + 1013904223u; return s >> 8; }
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static void sift(int *h, int i, int n) {
  for (int c; (c = 2 * i + 1) < n; i = c) {
    if (c + 1 < n && h[c + 1] > h[c]) c++;
    if (h[i] >= h[c]) return;
    int t = h[i]; h[i] = h[c]; h[c] = t; } }
static double work(void) {
  double sum = 0;
  for (int i = 0; i < N; i++) { a[i] = next() % 1000; b[i] = 1 + a[i] / 7; heap[i] = next(); }
  for (int r = 0; r < 60; r++)
    for (int i = 0; i < N; i++) { sum += a[i] * b[i] / (1 + a[i]); if (a[i] > 500) a[i] -= 1e-3; }
  for (int i = N / 2; i-- > 0;) sift(heap, i, N);
  for (int n = N; n-- > 1;) { int t = heap[0]; heap[0] = heap[n]; heap[n] = t; sift(heap, 0, n); }
  return sum + fib(20) + heap[N / 2]; }
int main(void) {
  double best = 1e9, x = 0;
  for (int r = 0; r < 5; r++) { clock_t t = clock(); x += work();
    double s = (double)(clock() - t) / CLOCKS_PER_SEC; if (s < best) best = s; }
  printf("%.9g %g\\n", best, x); return 0; }
"""

PRODUCT = """
#include <stdio.h>
#include <time.h>
#define N 144
static double a[N][N + PAD], b[N][N + PAD], c[N][N + PAD];
#define L(x, lo, B) for (int x = lo; x < lo + B && x < N; x++)
static void work(void) {
  for (int x0 = 0; x0 < N; x0 += X) for (int y0 = 0; y0 < N; y0 += Y)
  for (int z0 = 0; z0 < N; z0 += Z)
    L(x, x0, X) L(y, y0, Y) L(z, z0, Z) c[I][J] += a[I][K] * b[K][J]; }
int main(void) {
  for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { a[i][j] = i % 7; b[i][j] = j % 5; }
  double best = 1e9;
  for (int r = 0; r < 4; r++) { clock_t t = clock(); work();
    double s = (double)(clock() - t) / CLOCKS_PER_SEC; if (s < best) best = s; }
  printf("%.9g %g\\n", best, (double)c[5][9]); return 0; }
"""


def _compiled_s(source: str, flags: Sequence[str]) -> float:
    """Compile a C program and return the CPU seconds that it prints first."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/program"
        compiler = ["gcc", "-x", "c", *flags, "-o", out, "-"]
        subprocess.run(compiler, input=source, text=True, capture_output=True, check=True)
        printed = subprocess.run([out], capture_output=True, text=True, check=True).stdout
    return float(printed.split()[0])


def _gcc_flags() -> ProgramSpace:
    """CPU milliseconds, the best of five, of a small C program by the flags of its compiler."""
    switches = ("unroll-loops", "fast-math", "tree-vectorize", "inline-functions", "gcse")

    def run(at: SimpleNamespace) -> float:
        flags = [f"-f{'' if vars(at)[n.replace('-', '_')] else 'no-'}{n}" for n in switches]
        return 1e3 * _compiled_s(MIXED, [f"-O{at.opt}", f"-march={at.march}", *flags])

    levels: dict[str, Levels] = {"opt": ("1", "2", "3", "s"), "march": ("x86-64", "native")}
    return ProgramSpace(run, levels | {name.replace("-", "_"): (0, 1) for name in switches})


def _gcc_product() -> ProgramSpace:
    """CPU milliseconds, the best of four, of a blocked matrix product in C."""

    def run(at: SimpleNamespace) -> float:
        names = {name.upper(): axis for name, axis in zip(at.order, "xyz", strict=True)}
        blocks = {"X": at.block_outer, "Y": at.block_middle, "Z": at.block_inner}
        defined = [f"-D{n}={value}" for n, value in (names | blocks | {"PAD": at.pad}).items()]
        return 1e3 * _compiled_s(PRODUCT, ["-O2", "-ftree-vectorize", *defined])

    levels: dict[str, Levels] = {
        "order": ("ijk", "ikj", "jik", "jki", "kij", "kji"), "block_outer": (4, 24, 144),
        "block_middle": (4, 24, 144), "block_inner": (4, 24, 144), "pad": (0, 16),
    }  # fmt: skip
    return ProgramSpace(run, levels)


@njit
def _small_sort(a: Any, low: int, high: int, way: int) -> None:
    """Sort a[low:high + 1] by insertion (0), binary insertion (1) or Shell's gaps (2)."""
    gap = 1
    while way == 2 and gap < (high - low) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(low + gap, high + 1):
            x, j = a[i], i
            if way == 1:
                left, right = low, i
                while left < right:
                    middle = (left + right) // 2
                    if a[middle] <= x:
                        left = middle + 1
                    else:
                        right = middle
                while j > left:
                    a[j] = a[j - 1]
                    j -= 1
            else:
                while j >= low + gap and a[j - gap] > x:
                    a[j] = a[j - gap]
                    j -= gap
            a[j] = x
        gap //= 3


@njit
def _pivot_of(a: Any, low: int, high: int, way: int, luck: int) -> Any:
    """Return the first (0), the middle (1), the median of three (2) or a drawn element (3)."""
    middle = (low + high) // 2
    if way == 0:
        return a[low]
    if way == 1:
        return a[middle]
    if way == 2:
        return sorted([a[low], a[middle], a[high]])[1]
    return a[low + luck % (high - low + 1)]


@njit
def _parted(a: Any, low: int, high: int, x: Any, three: int) -> tuple[int, int]:
    """Part by x, in two or in three; return the end of the left part, the start of the right."""
    i, j, k = low, high, low
    while three == 1 and k <= j:
        if a[k] < x:
            a[i], a[k] = a[k], a[i]
            i += 1
            k += 1
        elif a[k] > x:
            a[j], a[k] = a[k], a[j]
            j -= 1
        else:
            k += 1
    if three == 1:
        return i - 1, j + 1
    while i <= j:
        while a[i] < x:
            i += 1
        while a[j] > x:
            j -= 1
        if i <= j:
            a[i], a[j] = a[j], a[i]
            i += 1
            j -= 1
    return j, i


@njit
def _quicksort(a: Any, pivot: int, cutoff: int, three: int, way: int, first: int) -> bool:
    """Sort an array; False if the stack of 40 parts is too small."""
    lows, highs = np.zeros(40, np.int64), np.zeros(40, np.int64)
    highs[0], n, luck = len(a) - 1, 1, 12345
    while n > 0:
        n -= 1
        low, high = lows[n], highs[n]
        while high - low >= cutoff:
            if n == 40:
                return False
            luck = (luck * 1103515245 + 12345) % 2147483648
            left, right = _parted(a, low, high, _pivot_of(a, low, high, pivot, luck), three)
            if first == 0 or (first == 1 and left - low < high - right):  # the other part waits
                lows[n], highs[n], high = right, high, left
            else:
                lows[n], highs[n], low = low, left, right
            n += 1
        _small_sort(a, low, high, way)
    return True


def _quicksort_parts() -> ProgramSpace:
    """CPU milliseconds to sort 20,000 numbers, half in order; too small a stack fails."""
    rng = np.random.default_rng(SEED)
    data = np.concatenate([np.arange(10_000), rng.integers(0, 3_000, 10_000)])
    pivots, ways = ("first", "middle", "median", "random"), ("insertion", "binary", "shell")
    firsts = ("left", "smaller", "right")

    def run(at: SimpleNamespace) -> float:
        one = data.copy()

        def work() -> None:
            one[:] = data
            settings = pivots.index(at.pivot), at.cutoff, at.three_way
            if not _quicksort(one, *settings, ways.index(at.small), firsts.index(at.first)):
                raise RunError

        spent_s = _median_cpu_s(work)
        if (one[1:] < one[:-1]).any():
            raise AssertionError(f"{at} does not sort")
        return 1e3 * spent_s

    levels: dict[str, Levels] = {
        "pivot": pivots, "cutoff": (1, 2, 4, 8, 16, 24, 32, 64, 128, 512), "three_way": (0, 1),
        "small": ways, "first": firsts,
    }  # fmt: skip
    _quicksort(data[:9].copy(), 0, 1, 0, 0, 0)  # compiled before it is measured
    return ProgramSpace(run, levels)


def _loss(model: Any, data: Any, target: Any, scoring: str = "neg_log_loss") -> float:
    return -float(cross_val_score(model, data, target, cv=3, scoring=scoring).mean())


def _perceptron_digits() -> ProgramSpace:
    """Log loss of perceptrons on handwritten digits, and 0.05 for each CPU second of training."""
    images, digits = datasets.load_digits(return_X_y=True)
    fit, check = slice(400), slice(400, 900)

    def run(at: SimpleNamespace) -> float:
        model = MLPClassifier(
            (at.width,) * at.layers, activation=at.activation, learning_rate_init=at.rate,
            alpha=at.penalty, batch_size=40, max_iter=at.epochs, random_state=0,
        )  # fmt: skip
        spent_s = cpu_s(lambda: model.fit(images[fit] / 16, digits[fit]))
        return float(log_loss(digits[check], model.predict_proba(images[check] / 16))) + (
            0.05 * spent_s
        )

    levels: dict[str, Levels] = {
        "width": (8, 20, 50), "layers": (1, 2), "activation": ("relu", "tanh", "logistic"),
        "rate": (0.001, 0.003, 0.01, 0.03, 0.1), "penalty": (0.0001, 1.0),
        "epochs": (4, 12),
    }  # fmt: skip
    return ProgramSpace(run, levels)


def _boosting_diabetes() -> ProgramSpace:
    """Mean square error of boosted trees on diabetes, over 1,000; by cross-validation."""
    data, target = datasets.load_diabetes(return_X_y=True)

    def run(at: SimpleNamespace) -> float:
        model = ensemble.GradientBoostingRegressor(
            n_estimators=at.trees, learning_rate=at.rate, max_depth=at.depth,
            subsample=at.share, min_samples_leaf=at.leaf, random_state=0,
        )  # fmt: skip
        return _loss(model, data[:300], target[:300], "neg_mean_squared_error") / 1e3

    levels: dict[str, Levels] = {
        "trees": (10, 30, 60), "rate": (0.03, 0.1, 0.3, 0.8), "depth": (1, 2, 4),
        "share": (0.3, 0.6, 1.0), "leaf": (1, 5, 20),
    }  # fmt: skip
    return ProgramSpace(run, levels, (ValueError,))


def _logistic_cancer() -> ProgramSpace:
    """Log loss of logistic regression; refused penalties and not converged ones fail."""
    data, target = datasets.load_breast_cancer(return_X_y=True)

    def run(at: SimpleNamespace) -> float:
        model = LogisticRegression(
            solver=at.solver, l1_ratio=at.l1, C=at.c, tol=at.tol, max_iter=300, random_state=0,
            class_weight=None if at.weight == "even" else "balanced",
        )  # fmt: skip
        return _loss(make_pipeline(SCALERS[at.scaler](), model), data[:240], target[:240])

    levels: dict[str, Levels] = {
        "solver": ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga"),
        "l1": (0, 0.5, 1), "c": (0.01, 0.1, 0.5, 2, 10), "tol": (0.0001, 0.01),
        "weight": ("even", "balanced"), "scaler": ("standard", "minmax", "normalised"),
    }  # fmt: skip
    return ProgramSpace(run, levels, (ValueError, ConvergenceWarning))


def _kernel_diabetes() -> ProgramSpace:
    """Mean square error of kernel ridge regression on diabetes, over 1,000."""
    data, target = datasets.load_diabetes(return_X_y=True)

    def run(at: SimpleNamespace) -> float:
        model = KernelRidge(
            alpha=at.alpha, kernel=at.kernel, gamma=at.gamma, degree=at.degree, coef0=at.shift
        )
        pipeline = make_pipeline(SCALERS[at.scaler](), model)
        return _loss(pipeline, data[:300], target[:300], "neg_mean_squared_error") / 1e3

    levels: dict[str, Levels] = {
        "kernel": ("rbf", "laplacian", "polynomial", "sigmoid"), "degree": (2, 3),
        "alpha": (0.001, 0.01, 0.1, 1, 10), "gamma": (0.003, 0.02, 0.1, 1),
        "shift": (0, 1), "scaler": ("standard", "minmax", "normalised"),
    }  # fmt: skip
    return ProgramSpace(run, levels, (ValueError,))


def _tree_wine() -> ProgramSpace:
    """Log loss of decision trees on wine, by cross-validation."""
    data, target = datasets.load_wine(return_X_y=True)

    def run(at: SimpleNamespace) -> float:
        model = tree.DecisionTreeClassifier(
            criterion=at.criterion, splitter=at.splitter, max_depth=at.depth, random_state=0,
            min_samples_leaf=at.leaf, max_features=at.features, ccp_alpha=at.pruning,
        )  # fmt: skip
        return _loss(model, data, target)

    levels: dict[str, Levels] = {
        "criterion": ("gini", "entropy"), "splitter": ("best", "random"), "depth": (2, 3, 4, 8),
        "leaf": (1, 3, 6, 10, 16), "features": (0.2, 0.5, 1.0), "pruning": (0.0, 0.01, 0.03, 0.1),
    }  # fmt: skip
    return ProgramSpace(run, levels)


def _dbscan_digits() -> ProgramSpace:
    """1 - V-measure of DBSCAN's clusters of digits; without two clusters it fails."""
    images, digits = (part[:500] for part in datasets.load_digits(return_X_y=True))

    def run(at: SimpleNamespace) -> float:
        scaled = SCALERS[at.scaler]().fit_transform(images / 16)
        points = decomposition.PCA(at.dimensions, svd_solver="full").fit_transform(scaled)
        spread = float(np.median(np.linalg.norm(points - points.mean(axis=0), axis=1)))
        model = cluster.DBSCAN(eps=at.radius * spread, min_samples=at.least, metric=at.metric)
        labels = model.fit_predict(points)
        if labels.max() < 1:
            raise RunError
        return 1 - float(v_measure_score(digits, labels))

    levels: dict[str, Levels] = {
        "scaler": ("none", "standard", "normalised"), "dimensions": (2, 4, 8, 16, 32),
        "radius": (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85), "least": (2, 5, 10),
        "metric": ("euclidean", "manhattan", "chebyshev"),
    }  # fmt: skip
    return ProgramSpace(run, levels)


def _text_classes() -> ProgramSpace:
    """Log loss of naive Bayes on texts of six Markov chains; n-grams from 3 to 2 are refused."""
    rng, letters = np.random.default_rng(SEED), np.array(list("abcdefghij "))
    base, texts = rng.gamma(0.5, size=(11, 11)), []
    for _ in range(6):
        chain = base + 0.5 * rng.gamma(0.5, size=(11, 11))
        chain /= chain.sum(axis=1, keepdims=True)
        for _ in range(15):
            state = [0]
            for _ in range(70):
                state.append(int(rng.choice(11, p=chain[state[-1]])))
            texts.append("".join(letters[state]))
    target = np.repeat(np.arange(6), 15)

    def run(at: SimpleNamespace) -> float:
        vectors = feature_extraction.text.TfidfVectorizer(
            analyzer=at.analyzer, ngram_range=(at.shortest, at.longest), min_df=at.least,
            sublinear_tf=at.sublinear == 1, norm=None if at.norm == "none" else at.norm,
        )  # fmt: skip
        return _loss(make_pipeline(vectors, MultinomialNB(alpha=at.alpha)), texts, target)

    levels: dict[str, Levels] = {
        "analyzer": ("char", "char_wb", "word"), "shortest": (1, 2, 3), "longest": (1, 2, 3),
        "least": (1, 3), "sublinear": (0, 1), "norm": ("l1", "l2", "none"),
        "alpha": (0.01, 0.1, 1),
    }  # fmt: skip
    return ProgramSpace(run, levels, (ValueError,))


def _ode_oscillator() -> ProgramSpace:
    """log10 of the error of van der Pol's oscillator, and of evaluations, twice; 2,500 at most."""

    def slope(t: float, y: Any) -> list[float]:
        del t
        return [y[1], 6 * (1 - y[0] ** 2) * y[1] - y[0]]

    end = (0.0, 6.0)
    exact = integrate.solve_ivp(slope, end, [2, 0], method="Radau", rtol=1e-11, atol=1e-12).y[:, -1]

    def run(at: SimpleNamespace) -> float:
        n = itertools.count(1)

        def counted(t: float, y: Any) -> list[float]:
            if next(n) > 2_500:
                raise RunError
            return slope(t, y)

        done = integrate.solve_ivp(
            counted, end, [2, 0], method=at.method, rtol=at.rtol, atol=at.atol,
            first_step=at.first_step, max_step=at.max_step,
        )  # fmt: skip
        if not done.success:
            raise RunError
        error = float(np.abs(done.y[:, -1] - exact).max())
        return math.log10(error + 1e-12) + 2 * math.log10(next(n))

    levels: dict[str, Levels] = {
        "method": ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"),
        "rtol": (0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6), "atol": (0.1, 0.01, 1e-3, 1e-5, 1e-7),
        "first_step": (1e-4, 0.01, 0.5), "max_step": (0.5, 6.0),
    }  # fmt: skip
    return ProgramSpace(run, levels, (RunError, ValueError))


def _minimise_valley() -> ProgramSpace:
    """Evaluations of an optimiser to a value below 1e-4 in a curved valley; 800 at most."""
    rotated = np.linalg.qr(np.random.default_rng(SEED).normal(size=(4, 4)))[0]
    frames = {"plain": np.eye(4), "rotated": rotated, "stretched": np.diag([1, 10, 0.1, 3])}
    minimise: Any = optimize.minimize  # its types know no method by name
    options = {"Nelder-Mead": "initial_simplex", "COBYLA": "rhobeg", "Powell": "direc"}

    def run(at: SimpleNamespace) -> float:
        n, frame = 0, frames[at.frame]

        def value(x: Any) -> float:
            nonlocal n
            n += 1
            if n > 800:
                raise RunError
            found = float(optimize.rosen(frame @ x))
            if found < 1e-4:
                raise StopIteration
            return found

        start = np.linalg.solve(frame, np.full(4, at.start))
        step = at.step * np.eye(4)
        special = {"initial_simplex": np.vstack([start, start + step]), "rhobeg": at.step,
                   "direc": step}  # fmt: skip
        name = options.get(at.method)
        given = {"eps": at.step} if name is None else {name: special[name]}
        try:
            minimise(value, start, method=at.method, tol=at.tol, options=given)
        except StopIteration:
            return n
        raise RunError  # it gave up before

    levels: dict[str, Levels] = {
        "method": ("Nelder-Mead", "Powell", "CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", "COBYLA"),
        "start": (-1.5, 0.2, 3.0), "step": (1e-8, 1e-4, 0.1, 1.0), "tol": (0.01, 1e-5, 1e-9),
        "frame": tuple(frames),
    }  # fmt: skip
    return ProgramSpace(run, levels, (RunError, ValueError, TypeError))


def _evolution_waves() -> ProgramSpace:
    """Least value of Rastrigin's function that differential evolution finds, mean of two seeds."""
    bounds = optimize.Bounds([-5.0] * 5, [5.0] * 5)

    def waves(x: Any) -> Any:
        x = x - 0.7
        return 50 + (x**2 - 10 * np.cos(2 * math.pi * x)).sum(axis=0)

    def run(at: SimpleNamespace) -> float:
        def least(seed: int) -> float:
            found = optimize.differential_evolution(
                waves, bounds, strategy=at.strategy, popsize=at.size, init=at.init,
                mutation=at.mutation, recombination=at.crossover, maxiter=200 // at.size, tol=0,
                polish=False, rng=seed, updating="deferred", vectorized=True,
            )  # fmt: skip
            return float(found.fun)

        return statistics.fmean(map(least, (1, 2)))

    levels: dict[str, Levels] = {
        "strategy": ("best1bin", "best2bin", "rand1bin", "rand2bin", "currenttobest1bin",
                     "best1exp"),
        "size": (4, 8, 16), "mutation": (0.2, 0.4, 0.6, 0.9), "crossover": (0.1, 0.4, 0.7, 0.95),
        "init": ("latinhypercube", "random"),
    }  # fmt: skip
    return ProgramSpace(run, levels)


def _denoise_chirp() -> ProgramSpace:
    """Root mean square error of a denoised chirp; windows that cannot be inverted fail."""
    t = np.linspace(0, 1, 3_000)
    clean = np.sin(300 * t + 900 * t**3) * np.exp(-2 * (t - 0.4) ** 2)
    noisy = clean + 0.5 * np.random.default_rng(SEED).normal(size=len(t))

    def run(at: SimpleNamespace) -> float:
        shape: dict[str, Any] = {"window": at.window, "nperseg": at.length,
                                 "noverlap": int(at.overlap * at.length)}  # fmt: skip
        spectrum = signal.stft(noisy, **shape)[2]
        size = np.abs(spectrum) + 1e-12
        limit = at.threshold * float(np.median(size))
        gain = {
            "hard": (size > limit).astype(float), "soft": np.clip(1 - limit / size, 0, None),
            "squared": np.clip(1 - (limit / size) ** 2, 0, None),
        }[at.rule]  # fmt: skip
        back = signal.istft(spectrum * gain, **shape)[1][: len(t)]
        return float(np.sqrt(np.mean((back - clean[: len(back)]) ** 2)))

    levels: dict[str, Levels] = {
        "window": ("hann", "hamming", "boxcar", "blackman", "bartlett"),
        "length": (32, 64, 128, 256, 512), "overlap": (0, 0.25, 0.5, 0.75),
        "threshold": (0.5, 1, 1.5, 2, 3, 4), "rule": ("hard", "soft", "squared"),
    }  # fmt: skip
    return ProgramSpace(run, levels, (UserWarning, ValueError))


def _sparse_flow() -> ProgramSpace:
    """CPU milliseconds to solve a flow problem of 900 unknowns; not converged fails."""
    n, wind = 30, 0.7
    line = sparse.diags_array([-1 - wind, 2.02, -1 + wind], offsets=[-1, 0, 1], shape=(n, n))
    still = sparse.diags_array([-1, 2.02, -1], offsets=[-1, 0, 1], shape=(n, n))
    eye = sparse.eye_array(n)
    matrix = (sparse.kron(line, eye) + sparse.kron(eye, still)).tocsc()
    right = np.random.default_rng(SEED).normal(size=n * n)

    def run(at: SimpleNamespace) -> float:
        def work() -> None:
            factors = linalg.spilu(
                matrix, drop_tol=at.drop, fill_factor=at.fill, permc_spec=at.order,
                diag_pivot_thresh=at.pivot,
            )  # fmt: skip
            nearly = linalg.LinearOperator(matrix.shape, factors.solve)
            solve = getattr(linalg, at.method)
            x, problem = solve(matrix, right, rtol=1e-8, maxiter=60, M=nearly)
            if problem or np.linalg.norm(matrix @ x - right) > 1e-5 * np.linalg.norm(right):
                raise RunError

        return 1e3 * _median_cpu_s(work)

    levels: dict[str, Levels] = {
        "method": ("bicgstab", "gmres", "cgs", "tfqmr", "lgmres", "gcrotmk"),
        "drop": (0.3, 0.1, 0.01, 0.001, 1e-5), "fill": (1.5, 3, 6, 20), "pivot": (0.0, 1.0),
        "order": ("NATURAL", "MMD_ATA", "MMD_AT_PLUS_A", "COLAMD"),
    }  # fmt: skip
    return ProgramSpace(run, levels, (RunError, RuntimeError))


PROGRAMS: Mapping[str, Callable[[], ProgramSpace]] = {one.__name__.strip("_"): one for one in (
    _zlib_lines, _lzma_lines, _sqlite_orders, _gcc_flags, _gcc_product, _quicksort_parts,
    _perceptron_digits, _boosting_diabetes, _logistic_cancer, _kernel_diabetes, _tree_wine,
    _dbscan_digits, _text_classes, _ode_oscillator, _minimise_valley, _evolution_waves,
    _denoise_chirp, _sparse_flow)}  # fmt: skip
