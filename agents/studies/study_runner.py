"""Player of studies: plays episodes on all cores, and continues after an interruption."""

import hashlib
import json
import multiprocessing
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache, partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from agents.analysts.analyst import Analyst
from agents.analysts.episode import (
    EPOCH_S,
    AnalystEpisode,
    EpisodeStreams,
    SimulatedClock,
    SimulatedExecutor,
    Truth,
    never,
)
from agents.analysts.scripted import McpAnalyst
from agents.compiled.episode_loop import (
    ANALYST,
    CompiledEpisodes,
    EpisodeRuns,
    is_compilable,
    strategy_of,
)
from agents.compiled.jit import is_available
from agents.studies.results import (
    CellSummary,
    EpisodeResult,
    Episodes,
    make_folder,
    read_parquet,
    summarise,
    write_parquet,
    write_whole,
)
from agents.studies.study import Cell, StrategyChoice, Study
from assistant import (
    AssistantError,
    MemoryStore,
    Run,
    RunState,
    Session,
    Sla,
    SqliteStore,
    Store,
    WarningPolicy,
    open_session,
)
from assistant.config.snapshot import version
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.ports import Clock, SystemClock


def play_episode(
    study: Study, cell: Cell, truth: Truth, replication: int, folder: Path | None = None
) -> EpisodeResult:
    """Play one episode of a cell, by its replication number, in a new session.

    ``folder`` is that of the study. The experiment of a scripted analyst is kept there, as a store
    of its own (`episode_path`); None keeps none.
    """
    if study.script(cell.kind) is None:
        return _played(study, cell, truth, replication, None)
    with tempfile.TemporaryDirectory() as scratch:
        store = episode_path(study, cell, replication, Path(scratch) if folder is None else folder)
        _make_empty(store)
        return _played(study, cell, truth, replication, store)


def episode_path(study: Study, cell: Cell, replication: int, folder: Path) -> Path:
    """Return the path of the store of an episode of a scripted analyst, in a study's folder."""
    return folder / EPISODES / f"{study.cells().index(cell) + 1:04d}-{replication:04d}.db"


def _make_empty(store: Path) -> None:
    """Remove what an interrupted episode has left, and make the folder."""
    make_folder(store.parent)
    for left in store.parent.glob(f"{store.stem}.*"):
        left.unlink(missing_ok=True)


def _played(
    study: Study, cell: Cell, truth: Truth, replication: int, path: Path | None
) -> EpisodeResult:
    streams, clock = cell.streams(study.seed, replication), SimulatedClock()
    agent = study.agent(cell, path)
    store = MemoryStore() if path is None else SqliteStore(path)
    time_of = SystemClock() if isinstance(agent, McpAnalyst) else clock  # as its server's
    session = _open(study, cell, truth, streams, time_of, store)
    episode = AnalystEpisode(
        truth,
        streams,
        study.max_runs(cell, truth.size),
        until=stopping_condition(study, cell, truth),
        clustering=study.clustering(cell),
        wait=clock.wait,
    )
    executor = SimulatedExecutor(truth.application, clock, study.stop.run_s)
    ended = agent.play(session, executor, episode)
    return _episode_result(session, truth, replication, ended)


def _open(
    study: Study, cell: Cell, truth: Truth, streams: EpisodeStreams, clock: Clock,
    store: Store | None = None,
) -> Session:  # fmt: skip
    return open_session(
        truth.application,
        store=store or MemoryStore(),
        clock=clock,
        experiment_id="episode",
        sla=episode_sla(study, cell, truth),
        strategy=cell.strategy.name,
        options=dict(cell.strategy.options),
        warning_policy=warning_policy(study, cell),
        seed=streams.session_seed,
    )


def episode_sla(study: Study, cell: Cell, truth: Truth) -> Sla:
    """Return the SLA of an episode: budget, deadline and goal as far as the study has them."""
    deadline_s, goal = study.stop.deadline_s, study.stop.goal
    value_of = truth.application.objective.value_of
    return Sla(
        max_runs=cell.runs,
        deadline_s=None if deadline_s is None else EPOCH_S + deadline_s,
        goal=None if goal is None else value_of(truth.reached_by(goal)),
        keep_going=True,  # a failure is part of the truth
    )


def stopping_condition(study: Study, cell: Cell, truth: Truth) -> Callable[[Run], bool]:
    """Return a function that tests whether a run ends the episode: by optimum or goal, or never."""
    if cell.runs is None:
        return lambda run: is_optimal(run, truth)
    if study.stop.goal is None:
        return never
    goal = truth.reached_by(study.stop.goal)
    return lambda run: run.outcome is not None and run.outcome.quality >= goal


def warning_policy(study: Study, cell: Cell) -> WarningPolicy:
    """Return the policy for when the session of an episode warns the analyst.

    With clustering advice at a fixed time there are no warnings. With a goal the forecast warns.
    """
    if study.stop.goal is not None:
        return WarningPolicy()
    is_advised = cell.exploitation is not None
    return WarningPolicy(rule="paper", warn_from=1.0 if is_advised else study.stop.advised_from)


def check(study: Study, cell: Cell, truth: Truth) -> None:
    """Check that a cell can be played, or raise an error.

    Raises:
        AssistantError: a ratio to the optimum is undefined, or a trait is out of range.
        StrategyError: there is no such strategy or option.
    """
    _open(study, cell, truth, cell.streams(study.seed, 0), SimulatedClock())
    if cell.runs is not None and truth.ratio(truth.optimum) is None:
        raise AssistantError(
            f"table '{cell.table}' has values of 0 or less, so a ratio to the optimum is "
            "undefined; stop at the optimum instead"
        )
    script = study.script(cell.kind)
    if script is None or script.kind == "script":
        study.agent(cell)


def is_optimal(run: Run, truth: Truth) -> bool:
    """Return whether a run has the best quality of its space."""
    return run.outcome is not None and run.outcome.quality == truth.optimum


def _episode_result(session: Session, truth: Truth, replication: int, ended: str) -> EpisodeResult:
    experiment = session.experiment
    over = experiment.runs_in(RunState.COMPLETED, RunState.FAILED)
    optimum_run = next((run.id for run in over if is_optimal(run, truth)), None)
    best = None if experiment.best is None else experiment.best.outcome
    return EpisodeResult(
        replication=replication,
        seed=experiment.opened.seed,
        runs=len(over),
        suggested=sum(run.source in ("initial", "suggested") for run in over),
        runs_to_optimum=optimum_run,
        censored=experiment.sla.max_runs is None and optimum_run is None,
        best=None if best is None else best.value,
        ratio=0.0 if best is None else truth.ratio(best.quality),
        late=session.is_overdue(),
        ended=ended,
        met=None if experiment.sla.goal is None else experiment.goal_run is not None,
    )


def can_compile(study: Study, cell: Cell, truth: Truth) -> bool:
    """Return whether the episodes of a cell can be played as compiled code.

    They are those of figure 6: the paper's analyst with the paper's GRASP, until the optimum is
    found, without a deadline or a budget. Others are played with sessions.
    """
    if not is_available() or cell.runs is not None or study.stop.deadline_s is not None:
        return False
    if study.script(cell.kind) is not None or not isinstance(study.agent(cell), Analyst):
        return False
    return is_compilable(strategy_of(truth, cell.strategy.name, dict(cell.strategy.options)))


def play_compiled(study: Study, cell: Cell, truth: Truth, replication: int) -> EpisodeResult:
    """Play one episode of a cell as compiled code, with the same result as `play_episode`."""
    analyst = study.agent(cell)
    if not isinstance(analyst, Analyst):
        raise AssertionError(f"episodes of '{cell.kind}' are not compiled")
    streams = cell.streams(study.seed, replication)
    max_runs = study.max_runs(cell, truth.size)
    runs = _episodes(truth, cell.strategy).play(analyst, streams, max_runs, truth.optimum)
    return _row(runs, truth, max_runs, streams, replication)


@lru_cache(maxsize=16)
def _episodes(truth: Truth, strategy: StrategyChoice) -> CompiledEpisodes:
    return CompiledEpisodes(truth, strategy.name, dict(strategy.options))


def _row(
    runs: EpisodeRuns, truth: Truth, max_runs: int, streams: EpisodeStreams, replication: int
) -> EpisodeResult:
    n = runs.indices.size
    measured = runs.qualities[~np.isnan(runs.qualities)]
    best = float(measured.max()) if measured.size else None
    if runs.reached is not None:
        ended = "the target is reached"
    elif n >= max_runs:
        ended = f"the budget of {n} runs is used up"
    else:
        ended = "the space is exhausted"
    return EpisodeResult(
        replication=replication,
        seed=streams.session_seed,
        runs=n,
        suggested=int((runs.sources != ANALYST).sum()),
        runs_to_optimum=runs.reached,
        censored=runs.reached is None,
        best=None if best is None else truth.application.objective.value_of(best),
        ratio=0.0 if best is None else truth.ratio(best),
        late=False,
        ended=ended,
    )


CHUNK = 20  # Episodes of one cell that are played in a row; a kill loses at most these, per core
EPISODES = "episodes"  # Folder of the stores of scripted analysts

Tell = Callable[[int, int], None]  # Callback with the played episodes and all episodes


@dataclass(frozen=True, slots=True)
class Chunk:
    """Range of consecutive episodes of one cell, as a unit of work."""

    number: int
    cell: Cell
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class PlayedStudy:
    """Completely played study with the results of its episodes."""

    study: Study  # the study
    sizes: Mapping[str, int]  # configurations per table
    summaries: tuple[CellSummary, ...]  # one per cell, in the order of the grid


def chunks(study: Study) -> tuple[Chunk, ...]:
    """Divide a study into ranges of episodes, in the order of the grid."""
    pieces = [
        (cell, start, min(start + size, study.replications))
        for cell in study.cells()
        for size in (CHUNK if study.script(cell.kind) is None else 1,)
        for start in range(0, study.replications, size)
    ]
    return tuple(Chunk(number, *piece) for number, piece in enumerate(pieces))


def truth_of(path: str) -> Truth:
    """Read a measured table from a CSV file, cached until the file changes."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):  # reading it raises the proper error
        return _truth(path, 0, 0)
    return _truth(path, status.st_mtime_ns, status.st_size)


@cache
def _truth(path: str, _changed_ns: int, _size: int) -> Truth:
    settings = check_settings({"application": {"kind": "lookup", "table": path}}, path)
    return Truth.of(build_sweep(settings).application)


def truths(study: Study) -> dict[str, Truth]:
    """Return the measured tables of a study by name, after a check that each cell can be played.

    Raises `AssistantError` or `StrategyError` with the first fault, in one sentence.
    """
    truth_by_table = {table.name: truth_of(table.path) for table in study.tables}
    for cell in study.cells():
        check(study, cell, truth_by_table[cell.table])
    return truth_by_table


def play_study(
    study: Study, folder: Path, text: str, workers: int | None = None, tell: Tell | None = None
) -> PlayedStudy:
    """Play the remaining episodes of a study in a folder and write the results.

    The folder is made if it does not exist, and continued if it holds this study; it gets a copy of
    the study's text. ``workers`` are processes, as many as cores if None.

    Raises:
        AssistantError: the folder holds another study, a file cannot be read or written, or a
            worker died.
        StrategyError: a table cannot be read, or there is no such strategy or option.
    """
    workers = os.cpu_count() or 1 if workers is None else workers
    if workers < 1:
        raise AssistantError(f"the number of workers must be at least 1, not {workers}")
    truth_by_table = truths(study)
    make_folder(folder)
    _claim(study, folder, text)
    parts, results = folder / "parts", folder / "results.parquet"
    all_chunks = chunks(study)
    if results.exists():
        done = dict(_read_all(results, all_chunks))
    else:
        make_folder(parts)
        done = {
            chunk.number: rows for chunk in all_chunks if (rows := _read(parts, chunk)) is not None
        }
    left = [chunk for chunk in all_chunks if chunk.number not in done]
    total, n = len(study.cells()) * study.replications, sum(map(len, done.values()))
    tell = tell or (lambda _done, _total: None)
    tell(n, total)
    played = (
        _play_here(study, left, folder)
        if workers == 1
        else _play_apart(study, left, workers, folder)
    )
    with closing(played):
        for chunk, rows in played:
            _write(parts, chunk, rows)
            done[chunk.number] = rows
            n += len(rows)
            tell(n, total)
    episodes = _by_cell(study, truth_by_table, all_chunks, done)
    if not results.exists():
        write_parquet(episodes, results)
    shutil.rmtree(parts, ignore_errors=True)
    summaries = tuple(summarise(study, *entry) for entry in episodes)
    return PlayedStudy(
        study, {name: truth.size for name, truth in truth_by_table.items()}, summaries
    )


def _by_cell(
    study: Study,
    truth_by_table: Mapping[str, Truth],
    all_chunks: Sequence[Chunk],
    done: Mapping[int, Sequence[EpisodeResult]],
) -> Episodes:
    of_cell: dict[Cell, list[EpisodeResult]] = {cell: [] for cell in study.cells()}
    for chunk in all_chunks:
        of_cell[chunk.cell] += done[chunk.number]
    return [
        (cell, study.max_runs(cell, truth_by_table[cell.table].size), played)
        for cell, played in of_cell.items()
    ]


def _play_chunk(study: Study, chunk: Chunk, folder: Path) -> list[EpisodeResult]:
    path = next(table.path for table in study.tables if table.name == chunk.cell.table)
    truth = truth_of(path)
    play = (
        play_compiled
        if can_compile(study, chunk.cell, truth)
        else partial(play_episode, folder=folder)
    )
    return [play(study, chunk.cell, truth, i) for i in range(chunk.start, chunk.stop)]


def _play_here(
    study: Study, left: Sequence[Chunk], folder: Path
) -> Generator[tuple[Chunk, list[EpisodeResult]], None, None]:
    for chunk in left:
        yield chunk, _play_chunk(study, chunk, folder)


def _play_apart(
    study: Study, left: Sequence[Chunk], workers: int, folder: Path
) -> Generator[tuple[Chunk, list[EpisodeResult]], None, None]:
    """Yield the chunks as other processes play them; these end with this one."""
    if not left:
        return
    pool = futures.ProcessPoolExecutor(
        min(workers, len(left)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(study, folder.absolute()),
    )
    waiting, under_way = iter(left), dict[futures.Future[list[EpisodeResult]], Chunk]()
    try:
        while True:
            while len(under_way) < 2 * workers and (chunk := next(waiting, None)) is not None:
                under_way[pool.submit(_play_there, chunk)] = chunk
            if not under_way:
                break
            for future in futures.wait(under_way, return_when=futures.FIRST_COMPLETED).done:
                yield under_way.pop(future), future.result()
        pool.shutdown()
    except BrokenProcessPool as error:
        raise AssistantError(
            "a process that played episodes died (killed, or out of memory); finished episodes "
            "are kept: run the study again, perhaps with fewer workers"
        ) from error
    finally:
        _end(pool)


_study: tuple[Study, Path] | None = None


def _begin(study: Study, folder: Path) -> None:
    """Store the study in this worker; leave Ctrl-C to the parent, and end with it."""
    import signal

    global _study  # noqa: PLW0603 - one per worker process, by design of initializers
    _study = study, folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _play_there(chunk: Chunk) -> list[EpisodeResult]:
    if _study is None:
        raise AssertionError("the worker was started without its study")
    study, folder = _study
    return _play_chunk(study, chunk, folder)


def _end(pool: futures.ProcessPoolExecutor) -> None:
    """Stop the workers of a pool at once; do nothing if it is shut down."""
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()


def read_played(study: Study, folder: Path) -> Episodes:
    """Return the episodes of a completely played study from its folder.

    Raises `AssistantError` if there are no results, or they are of another study.
    """
    path = folder / "results.parquet"
    rows, cells = read_parquet(path), study.cells()
    n = study.replications
    if len(rows) != n * len(cells):
        raise AssistantError(f"'{path}' has {len(rows):,} episodes, not those of the study")
    episodes = []
    for number, cell in enumerate(cells):
        cell_rows = rows[number * n : (number + 1) * n]
        if any(_cell_of(row, cell) != _cell_columns(cell) for row in cell_rows):
            raise AssistantError(f"'{path}' holds the results of another study")
        episodes.append(
            (cell, int(cell_rows[0]["runs_allowed"]), [_as_result(row) for row in cell_rows])
        )
    return episodes


def _cell_of(row: Mapping[str, Any], cell: Cell) -> tuple[object, ...]:
    names = ("table", "strategy", "options", "kind", "insight", "confidence", "learning")
    runs = None if cell.runs is None else row["runs_allowed"]
    return (*(row[name] for name in names), runs, row["exploitation"])


def _cell_columns(cell: Cell) -> tuple[object, ...]:
    options = ", ".join(f"{name}={value}" for name, value in cell.strategy.options)
    return (
        cell.table, cell.strategy.name, options, cell.kind, cell.insight, cell.confidence,
        cell.learning, cell.runs, cell.exploitation,
    )  # fmt: skip


def _as_result(row: Mapping[str, Any]) -> EpisodeResult:
    return EpisodeResult(**{field.name: row[field.name] for field in fields(EpisodeResult)})


def _claim(study: Study, folder: Path, text: str) -> None:
    """Record the study in the folder; raise AssistantError if the folder holds another one."""
    mark = folder / "study.json"
    identity_text = json.dumps(identity(study), indent=1, sort_keys=True)
    try:
        before = mark.read_text(encoding="utf-8") if mark.exists() else None
    except (OSError, ValueError) as error:
        raise AssistantError(f"cannot read '{mark}': {error}") from error
    if before is None and (folder / "results.parquet").exists():
        raise AssistantError(f"the folder '{folder}' holds results already; choose another one")
    if before not in (None, identity_text):
        raise AssistantError(
            f"the folder '{folder}' holds another study, or one that was begun with other tables "
            "or another version; choose another folder"
        )
    if before is None:
        write_whole(mark, identity_text)
        write_whole(folder / "study.toml", text)


def identity(study: Study) -> dict[str, object]:
    """Return all inputs that determine a study's results, as JSON-compatible values."""
    tables = {table.name: _digest(Path(table.path)) for table in study.tables}
    whole = {**asdict(study), "tables": tables, "version": version()}
    whole["scripts"] = [
        [each.name, each.kind, each.target, [_digest(path) for path in each.files]]
        for each in study.scripts
    ]
    return whole


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(parts: Path, chunk: Chunk) -> list[EpisodeResult] | None:
    """Return a chunk that was played before; None if it was not, or is not complete."""
    try:
        rows = json.loads((parts / f"{chunk.number:06d}.json").read_text(encoding="utf-8"))
        played = [EpisodeResult(**row) for row in rows]
    except (OSError, ValueError, TypeError):
        return None
    numbers = [result.replication for result in played]
    return played if numbers == list(range(chunk.start, chunk.stop)) else None


def _read_all(
    results: Path, all_chunks: Sequence[Chunk]
) -> Iterator[tuple[int, list[EpisodeResult]]]:
    """Yield the chunks of a study that was played to its end, by their numbers.

    Raises AssistantError if the file does not hold as many episodes.
    """
    rows = [_as_result(row) for row in read_parquet(results)]
    if len(rows) != sum(chunk.stop - chunk.start for chunk in all_chunks):
        raise AssistantError(f"'{results}' has {len(rows):,} episodes, not those of the study")
    start = 0
    for chunk in all_chunks:
        stop = start + chunk.stop - chunk.start
        yield chunk.number, rows[start:stop]
        start = stop


def _write(parts: Path, chunk: Chunk, played: Sequence[EpisodeResult]) -> None:
    rows = [asdict(result) for result in played]
    write_whole(parts / f"{chunk.number:06d}.json", json.dumps(rows, allow_nan=False))
