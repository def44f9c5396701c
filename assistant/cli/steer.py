"""``copperline steer``: change how a stored experiment goes on, without running anything."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from assistant import Session, Sla, load_session
from assistant.cli.console import OUT, Json, StoreOption, print_json, store_path
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
from assistant.decisions import Keep
from assistant.errors import SettingsError
from assistant.events import BudgetChanged, Event, RunSubmitted, SpaceChanged, SteeringChanged
from assistant.report.agreement import agreed_words
from assistant.store import MemoryStore, SqliteStore
from strategies import Level, ParameterSpace, strategy_entry
from strategies.parameter import parse_number

NO_SPLIT = "none"
_EXAMPLE = "order=sjf"


def steer(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
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
    """Change agreement, levels, combinations or strategy of a stored experiment, all or nothing.

    Options may be repeated, and take effect in the order of this list; the word none takes a term
    of the agreement away. Nothing is run, only queued: go on with copperline resume.
    """
    stored = stored_session(experiment, store)
    before = stored.events()
    rehearsed = MemoryStore()  # all or nothing: what is refused here has stored nothing
    rehearsed.append(stored.id, 0, before)
    session = load_session(rehearsed, stored.id)
    finished = session.experiment.finished
    terms = Terms(
        runs, deadline, goal, at_goal, run_limit, cost_limit, cost_per_hour, cost_resources,
        cost_measure, cost_unit,
    )  # fmt: skip
    if terms.is_given:
        agree(session, terms, time.time())
    elif finished is not None:
        session.reopen()  # in rehearsal only: what cannot be read is told before that it is over
    n_before = len(session.events())
    _each(session, "--add", add, session.add_level, _new_level)
    for flag, texts, change in (
        ("--reopen", reopen, session.reopen_level),
        ("--close", close, session.close_level),
        ("--unprefer", unprefer, session.unprefer_level),
        ("--prefer", prefer, session.prefer_level),
    ):
        _each(session, flag, texts, change, ParameterSpace.parse_value)
    for condition in exclude or []:
        session.exclude(condition)
    if strategy is not None or option or exploitation is not None:
        entry = strategy_entry(strategy or session.experiment.steering.strategy)
        options = strategy_options(entry, option or [])
        level: float | Keep | None = "keep" if exploitation is None else _share(exploitation)
        session.change_strategy(strategy, options, level)
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
    if not terms.is_given and not is_asked:
        raise SettingsError(
            "nothing was said to change; say what, for example --prefer order=sjf or --runs 80 "
            "(copperline steer --help has all)"
        )
    SqliteStore(store_path(store)).append(stored.id, len(before), events)
    _tell(session, events, store, as_json)
    return 0


def _each(
    session: Session,
    flag: str,
    texts: list[str] | None,
    change: Callable[[str, Level], None],
    read: Callable[[ParameterSpace, str, str], Level],
) -> None:
    for text in texts or []:
        name, value = pair(text, flag, _EXAMPLE)
        change(name, read(session.experiment.space, name, value))


def _new_level(space: ParameterSpace, name: str, text: str) -> Level:
    return space.parameter(name).read(text)


def _share(text: str) -> float | None:
    if text.strip().lower() == NO_SPLIT:
        return None
    share = parse_number(text.strip())
    if share is None:
        raise SettingsError(
            f"--exploitation '{text}' is neither a share from 0 to 1 nor '{NO_SPLIT}'"
        )
    return share


def _tell(session: Session, events: tuple[Event, ...], store: Path | None, as_json: bool) -> None:
    said = [told for event in events if (told := _sentence(session, event)) is not None]
    if as_json:
        print_json({"experiment": session.id, "changes": said})
        return
    for sentence in said:
        OUT.print(sentence, soft_wrap=True)
    where = "" if store is None else f" --store {store}"
    OUT.print(f"Go on with: copperline resume {session.id}{where}", soft_wrap=True)


def _sentence(session: Session, event: Event) -> str | None:
    match event:
        case RunSubmitted(run_id=run_id, configuration=configuration):
            first = next(r for r in session.experiment.runs if r.configuration == configuration)
            return f"Run {first.id} is repeated as run {run_id}."
        case SpaceChanged(text=text):
            return f"{text}."
        case SteeringChanged(steering=steering):
            return f"From now on: {steering}."
        case BudgetChanged(sla=sla):
            if sla == Sla(max_runs=sla.max_runs):
                return f"The budget is {sla.max_runs or 'without a limit of'} runs."
            return f"Agreed: {', '.join(agreed_words(session.experiment))}."
    return None
