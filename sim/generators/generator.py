"""Generators, which fit a model to a workload and draw workloads from a model.

A model is numbers by name and arrays, stored as JSON and npz; a whole workload can be packed into
it. Random numbers come from named streams, so that the draws of one stage do not shift those of
another. Poisson arrivals have exponential gaps with a rate per weekday. The registered
generators, with fit and draw by name, are at the end.
"""

import hashlib
import io
import json
import math
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.metrics.wall_clock import DAY_S
from sim.model.errors import TraceError, WorkloadError, entry_named
from sim.model.files import write_atomically
from sim.model.tasks import Tasks, TaskWork, Term
from sim.model.workload import Workload
from sim.policies.policy import PolicyOption, knob_values

Floats = NDArray[np.float64]


_N_WORDS = 4


@dataclass(frozen=True)
class RandomStreams:
    """Independent random streams of one seed, identified by names.

    Attributes:
        within: names of the enclosing stages.

    Raises:
        WorkloadError: an invalid seed.
    """

    seed: int
    within: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if type(self.seed) is not int or self.seed < 0:
            raise WorkloadError(f"seed is {self.seed!r}; allowed are whole numbers from 0.")

    def of(self, name: str) -> np.random.Generator:
        """Return a new random generator at the start of the stream with this name."""
        return np.random.default_rng(self.sequence(name))

    def sequence(self, name: str) -> np.random.SeedSequence:
        """Return the seed sequence of the stream with this name, to spawn generators from."""
        path = "/".join((*self.within, name)).encode()
        words = np.frombuffer(hashlib.sha256(path).digest()[: 4 * _N_WORDS], dtype="<u4")
        return np.random.SeedSequence(self.seed, spawn_key=tuple(int(word) for word in words))

    def inside(self, name: str) -> "RandomStreams":
        """Return streams whose names are nested below this name."""
        return RandomStreams(self.seed, (*self.within, name))


FORMAT = "copperline-workload-model"
VERSION = 1
MOST_JSON_BYTES = 2**24
MOST_ARRAY_BYTES = 2**31  # limit of all unpacked arrays of a model together

KINDS = "bifU"  # allowed numpy kinds of arrays: truth values, whole and other numbers, texts

Json = Any  # any JSON value; the generator of the model checks it


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted or published workload model: its generator, parameters and arrays.

    Attributes:
        arrays: read-only arrays of numbers or texts, by name.
        source: one sentence for people: what it was fitted to, or where it was published.
    """

    generator: str
    parameters: Mapping[str, Json] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", _json_copy(self.parameters))
        arrays = {}
        for name, array in sorted(self.arrays.items()):
            if array.dtype.kind not in KINDS:
                raise WorkloadError(f"array '{name}' of a model holds {array.dtype}, not numbers.")
            arrays[name] = array.copy()
            arrays[name].setflags(write=False)
        object.__setattr__(self, "arrays", arrays)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of generator, parameters and arrays, the same on every machine."""
        sha = hashlib.sha256(f"{self.generator}\n{_text(self.parameters)}\n".encode())
        for name, array in self.arrays.items():
            little = array.astype(array.dtype.newbyteorder("<"))
            sha.update(f"{name} {little.dtype.str} {array.shape}\n".encode())
            sha.update(np.ascontiguousarray(little).tobytes())
        return sha.hexdigest()

    def with_parameters(self, parameters: Mapping[str, Json]) -> "Model":
        """Return a copy of the model with these parameters replaced.

        Raises:
            WorkloadError: the model has no parameter of that name.
        """
        for name in parameters:
            if name not in self.parameters:
                names = ", ".join(sorted(self.parameters)) or "none"
                raise WorkloadError(
                    f"a model of '{self.generator}' has no parameter '{name}'; it has: {names}."
                )
        return replace(self, parameters={**self.parameters, **parameters})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def arrays_beside(path: Path) -> Path:
    """Return the path of the npz file with the arrays of a model's JSON file."""
    return path.with_suffix(".npz")


def save_model(model: Model, path: Path) -> None:
    """Write a model as a JSON file, and its arrays, if any, as an npz file in the same folder.

    Each file is written completely or not at all; the JSON, with the digest, comes last.

    Raises:
        WorkloadError: the name does not end in .json, or the file cannot be written.
    """
    if path.suffix != ".json":
        raise WorkloadError(f"{path}: the name of a model's file must end in .json.")
    content = {
        "format": FORMAT,
        "version": VERSION,
        "generator": model.generator,
        "source": model.source,
        "digest": model.digest,
        "parameters": model.parameters,
        "arrays": sorted(model.arrays),
    }
    if model.arrays:
        packed = io.BytesIO()
        np.savez_compressed(packed, allow_pickle=False, **dict(model.arrays))
        beside = arrays_beside(path)
        write_atomically(beside, packed.getvalue(), raises=WorkloadError, parents=True)
    write_json(path, content)


def load_model(path: Path) -> Model:
    """Read a model that `save_model` wrote, without executing anything from the files.

    Raises:
        TraceError: no such file, not a model, another version, or arrays of another model.
    """
    content = read_versioned_json(path, "model", FORMAT, VERSION)
    try:
        names, digest = content["arrays"], content["digest"]
        generator, parameters, source = (
            content["generator"],
            content["parameters"],
            content["source"],
        )
    except KeyError as error:
        raise TraceError(path, expected=f"it is not a model: {error} is missing.") from None
    is_whole = (
        isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and isinstance(parameters, dict)
        and isinstance(generator, str)
        and isinstance(source, str)
    )
    if not is_whole:
        raise TraceError(path, expected="it is not a model: its entries have wrong types.")
    model = Model(generator, parameters, _read_arrays(path, names) if names else {}, source)
    if model.digest != digest:
        beside = f" or {arrays_beside(path).name}" if names else ""
        expected = f"the digest does not match; it{beside} was changed. Fit the model again."
        raise TraceError(path, expected=expected)
    return model


def read_versioned_json(
    path: Path,
    kind: str,
    form: str,
    version: int,
    pairs: Callable[[list[tuple[str, Json]]], dict[str, Json]] = dict,
) -> dict[str, Any]:
    """Read a JSON object and check its format name and version.

    `pairs` makes a dictionary of the entries of an object, and may raise ValueError.

    Raises:
        TraceError: no such file, too large, no JSON, another format or version.
    """
    try:
        if path.stat().st_size > MOST_JSON_BYTES:
            raise TraceError(path, expected=f"a {kind} has at most {MOST_JSON_BYTES:,} bytes.")
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs)
    except OSError as error:
        raise TraceError(path, expected=f"it cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(path, expected=f"it is not JSON ({error}).") from None
    if not isinstance(content, dict) or content.get("format") != form:
        raise TraceError(path, expected=f'it is not a {kind}, which has "format": "{form}".')
    if content.get("version") != version:
        expected = f"the {kind} has version {content.get('version')!r}; allowed is {version}."
        raise TraceError(path, expected=expected)
    return content


def _read_arrays(path: Path, names: list[str]) -> dict[str, NDArray[Any]]:
    beside = arrays_beside(path)
    try:
        with zipfile.ZipFile(beside) as packed:
            unpacked = sum(entry.file_size for entry in packed.infolist())
        if unpacked > MOST_ARRAY_BYTES:
            raise TraceError(beside, expected=f"arrays have at most {MOST_ARRAY_BYTES:,} bytes.")
        with np.load(beside, allow_pickle=False) as archive:
            return {name: archive[name] for name in names}
    except KeyError as error:
        raise TraceError(beside, expected=f"an array of the model is missing: {error}.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        expected = f"the arrays of {path.name} cannot be read from it ({error})."
        raise TraceError(beside, expected=expected) from None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write indented JSON atomically. Raises WorkloadError."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, text, raises=WorkloadError, parents=True)


def _text(parameters: Mapping[str, Json]) -> str:
    return json.dumps(parameters, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _json_copy(parameters: Mapping[str, Json]) -> dict[str, Json]:
    """Return parameters after a JSON round trip. Raises WorkloadError if JSON cannot hold them."""
    try:
        back: dict[str, Json] = json.loads(_text(parameters))
    except (TypeError, ValueError) as error:
        raise WorkloadError(f"the parameters of a model must be JSON values; {error}.") from None
    return back


MOST_JOBS = 20_000_000  # of one generated workload: its columns need some gigabytes


EPOCH_UNIX_S = 1_704_067_200.0
"""Monday, 1 January 2024, midnight UTC: begin of models without a date."""


@dataclass(frozen=True)
class Horizon:
    """Duration of a workload to draw, and the factor on its arrival rate.

    Attributes:
        duration_s: time of submissions from the beginning of the model (its midnight, if it has
            days); above 0.
        scale: factor on the rate of arrivals: 10 gives 10 times the jobs, of the same kinds.

    Raises:
        WorkloadError: either is not finite and above 0.
    """

    duration_s: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("duration_s", self.duration_s), ("scale", self.scale)):
            if checked_number(name, value, 0.0) == 0:
                raise WorkloadError(f"{name} is {value!r}; allowed are finite numbers above 0.")


@dataclass(frozen=True)
class ModelMoment:
    """Expected mean and standard deviation of one quantity of the jobs that a model draws.

    Attributes:
        mean: expected value of one job; of ``jobs_per_day``, of one day in the long run.
        sd: the mean over n jobs has the standard deviation sd / sqrt(n); of ``jobs_per_day``, that
            over n days.
    """

    mean: float
    sd: float


def _say_nothing(words: str) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class FitWatch:
    """Where a long fit reports and keeps its progress.

    Attributes:
        say: called with one line of text now and then; may raise to stop the fit.
        checkpoint: file from which an interrupted fit resumes, written while it runs; or None.
    """

    say: Callable[[str], None] = _say_nothing
    checkpoint: Path | None = None


@dataclass(frozen=True)
class Generator:
    """A workload generator: functions that check, fit and draw its models.

    Attributes:
        summary: one line for people, with the source.
        check: raises `WorkloadError`, in one sentence that names the parameter and what is
            allowed, for an invalid model. It is called before every draw.
        draw: function of model, horizon and streams that returns a workload; deterministic on
            every machine. Every stage draws from the stream of its name.
        fit: function of workload and knobs that returns a model; pure (random numbers come from a
            fixed seed).
        published: function that returns the model with the parameters of the source; None if a
            workload must be fitted.
        moments: function of the model that returns moments of the jobs at scale 1, by the names of
            `sim.generators.resampling.measure_moments`; or None.
        extends: whether a workload of a longer duration begins with the one of a shorter.
        watched_fit: as `fit`, for fits that may take long; or None.
    """

    name: str
    summary: str
    check: Callable[[Model], None]
    draw: Callable[[Model, Horizon, RandomStreams], Workload]
    fit: Callable[[Workload, Mapping[str, float]], Model]
    published: Callable[[], Model] | None = None
    knobs: tuple[PolicyOption, ...] = ()
    moments: Callable[[Model], Mapping[str, ModelMoment]] | None = None
    extends: bool = False
    watched_fit: Callable[[Workload, Mapping[str, float], FitWatch], Model] | None = None


def first_submit_s(submit_s: NDArray[np.float64], horizon: Horizon) -> float:
    """Return the earliest submit time in seconds since the model's midnight.

    Raises:
        WorkloadError: there are no submit times.
    """
    if len(submit_s) == 0:
        raise WorkloadError(
            f"no job is submitted within {horizon.duration_s:g} s; ask for a longer duration or a "
            "larger scale."
        )
    return float(submit_s.min())


def check_number_of_jobs(expected: float) -> None:
    """Raise `WorkloadError` if a draw is expected to exceed `MOST_JOBS` jobs."""
    if not expected <= MOST_JOBS:
        raise WorkloadError(
            f"about {expected:.3g} jobs would be drawn, and {MOST_JOBS:,} are allowed; ask for a "
            "shorter duration or a smaller scale."
        )


def number_of(model: Model, name: str, lowest: float, highest: float = math.inf) -> float:
    """Return a model parameter as a float, checked to be from `lowest` to `highest`.

    Raises:
        WorkloadError: it is missing, no number, or not from `lowest` to `highest`.
    """
    return checked_number(
        f"parameter '{name}' of '{model.generator}'", _of(model, name), lowest, highest
    )


def checked_number(subject: str, value: Json, lowest: float, highest: float = math.inf) -> float:
    """Return a value as a float, or raise `WorkloadError` if it is out of range."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and lowest <= value <= min(highest, sys.float_info.max)):
        upto = "" if math.isinf(highest) else f" to {highest:g}"
        raise WorkloadError(f"{subject} is {value!r}; allowed are numbers from {lowest:g}{upto}.")
    return float(value)


def _of(model: Model, name: str) -> Json:
    if name not in model.parameters:
        raise WorkloadError(f"a model of '{model.generator}' needs the parameter '{name}'.")
    return model.parameters[name]


Arrays = dict[str, NDArray[Any]]

COLUMNS: tuple[str, ...] = (
    "runtime_s", "requested_s", "procs", "user", "group", "queue", "partition", "status",
    "mem_bytes_per_proc",
)  # fmt: skip
"""Stored columns of jobs. Callers store submit times, on their own clocks."""


def pack_workload(workload: Workload) -> tuple[dict[str, Json], Arrays]:
    """Convert a workload's jobs and tasks to model parameters and arrays."""
    arrays: Arrays = {name: getattr(workload, name) for name in COLUMNS}
    parameters: dict[str, Json] = {
        "max_procs": workload.max_procs,
        "requested_is_runtime": workload.requested_is_runtime,
    }
    if workload.tasks is None:
        return parameters, arrays
    more, of_tasks = pack_tasks(workload.tasks)
    return parameters | more, arrays | of_tasks


def pack_tasks(tasks: Tasks) -> tuple[dict[str, Json], Arrays]:
    """Convert tasks to the parameters and arrays from which `unpack_tasks` restores them."""
    arrays: Arrays = {}
    for prefix, holder in (("task ", tasks), ("work ", tasks.work)):
        for column_field in () if holder is None else fields(holder):
            if isinstance(value := getattr(holder, column_field.name), np.ndarray):
                arrays[prefix + column_field.name] = value
    arrays |= {f"text {name}": np.array(column, dtype=str) for name, column in tasks.texts.items()}
    parameters: Json = {
        "roles": list(tasks.roles),
        "gpu_resources": list(tasks.gpu_resources),
        "affinities": [
            [[term.key, term.operator, list(term.values)] for term in terms]
            for terms in tasks.affinities
        ],
        "classes": None if tasks.work is None else list(tasks.work.classes),
    }
    return {"tasks": parameters}, arrays


def unpack_columns(model: Model) -> Mapping[str, NDArray[Any]]:
    """Return the job columns that `pack_workload` stored in a model.

    Raises:
        WorkloadError: one is missing or of another length.
    """
    rows = model.arrays.get(COLUMNS[0], np.zeros(0)).shape
    for name in COLUMNS:
        column = model.arrays.get(name, np.zeros(0))
        if not rows[0] or column.shape != rows or column.dtype.kind not in "if":
            raise WorkloadError(
                f"a model of '{model.generator}' needs the array '{name}', a number per job."
            )
    return {name: model.arrays[name] for name in COLUMNS}


def unpack_tasks(model: Model) -> Tasks | None:
    """Return the tasks that `pack_workload` stored in a model, or None without tasks.

    Raises:
        WorkloadError: the data are no valid tasks.
    """
    parameters = model.parameters.get("tasks")
    if parameters is None:
        return None
    try:
        rows: dict[str, Any] = {
            name.removeprefix("task "): array
            for name, array in model.arrays.items()
            if name.startswith("task ")
        }
        work = {
            name.removeprefix("work "): array.copy()
            for name, array in model.arrays.items()
            if name.startswith("work ")
        }
        flat, first = rows.pop("parent_task"), rows.pop("first_parent")
        return Tasks.from_arrays(
            **rows,
            edges=(first, flat),
            roles=parameters["roles"],
            gpu_resources=parameters["gpu_resources"],
            affinities=[
                [Term(key, operator, tuple(values)) for key, operator, values in terms]
                for terms in parameters["affinities"]
            ],
            work=None
            if parameters["classes"] is None
            else TaskWork(**work, classes=tuple(parameters["classes"])),
            texts={
                name.removeprefix("text "): array.tolist()
                for name, array in model.arrays.items()
                if name.startswith("text ")
            },
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise WorkloadError(
            f"parameter 'tasks' of '{model.generator}' does not describe tasks ({error})."
        ) from None


BLOCK = 4096


def weekday_rates(subject: str, jobs_per_day: Json) -> Floats:
    """Return jobs per day from Monday to Sunday, float64 [7], from one number or seven.

    Raises:
        WorkloadError: another value, or no job in a week.
    """
    values = jobs_per_day if isinstance(jobs_per_day, list) else [jobs_per_day] * 7
    if len(values) != 7:
        raise WorkloadError(
            f"{subject} has {len(values)} numbers; allowed are 1, or 7 from Monday on."
        )
    rates = np.array([checked_number(subject, value, 0.0, 1e9) for value in values])
    if rates.sum() <= 0:
        raise WorkloadError(f"{subject} is 0 on every day; allowed are numbers above 0.")
    return rates


def poisson_arrivals(rates: Floats, horizon: Horizon, rng: np.random.Generator) -> Floats:
    """Draw Poisson submit times in seconds since a Monday's midnight: float64 [n].

    A longer duration continues a shorter one.

    Args:
        rates: jobs per day from Monday on, float64 [7].
        horizon: duration and factor on the rates.
        rng: random generator; it draws one exponential variable per job, in blocks.

    Raises:
        WorkloadError: too many jobs.
    """
    check_number_of_jobs(float(rates.mean()) * horizon.duration_s / DAY_S * horizon.scale)
    paid = np.concatenate([[0.0], np.cumsum(rates)])
    clock_s = np.arange(8) * DAY_S
    blocks: list[Floats] = []
    have = 0.0
    while not blocks or blocks[-1][-1] < horizon.duration_s:
        brought = rng.exponential(1.0, BLOCK) / horizon.scale
        jobs = np.cumsum(np.concatenate([[have], brought]))[1:]
        have = float(jobs[-1])
        weeks, rest = np.divmod(jobs, paid[-1])
        blocks.append(weeks * 7 * DAY_S + np.interp(rest, paid, clock_s))
    submit_s = np.concatenate(blocks)
    return submit_s[submit_s < horizon.duration_s]


_TARGETS = (
    "sim.generators.lublin_generator:LUBLIN",
    "sim.generators.downey:DOWNEY",
    "sim.generators.task_graphs:GRAPHS",
    "sim.generators.joulie.generator:JOULIE",
    "sim.generators.resampling:RESAMPLING",
    "sim.generators.cloud.three_stage:THREE_STAGE",
    "sim.generators.cloud.three_stage:SIMPLE_BATCH",
    "sim.generators.cloud.three_stage:NAIVE",
)


@cache
def registered_generators() -> tuple[Generator, ...]:
    """Return the registered generators; their modules are imported at the first call."""
    targets = (target.split(":") for target in _TARGETS)
    return tuple(getattr(import_module(module), name) for module, name in targets)


def generator_named(name: str) -> Generator:
    """Return the registered generator with this name, or raise `UnknownNameError`."""
    return entry_named("generator", name, registered_generators())


def published_model(name: str) -> Model:
    """Return a generator's model with the parameters that its source publishes.

    Raises:
        UnknownNameError: there is no such generator.
        WorkloadError: no parameters are published; the generator must be fitted.
    """
    generator = generator_named(name)
    if generator.published is None:
        raise WorkloadError(
            f"generator '{name}' has no parameters of its own; fit it to a workload first."
        )
    return generator.published()


def fit(
    name: str,
    workload: Workload,
    knobs: Mapping[str, float | str] | None = None,
    *,
    watch: FitWatch | None = None,
    **more: float | str,
) -> Model:
    """Fit a model of the generator with this name to a workload.

    `watch` reports the progress of a long fit, and lets it resume from a checkpoint.

    Raises:
        UnknownNameError: no such generator, or no such knob.
        WorkloadError: the workload is too small or lacks required data, or this fit has no
            checkpoints.
        ScenarioError: a knob out of range.
    """
    generator = generator_named(name)
    settings = {**(knobs or {}), **more}
    values = knob_values(generator.knobs, settings, f"fitting '{name}'")
    if watch is None:
        model = generator.fit(workload, values)
    elif generator.watched_fit is not None:
        model = generator.watched_fit(workload, values, watch)
    elif watch.checkpoint is None:
        model = generator.fit(workload, values)
    else:
        raise WorkloadError(f"fitting '{name}' keeps no checkpoint; leave it out.")
    generator.check(model)
    return model


def generate(
    model: Model, *, duration_s: float, seed: int | RandomStreams, scale: float = 1.0
) -> Workload:
    """Draw a workload from a model, with submissions over `duration_s` seconds.

    Jobs are submitted within `duration_s` seconds; `scale` is a factor on the rate of arrivals.

    Raises:
        UnknownNameError: no such generator.
        WorkloadError: invalid parameters, or no jobs or too many within the duration.
    """
    generator = generator_named(model.generator)
    generator.check(model)
    streams = seed if isinstance(seed, RandomStreams) else RandomStreams(seed)
    return generator.draw(model, Horizon(duration_s, scale), streams)
