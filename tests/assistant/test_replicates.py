"""Runs of one configuration again: who may ask, what counts as best, what is recommended."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest

from agents import Follower
from assistant import Experiment, Measure, Session, Sla, load_session, open_session
from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import ExperimentError, RunError, SettingsError
from assistant.core.events import RunSubmitted
from assistant.core.run import RunState
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import render_html
from assistant.store.event_store import MemoryStore
from strategies import Level, NotAllowedError, UnknownLevelError
from tests.assistant.examples import TODAY, Bowl, TickingClock


@dataclass(frozen=True)
class NoisyBowl(Bowl):
    """The bowl with normal noise from the run's seed; ``deterministic`` as its user says."""

    sd: float = 1.0
    deterministic: bool | None = None

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        measures = dict(super().evaluate(values, seed))
        noise = float(np.random.default_rng(seed).normal(0.0, self.sd)) if self.sd else 0.0
        return {**measures, "height": float(measures["height"]) + noise}  # type: ignore[arg-type]


def opened(bowl: Bowl, runs: int | None = 20, **more: object) -> tuple[Session, MemoryStore]:
    store = MemoryStore()
    session = open_session(
        bowl,
        store=store,
        sla=Sla(runs),
        clock=TickingClock(),
        **more,  # type: ignore[arg-type]
    )
    return session, store


def measured(session: Session, x: int, *heights: float, y: int = 0) -> None:
    """Take in results from before: these heights at x."""
    values = {"x": x, "y": y, "mode": "plain"}
    taken = session.import_results([(values, {"height": h}) for h in heights], replicates=True)
    assert taken == len(heights)


# -- asking for them ---------------------------------------------------------------------------


def test_a_replicate_is_a_run_of_its_own_with_another_seed() -> None:
    bowl = NoisyBowl()
    session, store = opened(bowl)
    first = session.include({"x": 2, "y": 0, "mode": "plain"})
    again = session.replicate(first.id, 2)
    (by_values,) = session.replicate({"x": 2, "y": 0, "mode": "plain"}, reason="once more")
    assert [run.source for run in (*again, by_values)] == ["replicate"] * 3
    assert again[0].reason == "run 1 again"
    assert by_values.reason == "once more"
    assert session.remaining_runs == 16
    session.run_queued(SerialExecutor(bowl))
    heights = [run.outcome.value for run in session.experiment.runs if run.outcome]
    assert len(set(heights)) == 4
    assert len({run.seed for run in session.experiment.runs}) == 4
    replayed = Experiment.replay(store.load(session.id))
    assert replayed.runs == session.experiment.runs
    assert len(replayed.knowledge.observations) == 4


@pytest.mark.parametrize("n", [0, -1, True, 1.5])
def test_a_replicate_that_cannot_be_is_refused(n: int) -> None:
    session, _ = opened(NoisyBowl(), runs=3)
    run = session.include({"x": 2, "y": 0, "mode": "plain"})
    with pytest.raises(ExperimentError, match="a whole number of times from 1 on"):
        session.replicate(run.id, n)
    with pytest.raises(ExperimentError, match="there is no run 7"):
        session.replicate(7)
    with pytest.raises(ExperimentError, match="has no run that could be repeated"):
        session.replicate({"x": 1, "y": 0, "mode": "plain"})
    with pytest.raises(UnknownLevelError):
        session.replicate({"x": 9, "y": 0, "mode": "plain"})
    with pytest.raises(ExperimentError, match="leaves 2, and 3 were submitted"):
        session.replicate(run.id, 3)
    with pytest.raises(ExperimentError, match="is run 1 already; choose another"):
        session.include({"x": 2, "y": 0, "mode": "plain"})
    session.close_level("x", 2)
    with pytest.raises(NotAllowedError):
        session.replicate(run.id)
    assert len(session.experiment.runs) == 1


def test_a_program_that_repeats_itself_refuses_replicates() -> None:
    session, store = opened(NoisyBowl(sd=0.0, deterministic=True))
    run = session.include({"x": 2, "y": 0, "mode": "plain"})
    session.run_queued(SerialExecutor(NoisyBowl(sd=0.0)))
    for call in (lambda: session.replicate(run.id), session.confirm):
        with pytest.raises(ExperimentError, match="a replicate would add no information"):
            call()
    recommended = session.recommendation()
    assert recommended is not None
    assert recommended.confirmed
    assert recommended.interval == (1.0, 1.0)
    assert recommended.sentence == (
        "Run 1 is confirmed: the same configuration gives the same result every time."
    )
    assert Experiment.replay(store.load(session.id)).is_noisy is False


def test_strategies_still_propose_every_configuration_once() -> None:
    bowl = NoisyBowl(deterministic=False)
    session, _ = opened(bowl, runs=None)
    run = session.include({"x": 2, "y": 0, "mode": "plain"})
    session.replicate(run.id, 3)
    session.run_queued(SerialExecutor(bowl))
    batch = session.suggest(100)
    assert len(batch.suggestions) == 23
    assert run.configuration not in {s.configuration for s in batch.suggestions}


# -- what counts -------------------------------------------------------------------------------


def test_the_best_is_by_the_mean_of_its_runs() -> None:
    session, _ = opened(NoisyBowl(baseline=TODAY))
    measured(session, 1, 3.0)
    measured(session, 2, 1.0, 7.0)
    best = session.experiment.best
    assert best is not None
    assert session.experiment.space.values(best.configuration)["x"] == 1
    measured(session, 2, 0.5, 0.3)
    best = session.experiment.best
    assert best is not None
    assert best.id == 2  # the first of its runs
    summary = session.experiment.summary(best)
    assert summary is not None
    assert (summary.n, summary.outcome.value) == (4, pytest.approx(2.2))
    assert summary.outcome.measures["height"] == pytest.approx(2.2)
    assert [s.outcome.value for s in session.experiment.best_so_far()] == [
        3.0, 1.0, 3.0, pytest.approx(8.5 / 3), pytest.approx(2.2),
    ]  # fmt: skip
    data = collect(session.experiment)
    assert ", by run 2 (mean of 4 runs)." in data.answer.headline
    assert "2 of 24 allowed configurations were tried (8.3 %), in 5 runs." in data.answer.sentences
    assert [point.best for point in data.points] == [
        s.outcome.value for s in session.experiment.best_so_far()
    ]


def test_today_is_compared_by_the_mean_of_its_runs_too() -> None:
    bowl = NoisyBowl(baseline=TODAY)
    session, _ = opened(bowl)
    session.import_results([(TODAY, {"height": h}) for h in (4.0, 8.0)], replicates=True)
    measured(session, 2, 3.0)
    data = collect(session.experiment)
    assert data.baseline_value == 6.0
    assert data.answer.improvement == 0.5
    assert data.answer.headline == "Run 3 lowers height by 50 %, from the current 6 to 3."


def test_a_configuration_is_feasible_if_all_its_runs_are() -> None:
    from assistant import Constraint

    objective = replace(Bowl.objective, constraints=(Constraint("height", at_least=2.0),))
    session, _ = opened(NoisyBowl(), objective=objective)
    measured(session, 1, 3.0)
    measured(session, 2, 2.5, 1.0)
    best = session.experiment.best
    assert best is not None
    assert best.id == 1
    recommended = session.recommendation()
    assert recommended is not None
    assert recommended.run.id == 1


def test_nothing_feasible_is_not_recommended() -> None:
    from assistant import Constraint

    objective = replace(Bowl.objective, constraints=(Constraint("height", at_most=0.0),))
    session, _ = opened(NoisyBowl(), objective=objective)
    assert session.recommendation() is None
    measured(session, 1, 3.0)
    assert session.recommendation() is None
    with pytest.raises(ExperimentError, match="no winner to confirm"):
        session.confirm()
    assert collect(session.experiment).recommendation is None


# -- confirming --------------------------------------------------------------------------------


def test_whether_results_vary_is_said_by_the_program_or_shown_by_replicates() -> None:
    for said, noisy in ((True, False), (False, True), (None, None)):
        session, _ = opened(NoisyBowl(deterministic=said))
        assert session.experiment.is_noisy is noisy
    measured(session, 1, 3.0)
    assert session.experiment.is_noisy is None
    measured(session, 1, 4.0)
    assert session.experiment.is_noisy is True


def test_the_recommendation_says_how_sure_it_is() -> None:
    session, _ = opened(NoisyBowl())
    measured(session, 2, 1.0)
    measured(session, 1, 2.0)
    recommended = session.recommendation()
    assert recommended is not None
    assert (recommended.confirmed, recommended.interval) == (False, None)
    assert recommended.sentence == (
        "Run 1 is recommended, but not confirmed: it ran once, and it is unknown whether results "
        "vary from run to run; run it again."
    )
    measured(session, 2, 1.2)
    recommended = session.recommendation()
    assert recommended is not None
    assert not recommended.confirmed
    assert [run.id for run in recommended.runs] == [1, 3]
    assert recommended.value == pytest.approx(1.1)
    assert recommended.interval == pytest.approx((1.1 - 1.27062, 1.1 + 1.27062), rel=1e-4)
    assert [run.id for run in recommended.rivals] == [2]
    assert recommended.sentence == (
        "Run 1 is recommended, and repeated, but not separated from one other: it ran 2 times, "
        "mean 1.1 (95% between -0.1706 and 2.371)."
    )
    assert recommended.sentence in render_html(collect(session.experiment))


def test_confirmations_are_a_batch_that_is_submitted_like_any_other() -> None:
    bowl = NoisyBowl(deterministic=False)
    session, store = opened(bowl)
    with pytest.raises(ExperimentError, match="no winner to confirm"):
        session.confirm()
    session.submit(session.suggest(6))
    session.run_queued(SerialExecutor(bowl))
    best = session.experiment.best
    assert best is not None
    with pytest.raises(SettingsError, match="from 1 to 1,000, not 0"):
        session.confirm(0)
    batch = session.confirm(3)
    assert [s.kind for s in batch.suggestions] == ["confirmation"] * 3
    assert batch.suggestions[0].configuration == best.configuration
    assert session.experiment.open_batch == batch
    assert session.experiment.free_in(batch) == [0, 1, 2]
    runs = session.submit(batch, keep=[0, 2])
    assert [run.source for run in runs] == ["replicate"] * 2
    assert all(run.batch == batch.number for run in runs)
    assert session.experiment.confidence == 8 / 9
    session.run_queued(SerialExecutor(bowl))
    assert Experiment.replay(store.load(session.id)).runs == session.experiment.runs


def test_a_confirmation_that_is_edited_is_a_run_like_any_other() -> None:
    session, _ = opened(NoisyBowl(deterministic=False))
    measured(session, 2, 1.0)
    measured(session, 1, 2.0)
    batch = session.confirm(2)
    with pytest.raises(ExperimentError, match="is run 2 already"):
        session.submit(batch, edits={0: {"x": 1}})
    edited, repeated = session.submit(batch, edits={0: {"x": 3}})
    assert (edited.source, repeated.source) == ("edited", "replicate")


def test_a_winner_that_is_closed_by_now_cannot_be_confirmed() -> None:
    session, _ = opened(NoisyBowl(deterministic=False))
    measured(session, 2, 1.0)
    session.close_level("x", 2)
    with pytest.raises(ExperimentError, match="run 1 cannot be repeated"):
        session.confirm()


def test_a_winner_whose_repetition_failed_is_not_confirmed() -> None:
    @dataclass(frozen=True)
    class Once(NoisyBowl):
        def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
            raise RunError("it stopped")

    session, _ = opened(NoisyBowl(deterministic=False))
    measured(session, 2, 1.0)
    session.submit(session.confirm(1))
    session.run_queued(SerialExecutor(Once()))
    recommended = session.recommendation()
    assert recommended is not None
    assert not recommended.confirmed
    assert recommended.sentence.endswith("not confirmed: it ran once, and failed once.")


# -- by itself ---------------------------------------------------------------------------------


def followed(
    bowl: Bowl, runs: int | None, seed: int = 0, **more: object
) -> tuple[Session, str, MemoryStore]:
    session, store = opened(bowl, runs, seed=seed)
    reason = Follower(initial=4, batch=3, **more).steer(  # type: ignore[arg-type]
        session, SerialExecutor(bowl)
    )
    return session, reason, store


@pytest.mark.parametrize("seed", range(6))
def test_the_last_runs_of_a_noisy_sweep_confirm_the_winner(seed: int) -> None:
    session, reason, _ = followed(NoisyBowl(baseline=TODAY, deterministic=False), 15, seed)
    runs = session.experiment.runs
    assert len(runs) == 15
    assert [run.source == "replicate" for run in runs] == [False] * 12 + [True] * 3
    assert reason == "the budget of 15 runs is used up; the last 3 runs repeated the best"
    searched = {run.configuration for run in runs[:12]}
    assert len(searched) == 12
    by_quality = sorted(runs[:12], key=lambda run: -run.outcome.quality if run.outcome else np.inf)
    assert [run.configuration for run in runs[12:14]] == [r.configuration for r in by_quality[:2]]
    assert runs[14].configuration in searched


@pytest.mark.parametrize(
    ("bowl", "budget"),
    [
        (NoisyBowl(deterministic=True, sd=0.0), 15),
        (NoisyBowl(deterministic=None), 15),  # unknown, and nothing has shown it
        (NoisyBowl(deterministic=False), 9),  # too small a budget
        (Bowl(), 15),
    ],
)
def test_otherwise_the_whole_budget_searches(bowl: Bowl, budget: int) -> None:
    session, reason, _ = followed(bowl, budget)
    assert len({run.configuration for run in session.experiment.runs}) == budget
    assert reason == f"the budget of {budget} runs is used up"


def test_noise_that_replicates_showed_counts() -> None:
    bowl = NoisyBowl(deterministic=None)
    session, _ = opened(bowl, 12)
    measured(session, 0, 7.0, 6.5)
    Follower(initial=4, batch=3).steer(session, SerialExecutor(bowl))
    sources = [run.source for run in session.experiment.runs if run.source != "imported"]
    assert sources[-3:] == ["replicate"] * 3
    assert sources.count("replicate") == 3


def test_a_limit_of_the_agents_own_counts_like_a_budget() -> None:
    session, _, _ = followed(NoisyBowl(deterministic=False), None, max_runs=12)
    assert [run.source for run in session.experiment.runs][-2:] == ["replicate"] * 2
    assert len(session.experiment.runs) == 12


@pytest.mark.parametrize("sd", [1.0, 0.05])
def test_an_exhausted_space_is_confirmed_with_what_is_left(sd: float) -> None:
    session, reason, _ = followed(NoisyBowl(deterministic=False, sd=sd), 100)
    recommended = session.recommendation()
    assert recommended is not None
    n = len(session.experiment.runs)
    assert len({run.configuration for run in session.experiment.runs}) == 24
    # until nothing rivals the winner, or the budget ends
    assert recommended.confirmed == (not recommended.rivals) == (n < 100)
    if n == 100:
        assert reason == ("the budget of 100 runs is used up; the last 76 runs repeated the best")
    else:
        assert reason == (
            "the space is exhausted: all 24 allowed configurations have been run, and the winner "
            f"was confirmed in the last {n - 24} runs"
        )


def test_a_small_rest_of_an_exhausted_budget_is_used_too() -> None:
    session, reason, _ = followed(NoisyBowl(deterministic=False, sd=9.0), 33)
    assert (len(session.experiment.runs), session.experiment.remaining_runs) == (33, 0)
    assert reason.endswith("the last 9 runs repeated the best")


def test_what_was_closed_on_the_way_is_not_counted_among_the_allowed() -> None:
    session, _ = opened(NoisyBowl(deterministic=True, sd=0.0), 100)
    measured(session, 3, 2.0, y=1)
    measured(session, 3, 3.0, y=2)
    session.close_level("x", 3)
    bowl = NoisyBowl(deterministic=True, sd=0.0)
    reason = Follower(initial=4, batch=3).steer(session, SerialExecutor(bowl))
    assert reason == "the space is exhausted: all 18 allowed configurations have been run"
    said = collect(session.experiment).answer.sentences
    assert (
        "18 of 18 allowed configurations were tried, all of them; 2 more with levels that are "
        "closed now."
    ) in said


def test_without_anything_feasible_the_kept_runs_search_on() -> None:
    from assistant import Constraint

    objective = replace(Bowl.objective, constraints=(Constraint("height", at_most=-9.0),))
    bowl = NoisyBowl(deterministic=False)
    session, _ = opened(bowl, 12, objective=objective)
    Follower(initial=4, batch=3).steer(session, SerialExecutor(bowl))
    assert len({run.configuration for run in session.experiment.runs}) == 12


def test_a_noisy_sweep_that_was_cut_anywhere_ends_like_the_unbroken_one() -> None:
    bowl = NoisyBowl(baseline=TODAY, deterministic=False)
    whole, reason, store = followed(bowl, 12)
    events = store.load(whole.id)
    for cut in range(1, len(events)):
        if isinstance(events[cut - 1], RunSubmitted) and isinstance(events[cut], RunSubmitted):
            continue  # the runs of a batch are stored together or not at all
        broken = MemoryStore()
        broken.append(whole.id, 0, events[:cut])
        session = load_session(broken, whole.id, clock=TickingClock())
        session.recover()
        again = Follower(initial=4, batch=3).steer(session, SerialExecutor(bowl))
        told = [(run.configuration, run.source, run.seed) for run in session.experiment.runs]
        assert told == [(run.configuration, run.source, run.seed) for run in whole.experiment.runs]
        assert again == reason


# -- results from before -----------------------------------------------------------------------


def test_imported_replicates_are_asked_for_or_told_apart_by_their_seed() -> None:
    values = {"x": 2, "y": 0, "mode": "plain"}
    rows = [(values, {"height": h}) for h in (1.0, 2.0, 1.0)]
    session, _ = opened(NoisyBowl())
    assert session.import_results(rows) == 1
    assert session.import_results(rows, replicates=True) == 1  # the identical line stays out
    assert session.import_results(rows, replicates=True) == 0
    seeded = [(values, {"height": 1.5, "seed": float(s)}) for s in (1, 2, 1)]
    assert session.import_results(seeded) == 0  # earlier ones have no seed: nobody can tell
    fresh, _ = opened(NoisyBowl())
    assert fresh.import_results(seeded) == 2
    assert [run.source for run in fresh.experiment.runs] == ["imported"] * 2
    assert fresh.remaining_runs == 20


# -- journals ----------------------------------------------------------------------------------


def test_a_journal_from_before_is_read_and_its_noise_is_unknown() -> None:
    _, _, store = followed(NoisyBowl(), 4)
    (stored,) = store.experiments()
    lines = [json.loads(encode_event(event)) for event in store.load(stored.id)]
    assert lines[0].pop("deterministic", "missing") is None
    read = Experiment.replay(decode_event(json.dumps(line)) for line in lines)
    assert read.is_noisy is None
    assert len(read.runs_in(RunState.COMPLETED)) == 4
