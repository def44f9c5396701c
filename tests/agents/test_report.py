"""The charts and the texts of a study say its figures, whatever the grid."""

from agents import Cell, EpisodeResult, PlayedStudy, StoppingRule, StrategyChoice, Study, Table
from agents.studies.report import (
    panel_specs,
    panels,
    render_csv,
    render_html,
    render_markdown,
    study_rows,
)
from agents.studies.results import CellSummary, MeanInterval, summarise

GRASP = StrategyChoice("copper", (("beta", 0.9),))


def summary(cell: Cell, mean: float) -> CellSummary:
    figure = MeanInterval(mean, mean - 0.25, mean + 0.5)
    return CellSummary(cell, 9, figure, 0.25, None if cell.runs is None else figure, 0.0)


def finished(study: Study) -> PlayedStudy:
    cells = [summary(cell, 1.0 + i / 8) for i, cell in enumerate(study.cells())]
    return PlayedStudy(study, {table.name: 54 for table in study.tables}, tuple(cells))


TABLES = (Table("maze", "maze.csv"), Table("<ifm>", "i.csv"))
SIX = Study("six", TABLES, replications=9, strategies=(GRASP,), kinds=("analyst", "follower"))
BUDGETS = Study(
    "budgets", TABLES, replications=9, insights=("none",), confidences=(100,), learning=(False,),
    stop=StoppingRule(runs=(20, 30), exploitation=(None, 0.5)),
)  # fmt: skip


def test_a_panel_for_each_table_and_insight_as_in_figure_6() -> None:
    done = finished(SIX)
    titles = [panel.title for panel in panels(done.summaries)]
    assert titles[:4] == [
        "maze, copper (beta 0.9), bad insight",
        "maze, copper (beta 0.9), good insight",
        "maze, copper (beta 0.9), no insight",
        "maze, copper (beta 0.9), follower",
    ]
    assert len(titles) == 8
    drawn = [bar[2] for panel in panels(done.summaries) for bar in panel.bars]
    assert drawn == [one.runs for one in done.summaries], "every cell is one bar"
    for spec in panel_specs(done.summaries)[:4]:
        domain = spec["layer"][0]["encoding"]["y"]["scale"]["domain"]
        of_table = [one for one in done.summaries if one.cell.table == "maze"]
        assert domain == [0, max(one.runs.high or 0 for one in of_table)]


def test_a_panel_for_each_table_as_in_figures_7_to_9() -> None:
    first, _ = panels(finished(BUDGETS).summaries)
    assert first.title == "maze, copper, no insight, confidence 100 %, not learning"
    places = [(x, colour) for x, colour, _ in first.bars]
    assert places == [("20", "no level"), ("20", "0.5"), ("30", "no level"), ("30", "0.5")]


def test_texts_hold_every_cell() -> None:
    for study in (SIX, BUDGETS):
        done = finished(study)
        n = len(done.summaries)
        assert render_markdown(done).count("\n| ") == n + 1
        assert render_csv(done.summaries).count("\n") == n + 1
        header, rows = study_rows(done)
        assert len(rows) == n
        assert all(len(row) == len(header) for row in rows)
        page = render_html(done)
        assert page.count("<tr>") == n + 1
        assert "<ifm>" not in page, "names are texts"
    assert "27 runs of maze (54 configurations)" in render_markdown(finished(SIX))


def test_who_did_not_find_the_optimum_counts_with_the_runs_that_were_allowed() -> None:
    cell = SIX.cells()[0]
    late = EpisodeResult(0, 1, 5, 0, None, True, 9.0, 0.5, True, "the deadline has passed")
    found = EpisodeResult(1, 2, 10, 4, 8, False, 1.0, 1.0, False, "the target is reached")
    told = summarise(SIX, cell, 27, [late, found])
    assert (told.runs.mean, told.censored, told.late) == ((27 + 8) / 2, 0.5, 0.5)
    assert told.ratio is None
