"""Who gains and who loses by user and partition: a schedule worked out by hand, and none at all."""

import numpy as np

from assistant import Session, Sla, open_session
from assistant.applications.scheduling import CurrentPolicies, Scheduling
from assistant.config.snapshot import group_waits, report_content
from assistant.core.experiment import Experiment
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.data import GroupWaits
from assistant.presentation.report.forms import render_markdown
from assistant.presentation.report.html import render_html
from assistant.simtools.group_waits import group_tables
from assistant.store.event_store import MemoryStore
from sim import Workload
from tests.assistant.examples import Bowl, TickingClock


def application(n_idle: int = 0) -> Scheduling:
    """Return a processor for three jobs that wait, and jobs of other users that do not."""
    n = 3 + n_idle
    later_s = [10_000.0 + 1_000 * i for i in range(n_idle)]
    runtime_s = np.array([100.0, 100.0, 10.0] + [10.0] * n_idle)
    workload = Workload.from_arrays(
        submit_s=[0.0, 1.0, 2.0, *later_s], runtime_s=runtime_s, requested_s=runtime_s,
        procs=np.ones(n), user=np.arange(n), partition=np.zeros(n), name="three", max_procs=1,
    )  # fmt: skip
    now = CurrentPolicies("fcfs", "none")
    return Scheduling(
        workload, levels={"order": ("fcfs", "sjf")}, split=False, current_policies=now
    )


def swept(scheduling: Scheduling, *orders: str) -> Experiment:
    return session_of(scheduling, *orders).experiment


def session_of(scheduling: Scheduling, *orders: str) -> Session:
    session = open_session(
        scheduling, store=MemoryStore(), sla=Sla(len(orders) + 1), clock=TickingClock()
    )
    session.submit_baseline()
    for order in orders:
        session.include({"order": order})
    session.run_queued(SerialExecutor(scheduling))
    return session


def test_users_are_in_order_of_what_their_jobs_gain_or_lose() -> None:
    """First come, first served they wait 0, 99 and 198 s; with the shortest first 0, 109, 98 s."""
    three = application()
    (table,) = group_tables(three, swept(three, "sjf"))
    assert table.group == "user"
    assert [(row.name, row.baseline, row.best) for row in table.rows] == [
        ("user 2 (1 job)", "198 s (3 min 18 s)", "98 s"),
        ("user 1 (1 job)", "99 s", "109 s"),
        ("user 0 (1 job)", "0 s", "0 s"),
    ]
    assert [row.change for row in table.rows] == ["50.5 % lower", "10.1 % higher", "the same"]
    assert table.note.startswith(
        "Of 3 users, 1 wait less on average with the best configuration, 1"
    )


def test_ten_rows_are_shown_and_all_are_counted() -> None:
    many = application(n_idle=20)
    (table,) = group_tables(many, swept(many, "sjf"))
    assert len(table.rows) == 10
    assert "Of 23 users" in table.note
    assert "21 the same. Shown are the 10 in order" in table.note


def test_nothing_is_compared_where_the_current_configuration_is_the_best_or_nothing_waits() -> None:
    three = application()
    assert group_tables(three, swept(three)) == ()
    bowl = Bowl()
    session = open_session(bowl, store=MemoryStore(), sla=Sla(2), clock=TickingClock())
    assert group_tables(bowl, session.experiment) == ()


def test_every_form_of_the_report_has_the_waits_or_says_why_not() -> None:
    three = application()
    experiment = swept(three, "sjf")
    content = report_content(experiment, (), application=lambda: three)
    (table,) = content.data.groups.tables
    for text in (render_html(content.data), render_markdown(content.data, {})):
        assert "Who gains and who loses, by user" in text
        assert "user 1 (1 job)" in text
    assert group_waits(experiment, lambda: three) == GroupWaits((table,))
    missing = group_waits(experiment)  # its log is not stored: it was opened from Python
    assert missing.missing.startswith("the waits by user and partition are missing: experiment")
    data = report_content(experiment, ()).data
    assert "the waits by user and partition are missing" in render_html(data)
    assert "the waits by user and partition are missing" in render_markdown(data, {})
