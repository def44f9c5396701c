"""The page Run in every state that a run, a comparison and a schedule can have."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from assistant import Constraint, Objective, RunState, Session, SingleMeasure, Sla, open_session
from assistant.applications.scheduling import Scheduling
from assistant.config.snapshot import config_snapshot, open_sweep, rebuild
from assistant.config.sweep_file import build_sweep, check_settings
from assistant.core.events import RunReported, RunStarted
from assistant.executors.serial import SerialExecutor
from assistant.simtools import schedule
from assistant.simtools.schedule import JobSchedule, schedule_of
from assistant.store.event_store import MemoryStore
from assistant.ui.pages import run, run_schedule
from sim.api import Workload
from sim.formats import write_swf
from sim.generators import default_workload
from tests.assistant.examples import TODAY, Bowl
from tests.ui.stage import staged

pytestmark = pytest.mark.slow

WIDE = {"small_procs": 0, "small_max_requested_s": 600, "small_max_procs": 8}
SPLIT = {"small_procs": 2, "small_max_requested_s": 60, "small_max_procs": 2}


def bowl(**more: Any) -> Session:
    """Two runs of a known function: today's, worth 7, then x=2, worth 1."""
    application = Bowl(baseline=TODAY, fail_at_x=3)
    session = open_session(application, store=MemoryStore(), sla=Sla(10), **more)
    session.submit_baseline()
    session.include({"x": 2, "y": 0, "mode": "plain"}, "because I think so")
    session.run_queued(SerialExecutor(application))
    return session


def jobs() -> Workload:
    """Forty jobs on eight processors; every fifth is wide and long."""
    n = 40
    wide = [i % 5 == 0 for i in range(n)]
    return Workload.from_arrays(
        submit_s=[30 * i for i in range(n)],
        runtime_s=[400 if one else 40 for one in wide],
        requested_s=[600 if one else 60 for one in wide],
        procs=[6 if one else 1 + i % 2 for i, one in enumerate(wide)],
        user=[i % 3 for i in range(n)],
        max_procs=8,
    )


def scheduled(log: Path) -> Session:
    """Two runs over a small log: one partition, and two."""
    write_swf(jobs(), log)
    tables: dict[str, Any] = {
        "runs": 10,
        "application": {
            "kind": "scheduling",
            "log": str(log),
            "levels": {
                "small_procs": [0, 2],
                "small_max_requested_s": [60, 600],
                "small_max_procs": [2, 8],
            },
        },
    }
    built = build_sweep(check_settings(tables, "test"))
    session = open_sweep(built, MemoryStore(), "jobs", config_snapshot(tables, ()))
    session.include(WIDE)
    session.include(SPLIT)
    session.run_queued(SerialExecutor(built.application))
    return session


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return scheduled(tmp_path_factory.mktemp("log") / "jobs.swf")


def scheduled_by(session: Session, run_id: int) -> JobSchedule:
    experiment = session.experiment
    one = experiment.run(run_id)
    application = rebuild(experiment.opened)
    return schedule_of(application, experiment.space.values(one.configuration), one.seed)


def shown(session: Session, run_id: int | None = None, other: int | None = None) -> AppTest:
    """Return the page, with a run and another chosen as a person would."""
    page = staged(run.page, session)
    if run_id is not None:
        choose(page, session, run_id)
    if other is not None:
        sound(page.selectbox(key=f"run-{session.id}-other").select(other).run())
    return page


def choose(page: AppTest, session: Session, run_id: int) -> AppTest:
    return sound(page.selectbox(key=f"run-{session.id}").select(run_id).run())


def sound(page: AppTest) -> AppTest:
    assert not page.exception, [e.value for e in page.exception]
    return page


def text(page: AppTest) -> str:
    """Return all that stands on the page."""
    kinds = (page.subheader, page.markdown, page.caption, page.info, page.warning, page.error,
             page.success)  # fmt: skip
    return "\n".join(one.value for kind in kinds for one in kind)


def tables(page: AppTest) -> list[Any]:
    return [one.value for one in page.dataframe]


def charts(page: AppTest) -> list[Any]:
    return list(page.get("vega_lite_chart"))


def alts(page: AppTest) -> list[str]:
    return [one.proto.alt for one in charts(page)]


def addressed(session: Session, **parameters: str) -> AppTest:
    """Return the page as an address opens it."""
    return staged(run.page, session, address={name: [one] for name, one in parameters.items()})


def address(page: AppTest) -> dict[str, str]:
    """Return what stands in the address."""
    return {
        name: value if isinstance(value, str) else value[-1]
        for name, value in page.query_params.items()
    }


def select(page: AppTest, chart: int, selection: dict[str, Any]) -> AppTest:
    """Select in a chart, as its browser tells it; the tester has no method for it."""
    states = page._tree.get_widget_states()
    told = json.dumps({"selection": selection})
    states.widgets.add(id=charts(page)[chart].proto.id, string_value=told)
    return sound(page._run(states))


# -- a run ---------------------------------------------------------------------------------------


def test_without_a_run_it_says_what_to_do() -> None:
    session = open_session(Bowl(), store=MemoryStore())
    page = staged(run.page, session)
    assert "No run yet. Submit suggestions on the page *Suggestions*" in text(page)
    assert not page.selectbox


def test_a_completed_run_in_full() -> None:
    session = bowl()
    page = shown(session, 2)
    metrics = {one.label: (one.value, one.delta) for one in page.metric}
    assert metrics["height"] == ("1", "85.7 % lower than current")
    told = text(page)
    assert "**Completed** · the best so far" in told
    assert "Added by a person." in told
    assert "Why: because I think so" in told
    assert f"Seed {session.experiment.run(2).seed}." in told
    levels, measures = tables(page)
    assert levels.to_dict("list") == {
        "parameter": ["x", "y", "mode"],
        "level": ["2", "0", "plain"],
        "current": ["0", "2", "the same"],
    }
    assert measures["measure"].tolist() == ["height", "series", "unknown"]
    assert measures["value"].tolist() == ["1", "1, 2 (2 numbers)", "unknown"]
    assert measures["counts for"].tolist() == ["objective", "", ""]


def test_it_begins_with_the_best_run_and_with_the_last_while_there_is_none() -> None:
    session = bowl()
    page = staged(run.page, session)
    assert page.selectbox(key=f"run-{session.id}").value == 2
    waiting = open_session(Bowl(), store=MemoryStore())
    for x in (0, 1):
        waiting.include({"x": x, "y": 0, "mode": "plain"})
    page = staged(run.page, waiting)
    assert page.selectbox(key=f"run-{waiting.id}").value == 2
    assert "Waiting: number 2 of 2 that may start." in text(page)


def test_a_choice_survives_what_becomes_of_the_run() -> None:
    """The labels of a choice may not change, or the choice would be taken back."""
    session = bowl()
    new = session.include({"x": 1, "y": 1, "mode": "odd"})
    page = shown(session, new.id)
    session.run_queued(SerialExecutor(Bowl()))
    session.rate(new.id, True)
    sound(page.run())
    assert page.selectbox(key=f"run-{session.id}").value == new.id
    assert "**Completed**" in text(page)


def test_a_failed_run_gives_its_reason_first() -> None:
    session = bowl()
    session.include({"x": 3, "y": 0, "mode": "plain"})
    session.run_queued(SerialExecutor(Bowl(fail_at_x=3)))
    page = shown(session, 3)
    assert [one.value for one in page.error] == ["**Failed:** x = 3 does not work"]
    assert not page.metric
    assert "Good" not in [button.label for button in page.button]
    assert "Run 3 is failed" not in text(page)
    page.button(key="again-3").click().run()
    assert session.experiment.run(4).configuration == session.experiment.run(3).configuration


def test_a_cancelled_and_a_held_run() -> None:
    session = bowl()
    for y in (1, 2):
        session.include({"x": 1, "y": y, "mode": "plain"})
    session.cancel(3, "not [needed](http://x)")
    session.hold(4)
    page = shown(session, 3)
    assert page.warning[0].value == "**Cancelled:** not \\[needed](http://x)"
    choose(page, session, 4)
    assert "Held: it waits until it is released" in text(page)


def test_a_running_run_shows_what_it_has_reported() -> None:
    session = bowl()
    session.include({"x": 1, "y": 1, "mode": "plain"})
    for event in (
        RunStarted(2e6, 3, worker="node [7]", token="t"),
        RunReported(2e6 + 5, 3, {"height": 4.5}),
    ):
        session.experiment.apply(event)
    page = shown(session, 3)
    told = text(page)
    assert "Running: its measures appear here when it has completed." in told
    assert "Worker node \\[7]." in told
    assert tables(page)[0]["value"].tolist() == ["4.5"]


def test_a_running_run_is_stopped_with_what_it_has_reported_or_cancelled() -> None:
    for key, state in (("end-keep-3", RunState.COMPLETED), ("end-drop-3", RunState.CANCELLED)):
        session = bowl()
        session.include({"x": 1, "y": 1, "mode": "plain"})
        session.take([RunStarted(session.now_s(), 3, "node", "t")])
        page = shown(session, 3)
        assert "It has no intermediate result so far." in text(page)
        sound(page.button(key="end-keep-3").click().run())
        assert "has no intermediate result yet" in page.error[0].value
        session.take([RunReported(session.now_s(), 3, {"height": 4.5})])
        sound(page.run())
        assert "**Intermediate result**, " in text(page)
        page.text_input(key="end-why-3").set_value("no [use](x)")
        sound(page.button(key=key).click().run())
        assert session.experiment.run(3).state is state
        said = "Stopped early by the analyst: no \\[use](x). Its last intermediate result"
        kept = said in text(page)
        assert kept is (state is RunState.COMPLETED)
        assert not [one for one in page.button if one.key == "end-keep-3"]


def test_a_violated_constraint_is_named_with_what_was_found() -> None:
    objective = Objective(SingleMeasure("height"), constraints=(Constraint("height", at_most=3.0),))
    page = shown(bowl(objective=objective), 1)
    assert "Violated: height at most 3; height is 7." in text(page)
    assert {one.label: one.value for one in page.metric}["Constraints"] == "violated"


# -- what can be done ----------------------------------------------------------------------------


def test_a_verdict_is_given_and_taken_back() -> None:
    session = bowl()
    page = shown(session, 1)
    sound(page.button(key="rate-1-Good").click().run())
    assert session.experiment.run(1).good is True
    assert page.success[0].value == "Run 1 is rated good."
    assert page.button(key="rate-1-Good").disabled
    sound(page.button(key="rate-1-No verdict").click().run())
    assert session.experiment.run(1).good is None
    assert session.experiment.run(2).good is None


def test_a_run_is_repeated_where_results_may_vary() -> None:
    session = bowl()
    page = shown(session, 2)
    sound(page.button(key="again-2").click().run())
    new = session.experiment.run(3)
    assert (new.source, new.configuration) == ("replicate", session.experiment.run(2).configuration)
    assert new.seed != session.experiment.run(2).seed
    assert page.success[0].value == f"Run 3 was submitted: run 2 again with seed {new.seed}."
    assert "Other runs of the same configuration: run 3 (waiting)." in text(page)
    session.run_queued(SerialExecutor(Bowl()))
    sound(page.run())
    assert "The mean of 2 results is 1." in text(page)


def test_a_refusal_is_one_sentence_and_nothing_is_submitted() -> None:
    session = bowl()
    page = shown(session, 2)
    session.close_level("x", 2)  # elsewhere, after the page was drawn
    sound(page.button(key="again-2").click().run())
    assert len(page.error) == 1
    assert "closed" in page.error[0].value
    assert len(session.experiment.runs) == 2


def test_nothing_is_repeated_once_the_experiment_is_finished() -> None:
    session = bowl()
    page = shown(session, 2)
    assert not page.button(key="again-2").disabled
    session.finish("enough")
    sound(page.run())
    assert page.button(key="again-2").disabled


def test_what_does_not_vary_is_not_repeated(cluster: Session) -> None:
    page = shown(cluster, 1)
    assert not [b for b in page.button if b.label == "Run again"]
    assert "Results do not vary: the same configuration" in text(page)


# -- the address ---------------------------------------------------------------------------------


def test_the_address_names_the_run_and_the_other() -> None:
    session = bowl()
    page = addressed(session, run="1", **{"with": "2"})
    assert page.selectbox(key=f"run-{session.id}").value == 1
    assert page.selectbox(key=f"run-{session.id}-other").value == 2
    assert "Run 1 beside run 2" in text(page)
    choose(page, session, 2)
    assert address(page)["run"] == "2"
    assert "with" not in address(page)  # a run is not compared with itself
    sound(page.selectbox(key=f"run-{session.id}-other").select(1).run())
    assert address(page)["with"] == "1"


@pytest.mark.parametrize("asked", ["99", "0", "-1", "two", "²", "1" * 300])
def test_an_address_of_no_run_is_said(asked: str) -> None:
    session = bowl()
    page = addressed(session, run=asked)
    assert "runs here are numbered 1 to 2, so run 2 is shown" in text(page)
    assert page.selectbox(key=f"run-{session.id}").value == 2
    assert address(page)["run"] == "2"


# -- two runs ------------------------------------------------------------------------------------


def test_two_runs_beside_each_other() -> None:
    page = shown(bowl(), 1, 2)
    assert "By height run 1 is worse than run 2 by 6." in text(page)
    differ, beside = tables(page)[2:]
    assert differ.to_dict("list") == {
        "parameter": ["x", "y"], "run 1": ["0", "2"], "run 2": ["2", "0"],
    }  # fmt: skip
    assert beside["difference"].tolist() == ["+6", "", ""]


def test_the_same_configuration_with_another_seed() -> None:
    session = bowl()
    session.replicate(2)
    page = shown(session, 2, 3)
    assert "None: the same configuration with seeds" in text(page)
    assert "These runs cannot be compared: run 3 is waiting." in text(page)
    session.run_queued(SerialExecutor(Bowl()))
    sound(page.run())
    assert "Both have the same height." in text(page)


# -- the schedule --------------------------------------------------------------------------------


def test_an_application_without_jobs_has_no_schedule() -> None:
    page = shown(bowl(), 1)
    assert "chedule" not in text(page)
    assert not charts(page)


def test_a_program_shows_its_command_its_end_and_its_measures_over_time() -> None:
    tables = {
        "runs": 4,
        "application": {
            "kind": "command", "command": ["sh", "-c", "exit 3", "sh", "{x}", "{mode}"],
            "measures": {"stdout": "last_line"},
        },
        "objective": {"minimise": "loss"},
        "parameters": [
            {"name": "x", "levels": [1, 2]}, {"name": "mode", "levels": ["a b", "c"]},
        ],
    }  # fmt: skip
    built = build_sweep(check_settings(tables, "a test"))
    session = open_sweep(built, MemoryStore(), "program", config_snapshot(tables, ()))
    session.include({"x": 1, "mode": "a b"})
    session.run_queued(SerialExecutor(built.application))
    session.include({"x": 2, "mode": "a b"})
    page = shown(session, 1)
    assert [block.value for block in page.code] == ["sh -c 'exit 3' sh 1 'a b'"]
    assert "Failed after" in text(page)
    assert "exit code 3" in page.error[0].value
    session.take([RunStarted(session.now_s(), 2)])
    for loss in (3.0, 2.5, 2.0):
        session.take([RunReported(session.now_s(), 2, {"loss": loss, "note": None})])
    page = shown(session, 2)
    assert [block.value for block in page.code] == ["sh -c 'exit 3' sh 2 'a b'"]
    assert alts(page) == ["loss of run 2 over time, 3 intermediate results"]


def test_a_simulation_opened_from_python_cannot_be_rebuilt_and_the_rest_stays() -> None:
    application = Scheduling(default_workload(seed=1, n_jobs=30))
    session = open_session(application, store=MemoryStore())
    session.submit_baseline()
    session.run_queued(SerialExecutor(application))
    page = shown(session, 1)
    (told,) = [one.value for one in page.info]
    assert told.startswith("No schedule: Experiment")
    assert "was opened from Python" in told
    assert "mean_response_s" in tables(page)[1]["measure"].tolist()


def test_a_log_that_is_gone_is_said_in_one_sentence(tmp_path: Path) -> None:
    log = tmp_path / "jobs.swf"
    session = scheduled(log)
    log.unlink()
    page = shown(session, 1)
    (told,) = [one.value for one in page.info]
    assert told.startswith("No schedule:")
    assert "jobs.swf" in told
    assert tables(page)


def test_a_run_that_has_not_completed_has_no_schedule(tmp_path: Path) -> None:
    session = scheduled(tmp_path / "jobs.swf")
    session.include({**SPLIT, "small_max_procs": 8})
    page = shown(session, 3)
    assert "No schedule: run 3 is waiting." in text(page)


def test_the_schedule_of_a_run(cluster: Session) -> None:
    page = shown(cluster, 2)
    told = alts(page)
    assert len(told) == 5
    assert told[1] == "Gantt chart of run 2: 40 of 40 jobs on 8 processors; see the table below"
    assert told[2].startswith("Utilisation over time: cluster up to")
    assert "small up to 100%" in told[2]
    assert told[3].startswith("Waiting jobs over time: cluster up to")
    assert "its place is the lowest free processors" in text(page)
    assert "has changed since the run" not in text(page)


def test_over_futures_the_first_is_drawn_and_that_is_said() -> None:
    tables: dict[str, Any] = {
        "runs": 5,
        "application": {
            "levels": {"order": ["fcfs", "sjf"]},
            "split": False,
            "futures": {"generator": "lublin", "count": 2, "duration": "6h", "aggregate": "worst"},
        },
    }
    built = build_sweep(check_settings(tables, "test"))
    session = open_sweep(built, MemoryStore(), "futures", config_snapshot(tables, ()))
    session.submit_baseline()
    session.run_queued(SerialExecutor(built.application))
    page = shown(session)
    assert "The chart shows the first of the futures: 2 of 6 h 00 min" in text(page)
    assert not page.warning, "what is measured over all futures is what the run measured"


def test_every_chart_has_an_alt_text_and_a_table(cluster: Session) -> None:
    page = shown(cluster, 1, 2)
    assert all(alts(page))
    labels = [one.label for one in page.expander]
    assert "The 40 jobs of run 1 as a table" in labels
    assert "As a table" in labels
    assert {"Waits of run 1 as a table", "Waits of run 2 as a table"} <= set(labels)
    page.session_state["gantt-table-1"] = page.session_state["curves-table"] = True
    sound(page.run())
    of_jobs = next(one for one in tables(page) if "submitted [s]" in one.columns)
    assert sorted(of_jobs["job"].tolist()) == list(range(1, 41))
    assert any("what" in one.columns for one in tables(page))


def test_a_job_tells_its_facts_in_both_runs(cluster: Session) -> None:
    page = shown(cluster, 1, 2)
    key = f"job-{cluster.id}"
    assert page.button(key="job-show").disabled
    sound(page.number_input(key=key).set_value(6).run())
    facts = next(one for one in tables(page) if "job 6 in run 1" in one.columns)
    here = dict(zip(facts[""], facts["job 6 in run 1"], strict=True))
    assert here["processors"] == "6"
    assert here["requested"] == "600 s (10 min 00 s)"
    assert here["partition"] == "main"
    assert here["user"] == "user 2"
    assert here["submitted"] == "0 d 00:02:30"
    assert "job 6 in run 2" in facts.columns
    sound(page.number_input(key=key).set_value(4711).run())
    assert "There is no job 4711 in this log." in text(page)


def test_a_click_on_a_job_chooses_it(cluster: Session) -> None:
    page = shown(cluster, 1)
    select(page, 1, {"job": [{"job": 11}]})
    assert page.number_input(key=f"job-{cluster.id}").value == 11
    assert any("job 11 in run 1" in one.columns for one in tables(page))
    sound(page.button(key="job-show").click().run())
    window = page.session_state[f"window-{cluster.id}"]
    row = scheduled_by(cluster, 1).job(10)
    assert row.start_s is not None
    assert window.from_s <= row.start_s <= window.to_s
    select(page, 1, {})  # a click beside every job
    assert page.number_input(key=f"job-{cluster.id}").value == 11


def test_a_stretch_drawn_on_the_strip_is_the_window(cluster: Session) -> None:
    page = shown(cluster, 1)
    select(page, 0, {"brush": {"time": [700.0, 400.0]}})
    window = page.session_state[f"window-{cluster.id}"]
    assert (window.from_s, window.to_s) == (400.0, 700.0)
    assert page.number_input(key=f"window-from-{cluster.id}-1").value == 400.0


def test_the_window_moves_and_stays_with_the_experiment(cluster: Session) -> None:
    page = shown(cluster, 1)
    key = f"window-{cluster.id}"
    whole = page.session_state[key]
    assert whole.from_s == 0
    assert page.button(key="window-All").disabled
    sound(page.button(key="window-Zoom in").click().run())
    half = page.session_state[key]
    assert half.width_s == pytest.approx(whole.width_s / 2)
    sound(page.button(key="window-Earlier").click().run())
    assert page.session_state[key].from_s == pytest.approx(0)
    assert page.button(key="window-Earlier").disabled
    choose(page, cluster, 2)
    assert page.session_state[key].width_s == pytest.approx(half.width_s)
    sound(page.button(key="window-All").click().run())
    assert page.button(key="window-Zoom out").disabled


def test_a_window_can_be_typed(cluster: Session) -> None:
    page = shown(cluster, 1)
    key = f"window-{cluster.id}"
    sound(page.number_input(key=f"window-to-{cluster.id}-0").set_value(500.0).run())
    assert (page.session_state[key].from_s, page.session_state[key].to_s) == (0.0, 500.0)
    sound(page.number_input(key=f"window-from-{cluster.id}-1").set_value(300.0).run())
    assert (page.session_state[key].from_s, page.session_state[key].to_s) == (300.0, 500.0)


def test_more_jobs_than_can_be_drawn_are_counted(
    cluster: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_schedule, "drawing_of", partial(schedule.drawing_of, most=10))
    page = shown(cluster, 1)
    assert (
        "40 jobs run in this window. The 10 largest of them, by processors and time, are drawn; "
        "the other 30 are shaded grey" in text(page)
    )
    assert "10 of 40 jobs" in alts(page)[1]


def test_a_difference_is_drawn_and_told(cluster: Session) -> None:
    page = shown(cluster, 1, 2)
    assert page.selectbox(key=f"colour-{cluster.id}-True").value == "change"
    told = text(page)
    assert "Of 40 jobs" in told
    assert "start later" in told
    assert any("start later than in run 2" in one for one in alts(page))
    assert "Changes as a table" in [one.label for one in page.expander]
    assert "Utilisation over time: run 1 up to" in "\n".join(alts(page))
    assert sum("Gantt" in one for one in alts(page)) == 1
    sound(page.toggle(key=f"colour-{cluster.id}-True-both").set_value(True).run())
    assert sum("Gantt" in one for one in alts(page)) == 2
    for by in ("wait", "user", "partition", "processors", "requested time"):
        sound(page.selectbox(key=f"colour-{cluster.id}-True").select(by).run())


def test_a_result_from_elsewhere_is_not_taken_for_the_schedule(tmp_path: Path) -> None:
    session = scheduled(tmp_path / "jobs.swf")
    elsewhere = dict.fromkeys(session.experiment.run(1).outcome.measures, 5.0)
    session.import_results([({**SPLIT, "small_max_procs": 8}, elsewhere)])
    page = shown(session, 3)
    assert "this result was imported and measured elsewhere" in text(page)
    assert charts(page)
