"""The page *Report*: its forms, and who gains and who loses by the best configuration."""

import sys

import pytest

from assistant import Sla, open_session
from assistant.applications.scheduling import CurrentPolicies
from assistant.executors.serial import SerialExecutor
from assistant.presentation.report.data import summarise
from assistant.simtools.slurm_conf import slurm_conf
from assistant.store.event_store import MemoryStore
from assistant.ui.pages import report
from tests.assistant.examples import TODAY, Bowl, TickingClock
from tests.assistant.test_group_waits import application, session_of
from tests.assistant.test_slurm_conf import scheduling
from tests.ui.screens import sound
from tests.ui.stage import staged


def test_the_waits_by_class_and_by_user_are_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    three = application()
    monkeypatch.setattr(report, "cached_application", lambda _key, _opened: three)
    page = staged(report.page, session_of(three, "sjf"))
    assert "Who gains and who loses" in [heading.value for heading in page.subheader]
    (users,) = [
        frame.value for frame in page.dataframe if "mean wait of the jobs of a user" in frame.value
    ]
    assert users.iloc[0].tolist() == [
        "user 2 (1 job)", "198 s (3 min 18 s)", "98 s", "50.5 % lower"
    ]  # fmt: skip
    assert [table for table in page.dataframe if "mean wait of" in table.value]
    assert any("Of 3 users" in caption.value for caption in page.caption)


def test_the_answer_is_offered_as_lines_of_slurm_conf_or_says_why_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = CurrentPolicies("fcfs", "none")
    cluster = scheduling({"backfill": ("none", "easy")}, current_policies=now)
    session = open_session(cluster, store=MemoryStore(), clock=TickingClock(), sla=Sla(2))
    session.submit_baseline()
    session.include({"backfill": "easy"})
    session.run_queued(SerialExecutor(cluster))
    monkeypatch.setattr(report, "cached_application", lambda _key, _opened: cluster)
    page = staged(report.page, session)
    assert not page.code
    choice = page.segmented_control(key="report-cluster")
    page = sound(choice.set_value("slurm.conf").run())
    assert page.code[0].value == slurm_conf(cluster, session.experiment).strip()
    page = sound(page.segmented_control(key="report-cluster").set_value("Kubernetes").run())
    assert any("which Kueue does not have" in each.value for each in page.info), page.info


def test_what_waits_is_neither_used_nor_tried() -> None:
    bowl = Bowl(TODAY)
    session = open_session(bowl, store=MemoryStore(), clock=TickingClock(), sla=Sla(9))
    session.submit_baseline()
    session.run_queued(SerialExecutor(bowl))
    for x in (1, 2, 3):
        session.include({**TODAY, "x": x})
    data = summarise(session.experiment)
    assert [use.used_text for use in data.sla] == ["1 used, 3 waiting"]
    (tried,) = [each for each in data.answer.sentences if "tried" in each]
    assert tried.startswith("1 of ")
    assert "in " not in tried.partition("tried")[2]


def test_a_page_without_its_log_says_what_is_missing() -> None:
    page = staged(report.page, session_of(application(), "sjf"))
    assert any("waits by user and partition are missing" in each.value for each in page.info)


def test_each_form_is_offered_and_one_without_its_package_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bowl = Bowl(TODAY)
    session = open_session(bowl, store=MemoryStore(), clock=TickingClock(), sla=Sla(1))
    session.submit_baseline()
    session.run_queued(SerialExecutor(bowl))
    page = staged(report.page, session)
    (form,) = page.segmented_control
    assert list(form.options) == ["HTML", "Markdown", "PDF", "Bundle"]
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    form.set_value("PDF").run()
    assert any("the package weasyprint" in each.value for each in page.warning), page.warning
    (button,) = [each for each in page.get("download_button") if "PDF" in each.proto.label]
    assert button.proto.disabled
