"""Hopeless runs are stopped by a rule: which, when, and with what words."""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from assistant import Objective, RunState, SingleMeasure, Sla, open_session
from assistant.cli.decisions import STEER
from assistant.cli.main import run as command_line
from assistant.config.sweep_file import check_settings
from assistant.core.codec import decode_event, encode_event
from assistant.core.commands import ChangeEarlyStopping
from assistant.core.early_stopping import EarlyStopping, LearningCurves
from assistant.core.errors import ExperimentError, LeaseLostError, SettingsError
from assistant.core.events import EarlyStoppingChanged, RunStopped
from assistant.core.experiment import Experiment
from assistant.presentation.tables.experiment_summary import baseline_finding
from assistant.presentation.tables.queue import stopped_words
from assistant.session.execution import EventLogLeases
from assistant.store.event_store import MemoryStore, SqliteStore
from tests.assistant.examples import Climb, TickingClock

OBJECTIVE = Objective(SingleMeasure("height"), "minimise")


def reached(settings: EarlyStopping, curves: Mapping[int, list[float]]) -> LearningCurves:
    """Return curves whose runs reported one value at each step from 1 on."""
    found = LearningCurves(settings, OBJECTIVE)
    for run_id, values in curves.items():
        for step, value in enumerate(values, start=1):
            found.add(run_id, {"epoch": step, "height": value})
    return found


def test_the_median_rule_stops_what_is_worse_than_half_of_the_others_at_its_step() -> None:
    others = {1: [9.0, 5.0, 1.0], 2: [9.0, 6.0, 2.0], 3: [9.0, 7.0, 3.0], 4: [9.0, 8.0], 5: [9.0]}
    settings = EarlyStopping("epoch", others=3)
    assert reached(settings, {**others, 6: [9.0, 6.5]}).hopeless(6) is None
    # at step 2 the others had 5, 6, 7 and 8
    assert reached(settings, {**others, 6: [9.0, 7.5]}).hopeless(6) == (
        "at epoch 2, 3 of 4 other runs were better"
    )
    assert reached(settings, {**others, 6: [9.0, 5.5]}).hopeless(6) is None
    # an early good value counts: the best so far is compared
    assert reached(settings, {**others, 6: [4.0, 9.9]}).hopeless(6) is None
    # at step 3 only three have come as far
    assert reached(settings, {**others, 6: [9.0, 9.0, 9.0]}).hopeless(6) is not None
    assert reached(EarlyStopping("epoch", others=4), {**others, 6: [9.0] * 3}).hopeless(6) is None
    late = EarlyStopping("epoch", first_step=4, others=3)
    assert reached(late, {**others, 6: [9.0] * 3}).hopeless(6) is None


def test_successive_halving_looks_at_its_steps_only() -> None:
    others = {run_id: [float(run_id)] * 9 for run_id in range(1, 6)}
    settings = EarlyStopping("epoch", "halving", factor=3.0, others=3)
    looked = [
        step
        for step in range(1, 10)
        if reached(settings, {**others, 6: [7.0] * step}).hopeless(6) is not None
    ]
    assert looked == [1, 3, 9]
    # two of six go on
    assert reached(settings, {**others, 6: [1.5]}).hopeless(6) is None
    assert reached(settings, {**others, 6: [2.5]}).hopeless(6) is not None


def naive(
    settings: EarlyStopping, reports: list[tuple[int, float, float]], run_id: int, at: float
) -> bool:
    """Say anew, from all reports, whether a run is worse than the share that goes on."""

    def best(one: int, until: float) -> float:
        return min(value for r, step, value in reports if r == one and step <= until)

    own = best(run_id, float("inf"))
    others = {r for r, step, _ in reports if r != run_id and step >= at}
    known = [best(r, at) for r in others if any(s <= at for one, s, _ in reports if one == r)]
    better = sum(value < own for value in known)
    share = 0.5 if settings.rule == "median" else 1 / settings.factor
    return len(known) >= settings.others and better >= max(1, share * (len(known) + 1))


@pytest.mark.parametrize("seed", range(20))
def test_the_median_rule_equals_one_that_looks_at_all_reports(seed: int) -> None:
    rng = np.random.default_rng(seed)
    settings = EarlyStopping("epoch", first_step=2, others=int(rng.integers(1, 4)))
    curves, reports = LearningCurves(settings, OBJECTIVE), list[tuple[int, float, float]]()
    at = dict.fromkeys(range(6), 0)
    for _ in range(60):
        run_id = int(rng.integers(6))
        at[run_id] += int(rng.integers(1, 3))
        value = float(rng.integers(0, 12))
        reports.append((run_id, at[run_id], value))
        curves.add(run_id, {"epoch": at[run_id], "height": value})
        wanted = at[run_id] >= 2 and naive(settings, reports, run_id, at[run_id])
        assert (curves.hopeless(run_id) is not None) == wanted


def test_results_without_step_or_value_and_steps_that_go_back_are_left_out() -> None:
    settings = EarlyStopping("epoch", others=1)
    curves = reached(settings, {1: [1.0, 1.0]})
    for measures in ({"height": 5.0}, {"epoch": 2}, {"epoch": None, "height": 5.0}):
        curves.add(2, measures)
        assert curves.step_of(2) is None
    curves.add(2, {"epoch": 2, "height": 5.0})
    curves.add(2, {"epoch": 1, "height": 0.0})
    assert curves.step_of(2) == 2
    assert curves.hopeless(2) is not None
    copied = curves.copied()
    copied.drop(2)
    assert (curves.step_of(2), copied.step_of(2)) == (2, None)


def test_a_run_is_stopped_when_its_report_is_hopeless_and_the_summary_says_so() -> None:
    store = MemoryStore()
    early = EarlyStopping("epoch", others=2)
    session = open_session(
        Climb(), store=store, sla=Sla(9), clock=TickingClock(), early_stopping=early
    )
    session.submit(session.initial_evaluation(4))
    leases = EventLogLeases(session._event_log)
    tokens = []
    for _ in range(4):
        lease = leases.lease()
        assert lease is not None
        tokens.append(lease.token)
    with leases.waiting(None):  # type: ignore[arg-type]
        for token, value in zip(tokens[:3], (1.0, 2.0, 1.5), strict=True):
            leases.report(token, {"epoch": 5, "height": value})
        with pytest.raises(LeaseLostError, match="stopped early"):
            leases.report(tokens[3], {"epoch": 5, "height": 3.0})
    run = session.experiment.run(4)
    assert (run.state, run.stopped_by) == (RunState.COMPLETED, "median")
    assert stopped_words(run) == (
        "stopped early by the median rule: at epoch 5, 3 of 3 other runs were better"
    )
    assert "1 of 4 runs was stopped early (the median rule)." in " ".join(
        baseline_finding(session.experiment).sentences
    )
    (event,) = [event for event in store.load(session.id) if isinstance(event, RunStopped)]
    assert decode_event(encode_event(event)) == event


def test_the_rule_can_be_changed_while_runs_execute_and_turned_off() -> None:
    store = MemoryStore()
    session = open_session(Climb(), store=store, sla=Sla(9), clock=TickingClock())
    session.submit(session.initial_evaluation(4))
    leases = EventLogLeases(session._event_log)
    claimed = [leases.lease() for _ in range(4)]
    tokens = [lease.token for lease in claimed if lease is not None]

    def told(run: int, epoch: int, height: float) -> None:
        leases.report(tokens[run], {"epoch": epoch, "height": height})

    with leases.waiting(None):  # type: ignore[arg-type]
        for run in range(4):
            told(run, 5, float(run))  # no rule: none is stopped
        session.change_early_stopping(EarlyStopping("epoch", others=9))
        told(0, 7, 0.0)
        told(1, 7, 1.0)
        session.change_early_stopping(EarlyStopping("epoch", others=2))
        n = session.experiment.n_events
        session.change_early_stopping(EarlyStopping("epoch", others=2))
        assert session.experiment.n_events == n, "no event where nothing changes"
        with pytest.raises(LeaseLostError, match="stopped early"):
            told(3, 6, 3.0)  # what they had at epoch 5, before this rule, counts
        session.change_early_stopping(None)
        told(2, 7, 30.0)
    events = store.load(session.id)
    changes = [event for event in events if isinstance(event, EarlyStoppingChanged)]
    assert [decode_event(encode_event(event)) for event in changes] == changes
    assert len(changes) == 3
    again = Experiment.replay(events)
    assert (again.early_stopping, again.curves) == (None, None)
    assert "1 of 4 runs was stopped early (the median rule)." in " ".join(
        baseline_finding(session.experiment).sentences
    )
    session.finish("enough")
    with pytest.raises(ExperimentError, match="finished"):
        session.change_early_stopping(EarlyStopping("epoch"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", None),
        ("epoch", EarlyStopping("epoch")),
        ("epoch,rule=halving,first_step=2,factor=4,others=3",
         EarlyStopping("epoch", "halving", 2.0, 4.0, 3)),
    ],
)  # fmt: skip
def test_the_rule_is_an_option_of_the_command_line(
    text: str, expected: EarlyStopping | None
) -> None:
    (option,) = [each for each in STEER if each.flag == "--stop-early"]
    space = Climb().space
    assert option.command(space, text, "") == ChangeEarlyStopping(expected)
    for bad, said in (("epoch,rule=mean", "halving"), ("epoch,other=1", "others"), ("", "step")):
        with pytest.raises(SettingsError, match=said):
            option.command(space, bad, "")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "step"),
        ({"step": "epoch", "rule": "mean"}, "'median' or 'halving'"),
        ({"step": "epoch", "factor": 1.0}, "factor"),
        ({"step": "epoch", "others": 0}, "others"),
        ({"step": ""}, "early_stopping.step"),
    ],
)
def test_settings_without_meaning_are_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        check_settings({"early_stopping": table}, "a sweep")


PROGRAM = """
import json, sys, time
rate, loss = float(sys.argv[1]), 1.0
for epoch in range(1, 7 if rate > 0.1 else 300):
    loss *= 1 - rate
    print(json.dumps({"epoch": epoch, "loss": loss}), flush=True)
    time.sleep(1.1 if rate < 0.5 else 0.01)
"""


@pytest.mark.soak
def test_a_sweep_file_stops_slow_learners_and_keeps_what_they_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    levels = [0.5, 0.6, 0.7, 0.8, 0.9, 0.02]
    (tmp_path / "sweep.toml").write_text(f"""
runs = 6
seed = 1
[application]
kind = "command"
command = ["{sys.executable}", "train.py", "{{rate}}"]
measures = {{ stdout = "last_line" }}
[early_stopping]
step = "epoch"
[objective]
minimise = "loss"
[[parameters]]
name = "rate"
levels = {levels}
{"".join(f"[[run]]{chr(10)}rate = {rate}{chr(10)}" for rate in levels)}
""")
    assert command_line(["sweep", "sweep.toml", "--store", "s.db"]) == 0
    store = SqliteStore(Path("s.db"))
    stopped = [
        event for event in store.load(store.experiments()[0].id) if isinstance(event, RunStopped)
    ]
    assert [(event.run_id, event.rule) for event in stopped] == [(6, "median")]
    assert stopped[0].outcome.value > 0.5
    store.close()
