"""Optuna: levels, what trials count as, shared studies, the forecast, import and export."""

import logging
import re
import warnings
from pathlib import Path

import optuna
import pytest
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import Trial, TrialState

import copperline as cl
from assistant.cli.main import run as command
from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.core.run import RunState
from assistant.integrations.optuna_sampler import REASON, CopperlineSampler
from assistant.integrations.optuna_space import StudySpace, levels_of
from assistant.integrations.optuna_study import ForecastCallback, import_study

optuna.logging.set_verbosity(optuna.logging.ERROR)

X = {"x": IntDistribution(1, 5)}


def loss(trial: Trial) -> float:
    x, y = trial.suggest_int("x", 1, 4), trial.suggest_categorical("y", ["a", "b", "c"])
    return abs(x - 3) + "bca".index(y)


@pytest.mark.parametrize(
    ("distribution", "levels"),
    [
        (CategoricalDistribution(["b", None, 2]), ("b", None, 2)),
        (IntDistribution(2, 8, step=3), (2, 5, 8)),
        (IntDistribution(1, 100, log=True), (1, 3, 10, 32, 100)),
        (IntDistribution(1, 3, log=True), (1, 2, 3)),
        (FloatDistribution(0.0, 0.3, step=0.1), (0.0, 0.1, 0.2, 0.3)),
        (FloatDistribution(-1.0, 1.0), (-1.0, -0.5, 0.0, 0.5, 1.0)),
        (FloatDistribution(1e-4, 1.0, log=True), (1e-4, 1e-3, 1e-2, 1e-1, 1.0)),
        (FloatDistribution(2.0, 2.0), (2.0,)),
    ],
)
def test_levels_by_the_rule(distribution: BaseDistribution, levels: tuple[object, ...]) -> None:
    assert levels_of(distribution, 5) == levels


def test_many_values_are_thinned_with_both_ends() -> None:
    levels = levels_of(IntDistribution(0, 10_000), 5)
    assert (len(levels), levels[0], levels[-1]) == (100, 0, 10_000)


def test_trials_count_as_what_they_are() -> None:
    study = optuna.create_study()
    for x, state, value in (
        (1, TrialState.COMPLETE, 7.0),
        (2, TrialState.COMPLETE, 3.0),
        (3, TrialState.PRUNED, None),
        (4, TrialState.FAIL, None),
    ):
        study.add_trial(
            optuna.create_trial(state=state, value=value, params={"x": x}, distributions=X)
        )
    study.enqueue_trial({"x": 5})
    space = StudySpace(X, 5)
    knowledge = space.knowledge(study.trials, maximise=False)
    seen = [(space.values(o.configuration)["x"], o.quality) for o in knowledge.observations]
    assert seen == [(1, -7.0), (2, -3.0), (3, -7.0)]  # pruned: like the worst
    assert [space.values(f.configuration)["x"] for f in knowledge.failures] == [4]
    assert [space.values(c)["x"] for c in knowledge.pending] == [5]
    study.ask(X)
    again = space.knowledge(study.trials, maximise=False)
    assert (len(again.pending), len(again.running)) == (0, 1)


def test_a_violated_constraint_makes_an_observation_infeasible() -> None:
    study = optuna.create_study(
        sampler=CopperlineSampler(seed=0, constraints_func=lambda t: (t.params["x"] - 2.0,))
    )
    study.optimize(lambda trial: -trial.suggest_int("x", 1, 5), n_trials=5)
    knowledge = StudySpace(X, 5).knowledge(study.trials, maximise=False)
    found = {o.quality: o.violation for o in knowledge.observations}
    assert found == {1.0: 0.0, 2.0: 0.0, 3.0: 1.0, 4.0: 2.0, 5.0: 3.0}
    assert study.best_params == {"x": 2}  # Optuna reads the same constraints


def test_no_combination_is_run_twice_and_a_seed_repeats_the_study() -> None:
    played = []
    for _ in range(2):
        study = optuna.create_study(sampler=CopperlineSampler(seed=4))
        study.optimize(loss, n_trials=12)
        played.append([tuple(trial.params.values()) for trial in study.trials])
    assert len(set(played[0])) == 12  # the whole space
    assert played[0] == played[1]
    assert study.trials[-1].system_attrs[REASON]


def test_workers_on_one_storage_get_different_combinations(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    optuna.create_study(study_name="shared", storage=url)
    workers = [
        optuna.load_study(study_name="shared", storage=url, sampler=CopperlineSampler(seed=1))
        for _ in range(3)
    ]
    space = {"x": IntDistribution(1, 3), "y": CategoricalDistribution(["a", "b"])}
    first = workers[0].ask(space)
    workers[0].tell(first, 1.0)
    trials = [worker.ask() for worker in (*workers, *workers[:2])]
    xs = [trial.suggest_int("x", 1, 3) for trial in trials]  # all before any asks for y
    asked = zip(xs, [trial.suggest_categorical("y", ["a", "b"]) for trial in trials], strict=True)
    assert len({*asked, tuple(first.params.values())}) == 6
    for worker in workers:
        worker._storage.remove_session()


def test_several_jobs_share_a_sampler() -> None:
    def wide(trial: Trial) -> float:
        return trial.suggest_int("x", 1, 20) + trial.suggest_int("y", 1, 20)

    study = optuna.create_study(sampler=CopperlineSampler(seed=0))
    study.optimize(wide, n_trials=2)
    study.optimize(wide, n_trials=12, n_jobs=3)
    assert len({tuple(sorted(trial.params.items())) for trial in study.trials}) == 14


def test_a_conditional_parameter_is_told_of_once() -> None:
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    def conditional(trial: Trial) -> float:
        if trial.suggest_categorical("deep", [True, False]):
            return float(trial.suggest_int("layers", 1, 9))
        return 0.5

    logger, handler = logging.getLogger("optuna.copperline"), Lines()
    logger.addHandler(handler)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(sampler=CopperlineSampler(seed=0))
        study.enqueue_trial({"deep": False})
        study.enqueue_trial({"deep": True, "layers": 4})
        study.optimize(conditional, n_trials=6)
    finally:
        logger.removeHandler(handler)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
    (line,) = (line for line in lines if "'layers'" in line)
    assert line == (
        "CopperlineSampler: parameter 'layers' is drawn at random, because not every finished "
        "trial has it with these bounds."
    )


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(SettingsError, match="levels=1 is no whole number from 2 on"):
        CopperlineSampler(levels=1)
    with pytest.raises(SettingsError, match="seed"):
        CopperlineSampler(seed=-1)


def test_the_forecast_warns_in_the_words_of_a_sweep() -> None:
    study = optuna.create_study(sampler=CopperlineSampler(seed=1))
    callback = ForecastCallback(runs=40, goal=-5.0)

    def objective(trial: Trial) -> float:
        x, y = trial.suggest_int("x", 1, 12), trial.suggest_int("y", 1, 20)
        return (x - 7) ** 2 / 3 + abs(y - 5) / 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cl.StudyWarning)
        study.optimize(objective, n_trials=30, callbacks=[callback])
    texts = [str(one.message) for one in caught if issubclass(one.category, cl.StudyWarning)]
    assert texts
    assert texts[0].startswith("The goal will probably be missed. ")
    assert re.search(r"\n  - run \d+ more", texts[0])
    assert callback.sentences()[0].startswith(("Very likely to miss", "Likely to miss"))
    assert "10 runs left" in callback.sentences()[0]


def test_a_study_is_imported_by_the_command_and_exported_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, store = f"sqlite:///{tmp_path}/study.db", tmp_path / "runs.db"
    study = optuna.create_study(study_name="tuned", storage=url, direction="maximize")

    def objective(trial: Trial) -> float:
        value = -loss(trial)
        if trial.number == 1:
            raise optuna.TrialPruned
        if trial.number == 2:
            raise ValueError("no memory")
        return value

    study.optimize(objective, n_trials=8, catch=ValueError)
    study.ask()
    study._storage.remove_session()
    assert command(["import", url, "--store", str(store)]) == 0
    assert "Imported tuned: 8 runs; left out, without an end or all values: 1" in (
        capsys.readouterr().out
    )
    with cl.load_study(store) as stored:
        states = [run.state for run in stored.session.experiment.runs]
        assert states[1:4] == [RunState.CANCELLED, RunState.FAILED, RunState.COMPLETED]
        assert stored.best is not None
        assert stored.best.value == study.best_value
        back = stored.to_optuna()
    assert [t.state for t in back.trials] == [t.state for t in study.trials[:8]]
    assert [t.params for t in back.trials] == [t.params for t in study.trials[:8]]
    assert back.best_value == study.best_value
    exported = f"sqlite:///{tmp_path}/exported.db"
    assert command(["report", "latest", "--optuna", exported, "--store", str(store)]) == 0
    assert "Wrote 8 runs of 'tuned' to Optuna" in capsys.readouterr().err
    there = optuna.load_study(study_name="tuned", storage=exported)
    assert [t.params for t in there.trials] == [t.params for t in back.trials]
    there._storage.remove_session()
    for address, sentence in {
        exported: "the storage has a study 'tuned' already",
        "nothing://here": "the storage 'nothing://here' of Optuna cannot be written",
    }.items():
        assert command(["report", "--optuna", address, "--store", str(store)]) == 2
        assert sentence in capsys.readouterr().err
    both = ["report", "--optuna", exported, "--summary", "--store", str(store)]
    assert command(both) == 2
    assert "write one experiment and no report" in capsys.readouterr().err
    assert command(["import", f"sqlite:///{tmp_path}/none/no.db", "--store", str(store)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_study_without_results_is_refused() -> None:
    with pytest.raises(SettingsError, match="nothing to import"):
        import_study(optuna.create_study())
    with pytest.raises(SettingsError, match="2 objectives"):
        import_study(optuna.create_study(directions=["minimize", "minimize"]))


def test_the_imported_events_replay() -> None:
    study = optuna.create_study(study_name="a/b")
    study.optimize(loss, n_trials=6)
    imported = import_study(study)
    experiment = Experiment.replay(imported.events)
    assert (experiment.opened.experiment_id, experiment.n_ended) == ("a_b", 6)
    assert len(experiment.observations) == 6
