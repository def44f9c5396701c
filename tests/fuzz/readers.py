"""The readers: what each makes of bytes, and what must hold of its answer."""

import hashlib
import json
import math
import random
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from assistant.applications.benchmark_files import FileFormat, benchmark_measures
from assistant.applications.child_process import StreamTail
from assistant.applications.measures import JsonOutput, Patterns, from_json, measures_of
from assistant.config.snapshot import read_results
from assistant.config.sweep_file import build_sweep, check_settings, read_settings
from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import StoreError
from assistant.core.experiment import Experiment
from assistant.core.objective import Objective, SingleMeasure
from assistant.store.event_store import SqliteStore
from sim.api import ReadingRules, describe, load_workload
from sim.formats import read_joulie, write_joulie
from strategies import MeasuredTable
from tests.assistant.examples import SPACE
from tests.fuzz import corpus
from tests.fuzz import workload_readers as others
from tests.fuzz.mutate import mutated, mutated_tree
from tests.fuzz.watch import OURS, fault_of, fault_of_sentence

LENIENT = ReadingRules(
    unsorted="sort", never_ran="keep_zero", partial_executions="drop", requested_time="field_6",
    procs_missing="drop", negative="unknown", duplicate_ids="renumber", extra_columns="drop",
    machine_size="max_nodes", encoding="latin-1",
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """One reader under test.

    Args:
        read: takes the input and an empty folder; returns, or raises an error of ours.
        seeds: valid inputs.
        words: that mean something in them.
        mutate: makes an almost valid input of valid ones.
    """

    read: Callable[[bytes, Path], None]
    seeds: Callable[[], Sequence[bytes]]
    words: Sequence[bytes]
    mutate: Callable[[random.Random, Sequence[bytes], Sequence[bytes]], bytes] = mutated

    def fault(self, data: bytes, folder: Path) -> str | None:
        """Return what is wrong with how this input was taken; None if nothing is."""
        return fault_of(lambda: self.read(data, folder))


def _swf(data: bytes, folder: Path, rules: ReadingRules | None = None) -> None:
    path = folder / "log.swf"
    path.write_bytes(data)
    workload = load_workload(path, rules=rules)
    assert workload.n_jobs > 0
    assert (workload.runtime_s >= 0).all()
    assert (workload.procs >= 1).all()
    assert all(fault_of_sentence(note.sentence) is None for note in workload.notes)
    describe(workload)


def _joulie(
    data: bytes, folder: Path, unknown_fields: Literal["refuse", "drop"] = "refuse"
) -> None:
    path = folder / "trace.jsonl"
    path.write_bytes(data)
    workload = read_joulie(path, unknown_fields=unknown_fields)
    assert workload.n_jobs > 0
    assert all(fault_of_sentence(note.sentence) is None for note in workload.notes)
    write_joulie(workload, path)
    assert read_joulie(path) == workload


def _table(data: bytes, folder: Path) -> None:
    path = folder / "table.csv"
    path.write_bytes(data)
    table = MeasuredTable.read(path)
    assert table.n_rows >= 1
    for configuration, found in table.measurements.items():
        assert math.isfinite(found.objective)
        assert table.space.is_allowed(configuration)


def _results(data: bytes, folder: Path) -> None:
    path = folder / "results.csv"
    path.write_bytes(data)
    for values, measures in read_results(path, SPACE):
        SPACE.check(SPACE.from_values(values))
        assert all(m is None or math.isfinite(m) for m in measures.values())  # type: ignore[arg-type]


def _measures(data: bytes, folder: Path) -> None:
    stdout = StreamTail()
    stdout.add(data)
    objective = Objective(SingleMeasure("cost"))
    faults = []
    for reading in (
        JsonOutput("whole"),
        JsonOutput(),
        Patterns((r"^cost: (?P<cost>\S+)$", r"n=(?P<n>\d+)")),
    ):
        try:
            given = reading.of(stdout.text if isinstance(reading, Patterns) else stdout)  # type: ignore[arg-type]
            cost = measures_of(given, objective, "the program")["cost"]
        except OURS as error:
            faults.append(error)
            continue
        for number in cost if isinstance(cost, tuple) else (cost,):
            assert number is not None
            assert math.isfinite(number)
    if faults:
        raise faults[0]


def _benchmarks(data: bytes, folder: Path) -> None:
    objective = Objective(SingleMeasure("mean_s"))
    given = from_json(data.decode("utf-8", "replace"), "the file")
    faults = []
    for tool in get_args(FileFormat):
        try:
            found = measures_of(benchmark_measures(given, tool, "the file"), objective, "it")
        except OURS as error:
            faults.append(error)
            continue
        mean_s = found["mean_s"]
        for number in mean_s if isinstance(mean_s, tuple) else (mean_s,):
            assert number is not None
            assert math.isfinite(number)
    if faults:
        raise faults[0]


def _tree_of_json(rng: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    return json.dumps(mutated_tree(rng, json.loads(rng.choice(seeds)), words)).encode()


def _tree_of_settings(rng: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    return repr(mutated_tree(rng, tomllib.loads(rng.choice(seeds).decode()), words)).encode(
        "utf-8", "surrogatepass"
    )


def _tables(data: bytes, folder: Path) -> None:
    """Read settings that are TOML for sure: the tables, with values that a mutation chose."""
    for name, content in corpus.FILES.items():
        (folder / name).write_bytes(content)
    text = data.decode("utf-8", "surrogatepass")
    tables = eval(text, {"inf": math.inf, "nan": math.nan})  # of our own repr
    application = tables.get("application")
    if isinstance(application, dict):
        for key in ("log", "table"):
            if str(application.get(key)) in corpus.FILES:
                application[key] = str(folder / application[key])
        if "function" in application:
            application.setdefault("folder", str(folder))
    settings = check_settings(tables, "sweep.toml")
    settings.sla(1_000_000.0)
    build_sweep(settings)


def _tree_of_journal(rng: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    lines = [json.loads(line) for line in rng.choice(seeds).split(b"\n")]
    at = 0 if rng.random() < 0.3 else rng.randrange(len(lines))
    lines[at] = mutated_tree(rng, lines[at], words)
    return "\n".join(map(json.dumps, lines)).encode()


def _settings(data: bytes, folder: Path) -> None:
    for name, content in corpus.FILES.items():
        (folder / name).write_bytes(content)
    path = folder / "sweep.toml"
    path.write_bytes(data)
    before = {entry for entry in folder.iterdir() if entry.name != "__pycache__"}
    try:
        settings = check_settings(read_settings(path), str(path))
        settings.sla(1_000_000.0)
        sweep = build_sweep(settings)
        assert sweep.space.size >= 1
    finally:
        # Python keeps compiled modules beside their source; nothing else may be left.
        left = {one for one in folder.iterdir() if one.name != "__pycache__"}
        assert left == before


def _journal(data: bytes, folder: Path) -> None:
    events = [decode_event(line) for line in data.decode("utf-8", "surrogateescape").split("\n")]
    experiment = Experiment.replay(events)
    assert experiment.n_events == len(events)
    for event in events:
        assert decode_event(encode_event(event)) == event


def _store(data: bytes, folder: Path) -> None:
    path = folder / "store.db"
    for old in folder.iterdir():
        old.unlink()
    path.write_bytes(data)
    before = hashlib.sha256(data).digest()
    try:
        store = SqliteStore(path)
        try:
            for stored in store.experiments():
                Experiment.replay(store.load(stored.id))
        finally:
            store.close()
    except StoreError:
        assert hashlib.sha256(path.read_bytes()).digest() == before, "the file was changed"
        raise


READERS: dict[str, Reader] = {
    "swf": Reader(_swf, lambda: corpus.SWF, corpus.SWF_WORDS),
    "swf_lenient": Reader(
        lambda data, folder: _swf(data, folder, LENIENT), lambda: corpus.SWF, corpus.SWF_WORDS
    ),
    "joulie": Reader(_joulie, lambda: corpus.JOULIE, corpus.JOULIE_WORDS),
    "joulie_lenient": Reader(
        lambda data, folder: _joulie(data, folder, "drop"),
        lambda: corpus.JOULIE,
        corpus.JOULIE_WORDS,
    ),
    "settings": Reader(_settings, lambda: corpus.SETTINGS, corpus.SETTINGS_WORDS),
    "journal": Reader(_journal, corpus.journals, corpus.JOURNAL_WORDS),
    "tables": Reader(_tables, lambda: corpus.SETTINGS, corpus.SETTINGS_WORDS, _tree_of_settings),
    "events": Reader(_journal, corpus.journals, corpus.JOURNAL_WORDS, _tree_of_journal),
    "table": Reader(_table, lambda: corpus.TABLE, corpus.TABLE_WORDS),
    "results": Reader(_results, lambda: corpus.RESULTS, corpus.RESULTS_WORDS),
    "measures": Reader(_measures, lambda: corpus.MEASURES, corpus.MEASURES_WORDS),
    "benchmarks": Reader(
        _benchmarks, lambda: corpus.BENCHMARKS, corpus.BENCHMARKS_WORDS, _tree_of_json
    ),
    "store": Reader(_store, corpus.databases, corpus.DATABASE_WORDS),
    "sacct": Reader(others.sacct, lambda: others.SACCT, others.SACCT_WORDS),
    "job_table": Reader(others.job_table, lambda: others.JOB_TABLE, others.JOB_TABLE_WORDS),
    "pbs": Reader(others.pbs, lambda: others.PBS, others.PBS_WORDS),
    "slurm_conf": Reader(others.slurm_conf, lambda: others.SLURM_CONF, others.SLURM_CONF_WORDS),
    "philly": Reader(others.philly, lambda: others.PHILLY, others.PHILLY_WORDS),
    "openb": Reader(others.openb, lambda: others.OPENB, others.OPENB_WORDS),
    "cloudsimpy": Reader(others.cloudsimpy, lambda: others.CLOUDSIMPY, others.CLOUDSIMPY_WORDS),
    "tasks": Reader(others.tasks, lambda: others.TASKS, others.TASKS_WORDS),
    "telemetry": Reader(others.telemetry, lambda: others.TELEMETRY, others.TELEMETRY_WORDS),
    "machines": Reader(others.machines, lambda: others.MACHINES, others.MACHINES_WORDS),
    "bundle": Reader(others.bundle, lambda: others.BUNDLE, others.BUNDLE_WORDS),
}
