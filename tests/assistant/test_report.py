"""The report: the answer first, true to the runs, self-contained, safe with foreign text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agents import Follower
from assistant import Constraint, Fact, Measure, Objective, SingleMeasure, Sla, open_session
from assistant.applications.function import Function
from assistant.core.errors import RunError, StoreError
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report import html
from assistant.presentation.report.data import ReportData, collect
from assistant.presentation.report.html import render_html, write_report
from assistant.store.event_store import MemoryStore
from strategies import Level, Parameter, ParameterSpace
from tests.assistant.examples import TODAY, Bowl, TickingClock


def report_on(bowl: Bowl, runs: int = 15, **more: object) -> ReportData:
    session = open_session(
        bowl,
        store=MemoryStore(),
        sla=Sla(runs),
        clock=TickingClock(),
        **more,  # type: ignore[arg-type]
    )
    session.finish(Follower(initial=4, batch=3).steer(session, SerialExecutor(bowl)))
    return collect(session.experiment)


def test_better_than_today() -> None:
    data = report_on(Bowl(baseline=TODAY), runs=24)  # today: x=0, y=2 gives 7; best 1
    assert data.answer.verdict == "improved"
    assert data.answer.improvement == pytest.approx((7 - 1) / 7)
    assert "lowers height by 85.7 %, from the current 7 to 1" in data.answer.headline
    changed = {c.parameter: (c.baseline, c.best) for c in data.changes if c.differs}
    assert changed == {"x": ("0", "2"), "y": ("2", "0")}


def test_today_is_best_is_said() -> None:
    data = report_on(Bowl(baseline={"x": 2, "y": 0, "mode": "plain"}))
    assert data.answer.verdict == "baseline_is_best"
    assert data.answer.improvement == 0.0
    assert "current configuration is the best so far" in render_html(data)


def test_nothing_feasible_is_said() -> None:
    objective = Objective(SingleMeasure("height"), "minimise", (Constraint("height", at_most=0.0),))
    data = report_on(Bowl(baseline=TODAY), objective=objective)
    assert data.answer.verdict == "nothing_feasible"
    assert data.answer.improvement is None
    assert all(point.best is None for point in data.points)


def test_a_feasible_run_beats_an_infeasible_today_even_if_its_value_is_worse() -> None:
    objective = Objective(SingleMeasure("height"), "maximise", (Constraint("height", at_most=3.0),))
    data = report_on(Bowl(baseline=TODAY), runs=24, objective=objective)
    assert data.answer.verdict == "improved"
    assert "current configuration violates 'height at most 3'" in data.answer.headline
    assert data.answer.headline.endswith("meets every constraint.")


def test_no_runs_at_all() -> None:
    session = open_session(Bowl(), store=MemoryStore(), clock=TickingClock())
    data = collect(session.experiment)
    assert data.answer.verdict == "no_runs"
    assert "There are no runs yet" in render_html(data)


def test_only_failures() -> None:
    @dataclass(frozen=True)
    class Broken(Bowl):
        def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
            raise RunError("the licence server is down")

    data = report_on(Broken(), runs=4)
    assert data.answer.verdict == "no_runs"
    assert "the licence server is down" in render_html(data)


def test_effects_are_those_of_least_squares_and_unknown_stays_unknown() -> None:
    session = open_session(Bowl(), store=MemoryStore(), sla=Sla(9), clock=TickingClock())
    for x, y in ((0, 0), (0, 1), (2, 0)):
        session.include({"x": x, "y": y, "mode": "plain"})
    session.run_queued(SerialExecutor(Bowl()))
    data = collect(session.experiment)
    assert data.effects is not None
    ranges = [(e.parameter, e.value, e.n_compared) for e in data.effects.ranking.parameters]
    assert ranges == [("x", 4, 2), ("y", 1, 2), ("mode", None, 0)]  # heights 5, 6 and 1
    (figure, _) = data.effects.figures
    assert [(change.level, change.change) for change in figure.levels] == [("0", 2), ("2", -2)]
    assert "mode: a single level has runs" in render_html(data)


def test_the_first_page_says_who_gains_and_the_appendix_has_the_rest() -> None:
    def scheduled(x: int) -> Mapping[str, Measure]:
        is_short = x == 2
        return {
            "mean_wait_s": 60.0 if is_short else 120.0,
            "short_jobs_mean_wait_s": 30.0 if is_short else 120.0,
            "long_jobs_mean_wait_s": 180.0 if is_short else 120.0,
            "wide_jobs_mean_wait_s": None,
        }

    queue = Function(
        scheduled,
        ParameterSpace((Parameter("x", (0, 2)),)),
        Objective(SingleMeasure("mean_wait_s"), unit="s"),
        {"x": 0},
    )
    session = open_session(queue, store=MemoryStore(), clock=TickingClock())
    for x in (0, 2):
        session.include({"x": x})
    session.run_queued(SerialExecutor(queue))
    data = collect(session.experiment)
    assert [(row.name, row.baseline, row.best, row.change) for row in data.classes] == [
        ("jobs that requested at most 1 h", "120 s (2 min 00 s)", "30 s", "75 % lower"),
        ("jobs that requested more than 6 h", "120 s (2 min 00 s)", "180 s (3 min 00 s)",
         "50 % higher"),
    ]  # fmt: skip
    page = render_html(data)
    order = ('id="answer"', 'id="change"', 'id="classes"', 'id="appendix"', 'id="measures"')
    places = [page.index(part) for part in (*order, 'id="runs"')]
    assert places == sorted(places)


class _Requests(HTMLParser):
    """Collects whatever a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            external = name in ("src", "srcset", "data", "action") or (
                name in ("href", "xlink:href") and tag in ("link", "image", "use")
            )
            if external and value and not value.startswith(("data:", "#")):
                self.found.append(f"{tag} {name}={value}")
        if tag in ("script", "iframe", "link", "object", "embed"):
            self.found.append(tag)


def test_the_page_asks_for_nothing() -> None:
    page = render_html(report_on(Bowl(baseline=TODAY)))
    parser = _Requests()
    parser.feed(page)
    assert parser.found == []
    assert not re.search(r"@import|url\((?!#)", page)


def test_foreign_text_is_text() -> None:
    nasty = "<script>alert(1)</script> & <b>"

    @dataclass(frozen=True)
    class Nasty(Bowl):
        facts = (Fact(nasty, nasty),)

        def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
            if values["x"] == 0:
                raise RunError(nasty)
            return super().evaluate(values, seed)

    page = render_html(report_on(Nasty(), name=nasty))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_every_run_is_in_the_table() -> None:
    data = report_on(Bowl(baseline=TODAY, fail_at_x=1), runs=24)
    page = render_html(data)
    assert len(re.findall(r'<tr class="[a-z]*">\s*<td class="n">\d+</td>', page)) == 24
    assert page.count("x = 1 does not work") == 6 + 1  # in the answer, too
    assert "Error of 6 of 6 failed runs: x = 1 does not work." in page


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    data = report_on(Bowl())
    with pytest.raises(StoreError, match="is a folder"):
        write_report(data, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        write_report(data, tmp_path / "file" / "report.html")
    written = write_report(data, tmp_path / "new" / "report.html")
    assert written.read_text().startswith("<!doctype html>")
    assert [p.name for p in written.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("baseline", "found", "said"),
    [
        (4.0, 3.0, "25 %"),
        (4.0, -1.0, "5"),
        (0.0, -2.0, "2"),
        (-4.0, -5.0, "1"),
    ],
)
def test_a_difference_stands_where_a_percentage_would_say_nothing(
    baseline: float, found: float, said: str
) -> None:
    session = open_session(Bowl(baseline=TODAY), store=MemoryStore(), sla=Sla(5))
    session.import_results([(TODAY, {"height": baseline})])
    session.import_results([({**TODAY, "x": 1}, {"height": found})])
    headline = collect(session.experiment).answer.headline
    assert headline == (
        f"Run 2 lowers height by {said}, from the current {baseline:g} to {found:g}."
    )


def test_the_table_of_very_many_runs_has_the_best_one_and_the_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = report_on(Bowl(baseline=TODAY), runs=24)
    best = next(run.id for run in data.runs if run.is_best)
    monkeypatch.setattr(html, "MAX_ROWS", 5)
    page = render_html(data)
    table = page[page.index('<section id="runs">') : page.index('<section id="basis">')]
    rows = [int(found) for found in re.findall(r'<td class="n">(\d+)</td>\s*<td><span', table)]
    newest = [run.id for run in data.runs[-5:]]
    assert rows == [*([] if best in newest else [best]), *newest]
    assert f"The table has {len(rows)} of 24" in table
    assert "copperline runs --csv FILE" in table
