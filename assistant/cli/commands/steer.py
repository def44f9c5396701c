"""Commands ``copperline steer``, ``what-if`` and ``resume``: change or continue an experiment."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from assistant.analysis.broken_program import broken_program
from assistant.analysis.what_if import WhatIf
from assistant.cli.console import OUT, Json, StoreOption, print_json, store_path, table_of
from assistant.cli.decisions import EXAMPLE, STEER, Decision, decide, weight_of, with_decisions
from assistant.cli.experiment_options import (
    apply_sla,
    changed_sla,
    changes_sla,
    first_configurations,
    further_configurations,
)
from assistant.cli.experiment_view import (
    copy_in_memory,
    existing,
    print_state,
    print_warning,
    stored_session,
    stored_state,
    warning_object,
)
from assistant.cli.options import (
    NO_OVERRIDES,
    NONE,
    SLA_OPTIONS,
    Include,
    MlflowAddress,
    Overrides,
    Report,
    pair,
    setting_options,
    strategy_options,
)
from assistant.cli.sweep_runner import (
    check_mlflow,
    follow,
    resume_external_sweep,
    wait_for_client,
)
from assistant.config.snapshot import rebuild_sweep, stored_hooks
from assistant.config.sweep_file import SweepSettings, check_settings
from assistant.core.commands import Keep
from assistant.core.errors import ExperimentError, SettingsError
from assistant.core.events import (
    BudgetChanged,
    Event,
    RunSubmitted,
    SpaceChanged,
    SteeringChanged,
    WarningAnswered,
    has_external_client,
)
from assistant.core.experiment import Experiment
from assistant.core.forecast import Forecast, percent
from assistant.core.ports import SystemClock
from assistant.core.sla import Sla
from assistant.executors.spec import check_capacity
from assistant.hooks.notices import HookCommands
from assistant.presentation.report.forms import form_of
from assistant.presentation.tables.sla import sla_words
from assistant.presentation.text.number_format import level
from assistant.service.store_connection import embedded_service
from assistant.session.execution import ExecutionLock
from assistant.session.opening import session_in
from assistant.session.session import Session
from strategies import Level, OptionValue, ParameterSpace, strategy_entry
from strategies.space.parameter import parse_number

NO_SPLIT = "none"
_PREVIEWED = ("runs", "deadline", "cost_limit", "goal")


@setting_options(*SLA_OPTIONS, is_change=True)
@with_decisions(STEER, before="replicate")
def steer(
    decisions: Sequence[Decision],
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    accept: Annotated[
        int | None,
        typer.Option(metavar="N", help="Accept alternative N of the open warning, from 1."),
    ] = None,
    change: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Answer with this share of suggestions inside regions."),
    ] = None,
    ignore: Annotated[bool, typer.Option("--ignore", help="Ignore the open warning.")] = False,
    overrides: Overrides = NO_OVERRIDES,
    strategy: Annotated[
        str | None, typer.Option(help="Strategy from now on.", show_default=False)
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the strategy.")
    ] = None,
    exploitation: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Share of suggestions inside regions, 0 to 1; none ends the split.",
        ),
    ] = None,
    refine: Annotated[
        bool | None,
        typer.Option(
            "--refine/--no-refine",
            help="Add levels near the best result to each range without a step.",
            show_default=False,
        ),
    ] = None,
    replicate: Annotated[
        list[int] | None, typer.Option(metavar="RUN", help="Queue this run once more.")
    ] = None,
    confirm: Annotated[
        int | None,
        typer.Option(metavar="N", help="Queue N runs to confirm the recommended configuration."),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Answer a warning, or change the SLA, levels or strategy of a stored experiment.

    All changes take effect, or none. Options may be repeated, and are applied in the order of this
    list. The suggestions of an accepted alternative run next. The word none removes a term of the
    SLA. Runs are only queued: a sweep that is running takes them, and the last line names the next
    step. Without options, the open warning is shown with its numbered alternatives.
    """
    stored = stored_session(experiment, store)
    before = stored.events()
    session = copy_in_memory(stored)  # all or nothing: a refused change has stored nothing
    finished = session.experiment.finished
    _answer(session, accept, change, ignore)
    has_terms = changes_sla(overrides)
    if has_terms:
        apply_sla(session, overrides, session.now_s())
    elif finished is not None:
        session.reopen()  # only in the copy: invalid values are reported first
    n_before = len(session.events())
    is_answered = accept is not None or change is not None or ignore
    if strategy is not None or option or exploitation is not None or refine is not None:
        entry = strategy_entry(strategy or session.experiment.steering.strategy)
        options = strategy_options(entry, option or [])
        level: float | Keep | None = "keep" if exploitation is None else share_of(exploitation)
        session.change_strategy(strategy, options, level, refine)
    decide(session, decisions)
    is_asked = len(session.events()) > n_before or bool(replicate) or confirm is not None
    if finished is not None and not has_terms and is_asked:
        n = session.experiment.n_charged
        raise SettingsError(
            f"experiment '{session.id}' is finished ({finished.reason}); to continue, give it a "
            f"budget of more than {n} runs, for example --runs {n + 10}"
        )
    for run_id in replicate or []:
        session.replicate(run_id)
    if confirm is not None:
        session.submit(session.confirm(confirm))
    events = session.events()[len(before) :]
    if not has_terms and not is_asked and not is_answered:
        if stored.experiment.open_warning is not None and finished is None:
            _show_warning(stored, store, as_json)
            return 0
        raise SettingsError(
            "no change was given; give one, for example --prefer order=sjf or --runs 80 "
            "(see copperline steer --help)"
        )
    moved = _moved(stored, session) if is_answered else None
    stored.take(events)  # after the runs that ended meanwhile, if a sweep is running
    _print_changes(stored, events, moved, store, as_json)
    return 0


def _moved(before: Session, after: Session) -> str | None:
    """Return the chance before and after as words; None if one of them is unknown."""
    goals = [session.forecast().goal for session in (before, after)]
    was, now = (None if goal is None else goal.chance for goal in goals)
    if was is None or now is None:
        return None
    return f"Chance to reach the goal: {percent(was)} before, {percent(now)} now."


def _show_warning(session: Session, store: Path | None, as_json: bool) -> None:
    if as_json:
        warning = warning_object(session.experiment)
        print_json({"experiment": session.id, "changes": [], "warning": warning})
    else:
        print_warning(session.experiment, OUT, store)


def _answer(session: Session, accept: int | None, change: float | None, ignore: bool) -> None:
    """Answer the open warning if one of the three options is given."""
    answers = [accept is not None, change is not None, ignore]
    if not any(answers):
        return
    if sum(answers) > 1:
        raise SettingsError("a warning has one answer: give --accept, --change or --ignore")
    if accept is None:
        session.answer_warning("ignored" if ignore else "changed", change)
        return
    warning = session.experiment.open_warning
    n = 1 if warning is None or warning.basis == "paper" else len(warning.alternatives)
    if warning is not None and not 1 <= accept <= n:
        raise SettingsError(
            f"--accept {accept}: the alternatives of the warning are numbered from 1 to {n}"
            if n
            else f"--accept {accept}: the warning has no alternatives; give --ignore or --change"
        )
    is_paper = warning is not None and warning.basis == "paper"
    session.answer_warning("accepted", alternative=None if is_paper else accept - 1)


def share_of(text: str) -> float | None:
    """Parse an exploitation share from 0 to 1; ``none`` gives None. Raises SettingsError."""
    if text.strip().lower() == NO_SPLIT:
        return None
    share = parse_number(text.strip())
    if share is None:
        raise SettingsError(
            f"--exploitation '{text}' is neither a share from 0 to 1 nor '{NO_SPLIT}'"
        )
    return share


def _print_changes(
    session: Session,
    events: tuple[Event, ...],
    moved: str | None,
    store: Path | None,
    as_json: bool,
) -> None:
    sentences = [
        change_text for event in events if (change_text := _sentence(session, event)) is not None
    ]
    sentences += [] if moved is None else [moved]
    state = stored_state(session, store)
    if as_json:
        warning = warning_object(session.experiment)
        changes = {"experiment": session.id, "changes": sentences, "warning": warning}
        print_json({**changes, "state": state.as_json()})
        return
    for sentence in sentences:
        OUT.print(sentence, soft_wrap=True)
    print_state(state, store)


def _sentence(session: Session, event: Event) -> str | None:
    match event:
        case WarningAnswered(number=number, answer=given, alternative=which):
            warning = session.experiment.warnings[number - 1]
            detail = "" if which is None else f": {warning.alternatives[which].text}"
            if given == "changed" and event.exploitation is not None:
                detail = f" to a share of {event.exploitation:.0%} inside the regions"
            return f"Warning {number} is {given}{detail}."
        case RunSubmitted(run_id=run_id, configuration=configuration):
            first = next(r for r in session.experiment.runs if r.configuration == configuration)
            return f"Run {first.id} is repeated as run {run_id}."
        case SpaceChanged(text=text):
            return f"{text}."
        case SteeringChanged(steering=steering):
            return f"From now on: {steering}."
        case BudgetChanged(sla=sla):
            runs = f"The budget is {sla.max_runs or 'without a limit of'} runs."
            terms = f"SLA: {', '.join(sla_words(session.experiment))}."
            return runs if sla == Sla(max_runs=sla.max_runs) else terms
    return None


@setting_options(*_PREVIEWED, is_change=True)
def what_if(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    exploitation: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Share of suggestions inside regions, 0 to 1; none for no split."
        ),
    ] = None,
    overrides: Overrides = NO_OVERRIDES,
    strategy: Annotated[
        str | None, typer.Option(help="Strategy to use.", show_default=False)
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the strategy.")
    ] = None,
    close: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LEVEL", help="Close this level.")
    ] = None,
    weigh: Annotated[
        list[str] | None,
        typer.Option(metavar="REGION=WEIGHT", help="Weight of a region; new regions have 1."),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Preview a change: chance to reach the goal, runs inside regions, next suggestions.

    Nothing is changed or stored; copperline steer makes the change. --goal none removes the goal.
    """
    session = stored_session(experiment, store)
    changes = (exploitation, strategy, option, close, weigh)
    if not overrides and all(change is None or change == [] for change in changes):
        raise SettingsError(
            "no change was given; give one, for example --runs 80 or --exploitation 0.7 "
            "(see copperline what-if --help)"
        )
    current = session.experiment
    options: dict[str, OptionValue] = {}
    if option:
        options = strategy_options(strategy_entry(strategy or current.steering.strategy), option)
    share: float | Keep | None = "keep" if exploitation is None else share_of(exploitation)
    limits = _previewed(overrides)
    outcome = session.what_if(
        exploitation=share,
        max_runs=limits.runs,
        deadline_s=None if limits.deadline is None else SystemClock().now_s() + limits.deadline,
        max_cost=None if limits.cost is None else limits.cost.limit,
        goal=NONE if _removes(overrides, "goal") else limits.goal,
        strategy=strategy,
        options=options,
        close=[_level(current.space, text) for text in close or []],
        weights=[weight_of(text) for text in weigh or []],
    )
    if as_json:
        print_json({"experiment": session.id, **_plain(session, outcome)})
    else:
        _print_what_if(session, outcome)
    return 0


def _previewed(overrides: Overrides) -> SweepSettings:
    """Return the limits to preview, or raise SettingsError; a limit cannot be removed."""
    for name in _PREVIEWED:
        if name != "goal" and _removes(overrides, name):
            flag = f"--{name.replace('_', '-')}"
            raise SettingsError(
                f"{flag} none: a preview needs a value, for example that of the SLA"
            )
    tables: dict[str, Any] = {}
    overrides.lay_over(tables)
    return check_settings(tables, "the options")


def _removes(overrides: Overrides, name: str) -> bool:
    value = overrides.values.get(name)
    return isinstance(value, str) and value.strip().lower() == NONE


def _level(space: ParameterSpace, text: str) -> tuple[str, Level]:
    name, value = pair(text, "--close", EXAMPLE)
    return name, ParameterSpace.parse_value(space, name, value)


def _plain(session: Session, outcome: WhatIf) -> dict[str, object]:
    space = session.experiment.space
    return {
        "sentence": outcome.sentence,
        "before": asdict(outcome.before),
        "after": asdict(outcome.after),
        "inside": [asdict(suggestion) for suggestion in outcome.inside],
        "outside": outcome.outside,
        "suggestions": [
            {"values": space.all_values(suggestion.configuration), "reason": suggestion.reason}
            for suggestion in outcome.suggestions
        ],
    }


def _print_what_if(session: Session, outcome: WhatIf) -> None:
    OUT.print(outcome.sentence, soft_wrap=True)
    table = table_of("", "now", "then")
    for name, before, after in zip(
        ("chance to reach the goal", "runs left", "best value at the end"),
        _cells(outcome.before), _cells(outcome.after), strict=True,
    ):  # fmt: skip
        table.add_row(name, before, after)
    OUT.print(table)
    space = session.experiment.space
    if not outcome.suggestions:
        OUT.print("There are no suggestions: no run is left.")
        return
    OUT.print("Next suggestions:")
    following = table_of(*space.names, left=len(space.names))
    for suggestion in outcome.suggestions:
        following.add_row(*map(level, space.all_values(suggestion.configuration).values()))
    OUT.print(following)


def _cells(forecast: Forecast) -> tuple[str, str, str]:
    goal, left, best = forecast.goal, forecast.remaining, forecast.best
    chance = "unknown" if goal is None or goal.chance is None else percent(goal.chance)
    runs = "unknown" if left is None or left.median is None else f"{left.median:.0f}"
    value = "unknown" if best is None or best.median is None else f"{best.median:.4g}"
    return chance, runs, value


@setting_options(*SLA_OPTIONS[:7], "warnings", is_change=True)
def resume(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    overrides: Overrides = NO_OVERRIDES,
    include: Include = None,
    no_hooks: Annotated[
        bool, typer.Option("--no-hooks", help="Start no hooks of its sweep file.")
    ] = False,
    mlflow: MlflowAddress = None,
    report: Report = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Continue an interrupted sweep, for example after Ctrl-C.

    No completed run and no decision is lost; interrupted runs start again. The result is the same
    as without the interruption. Your own configurations (--include) run first. A sweep that ended
    because its program failed goes on after a repair: its failed runs are repeated.
    """
    with embedded_service(existing(store)) as stores:
        session = session_in(stores, experiment)
        with ExecutionLock(store_path(store), session.id):
            return _resume(
                session, overrides, include or [], no_hooks, store, report, as_json, mlflow
            )


def _resume(
    session: Session,
    overrides: Overrides,
    include: list[str],
    no_hooks: bool,
    store: Path | None,
    report: Path | None,
    as_json: bool,
    mlflow: str | None,
) -> int:
    check_mlflow(mlflow, is_external=has_external_client(session.experiment.opened))
    if report is not None:
        form_of(report)
    if not session.experiment.opened.recipe:
        raise SettingsError(
            f"experiment '{session.id}' was opened from Python; continue it there "
            "(copperline.load_study)"
        )
    built = rebuild_sweep(session.experiment.opened)
    check_capacity(built.settings.place, built.settings.workers)
    if "warnings" in overrides.values:
        answer = {"warnings": overrides.values["warnings"]}
        settings = check_settings(answer, "the options")
        changed = built.settings.model_copy(update={"warnings": settings.warnings})
        built = replace(built, settings=changed)
    hooks = HookCommands() if no_hooks else _own_hooks(session)
    mine = further_configurations(session.experiment, include)
    _check_room(session, overrides, len(mine))
    if changes_sla(overrides):
        now_s = session.now_s()
        apply_sla(copy_in_memory(session), overrides, now_s)  # refuse before anything is stored
        apply_sla(session, overrides, now_s)
    elif _is_repaired(session.experiment):
        session.reopen()
    _refuse_if_finished(session.experiment, store)
    if has_external_client(session.experiment.opened):
        remote = resume_external_sweep(store_path(store), session.experiment.opened)
        return wait_for_client(remote, built, mine, (), store_path(store), report, as_json)
    session.recover()
    first_runs = (*mine, *first_configurations(built, []))
    return follow(session, built, first_runs, store_path(store), report, as_json, hooks, mlflow)


def _refuse_if_finished(experiment: Experiment, store: Path | None) -> None:
    """Raise ExperimentError for a finished sweep, with the way to its report and to more runs."""
    finished, experiment_id = experiment.finished, experiment.opened.experiment_id
    if finished is None:
        return
    where = f"{experiment_id}" if store is None else f"{experiment_id} --store {store}"
    more = experiment.n_charged + 10
    raise ExperimentError(
        f"experiment '{experiment_id}' is finished ({finished.reason}): write its report with "
        f"copperline report {where}, or go on with copperline resume {where} --runs {more}"
    )


def _is_repaired(experiment: Experiment) -> bool:
    """Return whether a sweep that ended with a broken program may go on, as it was repaired."""
    is_broken = experiment.finished is not None and broken_program(experiment) is not None
    return is_broken and experiment.remaining_runs != 0


def _own_hooks(session: Session) -> HookCommands:
    """Return the stored hooks; refuse them with a hint if one cannot be started here."""
    hooks = stored_hooks(session.experiment)
    try:
        hooks.check()
    except SettingsError as error:
        raise SettingsError(f"{error}; give --no-hooks to continue without hooks") from error
    return hooks


def _check_room(session: Session, overrides: Overrides, n_more: int) -> None:
    """Refuse the user's configurations beyond the budget, before anything is stored."""
    budget = changed_sla(session.experiment.sla, overrides, session.now_s()).max_runs
    needed = session.experiment.n_charged + n_more
    if n_more and budget is not None and budget < needed:
        raise SettingsError(
            f"{n_more} included configurations need a budget of {needed} runs, but it is {budget}; "
            f"give --runs {needed}"
        )
