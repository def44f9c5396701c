"""What *Overview* says was found: what to change, what is violated, and what matters."""

from collections.abc import Mapping

from assistant import Constraint, Objective, Session, SingleMeasure, open_session
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from assistant.ui.pages import overview, overview_results
from strategies import Level
from tests.assistant.examples import TODAY, Bowl, TickingClock
from tests.ui.stage import staged


class Deep(Bowl):
    """The bowl, of which nothing is both low and steep enough."""

    objective = Objective(
        SingleMeasure("height"),
        "minimise",
        (
            Constraint("height", at_most=3.0, label="low enough"),
            Constraint("height", at_least=5.0, label="steep enough"),
        ),
    )


def ran(application: Bowl, *points: tuple[int, int]) -> Session:
    session = open_session(
        application, store=MemoryStore(), clock=TickingClock(), experiment_id="bowl"
    )
    for x, y in points:
        values: Mapping[str, Level] = {"x": x, "y": y, "mode": "plain"}
        session.include(values)
    session.run_queued(SerialExecutor(application))
    return session


def said(session: Session) -> str:
    page = staged(overview.page, session)  # type: ignore[arg-type]
    return " ".join(one.value for one in page.markdown)


def test_what_to_change_is_one_line() -> None:
    session = ran(Bowl(baseline=TODAY), (0, 2), (2, 2), (1, 0))
    assert "**Change these**: x 0 → 1 · y 2 → 0" in said(session)


def test_without_a_current_configuration_the_best_has_all_its_levels() -> None:
    session = ran(Bowl(), (1, 1), (2, 0))
    line = overview_results.change_line(session.experiment)
    assert line == "**Use these**: x 2 · y 0 · mode plain"


def test_the_current_configuration_being_the_best_nothing_is_to_change() -> None:
    session = ran(Bowl(baseline={"x": 2, "y": 0, "mode": "plain"}), (2, 0), (0, 2))
    line = overview_results.change_line(session.experiment)
    assert line == "**Change nothing yet**: the current configuration is the best so far."


def test_of_many_parameters_the_rest_is_counted() -> None:
    told = overview_results._listed([str(i) for i in range(10)])
    assert told == "0 · 1 · 2 · 3 · 4 · 5 · 6 · 7 · and 2 more"


def test_where_nothing_is_feasible_each_violated_constraint_says_how_far_it_is() -> None:
    session = ran(Deep(baseline=TODAY), (0, 2), (2, 0), (3, 2))
    assert overview_results.violated(session.experiment) == [
        "low enough: met by 1 of 3 runs; run 3 has height = 4.",
        "steep enough: met by 1 of 3 runs; run 3 has height = 4.",
    ]
    assert "**Nothing tried meets every constraint yet.**" in said(session)
    assert "steep enough: met by 1 of 3 runs" in said(session)


def test_what_matters_is_said_and_drawn_or_why_it_is_not_known() -> None:
    session = ran(Bowl(), *((x, y) for x in range(4) for y in range(3)))
    assert "**What matters**: x matters most" in said(session)
    page = staged(overview.page, session)  # type: ignore[arg-type]
    drawn = [chart.proto.alt for chart in page.get("vega_lite_chart")]
    assert any(alt.startswith("what matters: x ") for alt in drawn), drawn
    unknown = ran(Bowl(), (2, 0))
    assert "**What matters**: No effect on height is known yet" in said(unknown)
    assert len(staged(overview.page, unknown).get("vega_lite_chart")) == 1  # type: ignore[arg-type]


def test_before_the_first_result_nothing_is_said() -> None:
    assert "**What matters**" not in said(ran(Bowl()))
