"""A program that cannot run ends its sweep at once; a failure that is a result does not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from agents import Follower
from assistant import Measure, Objective, RunState, Session, SingleMeasure, Sla, open_session
from assistant.analysis.broken_program import advice, broken_program
from assistant.core.errors import RunError
from assistant.core.objective import Constraint
from assistant.executors.serial import SerialExecutor
from assistant.presentation.tables.experiment_summary import baseline_finding
from assistant.presentation.tables.sla import sla_terms
from assistant.store.event_store import MemoryStore
from strategies import Level
from tests.assistant.examples import SPACE, TODAY, TickingClock


@dataclass
class Script:
    """The height x + y + 1, or the failure that ``why`` returns for the values of a run."""

    why: Callable[[Mapping[str, Level]], str | None]
    baseline: Mapping[str, Level] | None = None
    objective: Objective = field(
        default_factory=lambda: Objective(SingleMeasure("height"), "minimise")
    )
    name: str = "command"

    space = SPACE
    facts = ()
    deterministic = True

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        failure = self.why(values)
        if failure is not None:
            raise RunError(failure)
        return {"height": float(int(values["x"]) + int(values["y"]) + 1)}


def missing(values: Mapping[str, Level]) -> str:
    where = f"/tmp/{values['mode']}/{values['y']}/tran.py"
    return f"can't open file '{where}' in mode {values['mode']} of run {values['x']}.5"


def opened(script: Script, **more: object) -> Session:
    sla = Sla(12, keep_going=bool(more.get("keep_going", False)))
    return open_session(script, store=MemoryStore(), clock=TickingClock(), sla=sla)  # type: ignore[arg-type]


def steered(script: Script, keep_going: bool = False, session: Session | None = None) -> Session:
    session = session or opened(script, keep_going=keep_going)
    session.finish(Follower(4, 2).steer(session, SerialExecutor(script)))  # type: ignore[arg-type]
    return session


def test_the_current_configuration_fails_and_the_sweep_ends_after_one_run() -> None:
    session = steered(Script(missing, TODAY))
    assert len(session.experiment.runs_in(RunState.FAILED)) == 1
    assert session.experiment.finished is not None
    reason = session.experiment.finished.reason
    assert reason == broken_program(session.experiment)
    assert reason.startswith("run 1, the current configuration, failed: can't open file")
    assert reason.endswith(
        ". Correct the name or the folder of the file, then resume; keep_going (--keep-going) goes "
        "on all the same"
    )


def test_the_first_three_runs_fail_alike_whatever_their_paths_numbers_and_levels() -> None:
    session = steered(Script(missing))
    assert len(session.experiment.runs_in(RunState.FAILED)) == 3
    assert session.experiment.finished is not None
    assert session.experiment.finished.reason.startswith("the first 3 runs failed alike: can't op")


def test_a_failed_experiment_has_not_met_its_budget() -> None:
    for session in (steered(Script(missing, TODAY)), steered(Script(missing, TODAY), True)):
        assert [use.verdict for use in sla_terms(session.experiment)] == ["failed"]
    assert [use.used for use in sla_terms(session.experiment)] == [12]


def test_keep_going_uses_the_budget_all_the_same() -> None:
    session = steered(Script(missing, TODAY), keep_going=True)
    assert len(session.experiment.runs_in(RunState.FAILED)) == 12
    assert broken_program(session.experiment) is None


def test_failures_that_differ_or_come_after_a_result_are_data() -> None:
    session = steered(Script(lambda v: f"{'abcd'[int(v['x'])]} diverged" if v["y"] else None))
    assert len(session.experiment.runs) == 12
    assert session.experiment.runs_in(RunState.FAILED)
    session = steered(Script(lambda v: "out of memory" if v["mode"] == "odd" else None, TODAY))
    assert len(session.experiment.runs) == 12
    assert session.experiment.runs_in(RunState.FAILED)


def test_a_current_configuration_that_violates_a_constraint_has_not_failed() -> None:
    bound = Objective(SingleMeasure("height"), "minimise", (Constraint("height", at_most=2),))
    session = steered(Script(lambda _: None, TODAY, bound))
    assert len(session.experiment.runs) == 12


def test_a_failure_in_a_measured_table_is_data() -> None:
    session = steered(Script(missing, TODAY, name="lookup"))
    assert len(session.experiment.runs) == 12


def test_imported_results_do_not_count() -> None:
    script = Script(missing)
    session = opened(script)
    session.import_results([({"x": 1, "y": 1, "mode": "plain"}, {"height": 3.0})])
    steered(script, session=session)
    assert len(session.experiment.runs_in(RunState.FAILED)) == 3


def test_a_person_who_goes_on_overrules_the_failed_current_configuration() -> None:
    script = Script(lambda v: "no" if v == TODAY else None, TODAY)
    session = opened(script)
    session.submit_baseline()
    session.run_queued(SerialExecutor(script))  # type: ignore[arg-type]
    assert broken_program(session.experiment) is not None
    session.include({"x": 1, "y": 1, "mode": "plain"})
    assert broken_program(session.experiment) is None


def test_after_a_repair_the_failed_runs_are_repeated_and_the_sweep_goes_on() -> None:
    for baseline in (TODAY, None):
        script = Script(missing, baseline)
        session = steered(script)
        failed = session.experiment.runs_in(RunState.FAILED)
        waiting = session.experiment.runs_in(RunState.QUEUED)
        session.reopen()
        assert broken_program(session.experiment) is None
        script.why = lambda _: None
        steered(script, session=session)
        experiment = session.experiment
        assert experiment.runs_in(RunState.FAILED) == failed
        completed = {run.configuration for run in experiment.runs_in(RunState.COMPLETED)}
        assert {run.configuration for run in (*failed, *waiting)} <= completed
        assert len(experiment.runs) == 12
        assert experiment.knowledge.failures == ()
        assert [use.verdict for use in sla_terms(experiment)] == ["met"]
        assert baseline is None or baseline_finding(experiment).improvement is not None


def test_a_repair_that_did_not_help_ends_the_sweep_again() -> None:
    script = Script(missing, TODAY)
    session = steered(script)
    session.reopen()
    steered(script, session=session)
    assert len(session.experiment.runs_in(RunState.FAILED)) == 2
    assert broken_program(session.experiment) is not None


def test_an_ordinary_reopening_repeats_no_failure() -> None:
    script = Script(lambda v: "out of memory" if v["mode"] == "odd" else None, TODAY)
    session = steered(script)
    n_failed = len(session.experiment.runs_in(RunState.FAILED))
    session.reopen()
    session.change_budget(Sla(13))
    steered(script, session=session)
    assert not [run for run in session.experiment.runs if run.source == "replicate"]
    assert n_failed


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ("the program ended with exit code 127", "Correct the name or the folder of the file"),
        ("ModuleNotFoundError: No module named 'torch'", "Install the missing module"),
        ("it took 12 s, and the run limit is 10 s", "Raise the run limit"),
        ("the program was ended by SIGKILL (signal 9)", "Give a run more memory"),
        ("ValueError: 3", "Repair the program or its settings"),
    ],
)
def test_the_reason_says_what_to_change(failure: str, words: str) -> None:
    assert advice(failure).startswith(words)
