"""Compiled episodes make the journal that a session makes: run for run, source, batch, quality."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agents import (
    Analyst,
    AnalystEpisode,
    Cell,
    EpisodeStreams,
    Insight,
    Learning,
    SimulatedClock,
    SimulatedExecutor,
    StoppingRule,
    StrategyChoice,
    Study,
    Table,
    Truth,
    play_episode,
    play_study,
)
from agents.analysts import insight as minds
from agents.analysts.analyst import AnalystProfile
from agents.analysts.analyst import share as share_of_both
from agents.analysts.insight import draw_subset
from agents.compiled import episode_loop, jit
from agents.compiled.episode_loop import CompiledEpisodes, EpisodeRuns
from agents.studies.study_runner import can_compile, play_compiled
from assistant import AssistantError, MemoryStore, Run, open_session
from strategies import OptionError
from tests.agents.examples import TEXTS
from tests.draw.episodes import Drawn, episode, table

Journal = list[tuple[int, str, int | None, float | None]]


def by_session(drawn: Drawn) -> Journal:
    """Play an episode through the public API."""
    truth, clock = drawn.truth, SimulatedClock()
    session = open_session(
        truth.application,
        store=MemoryStore(),
        clock=clock,
        strategy="copper",
        options=drawn.options,
        seed=drawn.streams.session_seed,
    )

    def is_enough(run: Run) -> bool:
        goal = drawn.goal
        return goal is not None and run.outcome is not None and run.outcome.quality >= goal

    told = AnalystEpisode(truth, drawn.streams, drawn.max_runs, is_enough)
    drawn.analyst.play(session, SimulatedExecutor(truth.application, clock), told)
    experiment = session.experiment
    return [
        (
            experiment.space.index(run.configuration),
            run.source,
            run.batch,
            None if run.outcome is None else run.outcome.quality,
        )
        for run in experiment.runs
    ]


def journal(runs: EpisodeRuns) -> Journal:
    qualities = [None if np.isnan(quality) else quality for quality in runs.qualities.tolist()]
    return [(*row, quality) for row, quality in zip(runs.rows, qualities, strict=True)]


def by_kernel(drawn: Drawn) -> Journal:
    episodes = CompiledEpisodes(drawn.truth, options=drawn.options)
    return journal(episodes.play(drawn.analyst, drawn.streams, drawn.max_runs, drawn.goal))


@pytest.mark.parametrize("seed", range(20))
def test_the_journal_is_that_of_a_session(seed: int) -> None:
    drawn = episode(seed, most_size=60)
    assert by_kernel(drawn) == by_session(drawn)


def by_intuition(drawn: Drawn) -> list[int]:
    """Return what she runs who takes nothing from Copperline; this needs no session."""
    truth, analyst, streams = drawn.truth, drawn.analyst, drawn.streams
    subset = draw_subset(analyst.insight, truth, streams.generator("insight"))
    mind = minds.Intuition(truth, subset, analyst.learning, streams.generator("intuition"))
    indices: list[int] = []
    while len(indices) < drawn.max_runs and mind.n_free:
        n = min(analyst.batch, drawn.max_runs - len(indices))
        own = [index for _ in range(n) if (index := mind.draw()) is not None]
        for index in own:
            quality = float(truth.quality[index])
            mind.learn(index, None if np.isnan(quality) else quality)
        indices += own
        if drawn.goal is not None and any(truth.quality[own] >= drawn.goal):
            break
    return indices


@pytest.mark.parametrize("first", [1000, 1040])
def test_she_who_is_alone_tries_what_her_intuition_says(first: int) -> None:
    for seed in range(first, first + 40):
        drawn = episode(seed)
        alone = replace(drawn, analyst=replace(drawn.analyst, confidence=0))
        assert [index for index, *_ in by_kernel(alone)] == by_intuition(alone), seed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 124))
def test_the_journal_is_that_of_a_session_on_more_tables(seed: int) -> None:
    drawn = episode(seed)
    assert by_kernel(drawn) == by_session(drawn)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("confidence", "kind", "learns"),
    [
        (confidence, kind, (i + j) % 2 == 0)  # every two of the three meet
        for i, confidence in enumerate((0, 40, 70, 100))
        for j, kind in enumerate(("good", "bad", "none"))
    ],
)
def test_the_journal_is_that_of_a_session_at_8800_points(
    confidence: int, kind: str, learns: bool, large: Truth
) -> None:
    analyst = Analyst(Insight(kind), confidence, Learning() if learns else None)
    drawn = Drawn(large, analyst, EpisodeStreams((8800, confidence), 3), 60, large.optimum, {})
    assert by_kernel(drawn) == by_session(drawn)


@pytest.fixture(scope="module")
def large() -> Truth:
    rng = np.random.default_rng(8800)
    return Truth.of(table(rng, [22, 20, 20], failing=0.05, ties=False, words=0.0))


@pytest.mark.parametrize("seed", [3, 9])
def test_what_is_learned_is_the_same_to_the_last_bit(seed: int) -> None:
    drawn, rng = episode(seed), np.random.default_rng(seed)
    truth, streams = drawn.truth, drawn.streams
    analyst = replace(drawn.analyst, learning=Learning(rate=0.3, bound=5.0))
    episodes = CompiledEpisodes(truth)
    ours = episodes._mind(analyst, streams)
    subset = draw_subset(analyst.insight, truth, streams.generator("insight"))
    theirs = minds.Intuition(truth, subset, analyst.learning, streams.generator("intuition"))
    for index in rng.integers(truth.size, size=300).tolist():
        quality = float(truth.quality[index])
        theirs.learn(index, None if np.isnan(quality) else quality)
        jit.compiled(episode_loop.learn)(episodes._ground, ours, index, episode_loop.SPACE)
        assert theirs.weights is not None
        assert ours.levels.tolist() == [w for own in theirs.weights.levels for w in own]


def test_every_way_to_a_configuration_is_met() -> None:
    """The drawn episodes would not show a fault in what they never do."""
    met: set[object] = set()
    for seed in range(20):
        drawn = episode(seed, most_size=60)
        met |= {drawn.analyst.insight.kind, drawn.analyst.learning is None, drawn.goal is None}
        rows = by_kernel(drawn)
        met |= {source for _, source, _, _ in rows}
        met |= {"failed"} if any(quality is None for *_, quality in rows) else set()
        met |= {"exhausted"} if len(rows) == drawn.truth.size else set()
    wanted = {"good", "bad", "none", "initial", "suggested", "analyst", "failed", "exhausted"}
    assert wanted | {True, False} <= met


def test_the_same_streams_give_the_same_runs_and_others_give_others() -> None:
    drawn = episode(3)
    episodes = CompiledEpisodes(drawn.truth)
    played = [
        episodes.play(drawn.analyst, EpisodeStreams((5,), replication), 20).indices.tolist()
        for replication in (0, 1, 0)
    ]
    assert played[0] == played[2] != played[1]


def study(tmp_path: Path, **changed: object) -> tuple[Study, Truth]:
    drawn = episode(7)
    plain = Study("s", (Table("t", "t.csv"),), seed=4, insights=("none", "good"))
    return replace(plain, **changed), drawn.truth  # type: ignore[arg-type]


@pytest.mark.parametrize("confidence", [0, 50, 100])
@pytest.mark.parametrize("learning", [False, True])
def test_the_row_of_a_study_is_that_of_its_session(
    confidence: int, learning: bool, tmp_path: Path
) -> None:
    asked, truth = study(tmp_path, confidences=(confidence,), learning=(learning,))
    for cell in asked.cells():
        assert can_compile(asked, cell, truth)
        for replication in range(2):
            row = play_compiled(asked, cell, truth, replication)
            assert row == play_episode(asked, cell, truth, replication)


def test_a_study_has_the_same_bytes_with_and_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "small.csv"
    path.write_text(TEXTS["small"])
    asked = Study(
        "s", (Table("small", str(path)),), replications=2, confidences=(0, 70), insights=("good",)
    )
    play_study(asked, tmp_path / "compiled", "", workers=1)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    play_study(asked, tmp_path / "sessions", "", workers=1)
    results = [tmp_path / name / "results.parquet" for name in ("compiled", "sessions")]
    assert results[0].read_bytes() == results[1].read_bytes()


@pytest.mark.parametrize(
    "changed",
    [
        {"stop": StoppingRule(runs=(20,))},
        {"stop": StoppingRule(deadline_s=60.0)},
        {"kinds": ("follower",)},
        {"kinds": ("one_at_a_time",)},
        {"strategies": (StrategyChoice("random"),)},
        {"strategies": (StrategyChoice("copper", (("effects", "blocks"),)),)},
    ],
)
def test_other_cells_are_left_to_sessions(changed: dict[str, object], tmp_path: Path) -> None:
    asked, truth = study(tmp_path, **changed)
    assert not any(can_compile(asked, cell, truth) for cell in asked.cells())


def test_traits_that_need_no_agreement_make_no_difference(tmp_path: Path) -> None:
    asked, truth = study(tmp_path, manner=AnalystProfile(acceptance=0.5, reaction_s=60.0, batch=3))
    cell = Cell("t", StrategyChoice("copper"), "analyst", "good", 50, True)
    assert play_compiled(asked, cell, truth, 1) == play_episode(asked, cell, truth, 1)


def test_without_a_compiler_sessions_play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    asked, truth = study(tmp_path)
    assert not can_compile(asked, asked.cells()[0], truth)


def test_what_cannot_be_compiled_is_refused() -> None:
    truth = episode(1).truth
    with pytest.raises(AssistantError, match="compiled episodes need the strategy 'copper' with"):
        CompiledEpisodes(truth, "random")
    with pytest.raises(AssistantError, match="effects='least_squares'"):
        CompiledEpisodes(truth, options={"effects": "least_squares"})
    with pytest.raises(OptionError, match="beta"):
        CompiledEpisodes(truth, options={"beta": 2.0})
    with pytest.raises(AssistantError, match="at least 1 run"):
        CompiledEpisodes(truth).play(Analyst(), EpisodeStreams((1,)), 0)


def test_both_paths_share_their_constants() -> None:
    from agents.compiled import episode_loop

    assert episode_loop.TRIES == minds.TRIES
    for confidence in range(0, 101, 7):
        for runs in range(50):
            assert episode_loop.share(confidence, runs) == share_of_both(confidence, runs)


def test_machine_code_follows_every_source(tmp_path: Path) -> None:
    package = Path(jit.__file__).parent
    copy = tmp_path / "episodes"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert jit.sources_digest(copy) == jit.sources_digest()
    for name in ("episode_loop.py", "space_arrays.py", "jit.py"):
        before, path = jit.sources_digest(copy), copy / name
        path.write_text(path.read_text() + "# edited\n")
        assert jit.sources_digest(copy) != before
