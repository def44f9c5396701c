"""``copperline steer``: change how a stored experiment goes on, without running anything."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from assistant import Session, Sla, load_session
from assistant.chances import percent
from assistant.cli.console import OUT, Json, StoreOption, print_json
from assistant.cli.experiments import stored_session
from assistant.cli.options import pair, strategy_options
from assistant.cli.terms import (
    AtGoal,
    CostLimit,
    CostMeasure,
    CostPerHour,
    CostResources,
    CostUnit,
    Deadline,
    Goal,
    RunLimit,
    Terms,
    agree,
)
from assistant.cli.warned import print_warning, warning_object
from assistant.decisions import Keep
from assistant.errors import SettingsError
from assistant.events import (
    AdviceAnswered,
    BudgetChanged,
    Event,
    RunSubmitted,
    SpaceChanged,
    SteeringChanged,
)
from assistant.report.agreement import agreed_words
from assistant.store import MemoryStore
from strategies import Level, ParameterSpace, strategy_entry
from strategies.parameter import parse_number

NO_SPLIT = "none"
EXAMPLE = "order=sjf"


def steer(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    accept: Annotated[
        int | None,
        typer.Option(metavar="N", help="Accept alternative N of the open warning, from 1."),
    ] = None,
    change: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Answer the warning with this share inside regions."),
    ] = None,
    ignore: Annotated[bool, typer.Option("--ignore", help="Ignore the open warning.")] = False,
    runs: Annotated[
        str | None,
        typer.Option(metavar="N", help="Another budget of runs; a finished experiment goes on."),
    ] = None,
    deadline: Deadline = None,
    goal: Goal = None,
    at_goal: AtGoal = None,
    run_limit: RunLimit = None,
    cost_limit: CostLimit = None,
    cost_per_hour: CostPerHour = None,
    cost_resources: CostResources = None,
    cost_measure: CostMeasure = None,
    cost_unit: CostUnit = None,
    add: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LEVEL", help="Add a level to a parameter.")
    ] = None,
    reopen: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LEVEL", help="Propose a closed level again.")
    ] = None,
    close: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LEVEL", help="Propose this level no more.")
    ] = None,
    unprefer: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LEVEL", help="Prefer this level no more.")
    ] = None,
    prefer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LEVEL", help="Keep half of the suggestions to this level."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="Never propose what meets this condition."),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Choose like this from now on.", show_default=False)
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the strategy.")
    ] = None,
    exploitation: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Share of suggestions inside regions, 0 to 1; none to split no more.",
        ),
    ] = None,
    weigh: Annotated[
        list[str] | None,
        typer.Option(metavar="REGION=WEIGHT", help="How much a region counts; 1 as it is found."),
    ] = None,
    replicate: Annotated[
        list[int] | None, typer.Option(metavar="RUN", help="Queue this run once more.")
    ] = None,
    confirm: Annotated[
        int | None,
        typer.Option(metavar="N", help="Queue N runs that confirm what is recommended."),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Answer a warning, change agreement, levels or strategy of a stored experiment: all or none.

    Options may be repeated, and take effect in the order of this list; the answer to a warning
    comes first, and what accepting suggests is run next. The word none takes a term of the
    agreement away. Nothing is run, only queued: go on with copperline resume. Without options the
    open warning is shown, with the numbers of its alternatives.
    """
    stored = stored_session(experiment, store)
    before = stored.events()
    rehearsed = MemoryStore()  # all or nothing: what is refused here has stored nothing
    rehearsed.append(stored.id, 0, before)
    session = load_session(rehearsed, stored.id)
    finished = session.experiment.finished
    _answer(session, accept, change, ignore)
    terms = Terms(
        runs, deadline, goal, at_goal, run_limit, cost_limit, cost_per_hour, cost_resources,
        cost_measure, cost_unit,
    )  # fmt: skip
    if terms.is_given:
        agree(session, terms, time.time())
    elif finished is not None:
        session.reopen()  # in rehearsal only: what cannot be read is told before that it is over
    n_before = len(session.events())
    is_answered = accept is not None or change is not None or ignore
    _each(session, "--add", add, session.add_level, _new_level)
    for flag, texts, make in (
        ("--reopen", reopen, session.reopen_level),
        ("--close", close, session.close_level),
        ("--unprefer", unprefer, session.unprefer_level),
        ("--prefer", prefer, session.prefer_level),
    ):
        _each(session, flag, texts, make, ParameterSpace.parse_value)
    for condition in exclude or []:
        session.exclude(condition)
    if strategy is not None or option or exploitation is not None:
        entry = strategy_entry(strategy or session.experiment.steering.strategy)
        options = strategy_options(entry, option or [])
        level: float | Keep | None = "keep" if exploitation is None else share_of(exploitation)
        session.change_strategy(strategy, options, level)
    for text in weigh or []:
        session.weigh_region(*weight_of(text))
    is_asked = len(session.events()) > n_before or bool(replicate) or confirm is not None
    if finished is not None and not terms.is_given and is_asked:
        n = session.experiment.n_charged
        raise SettingsError(
            f"experiment '{session.id}' is finished ({finished.reason}); give it a budget of more "
            f"than {n} runs to go on with, for example --runs {n + 10}"
        )
    for run_id in replicate or []:
        session.replicate(run_id)
    if confirm is not None:
        session.submit(session.confirm(confirm))
    events = session.events()[len(before) :]
    if not terms.is_given and not is_asked and not is_answered:
        if stored.experiment.open_advice is not None and finished is None:
            _show_warning(stored, store, as_json)
            return 0
        raise SettingsError(
            "nothing was said to change; say what, for example --prefer order=sjf or --runs 80 "
            "(copperline steer --help has all)"
        )
    moved = _moved(stored, session) if is_answered else None
    stored.take(events)  # behind the runs that ended meanwhile, where a sweep goes on
    _tell(session, events, moved, store, as_json)
    return 0


def _moved(before: Session, after: Session) -> str | None:
    """Say what the chance was and is; None where no chance is told of both."""
    goals = [session.forecast().goal for session in (before, after)]
    was, now = (None if goal is None else goal.chance for goal in goals)
    if was is None or now is None:
        return None
    return f"The chance to reach the goal: {percent(was)} before, {percent(now)} now."


def _show_warning(session: Session, store: Path | None, as_json: bool) -> None:
    if as_json:
        warning = warning_object(session.experiment)
        print_json({"experiment": session.id, "changes": [], "warning": warning})
    else:
        print_warning(session.experiment, OUT, store)


def _each(
    session: Session,
    flag: str,
    texts: list[str] | None,
    change: Callable[[str, Level], None],
    read: Callable[[ParameterSpace, str, str], Level],
) -> None:
    for text in texts or []:
        name, value = pair(text, flag, EXAMPLE)
        change(name, read(session.experiment.space, name, value))


def _new_level(space: ParameterSpace, name: str, text: str) -> Level:
    return space.parameter(name).read(text)


def _answer(session: Session, accept: int | None, change: float | None, ignore: bool) -> None:
    """Answer the open warning, if one of the three says how."""
    said = [accept is not None, change is not None, ignore]
    if not any(said):
        return
    if sum(said) > 1:
        raise SettingsError("a warning has one answer: give --accept, --change or --ignore")
    if accept is None:
        session.answer_advice("ignored" if ignore else "changed", change)
        return
    advice = session.experiment.open_advice
    n = 1 if advice is None or advice.basis == "paper" else len(advice.alternatives)
    if advice is not None and not 1 <= accept <= n:
        raise SettingsError(
            f"--accept {accept}: the warning proposes {n}, numbered from 1"
            if n
            else f"--accept {accept}: the warning proposes nothing; --ignore or --change it"
        )
    is_paper = advice is not None and advice.basis == "paper"
    session.answer_advice("accepted", alternative=None if is_paper else accept - 1)


def weight_of(text: str) -> tuple[int, float]:
    """Return region and weight of a text such as ``2=0.5``. Raises SettingsError otherwise."""
    name, value = pair(text, "--weigh", "2=0.5")
    region, weight = parse_number(name), parse_number(value)
    if not isinstance(region, int) or weight is None:
        raise SettingsError(f"--weigh '{text}' is not a region's number and a weight, as in 2=0.5")
    return region, float(weight)


def share_of(text: str) -> float | None:
    """Return an exploitation level, None for no split. Raises SettingsError otherwise."""
    if text.strip().lower() == NO_SPLIT:
        return None
    share = parse_number(text.strip())
    if share is None:
        raise SettingsError(
            f"--exploitation '{text}' is neither a share from 0 to 1 nor '{NO_SPLIT}'"
        )
    return share


def _tell(
    session: Session,
    events: tuple[Event, ...],
    moved: str | None,
    store: Path | None,
    as_json: bool,
) -> None:
    said = [told for event in events if (told := _sentence(session, event)) is not None]
    said += [] if moved is None else [moved]
    if as_json:
        warning = warning_object(session.experiment)
        print_json({"experiment": session.id, "changes": said, "warning": warning})
        return
    for sentence in said:
        OUT.print(sentence, soft_wrap=True)
    where = "" if store is None else f" --store {store}"
    OUT.print(f"Go on with: copperline resume {session.id}{where}", soft_wrap=True)


def _sentence(session: Session, event: Event) -> str | None:
    match event:
        case AdviceAnswered(number=number, answer=given, alternative=which):
            advice = session.experiment.advice[number - 1]
            what = "" if which is None else f": {advice.alternatives[which].text}"
            if given == "changed" and event.exploitation is not None:
                what = f" to a share of {event.exploitation:.0%} inside the regions"
            return f"Warning {number} is {given}{what}."
        case RunSubmitted(run_id=run_id, configuration=configuration):
            first = next(r for r in session.experiment.runs if r.configuration == configuration)
            return f"Run {first.id} is repeated as run {run_id}."
        case SpaceChanged(text=text):
            return f"{text}."
        case SteeringChanged(steering=steering):
            return f"From now on: {steering}."
        case BudgetChanged(sla=sla):
            runs = f"The budget is {sla.max_runs or 'without a limit of'} runs."
            agreed = f"Agreed: {', '.join(agreed_words(session.experiment))}."
            return runs if sla == Sla(max_runs=sla.max_runs) else agreed
    return None
