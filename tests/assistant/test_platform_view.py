"""What is shown of an AI platform: known answers, the same numbers everywhere, pages that open."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from assistant.applications.extensions.ai_platform import TODAY, AiPlatform
from assistant.presentation.charts.ai_platform import (
    HistogramBars,
    PlatformComparison,
    QuantileComparison,
    ScatterPoints,
    WeekBands,
    histogram_chart,
    platform_picture,
    qq_chart,
    scatter_chart,
)
from assistant.presentation.report.html import comparison_rows, render_comparison, render_dashboard
from assistant.simtools.ai_platform import (
    FULL_TRAINING,
    MOST_POINTS,
    as_table,
    dashboard,
    day_words,
    from_table,
    parameters,
    simulated_dashboard,
)
from sim.aiops.platform import TASKS
from sim.aiops.summary import SimulationMetadata, SpreadSummary, TraceSummary

NONE = SpreadSummary(0, None, (None, None, None))
ABOUT = SimulationMetadata(
    48 * 3_600.0, 0.0, 3, "realistic", 6.0, (("training", 4, "fifo", 2.5),), 0, 0.05, 0.1, 0, (),
    (("performance", 0.7),), "made up",
)  # fmt: skip


def summary(n_hours: int = 48, about: SimulationMetadata | None = ABOUT) -> TraceSummary:
    """Two days on which 10 pipelines come at 16:00 and 5 evaluations are ready at 22:00."""
    hours = {name: np.zeros(n_hours) for name in (
        "arrivals", "renewed", "traffic_bytes", "built", "built performance", "busy training",
        "waited training", "began training", "waited for training",
        *(f"asked {kind}" for kind in TASKS),
    )}  # fmt: skip
    hours["arrivals"][16::24] = 10.0
    hours["busy training"][16::24] = 4 * 3_600.0
    hours["waited training"][20::24] = 3 * 3_600.0
    hours["began training"][20::24] = 2.0
    hours["waited for training"][20::24] = 2 * 600.0
    hours["asked evaluate"][22::24] = 5.0
    return TraceSummary(
        20, {"arrival": 20}, {"deployed": 0, "trained": 20, "stopped by a gate": 0}, NONE, (),
        {"training": NONE}, ("training",), hours, None, about,
    )  # fmt: skip


def series(board_panels: tuple[object, ...], title: str) -> Mapping[str, tuple[float | None, ...]]:
    (panel,) = [one for one in board_panels if one.title.startswith(title)]  # type: ignore[attr-defined]
    return panel.series  # type: ignore[attr-defined, no-any-return]


def test_a_day_is_told_in_words() -> None:
    came, training, ready = day_words(summary())
    assert came == "Most pipelines come at 16:00: 10 an hour."
    assert training == "Training is busiest at 16:00: 100% in use; most tasks wait at 20:00: 3."
    assert ready == (
        "Most evaluations are ready at 22:00, after 18:00 at 22:00; 100% of them, and 0% of the "
        "pipelines, come after 18:00."
    )
    unknown = day_words(summary(about=None))
    assert "4 tasks at once" in unknown[1], "without its capacity a share would be a guess"
    assert day_words(summary(n_hours=23)) == ()


def test_a_simulation_that_begins_in_the_afternoon_is_told_by_the_clock() -> None:
    later = summary(about=replace(ABOUT, start_s=15 * 3_600.0))
    assert day_words(later)[0] == "Most pipelines come at 07:00: 10 an hour."
    assert dashboard("x", later).over_time.start_h == 15


def test_panels_are_rates_and_shares() -> None:
    board = dashboard("x", summary())
    shown = board.over_time.panels
    assert series(shown, "pipelines that came")["pipelines"][16] == 10.0
    assert series(shown, "share of the capacity")["training"][16] == 1.0
    assert series(shown, "tasks that wait")["training"][20] == 3.0
    waits = series(shown, "wait of the tasks that begin")["training"]
    assert (waits[20], waits[21]) == (10.0, None)
    assert series(board.day.panels, "tasks that were ready")["evaluate"][22] == 5.0
    assert board.over_time.step_h == 1


@pytest.mark.parametrize(("n_hours", "step"), [(750, 1), (751, 3), (8_784, 24), (200_000, 168)])
def test_a_long_simulation_is_drawn_by_means_that_keep_the_sum(n_hours: int, step: int) -> None:
    told = summary(n_hours)
    drawn = dashboard("x", told).over_time
    shown = series(drawn.panels, "pipelines that came")["pipelines"]
    assert drawn.step_h == step
    assert len(shown) == -(-n_hours // step)
    assert len(shown) <= MOST_POINTS or step == 168
    hours = np.diff([*range(0, n_hours, step), n_hours])
    assert np.dot(hours, np.array(shown, float)) == pytest.approx(
        told.hours["arrivals"].sum(), rel=1e-4
    )


def test_what_was_simulated_is_told_or_nothing() -> None:
    told = dict(parameters(summary()))
    assert told["resource training"] == "4 at once, fifo, 2.5 per hour for each"
    assert told["gate"] == "performance 0.7 at least"
    assert parameters(summary(about=None)) == ()


def test_a_trace_in_a_folder_shows_what_the_run_shows(tmp_path) -> None:  # type: ignore[no-untyped-def]
    small = AiPlatform(seed=2, days=1.0, models=5)
    kept, measured = simulated_dashboard(small, FULL_TRAINING)
    written, again = simulated_dashboard(small, FULL_TRAINING, tmp_path)
    assert measured == again == small.evaluate(FULL_TRAINING, 0)
    assert kept.tables == written.tables
    assert kept.over_time == written.over_time
    assert kept.day == written.day
    assert kept.parameters == written.parameters
    assert dict(kept.parameters)["resource training"].startswith("4 at once")
    assert TODAY["training_capacity"] != 4


@pytest.mark.slow
def test_the_page_of_a_dashboard_holds_it_and_asks_nobody() -> None:
    small = AiPlatform(seed=2, days=1.0, models=5)
    board, _ = simulated_dashboard(small, FULL_TRAINING)
    page = render_dashboard(board)
    assert page.count("<svg") == len(board.over_time.panels) + len(board.day.panels)
    for sentence in board.words:
        assert sentence in page
    for _, rows in board.tables.values():
        assert all(f"<td>{row[0]}</td>" in page for row in rows)
    assert "http" not in page.replace("http://www.w3.org", "")
    assert platform_picture(board.day)["vconcat"][-1]["encoding"]["x"]["title"] == "hour of the day"


FOUND = PlatformComparison(
    "log.csv",
    100,
    50,
    4,
    0,
    "made up",
    (
        QuantileComparison(
            "train <b>", (1.0, 2.0, 4.0), (2.0, 4.0, 8.0), 9, 8, 0.5, 0.1, 3.0, np.log(2.0)
        ),
    ),
    (
        QuantileComparison(
            "gaps, random", (1.0, 2.0, 4.0), (1.0, 2.0, 4.0), 9, 8, 0.0, 0.1, 0.0, 0.0
        ),
    ),
    {"random": WeekBands((1.0,) * 168, (2.0,) * 168, (0.0,) * 168, (3.0,) * 168, 1.0)},
    (
        ScatterPoints(
            "preprocessing over cells", "cells", "seconds", ((10.0, 1.0), (100.0, 2.0)),
            ((20.0, 1.5),), ((10.0, 1.0), (100.0, 2.5)),
        ),
    ),
    (HistogramBars("train <b>", (0.0, 5.0, 10.0), (0.75, 0.24), (0.5, 0.5)),),
)  # fmt: skip


def test_a_comparison_is_told_in_words_and_read_again() -> None:
    import json

    assert from_table(json.loads(json.dumps(as_table(FOUND)))) == FOUND
    assert FOUND.headline == (
        "1 of 2 samples differ from the log only by chance (KS test, 5 %); the largest difference "
        "is in 'train <b>', KS 0.500."
    )
    rows = comparison_rows(FOUND)
    assert rows[0][-2:] == ("100.0%", "differs by more than chance")
    assert rows[1][-2:] == ("0.0%", "alike")


def test_the_page_of_a_comparison_is_whole_and_foreign_text_stays_text() -> None:
    page = render_comparison(FOUND)
    assert page.count("<svg") == 5
    assert "train &lt;b&gt;" in page
    assert "train <b>" not in page
    assert "100% of the 168 hours lie within the grey bands" in page
    diagonal, dots = qq_chart(FOUND.tasks[0])["layer"]
    assert [one["observed"] for one in diagonal["data"]["values"]] == [1.0, 8.0]
    assert dots["data"]["values"][2] == {"observed": 4.0, "simulated": 8.0}
    points, curve = scatter_chart(FOUND.scatters[0])["layer"]
    assert points["data"]["values"][2] == {"of": "simulated", "x": 20.0, "y": 1.5}
    assert curve["data"]["values"] == [{"x": 10.0, "y": 1.0}, {"x": 100.0, "y": 2.5}]
    steps = histogram_chart(FOUND.histograms[0])["data"]["values"]
    assert steps[1] == {"of": "observed", "edge_s": 5.0, "share": 0.24}
    assert steps[-1] == {"of": "simulated", "edge_s": 10.0, "share": 0.0}
