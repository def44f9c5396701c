"""The scoreboard of trust: hand-made journals with known answers, and what always holds."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import vl_convert
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import Follower
from assistant import (
    BatchSuggested,
    Constraint,
    Experiment,
    Measure,
    Objective,
    Session,
    SingleMeasure,
    Sla,
    open_session,
)
from assistant.analysis.prediction_record import (
    GROUPS,
    GroupScore,
    PredictionScoreboard,
    coverage_of,
    error_of,
    prediction_scoreboard,
    wilson,
)
from assistant.cli.experiment_view import summary
from assistant.core.errors import RunError
from assistant.core.events import Event
from assistant.executors.serial import SerialExecutor
from assistant.presentation.charts.forecast import (
    MOST_PREDICTIONS,
    PredictionMark,
    prediction_chart,
)
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import render_html
from assistant.presentation.tables.forecast_backtest import (
    FEW,
    prediction_marks,
    prediction_section,
)
from assistant.store.event_store import MemoryStore
from strategies import Level, Parameter, ParameterSpace, Suggestion
from tests.assistant.examples import TODAY, Bowl, TickingClock


@dataclass(frozen=True)
class Line:
    """wait_s = n; today is 10, above 15 violates, and 13 fails."""

    name = "line"
    space = ParameterSpace((Parameter("n", tuple(range(21))),))
    facts = ()
    baseline = {"n": 10}  # noqa: RUF012 - a constant
    objective = Objective(
        SingleMeasure("wait_s"), "minimise", (Constraint("wait_s", at_most=15.0),), "s"
    )

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        if values["n"] == 13:
            raise RunError("thirteen")
        return {"wait_s": float(values["n"])}


def suggested(
    n: int, expected: float | None = None, low: float = 0, high: float = 0, **more: object
) -> Suggestion:
    """Suggest n; what is stated is of the value, and stands as qualities in the journal."""
    told = None if expected is None else (-high, -low)
    return Suggestion(
        Line.space.from_values({"n": n}), "by hand", "why not", more.get("kind", "random"),  # type: ignore[arg-type]
        None if expected is None else -expected, told,
    )  # fmt: skip


def opened(**more: object) -> Session:
    return open_session(Line(), store=MemoryStore(), clock=TickingClock(), **more)  # type: ignore[arg-type]


def offer(session: Session, *suggestions: Suggestion) -> BatchSuggested:
    number = len(session.experiment.batches) + 1
    batch = BatchSuggested(session.now_s(), number, suggestions, exhausted=False)
    session.take([batch])
    return batch


def by_group(told: PredictionScoreboard) -> dict[str, GroupScore]:
    return {score.group: score for score in told.scores}


@pytest.fixture(scope="module")
def steered() -> Session:
    """Today 10. Batch 1: 8 (7 to 9) and 6 (8 to 9) taken, 9 made 7, 5 left out and run later."""
    session = opened()
    session.submit_baseline()
    first = offer(
        session, suggested(8, 8.5, 7, 9), suggested(6, 8, 7.5, 9), suggested(9, 9, 8, 10),
        suggested(5, 3, 2, 4), suggested(4, 4, 3, 5),
    )  # fmt: skip
    session.submit(first, keep=[0, 1], edits={2: {"n": 7}})
    offer(session, suggested(20, 1, 0, 2))  # nobody answers it
    second = offer(session, suggested(16, 15, 14, 17), suggested(13, 12, 11, 14), suggested(2))
    session.submit(second)
    session.include({"n": 5})
    session.include({"n": 12})
    session.run_queued(SerialExecutor(Line()))
    offer(session, suggested(1, 1, 0, 2))  # still open
    return session


def test_every_group_has_its_known_answer(steered: Session) -> None:
    told = prediction_scoreboard(steered.experiment)
    assert told.baseline == 10.0
    assert told.unanswered == 1
    scores = by_group(told)
    assert list(scores) == ["suggested", "edited", "left out", "own", "baseline"]
    taken = scores["suggested"]  # 8, 6, 16 which violates, 13 which fails, 2
    assert (taken.n, taken.completed, taken.failed, taken.violated) == (5, 4, 1, 1)
    assert (taken.mean, taken.best) == pytest.approx((16 / 3, 2.0))
    assert taken.improved == 3  # 8 beats 10, 6 beats 8, 2 beats the rest
    assert taken.gain == pytest.approx(10 - 16 / 3)
    assert taken.coverage is not None
    assert (taken.coverage.n, taken.coverage.inside) == (2, 1)  # 8 is in 7 to 9, 6 below 7.5
    assert taken.error is not None
    assert taken.error.value == pytest.approx((8 - 8.5 + 6 - 8) / 2)
    edited = scores["edited"]
    assert (edited.n, edited.mean, edited.improved, edited.gain) == (1, 7.0, 0, 3.0)
    assert edited.coverage is None
    assert edited.error is None, "the promise was of another configuration"
    assert (scores["own"].mean, scores["own"].improved) == (8.5, 0)
    assert (scores["baseline"].gain, scores["baseline"].improved) == (0.0, 0)


def test_what_was_left_out_is_unknown_unless_it_was_run_later(steered: Session) -> None:
    score = by_group(prediction_scoreboard(steered.experiment))["left out"]
    assert (score.n, score.completed, score.mean) == (2, 1, 5.0)  # 4 was never run
    assert score.improved is None
    assert score.coverage is not None
    assert (score.coverage.n, score.coverage.inside) == (1, 0)  # 5 came, 2 to 4 was stated
    (late,) = [
        p for p in prediction_scoreboard(steered.experiment).promises if p.group == "left out"
    ]
    assert (late.expected, late.low, late.high, late.came) == (3.0, 2.0, 4.0, 5.0)
    assert (
        prediction_scoreboard(steered.experiment).coverage
        == by_group(prediction_scoreboard(steered.experiment))["suggested"].coverage
    ), "what was left out is not among those that were taken"


def test_nothing_and_no_today_are_unknown_not_zero() -> None:
    session = opened()
    assert prediction_scoreboard(session.experiment).scores == ()
    assert prediction_section(session.experiment) is None
    batch = offer(session, suggested(8, 8.5, 7, 9))
    session.submit(batch)
    (score,) = prediction_scoreboard(session.experiment).scores  # it waits
    assert (score.completed, score.mean, score.gain, score.coverage) == (0, None, None, None)
    session.run_queued(SerialExecutor(Line()))
    (score,) = prediction_scoreboard(session.experiment).scores
    assert (score.mean, score.gain) == (8.0, None)
    assert score.improved == 0, "the first result has nothing to improve on"


def test_a_confirmation_promises_a_mean_and_is_not_judged() -> None:
    session = opened()
    session.include({"n": 8})
    session.run_queued(SerialExecutor(Line()))
    batch = offer(session, *[suggested(8, 8, 7.9, 8.1, kind="confirmation")] * 2)
    session.submit(batch, keep=[0])
    session.run_queued(SerialExecutor(Line()))
    scores = by_group(prediction_scoreboard(session.experiment))
    assert (scores["repeated"].n, scores["repeated"].coverage) == (1, None)
    assert scores["repeated"].improved == 0, "it was the best before"
    left = scores["left out"]
    assert (left.n, left.completed) == (1, 0), "the runs before it and its twin tell nothing of it"


def test_a_promise_of_no_width_survives_that_it_is_told_in_eight_digits() -> None:
    session = opened()
    session.submit(offer(session, suggested(8, 8.0000003, 8.0000003, 8.0000003)))
    session.run_queued(SerialExecutor(Line()))
    assert prediction_scoreboard(session.experiment).promises[0].inside is True


def test_wilson_is_that_of_the_table() -> None:
    # Wilson 1927 as tabulated by Newcombe 1998, Statistics in Medicine 17, table I, method 3
    for (inside, n), ends in {
        (81, 263): (0.2553, 0.3662), (15, 148): (0.0624, 0.1605), (0, 20): (0.0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }.items():  # fmt: skip
        assert wilson(inside, n) == pytest.approx(ends, abs=5e-5)
    assert wilson(20, 20) == pytest.approx((1 - 0.1611, 1.0), abs=5e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_lies_in_0_to_1(told: tuple[int, int]) -> None:
    inside, n = told
    low, high = wilson(inside, n)
    assert 0 <= low <= inside / n <= high <= 1
    assert low < high


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_groups_partition_all_runs_and_suggestions(data: st.DataObject) -> None:
    """Whatever is taken, edited or left out: each run is in one group, each suggestion has one."""
    session = opened()
    offered, answered = 0, 0
    for _ in range(data.draw(st.integers(0, 4))):
        batch = session.suggest(data.draw(st.integers(1, 4)))
        offered += len(batch.suggestions)
        positions = range(len(batch.suggestions))
        keep = data.draw(st.lists(st.sampled_from(positions), unique=True, max_size=3))
        free = set(range(21)) - {
            session.experiment.space.values(c)["n"] for c in session.experiment.knowledge.taken
        }
        edits = {}
        if keep and free and data.draw(st.booleans()):
            edits = {keep[0]: {"n": data.draw(st.sampled_from(sorted(free)))}}
        if keep:
            session.submit(batch, keep, edits)
            answered += len(batch.suggestions)
        if data.draw(st.booleans()):
            session.run_queued(SerialExecutor(Line()))
    experiment = session.experiment
    told = prediction_scoreboard(experiment)
    scores = by_group(told)
    assert set(scores) <= set(GROUPS)
    left_out = scores.pop("left out").n if "left out" in scores else 0
    assert sum(score.n for score in scores.values()) == len(experiment.runs)
    assert left_out == answered - len(experiment.runs)
    still = len(experiment.open_batch.suggestions) if experiment.open_batch else 0
    assert told.unanswered == offered - answered - still
    for score in told.scores:
        assert score.completed + score.failed <= score.n
        assert score.coverage is None or 0 <= score.coverage.share <= 1
    whole = [p for p in told.promises if p.group != "left out"]
    assert told.coverage == coverage_of(whole)
    assert told.error == error_of(whole)


def test_an_edited_run_names_its_suggestion_whatever_the_values_say(steered: Session) -> None:
    (run,) = [run for run in steered.experiment.runs if run.source == "edited"]
    assert (run.position, run.batch) == (2, 1)


# -- words, report, chart ----------------------------------------------------------------------


def judged(n: int, inside: int, shift: float = 0.0) -> Experiment:
    """Return an experiment of so many promises on a longer line, ``inside`` of them kept."""

    @dataclass(frozen=True)
    class Long(Line):
        space = ParameterSpace((Parameter("n", tuple(range(200))),))
        objective = Objective(SingleMeasure("wait_s"), "minimise", (), "s")

        def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
            return {"wait_s": float(values["n"])}

    session = open_session(Long(), store=MemoryStore(), clock=TickingClock())
    told = tuple(
        Suggestion(
            Long.space.from_values({"n": i}), "by hand", "why", "random", -(i - shift),
            (-i - 1.0, -i + 1.0) if i < inside else (-i - 3.0, -i - 2.0),
        )
        for i in range(n)
    )  # fmt: skip
    session.submit(offer(session, *told))
    session.run_queued(SerialExecutor(Long()))
    return session.experiment


@pytest.mark.parametrize(
    ("n", "inside", "said"),
    [
        (FEW - 1, FEW - 1, "are needed to judge"),
        (FEW, FEW, "agree with the results"),
        (20, 12, "too narrow"),
        (100, 100, "wider than necessary"),
    ],
)
def test_the_verdict_on_intervals_is_said_in_words(n: int, inside: int, said: str) -> None:
    section = prediction_section(judged(n, inside))
    assert section is not None
    assert f"{inside} of {n} results" in section.sentences[0]
    assert said in section.sentences[0]


@pytest.mark.parametrize(("shift", "said"), [(3.0, "too optimistic"), (-3.0, "too cautious")])
def test_a_lean_is_said_in_words_of_the_goal(shift: float, said: str) -> None:
    section = prediction_section(judged(20, 20, shift))
    assert section is not None
    assert said in section.sentences[1]
    assert ("above" in section.sentences[1]) == (shift > 0)


def test_the_report_and_the_summary_have_it(steered: Session) -> None:
    data = collect(steered.experiment)
    page = render_html(data)
    for text in ("Accuracy of the predictions", "suggested, then edited", "suggested, left out",
                 "1 (run later)", "outside the interval"):  # fmt: skip
        assert text in page
    told = summary(steered.experiment, data, None)["trust"]
    assert [score["group"] for score in told["scores"]][:2] == ["suggested", "edited"]
    assert told["unanswered"] == 1
    empty = opened().experiment
    assert summary(empty, collect(empty), None)["trust"] is None
    assert "Accuracy of the predictions" not in render_html(collect(empty))


def test_the_chart_draws_the_latest_and_names_their_kind() -> None:
    drawn = [
        PredictionMark(f"run {i}, batch 1", 1.0, None if i % 3 == 2 else 0.5, 2.0, 1.5,
                    None if i % 3 == 2 else i % 3 == 0)
        for i in range(MOST_PREDICTIONS + 5)
    ]  # fmt: skip
    spec = prediction_chart(drawn, "wait_s [s]")
    rows = spec["data"]["values"]
    assert (len(rows), rows[0]["label"]) == (MOST_PREDICTIONS, "run 5, batch 1")
    assert {row["kind"] for row in rows[:3]} == {
        "inside the interval", "outside the interval", "no interval"
    }  # fmt: skip
    assert "wait_s [s]" in vl_convert.vegalite_to_svg(spec)


def test_a_real_sweep_is_judged_and_promises_are_those_of_its_journal() -> None:
    bowl = Bowl(baseline=TODAY)
    session = open_session(
        bowl, store=MemoryStore(), sla=Sla(20), clock=TickingClock(), strategy="grasp"
    )
    session.finish(Follower(initial=6, batch=4).steer(session, SerialExecutor(bowl)))
    told = prediction_scoreboard(session.experiment)
    assert told.coverage is not None
    events: tuple[Event, ...] = session.events()
    stated = {
        one.configuration: one
        for event in events
        if isinstance(event, BatchSuggested)
        for one in event.suggestions
        if one.expected is not None
    }
    for promise in told.promises:
        run = session.experiment.run(promise.run_id)
        one = stated[run.configuration]
        assert promise.expected == -(one.expected or 0.0)
        assert run.outcome is not None
        assert promise.came == run.outcome.value
    assert len(prediction_marks(told.promises)) == len(told.promises)
