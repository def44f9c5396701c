"""Options that change the SLA of an experiment, and configurations of the user's own."""

from __future__ import annotations

from dataclasses import replace

from assistant.analysis.recommendation import passed_limit, reached_goal
from assistant.cli.options import SLA_OPTIONS, Overrides, pair
from assistant.config.models import check_tariff
from assistant.config.sweep_file import BuiltSweep, check_settings, sla_tables
from assistant.core.errors import ObjectiveError, SettingsError
from assistant.core.experiment import Experiment
from assistant.core.ports import Result
from assistant.core.sla import Sla
from assistant.session.session import Session
from strategies import Level, ParameterSpace, StrategyError


def changes_sla(overrides: Overrides) -> bool:
    """Return whether an option for the SLA is set."""
    return any(name in overrides.values for name in SLA_OPTIONS)


def changed_sla(sla: Sla, overrides: Overrides, now_s: float) -> Sla:
    """Return an SLA changed by the options, where the value ``none`` removes a term.

    Raises SettingsError for an invalid term, or terms that contradict each other.
    """
    options = {name: x for name, x in overrides.values.items() if name in SLA_OPTIONS}
    tables = sla_tables(sla)
    Overrides(options).lay_over(tables)
    settings = check_settings(tables, "the options")
    changed = settings.sla(now_s)
    deadline_s = changed.deadline_s if "deadline" in options else sla.deadline_s
    return replace(changed, max_runs=settings.runs, deadline_s=deadline_s)


def apply_sla(session: Session, overrides: Overrides, now_s: float) -> None:
    """Change the SLA of an experiment, and reopen the experiment if it is finished.

    A refused change may have modified the session: try it on a copy first. Raises SettingsError
    for an invalid term, or an SLA that leaves no run.
    """
    experiment = session.experiment
    sla = changed_sla(experiment.sla, overrides, now_s)
    if sla.tariff is not None:
        check_tariff(
            sla.tariff, experiment.space, experiment.known_measures, experiment.opened.application
        )
    used = experiment.n_charged
    if sla.max_runs is not None and sla.max_runs <= used:
        if "runs" in overrides.values:
            raise SettingsError(
                f"experiment '{session.id}' has used {used} runs; a budget of {sla.max_runs} "
                "leaves none"
            )
        if experiment.finished is not None:
            raise SettingsError(
                f"experiment '{session.id}' is finished and has used its {used} runs; to continue, "
                f"give it more, for example --runs {used + 10}"
            )
    was_finished = experiment.finished is not None
    if was_finished:
        session.reopen()
    session.change_budget(sla)
    reached = reached_goal(experiment)
    if was_finished and reached is not None and sla.at_goal == "stop":
        raise SettingsError(
            f"{reached} of experiment '{session.id}' already; set a better goal (--goal), or "
            "continue beyond it (--at-goal go_on)"
        )
    over = passed_limit(experiment, now_s)
    if over is not None:
        raise SettingsError(
            f"with this SLA, experiment '{session.id}' has no run left: {over}; set a higher limit"
        )


def first_configurations(built: BuiltSweep, texts: list[str]) -> tuple[dict[str, Level], ...]:
    """Return the user's first configurations from the sweep file and from ``--include``.

    A parameter without a value takes that of the baseline, if there is one. The baseline itself
    is left out, because it runs anyway.

    Raises:
        SettingsError: not of the form name=value,...
        StrategyError: a value outside the space.
    """
    defaults = dict(built.application.baseline or {})
    requested = [{**defaults, **values} for values in built.settings.run]
    requested += [{**defaults, **_included(built.space, text)} for text in texts]
    baseline = built.application.baseline
    origins = {} if baseline is None else {built.space.from_values(baseline): "current"}
    first_runs = []
    for values in requested:
        configuration = built.space.from_values(values)
        built.space.check(configuration)
        if origins.get(configuration) == "yours":
            text = ", ".join(f"{name}={value}" for name, value in values.items())
            raise SettingsError(f"{text} is included twice; include each configuration once")
        if configuration not in origins:
            first_runs.append(values)
        origins.setdefault(configuration, "yours")
    needed = len(first_runs) + (baseline is not None)
    budget = built.settings.max_runs
    if budget is not None and needed > budget:
        raise SettingsError(
            f"the current and your own configurations need {needed} runs, but the budget is "
            f"{budget}; raise --runs or include fewer"
        )
    return tuple(first_runs)


def further_configurations(
    experiment: Experiment, texts: list[str]
) -> tuple[dict[str, Level], ...]:
    """Return the user's ``--include`` configurations for a running experiment.

    A parameter without a value takes that of the baseline, if there is one.

    Raises:
        SettingsError: not of the form name=value,..., or submitted before.
        StrategyError: a value outside the space, a closed level or an excluded combination.
    """
    space, baseline = experiment.space, experiment.opened.baseline
    run_ids = {run.configuration: run.id for run in experiment.runs}
    new_runs = []
    for text in texts:
        values = {**(space.values(baseline) if baseline else {}), **_included(space, text)}
        configuration = space.from_values(values)
        space.check(configuration)
        if configuration in run_ids:
            raise SettingsError(
                f"--include '{text}' is already run {run_ids[configuration]}; leave it out"
            )
        run_ids[configuration] = len(run_ids) + 1
        new_runs.append(values)
    return tuple(new_runs)


def _included(space: ParameterSpace, text: str) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for part in text.split(","):
        name, value = pair(part, "--include", "small_procs=16,small_max_procs=8")
        levels[name] = space.parse_value(name, value)
    return levels


def results_of(session: Session, built: BuiltSweep) -> list[Result]:
    """Return the results of another experiment whose values fit into a sweep's space.

    Raises SettingsError if none fits, because parameters or levels differ.
    """
    experiment = session.experiment
    results: list[Result] = []
    for run in experiment.runs:
        if run.outcome is None:
            continue
        values = experiment.space.values(run.configuration)
        try:
            built.space.from_values(values)
            built.objective.assess(run.outcome.measures)
        except (StrategyError, ObjectiveError):
            continue
        results.append((values, run.outcome.measures))
    if not results:
        raise SettingsError(
            f"no result of experiment '{session.id}' fits this sweep: its parameters, levels or "
            "measures differ"
        )
    return results
