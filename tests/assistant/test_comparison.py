"""What a percentage is of: like is compared with like, in the same words everywhere."""

from collections.abc import Mapping
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from assistant import Constraint, Objective, Session, SingleMeasure, open_session
from assistant.cli.experiment_view import LiveView, summary
from assistant.core.errors import ExperimentError
from assistant.core.objective import Goal
from assistant.presentation.report.data import collect
from assistant.presentation.report.html import render_html
from assistant.presentation.tables.experiment_summary import baseline_finding, summarise_experiment
from assistant.presentation.text.comparison import change_words, compare, compare_best
from assistant.store.event_store import MemoryStore
from strategies import Level
from tests.assistant.examples import TODAY, Bowl

WAIT = Constraint("wait", at_most=100)
BROKEN = "'wait at most 100' (with 400)"


def measured(
    current: Mapping[str, float],
    *others: Mapping[str, float],
    goal: Goal = "minimise",
    constraints: tuple[Constraint, ...] = (),
) -> Session:
    """Return a session with the results of the current configuration and of others."""
    objective = Objective(SingleMeasure("height"), goal, constraints)
    session = open_session(Bowl(TODAY), store=MemoryStore(), objective=objective)
    points: list[Mapping[str, Level]] = [TODAY, *({**TODAY, "x": x + 1} for x in range(3))]
    session.import_results(list(zip(points, (current, *others), strict=False)))
    return session


def said(session: Session) -> tuple[str, str]:
    """Return the comparison and its short form."""
    comparison = compare_best(session.experiment)
    assert comparison is not None
    return comparison.text, comparison.short


def live(session: Session) -> str:
    return LiveView(session, Console(file=StringIO()))._headline().plain


def test_the_table_of_the_live_view_begins_below_its_bar() -> None:
    console = Console(file=StringIO(), width=100, force_terminal=True, color_system="standard")
    console.print(LiveView(measured({"height": 7.0}, {"height": 2.0}), console)._picture())
    lines = Text.from_ansi(console.file.getvalue()).plain.splitlines()  # type: ignore[attr-defined]
    assert [line.split()[:2] for line in lines[2:4]] == [["run", "source"], ["1", "imported"]]


def test_of_two_allowed_values_the_change_is_said_with_both() -> None:
    assert said(measured({"height": 0.48}, {"height": 0.30})) == (
        "the best found lowers height by 37.5 %, from the current 0.48 to 0.3",
        "37.5 % lower than current",
    )
    assert said(measured({"height": 4.0}, {"height": 5.0}, goal="maximise"))[1] == (
        "25 % higher than current"
    )


def test_the_current_configuration_that_violates_is_not_compared_by_a_percentage() -> None:
    session = measured(
        {"height": 3.0, "wait": 400.0}, {"height": 4.0, "wait": 50.0}, constraints=(WAIT,)
    )
    assert said(session) == (
        f"the current configuration violates {BROKEN}; the best found meets every constraint",
        "current violates a constraint",
    )
    finding = baseline_finding(session.experiment)
    assert finding.headline == (
        f"The current configuration violates {BROKEN}; run 2 meets every constraint."
    )
    assert finding.improvement is None
    assert "%" not in live(session)
    assert summarise_experiment(session.experiment).gain == "current violates a constraint"


def test_a_result_that_violates_is_not_compared_by_a_percentage() -> None:
    objective = Objective(SingleMeasure("height"), "minimise", (WAIT,))
    session = measured(
        {"height": 5.0, "wait": 50.0}, {"height": 1.0, "wait": 400.0}, constraints=(WAIT,)
    )
    current, other = (run.outcome for run in session.experiment.runs)
    assert current is not None
    assert other is not None
    assert compare(objective, other, current, "run 2").text == (
        f"run 2 violates {BROKEN}; the current configuration meets every constraint"
    )
    assert said(session)[1] == "same as current"


def test_of_two_that_violate_the_measured_values_are_said() -> None:
    session = measured(
        {"height": 5.0, "wait": 400.0}, {"height": 1.0, "wait": 120.0}, constraints=(WAIT,)
    )
    assert said(session) == (
        (
            "the best found violates 'wait at most 100' (with 120); the current configuration "
            "violates 'wait at most 100' (with 400)"
        ),
        "violates a constraint, closer than current",
    )


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        (0.0, 4.0, "100 % lower"),
        (3.0, 0.0, "3 higher"),
        (-2.0, 0.0, "2 lower"),
        (-5.0, -4.0, "1 lower"),
        (-1.0, 4.0, "5 lower"),
        (9_999.0, 10_000.0, "less than 0.1 % lower"),
        (4.0, 4.0, "the same"),
    ],
)
def test_a_percentage_of_nothing_or_across_zero_is_not_said(
    new: float, old: float, words: str
) -> None:
    assert change_words(new, old) == words


def test_a_worse_result_is_called_worse() -> None:
    objective = Objective(SingleMeasure("height"), "minimise")
    current, other = (
        run.outcome for run in measured({"height": 4.0}, {"height": 5.0}).experiment.runs
    )
    assert current is not None
    assert other is not None
    comparison = compare(objective, other, current, "run 2")
    assert comparison.text == (
        "run 2 raises height by 25 %, from the current 4 to 5, which is worse"
    )
    assert comparison.short == "25 % higher than current (worse)"
    assert comparison.share == -0.25


def test_without_constraints_nothing_mentions_one() -> None:
    session = measured({"height": 7.0}, {"height": 2.0})
    data = collect(session.experiment)
    texts = [data.answer.headline, *data.answer.sentences, live(session)]
    texts += [render_html(data).split("<h2>Every run</h2>")[0], *said(session)]
    assert not any("constraint" in text.lower() for text in texts)
    empty = open_session(Bowl(), store=MemoryStore())
    with pytest.raises(ExperimentError, match=r"^no run has a result yet"):
        empty.confirm(1)


def test_terminal_report_list_and_json_say_the_same() -> None:
    session = measured({"height": 7.0}, {"height": 2.0})
    experiment, data = session.experiment, collect(session.experiment)
    text, short = said(session)
    words = text.removeprefix("the best found ")
    assert words == "lowers height by 71.4 %, from the current 7 to 2"
    assert data.answer.headline == f"Run 2 {words}."
    assert summary(experiment, data, None)["comparison"] == text
    assert data.measures[0].change == "71.4 % lower"
    assert short in live(session)
    assert summarise_experiment(experiment).gain == short
