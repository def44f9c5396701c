"""The selected level on the *Effects* page: consequences of closing it, and action buttons.

The affected waiting runs are kept from the moment of selection, so a button cancels what it named.

Missing runs on *Effects*: runs that make an effect estimable, and a button to add them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from assistant.analysis.effects import MissingReport, TermShare, missing_report
from assistant.core.errors import ExperimentError
from assistant.core.experiment import Experiment
from assistant.core.run import RunState
from assistant.presentation.charts.effects import CHOSEN_LEVEL
from assistant.presentation.text.number_format import level, level_texts, level_words, setting
from assistant.ui import labels
from assistant.ui.intents import Intent, answer_at, sentence
from assistant.ui.state import ExperimentView
from strategies import Level, Parameter, ParameterSpace
from strategies.doe.coverage import EstimationTarget

MOST_LISTED = 1_000
MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class LevelSelection:
    """Selected level, with the waiting runs and the number of open suggestions that have it."""

    parameter: str
    value: Level
    version: int
    waiting: tuple[int, ...]
    suggested: int

    @property
    def place(self) -> str:
        """Key of the place where messages about this level are drawn."""
        return f"effects-level-{self.parameter}-{self.value}"


def marks(experiment: Experiment, name: str) -> dict[str, str]:
    """Return the chart labels of a parameter's closed and preferred levels, by level text."""
    space = experiment.space
    parameter = space.parameter(name)
    texts = level_texts(parameter.levels, parameter.unit)
    states = {texts[i]: "preferred" for owner, i in space.preferred if owner == name}
    states |= {texts[i]: "closed" for owner, i in space.closed if owner == name}
    return {text: f"{text} ({state})" for text, state in states.items()}


def level_names(parameter: Parameter) -> dict[Level, str]:
    """Return the texts of a parameter's levels in charts and fields, each different."""
    texts = level_texts(parameter.levels, parameter.unit)
    return dict(zip(parameter.levels, texts, strict=True))


def clicked(experiment: Experiment, chart: str) -> None:
    """Select the level that the user clicked in a chart."""
    points = st.session_state[chart]["selection"].get(CHOSEN_LEVEL)
    if not points:
        return
    experiment_id, name = experiment.opened.experiment_id, points[0]["parameter"]
    plain = {label: text for text, label in marks(experiment, name).items()}
    st.session_state[f"effects-parameter-{experiment_id}"] = name
    text = str(points[0]["level"])
    st.session_state[f"effects-level-{experiment_id}-{name}"] = plain.get(text, text)


def chooser(experiment: Experiment) -> LevelSelection | None:
    """Draw the fields to select a level, preset by a click, and return the selection."""
    experiment_id, space = experiment.opened.experiment_id, experiment.space
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = _parameter(experiment_id, space)
        if name is None:
            return None
        names = level_names(space.parameter(name))
        offer = _levels_on_offer(experiment, space.parameter(name))
        listed = {names[value]: value for value in offer}
        key = f"effects-level-{experiment_id}-{name}"
        if st.session_state.get(key) not in listed:
            st.session_state.pop(key, None)
        text = st.selectbox("Level", list(listed), key=key, width=200)
    return _level_selection(experiment, name, listed[text]) if text in listed else None


def _parameter(experiment_id: str, space: ParameterSpace) -> str | None:
    return st.selectbox(
        "Click a level to close or prefer it, or choose its parameter", space.names,
        index=None, key=f"effects-parameter-{experiment_id}", placeholder="none chosen", width=420,
    )  # fmt: skip


def _levels_on_offer(experiment: Experiment, parameter: Parameter) -> list[Level]:
    ids = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
    if len(ids) > MOST_LISTED:
        position = experiment.space.names.index(parameter.name)
        measured_ids = {
            observation.configuration.level_ids[position] for observation in experiment.observations
        }
        marked = (*experiment.space.closed, *experiment.space.preferred)
        measured_ids |= {i for name, i in marked if name == parameter.name}
        ids = [i for i in ids if i in measured_ids]
    return [parameter.levels[i] for i in ids]


def _level_selection(experiment: Experiment, name: str, value: Level) -> LevelSelection:
    key = f"effects-held-{experiment.opened.experiment_id}"
    selection: LevelSelection | None = st.session_state.get(key)
    if selection is None or (selection.parameter, selection.value) != (name, value):
        selection = st.session_state[key] = current_level(experiment, name, value)
    return selection


def current_level(experiment: Experiment, name: str, value: Level) -> LevelSelection:
    """Return the selection of a level with its current state in the experiment."""
    space = experiment.space
    batch = experiment.open_batch
    return LevelSelection(
        name,
        value,
        experiment.version,
        tuple(
            run.id
            for run in experiment.runs_in(RunState.QUEUED)
            if space.values(run.configuration).get(name) == value
        ),
        sum(
            space.values(suggestion.configuration).get(name) == value
            for suggestion in (batch.suggestions if batch else ())
        ),
    )


def panel(
    view_model: ExperimentView, experiment: Experiment, selection: LevelSelection
) -> Intent | None:
    """Draw the actions on the selected level and return that of the pressed button, or None."""
    space, session = experiment.space, view_model.session
    name, value = selection.parameter, selection.value
    is_closed, is_preferred = _state(space, name, value)
    experiment_id = experiment.opened.experiment_id
    key = f"{experiment_id}-{name}-{level(value)}-{selection.version}"
    parameter = space.parameter(name)
    text = f"{name} = {setting(value, parameter.unit)}"
    with st.container(border=True):
        state = "closed" if is_closed else "preferred" if is_preferred else "open"
        st.markdown(f"**{labels.escape_markdown(text)}** is {state}.")
        answer_at(selection.place)
        if experiment.finished is not None:
            st.caption("The experiment is finished, so its levels stay as they are.")
            return None
        cancelled: tuple[int, ...] = ()
        if not is_closed:
            st.markdown(labels.escape_markdown(consequences(selection)))
            if selection.waiting and st.checkbox(
                f"When it is closed, cancel {_run_names(selection.waiting)}", key=f"with-{key}"
            ):
                cancelled = selection.waiting
        changed = experiment.version - selection.version
        with st.container(horizontal=True, vertical_alignment="center"):
            intent = None
            if is_closed and st.button("Reopen this level", key="effects-reopen"):
                intent = _intent(
                    selection, lambda: session.reopen_level(name, value), f"{text} is open again."
                )
            if not is_closed and st.button("Close this level", key="effects-close"):
                intent = Intent(
                    selection.place, lambda: close(view_model, selection, cancelled), "Closing"
                )
            if not is_closed and not is_preferred and st.button("Prefer it", key="effects-prefer"):
                intent = _intent(
                    selection, lambda: session.prefer_level(name, value), f"{text} is preferred."
                )
            if (
                not is_closed
                and is_preferred
                and st.button("Stop preferring it", key="effects-unprefer")
            ):
                intent = _intent(
                    selection,
                    lambda: session.unprefer_level(name, value),
                    f"{text} is not preferred any more.",
                )
            if changed:
                st.caption(f"{_changes(changed)} since this was shown.")
                if st.button("Refresh", icon=":material/refresh:", key="effects-renew"):
                    release(experiment_id)
                    st.rerun()
    if intent is None:
        return None
    release(experiment_id)
    return intent


def consequences(selection: LevelSelection) -> str:
    """Describe the consequences of closing a level in words.

    >>> print(consequences(LevelSelection("x", 1, 0, (), 0)))
    Runs with it stay. No waiting run has it.
    """
    parts = ["Runs with it stay."]
    n = len(selection.waiting)
    ids = ", ".join(map(str, selection.waiting[:MOST_NAMED]))
    if n > MOST_NAMED:
        ids += f" and {n - MOST_NAMED} more"
    if n == 0:
        parts.append("No waiting run has it.")
    elif n == 1:
        parts.append(
            f"1 waiting run has it (run {ids}): it stays in the queue unless you cancel it."
        )
    else:
        parts.append(
            f"{n} waiting runs have it (runs {ids}): they stay in the queue unless you cancel them."
        )
    if selection.suggested:
        some = "suggestion has" if selection.suggested == 1 else "suggestions have"
        parts.append(f"{selection.suggested} open {some} it and could not be submitted any more.")
    return " ".join(parts)


def close(view_model: ExperimentView, selection: LevelSelection, cancelled: tuple[int, ...]) -> str:
    """Close a level, cancel those of the given runs that still wait, and return a message."""
    session = view_model.session
    session.close_level(selection.parameter, selection.value)
    gone, left = [], []
    for run_id in cancelled:
        if session.experiment.run(run_id).state is RunState.QUEUED:
            session.cancel(run_id, f"{selection.parameter}={level(selection.value)} was closed")
            gone.append(run_id)
        else:
            left.append(run_id)
    message = f"{selection.parameter} = {level(selection.value)} is closed."
    if gone:
        message += f" {labels.runs(len(gone)).capitalize()} cancelled."
    if left:
        message += f" Run {', '.join(map(str, left))} had started meanwhile and was not cancelled."
    return message


def release(experiment_id: str) -> None:
    """Delete the stored selection, so that the next drawing shows the level's current state."""
    st.session_state.pop(f"effects-held-{experiment_id}", None)


def _intent(selection: LevelSelection, do: Callable[[], None], message: str) -> Intent:
    def carried() -> str:
        do()
        return message

    return Intent(selection.place, carried)


def _state(space: ParameterSpace, name: str, value: Level) -> tuple[bool, bool]:
    pair = (name, space.parameter(name).level_id(value))
    return pair in space.closed, pair in space.preferred


def _run_names(ids: tuple[int, ...]) -> str:
    return "the waiting run" if len(ids) == 1 else f"the {len(ids)} waiting runs"


def _changes(n: int) -> str:
    return "1 change" if n == 1 else f"{n} changes"


PLACE = "effects-missing"
ALL = "all main effects"
MOST_ADDED = 100


@dataclass(frozen=True, slots=True)
class MissingRunsOffer:
    """Runs still needed to estimate the selected effect, or the reason why they are unknown."""

    target: str
    version: int
    report: MissingReport | None
    why: str = ""


def missing_button(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw one button that adds the runs missing for all main effects, if it can; else nothing."""
    answer_at(PLACE)
    room = experiment.remaining_runs
    if experiment.finished is not None or room == 0:
        return None
    targets = targets_of(experiment, ())
    if ALL not in targets:
        return None
    offer = _frozen_offer(experiment, ALL, targets)
    if offer.report is None or not offer.report.runs:
        return None
    runs = offer.report.runs
    n = min(len(runs), MOST_ADDED, len(runs) if room is None else room)
    missing = labels.runs(n).replace(" ", " missing ", 1)
    used = "" if room is None else f" They use {n:,} of {labels.runs(room)} left."
    if not st.button(
        f"Add the {missing}", icon=":material/add:", key="effects-add-missing",
        type="primary" if room is None or 2 * n <= room else "secondary",
        help=f"They make every main effect estimable.{used} They are listed below.",
    ):  # fmt: skip
        return None
    return Intent(PLACE, lambda: add(view_model, ALL, runs[:n]), "Adding runs")


def section(
    view_model: ExperimentView, experiment: Experiment, pairs: Sequence[TermShare]
) -> Intent | None:
    """Draw the runs missing to estimate an effect and return a request to add them, or None."""
    experiment_id = experiment.opened.experiment_id
    targets = targets_of(experiment, pairs)
    if not targets:
        st.caption("No parameter has two open levels, so there is no effect to estimate.")
        return None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = st.selectbox(
            "Effect to estimate", list(targets), key=f"effects-target-{experiment_id}", width=360,
            persist_state="session",
        )  # fmt: skip
        snapshot = _frozen_offer(experiment, target or ALL, targets)
        changed = experiment.version - snapshot.version
        if changed:
            noun = "change" if changed == 1 else "changes"
            st.caption(f"{changed} {noun} since this was shown.")
            if st.button("Refresh", icon=":material/refresh:", key="effects-missing-renew"):
                release_missing(experiment_id)
                st.rerun()
    if snapshot.report is None:
        st.warning(labels.escape_markdown(snapshot.why))
        return None
    st.markdown(labels.escape_markdown(missing_text(snapshot.report, snapshot.target)))
    runs = _which(snapshot.report, experiment_id)
    if not runs:
        return None
    return _offer(view_model, experiment, snapshot, runs)


def targets_of(experiment: Experiment, pairs: Sequence[TermShare]) -> dict[str, EstimationTarget]:
    """Return the effects to estimate by label: all main effects, each parameter's, each pair's."""
    space = experiment.space
    able = {p.name for p, ids in zip(space.parameters, space.open_ids, strict=True) if len(ids) > 1}
    if not able:
        return {}
    targets = {ALL: EstimationTarget()} if able == set(space.names) else {}
    targets |= {
        f"the effect of {name}": EstimationTarget((name,)) for name in space.names if name in able
    }
    return targets | {
        f"the interaction of {' and '.join(pair.parameters)}": EstimationTarget(pair.parameters)
        for pair in pairs
        if set(pair.parameters) <= able
    }


def _frozen_offer(
    experiment: Experiment, target: str, targets: dict[str, EstimationTarget]
) -> MissingRunsOffer:
    key = _offer_key(experiment.opened.experiment_id)
    offers: dict[str, MissingRunsOffer] = st.session_state.setdefault(key, {})
    snapshot = offers.get(target)
    if snapshot is None:
        with st.spinner("Searching for the missing runs …"):
            try:
                # without parameters a block is only one level larger than the fewest runs
                report = missing_report(
                    experiment, targets[target], has_block=bool(targets[target].parameters)
                )
                snapshot = MissingRunsOffer(target, experiment.version, report)
            except Exception as error:
                snapshot = MissingRunsOffer(target, experiment.version, None, sentence(error))
        offers[target] = snapshot
    return snapshot


def _offer_key(experiment_id: str) -> str:
    return f"effects-missing-{experiment_id}"


def release_missing(experiment_id: str) -> None:
    """Delete the stored missing runs, so that the next drawing computes them again."""
    st.session_state.pop(_offer_key(experiment_id), None)


def missing_text(report: MissingReport, target: str) -> str:
    """Describe the runs still needed to estimate an effect (``target``) in sentences."""
    result, parts = report.missing, []
    if result.n_waiting:
        wait = "waiting run counts as" if result.n_waiting == 1 else (
            "waiting runs count as")  # fmt: skip
        parts.append(f"{result.n_waiting} {wait} completed.")
    if not result.lacking:
        parts.append(f"Nothing is missing: the runs determine {target}.")
    elif report.runs:
        are = "is" if len(report.runs) == 1 else "are"
        sure = "; fewer are not enough" if result.is_smallest else ", found by greedy search"
        parts.append(f"{labels.runs(len(report.runs))} {are} missing to estimate {target}{sure}.")
    if result.left:
        why = (
            "closed levels, exclusions or failed runs leave no suitable configuration"
            if result.looked_at_all
            else "no configuration near the runs is suitable, and the space is too large to search"
        )
        parts.append(f"{result.left} of {result.lacking} comparisons cannot be estimated: {why}.")
    return " ".join(parts)


def _which(report: MissingReport, experiment_id: str) -> tuple[dict[str, Level], ...]:
    """Draw the choice between the fewest runs and a whole block, where both exist."""
    ways: dict[str, tuple[dict[str, Level], ...]] = {}
    if report.runs:
        ways[f"Fewest runs ({len(report.runs)})"] = report.runs
    same = all(values in report.runs for values in report.block_runs)
    if not same:
        n = len(report.block_runs)
        ways[f"Full factorial block around the runs ({n})"] = report.block_runs
    if not ways:
        return ()
    if len(ways) == 1 and report.runs:
        return report.runs
    way = st.radio(
        "Which runs", list(ways), horizontal=True, key=f"effects-ways-{experiment_id}-{len(ways)}",
        index=0 if report.runs else None,
        help="A block has all combinations of some levels, so its effects do not mix with others.",
    )  # fmt: skip
    return ways[way] if way else ()


def _offer(
    view_model: ExperimentView,
    experiment: Experiment,
    snapshot: MissingRunsOffer,
    runs: tuple[dict[str, Level], ...],
) -> Intent | None:
    room = experiment.remaining_runs
    st.dataframe(
        missing_table(experiment, runs), hide_index=True, width="stretch", alt="missing runs",
        height=min(38 + 35 * len(runs), 400),
    )  # fmt: skip
    if experiment.finished is not None:
        st.caption("The experiment is finished, so nothing can be added.")
        return None
    n = min(len(runs), MOST_ADDED, len(runs) if room is None else room)
    if n == 0:
        st.info("The budget is used up. Raise it on the page *Steering* to add these runs.")
        return None
    label = "Add this run" if len(runs) == 1 else f"Add these {n} runs"
    if n < len(runs):
        label = f"Add the first {n} of {len(runs)} runs"
        why = (
            "the budget allows no more" if n == room else f"at most {MOST_ADDED} are added at once"
        )
        st.caption(f"Only {n}: {why}.")
    if not st.button(label, type="primary", key=f"effects-add-{snapshot.version}"):
        return None
    return Intent(PLACE, lambda: add(view_model, snapshot.target, runs[:n]), "Adding runs")


def add(view_model: ExperimentView, target: str, runs: tuple[dict[str, Level], ...]) -> str:
    """Submit all given runs to estimate an effect, or none if one is invalid; return a message.

    Raises:
        ExperimentError: a run was submitted in the meantime, or cannot be submitted any more.
        StrategyError: a level was closed, or a combination excluded, in the meantime.
    """
    session = view_model.session
    experiment = session.experiment
    release_missing(experiment.opened.experiment_id)
    run_ids = {
        run.configuration: run.id for run in experiment.runs if run.state is not RunState.CANCELLED
    }
    for values in runs:
        configuration = experiment.space.from_values(values)
        experiment.space.check(configuration)
        if configuration in run_ids:
            raise ExperimentError(
                f"run {run_ids[configuration]} has one of these configurations since they were "
                "shown; nothing was added, check the missing runs again"
            )
    room = experiment.remaining_runs
    if room is not None and room < len(runs):
        raise ExperimentError(
            f"the budget leaves {labels.runs(room)} since these were shown; nothing was added"
        )
    for values in runs:
        session.include(values, f"to estimate {target}")
    return f"{labels.runs(len(runs)).capitalize()} {'was' if len(runs) == 1 else 'were'} added."


def missing_table(experiment: Experiment, runs: tuple[dict[str, Level], ...]) -> pd.DataFrame:
    """Return the table of the missing runs with their levels."""
    return pd.DataFrame(
        {
            parameter.name: level_words(values.get(parameter.name), parameter.unit)
            for parameter in experiment.space.parameters
        }
        for values in runs
    )
