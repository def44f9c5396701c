"""The *Suggestions* page: the open warning, the batch with the user's own runs, and new requests.

A row is identified by batch and position. If another window has replaced the batch, every action on
it is refused. Edits stay with the batch over page changes and a restart of the server.

Requests for suggestions: the initial design, the next batch, or replacements for the list.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pandas as pd
import streamlit as st

from assistant.analysis.recommendation import KEPT_RUNS, recommend
from assistant.analysis.remaining_runs import draw_futures
from assistant.analysis.response_map import expected_durations, expected_measure, interval_name
from assistant.core.errors import AssistantError, ExperimentError
from assistant.core.events import Answer, BatchSuggested, MissWarning
from assistant.core.experiment import Experiment
from assistant.core.forecast import percent
from assistant.core.run import RunState
from assistant.core.submission import submit_runs
from assistant.presentation.tables.queue import (
    expected_text,
    explanation,
    kind_text,
    list_text,
)
from assistant.presentation.text.number_format import duration, level, setting, spoken
from assistant.ui import labels
from assistant.ui.intents import FormFieldError, Intent, answer_at, sentence
from assistant.ui.pages import suggestions_batch
from assistant.ui.pages.suggestions_batch import (
    BatchDraft,
    ManualRun,
    SubmissionPreview,
    configuration_of,
    draft_of,
    rows_of,
    submission_preview,
)
from assistant.ui.state import ExperimentView
from strategies import Configuration, Level, StrategyError, strategy_entry
from strategies.space.exclusion import equality

EXHAUSTED = "Nothing is left to suggest: every allowed configuration has been suggested."
REASONS = ("nothing", "too risky", "known bad", "too slow")
DESIGN = "latin_hypercube"
YOUNG = 2  # Results below which the first runs are chosen without the model
_FIRST = {"random": "at random", DESIGN: "spread evenly (Latin hypercube)"}


def request_section(
    view_model: ExperimentView, experiment: Experiment, batch: BatchSuggested | None
) -> Intent | None:
    """Draw the fields to request a batch of suggestions and return the request, or None."""
    if experiment.finished is not None:
        text = f"This experiment is finished: {labels.escape_markdown(experiment.finished.reason)}."
        st.info(f"{text} To add runs, reopen it in *Steering*.")
        return None
    room = experiment.remaining_runs
    if room == 0:
        st.info(
            "The budget is used up. Increase it in *Steering*, or read the *Report*.",
            icon=":material/block:",
        )
        return None
    if experiment.open_batch is None:
        return _next(view_model, experiment, batch)
    with st.expander("Ask for other suggestions", icon=":material/shuffle:"):
        reason = st.segmented_control(
            "What is wrong with these?",
            REASONS,
            default=REASONS[0],
            required=True,
            key=f"reason-{view_model.session.id}",
            persist_state="session",
        )
        draft = suggestions_batch.current_draft(experiment, batch)
        if reason == "too risky":
            _risky(experiment, batch, draft)
        if reason == "too slow":
            _slow(view_model, experiment, batch, draft)
        bad = _bad(view_model, experiment, batch, draft) if reason == "known bad" else None
        return bad or _next(view_model, experiment, batch)


def replacement_intent(
    view_model: ExperimentView, experiment: Experiment, batch: BatchSuggested | None, n: int
) -> Intent:
    """Return the request for ``n`` new suggestions that leaves the user's own runs in place."""
    return _request(view_model, experiment, batch, lambda: view_model.session.suggest(n))


def _next(
    view_model: ExperimentView, experiment: Experiment, batch: BatchSuggested | None
) -> Intent | None:
    is_open = experiment.open_batch is not None
    n_results = len(experiment.observations)
    young = n_results < YOUNG
    first = young and not experiment.batches
    how: str | None = None
    if young and not is_open:
        how = _initial_design(view_model, experiment, n_results)
    room = experiment.remaining_runs
    with st.container(horizontal=True, vertical_alignment="bottom"):
        n = st.number_input(
            "How many", 1, room, min(5, room or 5), key=f"n-{view_model.session.id}", width=140
        )
        label = "Suggest others" if is_open else "Suggest the first runs" if young else "Suggest"
        is_pressed = st.button(label, type="secondary" if is_open else "primary", key="suggest")
        confirm = _confirm(view_model, experiment, batch)
    if not is_pressed:
        return confirm
    if how is None and not first:
        return replacement_intent(view_model, experiment, batch, n)
    return _request(view_model, experiment, batch, lambda: _initial(view_model, experiment, n, how))


def _initial_design(
    view_model: ExperimentView, experiment: Experiment, n_results: int
) -> str | None:
    results = "1 result" if n_results == 1 else f"{n_results} results"
    st.info(
        f"The model has too little data: it needs {YOUNG} results and has {results}. "
        "The first runs are chosen without it.",
        icon=":material/hourglass_top:",
    )
    name = experiment.steering.strategy
    initial_strategy = name if strategy_entry(name).starts else "random"
    ways = {
        initial_strategy: _FIRST.get(initial_strategy, f"initial design of {initial_strategy}"),
        **_FIRST,
    }
    selected = st.segmented_control(
        "Choose the first runs",
        list(ways),
        default=initial_strategy,
        required=True,
        format_func=ways.__getitem__,
        key=f"first-{view_model.session.id}",
        persist_state="session",
    )
    return None if selected in (None, initial_strategy) else str(selected)


def _initial(
    view_model: ExperimentView, experiment: Experiment, n: int, how: str | None
) -> BatchSuggested:
    """Propose the initial design; its own strategy is used only for that."""
    session, steering = view_model.session, experiment.steering
    if how is None:
        return session.initial_evaluation(n)
    session.change_strategy(how, {}, "keep")
    try:
        return session.initial_evaluation(n)
    finally:
        session.change_strategy(steering.strategy, steering.options, "keep")


def _request(
    view_model: ExperimentView,
    experiment: Experiment,
    batch: BatchSuggested | None,
    ask: Callable[[], BatchSuggested],
) -> Intent:
    def do() -> str:
        own_draft = suggestions_batch.current_draft(experiment, batch).own_only
        fresh = ask()
        suggestions_batch.release_batch(view_model.session.id)
        if not fresh.suggestions:
            return EXHAUSTED
        suggestions_batch.put(experiment, fresh, own_draft)
        if batch is None:
            suggestions_batch.put(experiment, None, BatchDraft())
        return ""

    return Intent("suggest", do, "Choosing suggestions")


def _confirm(
    view_model: ExperimentView, experiment: Experiment, batch: BatchSuggested | None
) -> Intent | None:
    if experiment.opened.deterministic:
        return None
    recommended = recommend(experiment)
    if recommended is None or recommended.confirmed:
        return None
    label = f"Suggest runs to confirm run {recommended.run.id}"
    if not st.button(label, key="confirm", help=recommended.sentence):
        return None
    room = experiment.remaining_runs
    n = KEPT_RUNS if room is None else min(KEPT_RUNS, room)
    return _request(view_model, experiment, batch, lambda: view_model.session.confirm(n))


def _taken_runs(
    experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft
) -> list[tuple[int, Configuration]]:
    try:
        preview = submission_preview(experiment, batch, draft)
    except StrategyError:
        return []
    return [
        (r, submission.configuration)
        for r, submission in zip(preview.rows, preview.wanted, strict=True)
    ]


def _leave_out(
    experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft, row: int, key: str
) -> None:
    if st.button(f"Leave out no. {row + 1}", key=key):
        n = 0 if batch is None else len(batch.suggestions)
        suggestions_batch.put(experiment, batch, draft.without(row, n))
        st.rerun()


def _risky(experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft) -> None:
    objective = experiment.opened.objective
    sign = 1.0 if objective.goal == "minimise" else -1.0
    bounds = [
        (max(sign * expected.low, sign * expected.high), row)
        for row, configuration in _taken_runs(experiment, batch, draft)
        if (expected := expected_measure(experiment, configuration)) is not None
    ]
    if not bounds:
        st.caption("The prediction intervals are not known yet: there are too few results.")
        return
    worst, row = max(bounds)
    value = spoken(sign * worst, objective.unit)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            labels.escape_markdown(f"The riskiest is no. {row + 1}: its result may be {value}.")
        )
        _leave_out(experiment, batch, draft, row, "leave-risky")
    st.caption(
        "A higher share of runs inside the regions of good results is less risky: try it on "
        "*What if*."
    )


def _slow(
    view_model: ExperimentView,
    experiment: Experiment,
    batch: BatchSuggested | None,
    draft: BatchDraft,
) -> None:
    rows = _taken_runs(experiment, batch, draft)
    durations = (
        expected_durations(experiment, [configuration for _, configuration in rows])
        if rows
        else None
    )
    if durations is None:
        usual = draw_futures(experiment, view_model.session.now_s()).duration_s
        if usual is None or usual.median is None or usual.low is None or usual.high is None:
            st.caption("The duration of runs is not known yet: no run has recorded one.")
        else:
            st.caption(
                f"A run takes about {duration(usual.median)} (8 of 10: {duration(usual.low)} to "
                f"{duration(usual.high)}); the effect of the levels is not known yet."
            )
        return
    slowest = max(range(len(rows)), key=lambda i: durations[i].value)
    row, expected = rows[slowest][0], durations[slowest]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"The slowest is no. {row + 1}: about {duration(expected.value)} "
            f"({duration(expected.low)} to {duration(expected.high)}, "
            f"{interval_name(experiment, 'chosen')})."
        )
        _leave_out(experiment, batch, draft, row, "leave-slow")
    st.caption("To limit the duration of every run, set a run limit on *Steering*, *Budget*.")


def _bad(
    view_model: ExperimentView,
    experiment: Experiment,
    batch: BatchSuggested | None,
    draft: BatchDraft,
) -> Intent | None:
    n = 0 if batch is None else len(batch.suggestions)
    rows = _taken_runs(experiment, batch, draft.ticked(n, True))
    if not rows:
        return None
    key = f"bad-{view_model.session.id}"
    by_row = dict(rows)
    space = experiment.space
    with st.container(horizontal=True, vertical_alignment="bottom"):
        row = st.selectbox(
            "Which one", list(by_row), format_func=lambda i: f"no. {i + 1}", key=f"{key}-row",
            width=140,
        )  # fmt: skip
        values = space.values(by_row[row])
        pairs: list[tuple[str, Level] | None] = [None, *values.items()]
        pair = st.selectbox(
            "What is bad about it",
            pairs,
            format_func=lambda fault: (
                "this combination of levels" if fault is None else f"{fault[0]} = {level(fault[1])}"
            ),
            key=f"{key}-what-{row}",
            width=320,
        )
        pressed = st.button("Never suggest it again, and suggest others", key="known-bad")
    if not pressed:
        return None
    n_suggestions = max(n, 1)

    def forbid_and_ask() -> BatchSuggested:
        if pair is None:
            condition = equality(values)
            view_model.session.exclude(condition)
        else:
            view_model.session.close_level(*pair)
        return view_model.session.suggest(n_suggestions)

    return _request(view_model, experiment, batch, forbid_and_ask)


@st.dialog("Why it was suggested", width="large")
def explanation_dialog(experiment: Experiment, batch: BatchSuggested) -> None:
    """Draw the reason for a selected suggestion of a batch."""
    at = st.selectbox(
        "Suggestion",
        range(len(batch.suggestions)),
        format_func=lambda i: (
            f"no. {i + 1}: "
            + labels.settings_of(experiment.space, batch.suggestions[i].configuration)
        ),
        key=f"explain-{experiment.opened.experiment_id}-{batch.number}",
    )
    content = explanation(experiment, batch.suggestions[at])
    for line in content.sentences:
        st.markdown(labels.escape_markdown(line))
    unit = experiment.opened.objective.unit
    value = labels.measure_title(str(experiment.opened.objective.wrapper), unit)
    rows = pd.DataFrame([asdict(row) for row in content.levels])
    rows.columns = pd.Index(
        ["parameter", "level", "best run", "typical with this level", "runs with this level"]
    )
    st.dataframe(rows, hide_index=True, width="stretch", alt=f"levels of suggestion {at + 1}")
    st.caption(
        f"Typical: the {labels.escape_markdown(value)} expected of a configuration with this "
        "level, averaged over all others, with a 95% interval."
    )


def _accepted(experiment: Experiment) -> str:
    if experiment.auto_steering is not None:
        return "Accepted. Auto-steering goes on with it."
    return "Accepted. The next suggestions follow it."


_Answering = Callable[[Answer, float | None, int | None, str], Intent]


def warning_section(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the open warning, if any, and return the user's answer as a request, or None."""
    warning = experiment.open_warning
    answer_at("advice")
    if warning is None or experiment.finished is not None:
        return None
    session = view_model.session

    def answer(choice: Answer, share: float | None, which: int | None, message: str) -> Intent:
        def do() -> str:
            now = session.look()
            if now.open_warning is None or now.open_warning.number != warning.number:
                return "The warning was already answered elsewhere."
            with session.only_on(now.version):
                session.answer_warning(choice, share, which)
            suggestions_batch.release_batch(session.id)
            return message

        return Intent("advice", do)

    with st.container(border=True):
        lead = f"**{warning.heading}.** {warning.text}"
        st.warning(lead, icon=":material/warning:")
        if warning.basis == "paper":
            intent = _share(experiment, warning, session.id, answer)
        else:
            intent = _alternatives(experiment, warning, answer)
            if warning.basis in ("forecast", "end"):
                with st.expander("Another share inside regions"):
                    intent = _share(experiment, warning, session.id, answer) or intent
        if warning.suggestions:
            with st.expander("Suggestions if you accept"):
                rows = [
                    {
                        **labels.cells(experiment.space, suggestion.configuration),
                        "why": suggestion.reason,
                    }
                    for suggestion in warning.suggestions
                ]
                st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    return intent


def _share(
    experiment: Experiment, warning: MissWarning, session_id: str, answer: _Answering
) -> Intent | None:
    proposed = warning.exploitation if warning.basis == "paper" else None
    at = experiment.warning_policy.advised if proposed is None else proposed
    share = st.slider(
        "Share of the remaining runs inside the regions",
        0, 100, round(at * 100), 5, format="%d %%",
        key=f"share-{session_id}-{warning.number}",
        help="100 %: every further run is inside a region of good results.",
    ) / 100  # fmt: skip
    with st.container(horizontal=True):
        accept = proposed is not None and st.button(
            f"Accept: {100 * proposed:.0f} %", type="primary", key=f"accept-{warning.number}"
        )
        change = st.button(
            f"Change to {100 * share:.0f} %",
            key=f"change-{warning.number}",
            disabled=share == (experiment.steering.exploitation if proposed is None else proposed),
        )
        ignore = proposed is not None and st.button("Ignore", key=f"ignore-{warning.number}")
    if accept:
        return answer("accepted", None, None, _accepted(experiment))
    if change:
        message = f"From now on {100 * share:.0f} % of the runs go inside the regions."
        return answer("changed", share, None, message)
    if ignore:
        return _ignore_button(answer)
    return None


def _alternatives(
    experiment: Experiment, warning: MissWarning, answer: _Answering
) -> Intent | None:
    intent = None
    for position, alternative in enumerate(warning.alternatives):
        with st.container(horizontal=True, vertical_alignment="center"):
            chance = "" if alternative.chance is None else f", chance {percent(alternative.chance)}"
            pressed = st.button(
                f"Accept {position + 1}",
                type="primary" if position == 0 else "secondary",
                key=f"accept-{warning.number}-{position}",
                help=alternative.text,
            )
            text = f"{position + 1}\\. {alternative.text[0].upper()}{alternative.text[1:]}{chance}"
            st.markdown(text, width="content")
        if pressed:
            intent = answer("accepted", None, position, _accepted(experiment))
    if warning.alternatives:
        st.caption("Chances of similar studies. The effect of a change was not tested.")
    if st.button("Ignore", key=f"ignore-{warning.number}"):
        intent = _ignore_button(answer)
    return intent


def _ignore_button(answer: _Answering) -> Intent:
    return answer("ignored", None, None, "Ignored. Nothing was changed.")


EVERY_S = 3.0
NUMBER, TAKE, EXPECTED, KIND, WHY = "no.", "take", "expected", "kind", "why"


def page(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the page of suggestions and return the action of the pressed button, or None."""
    # One box for each part, so that changes in one part do not move the others.
    with st.container():
        intent = warning_section(view_model, experiment)
    with st.container():
        st.subheader("Suggestions")
        answer_at("suggest", "submit")
        if experiment.auto_steering is not None:
            st.info(
                "Auto-steering is on: it submits every suggestion. Turn it off on *Steering* to "
                "decide yourself. Runs that you submit here run as well.",
                icon=":material/sync:",
            )
        batch = suggestions_batch.batch_on_screen(experiment)
        intent = _list(view_model, experiment, batch) or intent
    with st.container():
        intent = request_section(view_model, experiment, batch) or intent
    with st.container():
        return _manual_run_form(view_model, experiment, batch) or intent


def _list(
    view_model: ExperimentView, experiment: Experiment, batch: BatchSuggested | None
) -> Intent | None:
    base = suggestions_batch.base(experiment, batch)
    if batch is None and not base.own:
        return None
    is_stale = batch is not None and not _is_open(experiment, batch)
    intent = None
    if batch is not None and is_stale:
        _stale_notice(view_model, experiment, batch)
    elif batch is not None:
        _news(view_model, batch)
        if st.session_state.pop(_renew_batch(experiment), None) == batch.number:
            intent = replacement_intent(view_model, experiment, batch, len(batch.suggestions))
    title = "Your own runs" if batch is None else labels.batch_title(batch)
    st.markdown(f"**{title}.** Untick the runs that you do not want, change levels, then submit.")
    draft = _editor(experiment, batch, base)
    suggestions_batch.keep(experiment, batch, draft)
    is_over = is_stale or experiment.finished is not None
    refused, preview = _preview(experiment, batch, draft, is_over=is_over)
    if batch is not None:
        with st.expander("Reasons"):
            reasons = [
                labels.escape_markdown(suggestion.reason) for suggestion in batch.suggestions
            ]
            st.markdown("\n".join(f"{i}. {reason}" for i, reason in enumerate(reasons, 1)))
    with st.container(horizontal=True):
        n = 0 if preview is None else len(preview.wanted)
        submit = st.button(
            f"Submit {labels.runs(n)}",
            type="primary",
            key=f"submit-{0 if batch is None else batch.number}",
            disabled=n == 0 or bool(refused) or experiment.finished is not None,
            shortcut="Ctrl+Enter",
        )
        for label, taken in (("Take all", True), ("Take none", False)):
            if st.button(label, key=f"{label}-{0 if batch is None else batch.number}"):
                rows = 0 if batch is None else len(batch.suggestions)
                suggestions_batch.put(experiment, batch, draft.ticked(rows, taken))
                st.rerun()
        if batch is not None and st.button("Explain", icon=":material/help:", key="explain"):
            explanation_dialog(experiment, batch)
        if draft.tidied() != draft and st.button("Remove your unticked runs", key="tidy"):
            suggestions_batch.put(experiment, batch, draft.tidied())
            st.rerun()
    if submit and preview is not None:
        intent = Intent("submit", lambda: _submit(view_model, batch, draft, preview), "Submitting")
    return intent


def _stale_notice(
    view_model: ExperimentView, experiment: Experiment, batch: BatchSuggested
) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.warning(
            f"Batch {batch.number} was submitted or replaced since it was shown here. "
            "You cannot use it any more.",
            icon=":material/history:",
        )
        if st.button("Show the open batch", key="renew"):
            own_draft = suggestions_batch.current_draft(experiment, batch).own_only
            suggestions_batch.release_batch(view_model.session.id)
            if not own_draft.is_empty:
                suggestions_batch.put(experiment, experiment.open_batch, own_draft)
            st.rerun()


@st.fragment(run_every=EVERY_S)
def _news(view_model: ExperimentView, batch: BatchSuggested) -> None:
    """Draw that results arrived after the batch was made, with a choice to keep or renew it."""
    try:
        view_model.session.catch_up()
    except AssistantError as error:
        st.warning(f"New results cannot be read: {labels.escape_markdown(str(error))}.")
        return
    experiment = view_model.session.experiment
    if not _is_open(experiment, batch):
        st.rerun()  # another window acted: redraw the whole page
    over = experiment.runs_in(RunState.COMPLETED, RunState.FAILED)
    n = sum(run.ended_s is not None and run.ended_s > batch.at_s for run in over)
    key = _keep_batch(experiment, batch)
    if n <= st.session_state.get(key, 0) or experiment.finished is not None:
        return
    came, them = (f"{n:,} results came", "them") if n > 1 else ("1 result came", "it")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(
            f"{came} in since this batch. Keep the batch, or renew it with {them}.",
            icon=":material/update:",
        )
        if st.button("Keep", key="news-keep"):
            st.session_state[key] = n
            st.rerun()
        if st.button("Renew", key="news-renew"):
            st.session_state[_renew_batch(experiment)] = batch.number
            st.rerun()


def _is_open(experiment: Experiment, batch: BatchSuggested) -> bool:
    open_batch = experiment.open_batch
    return open_batch is not None and open_batch.number == batch.number


def _keep_batch(experiment: Experiment, batch: BatchSuggested) -> str:
    return f"kept-{experiment.opened.experiment_id}-{batch.number}"


def _renew_batch(experiment: Experiment) -> str:
    return f"renew-{experiment.opened.experiment_id}"


def _editor(experiment: Experiment, batch: BatchSuggested | None, base: BatchDraft) -> BatchDraft:
    space = experiment.space
    frame = _frame(experiment, batch, base)
    columns: dict[str, Any] = {
        NUMBER: st.column_config.NumberColumn("no.", disabled=True, width=40),
        TAKE: st.column_config.CheckboxColumn(
            "take", width=60, help="Click on the box, or go to it and press the space key."
        ),
        EXPECTED: st.column_config.TextColumn(
            f"expected {experiment.opened.objective.wrapper}",
            disabled=True,
            help="Prediction by the model of all results so far, with the "
            f"{interval_name(experiment, 'chosen')} of one run. Predictions of rows that you "
            "change are below the table.",
        ),
        KIND: st.column_config.TextColumn("kind", disabled=True, help="Where the strategy looked."),
        WHY: st.column_config.TextColumn("why", disabled=True, width="large"),
    }
    for parameter in space.parameters:
        options = [level(value) for value in labels.open_levels(space, parameter)]
        present = [value for value in frame[parameter.name] if value not in options]
        columns[parameter.name] = st.column_config.SelectboxColumn(
            labels.column(parameter),
            options=[*options, *dict.fromkeys(present)],
            required=True,
            help=parameter.description or None,
        )
    table = st.data_editor(
        frame,
        key=suggestions_batch.table_key(experiment, batch, base),
        column_config=columns,
        hide_index=True,
        width="stretch",
        alt="your list of runs, with the reason of each",
    )
    rows = [
        (tuple(str(table.loc[i, name]) for name in space.names), bool(table.loc[i, TAKE]))
        for i in range(len(frame))
    ]
    return draft_of(space, batch, rows, base.own)


def _frame(experiment: Experiment, batch: BatchSuggested | None, base: BatchDraft) -> pd.DataFrame:
    space = experiment.space
    suggestions = () if batch is None else batch.suggestions
    lines: list[dict[str, object]] = []
    for i, row in enumerate(rows_of(space, batch, base)):
        suggested = suggestions[i] if i < len(suggestions) else None
        values = {
            parameter.name: parameter.parse(text)
            for parameter, text in zip(space.parameters, row.levels, strict=True)
        }
        lines.append(
            {
                NUMBER: i + 1,
                TAKE: row.taken,
                EXPECTED: expected_text(experiment, space.from_values(values)),
                KIND: "yours" if suggested is None else kind_text(suggested),
                **dict(zip(space.names, row.levels, strict=True)),
                WHY: row.reason or "your own",
            }
        )
    return pd.DataFrame(lines)


def _preview(
    experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft, *, is_over: bool
) -> tuple[str, SubmissionPreview | None]:
    """Draw the predicted value of the list, and its refusals unless ``is_over``."""
    try:
        preview = submission_preview(experiment, batch, draft)
        numbered = [
            (row + 1, submitted.configuration)
            for row, submitted in zip(preview.rows, preview.wanted, strict=True)
        ]
        st.markdown(labels.escape_markdown(list_text(experiment, numbered)))
        for number, configuration in numbered:
            if number - 1 in draft.edits:
                expected = expected_text(experiment, configuration)
                st.caption(f"No. {number} with your changes: expected {expected}.")
        if not is_over:
            submit_runs(experiment, preview.wanted, 0.0)
    except (AssistantError, StrategyError) as error:
        refused = sentence(error)
        st.error(labels.escape_markdown(refused), icon=":material/block:")
        return refused, None
    return "", preview


def _submit(
    view_model: ExperimentView,
    batch: BatchSuggested | None,
    draft: BatchDraft,
    preview: SubmissionPreview,
) -> str:
    session = view_model.session
    session.catch_up()
    experiment = session.experiment
    if batch is not None and not _is_open(experiment, batch):
        raise ExperimentError(
            f"batch {batch.number} was submitted or replaced since it was shown here; "
            "nothing was submitted"
        )
    submit_runs(experiment, preview.wanted, session.now_s())
    n = 0
    if batch is not None and preview.keep:
        with session.only_on(experiment.version):
            n = len(session.submit(batch, keep=preview.keep, edits=preview.edits))
    left = [run for run in draft.own if run.taken]
    for values, reason in preview.own:
        try:
            session.include(values, reason)
        except (AssistantError, StrategyError) as error:
            _keep_unsubmitted(view_model, batch, draft, left)
            done = f"{labels.runs(n)} submitted, and the rest is" if n else "your list is"
            raise ExperimentError(f"{str(error).removesuffix('.')}; {done} still here") from error
        n += 1
        left.pop(0)
    _keep_unsubmitted(view_model, batch, draft, left)
    return f"{labels.runs(n)} submitted."


def _keep_unsubmitted(
    view_model: ExperimentView,
    batch: BatchSuggested | None,
    draft: BatchDraft,
    left: list[ManualRun],
) -> None:
    experiment = view_model.session.experiment
    rest = (*left, *(run for run in draft.own if not run.taken))
    if batch is not None and _is_open(experiment, batch):
        suggestions_batch.put(experiment, batch, replace(draft, own=rest))
        return
    suggestions_batch.put(experiment, batch, BatchDraft())
    suggestions_batch.release_batch(experiment.opened.experiment_id)
    suggestions_batch.put(experiment, experiment.open_batch, BatchDraft(own=rest))


def _manual_run_form(
    view_model: ExperimentView, experiment: Experiment, batch: BatchSuggested | None
) -> Intent | None:
    if experiment.finished is not None:
        return None
    space, key = experiment.space, f"own-{view_model.session.id}"
    best, baseline = experiment.best, experiment.opened.baseline
    start = best.configuration if best is not None else baseline
    present = space.values(start) if start is not None else {}
    st.subheader("Add your own run")
    st.caption(
        "The run joins the list above, and waits there until you submit it."
        + (" At first it has the levels of the best run." if best is not None else "")
    )
    level_texts: list[str] = []
    with st.form(key, border=False):
        columns = st.columns(min(3, len(space.parameters)))
        for i, parameter in enumerate(space.parameters):
            levels = labels.open_levels(space, parameter)
            value = present.get(parameter.name)
            picked_level = columns[i % len(columns)].selectbox(
                parameter.name,
                levels,
                index=levels.index(value) if value in levels else 0,
                format_func=lambda candidate, unit=parameter.unit: setting(candidate, unit),
                help=parameter.description or None,
                key=f"{key}-{parameter.name}",
                persist_state="session",
            )
            level_texts.append(level(picked_level))
        reason = st.text_input("Why (kept with the run)", key=f"{key}-why", persist_state="session")
        is_pressed = st.form_submit_button("Add to the list", key=f"{key}-add")
    answer_at("own")
    if not is_pressed:
        return None

    def do() -> str:
        manual_run = ManualRun(tuple(level_texts), reason.strip())
        draft = suggestions_batch.current_draft(experiment, batch)
        _refuse_twice(view_model.session.experiment, batch, draft, manual_run)
        suggestions_batch.put(experiment, batch, draft.adding(manual_run))
        n = 0 if batch is None else len(batch.suggestions)
        return f"Added to the list as no. {n + len(draft.own) + 1}."

    return Intent("own", do)


def _refuse_twice(
    experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft, manual_run: ManualRun
) -> None:
    configuration = configuration_of(experiment.space, manual_run)
    alone = submission_preview(experiment, None, BatchDraft(own=(manual_run,)))
    submit_runs(experiment, alone.wanted, 0.0)
    every = draft.ticked(0 if batch is None else len(batch.suggestions), True)
    listed = submission_preview(experiment, batch, every)
    for row, listed_run in zip(listed.rows, listed.wanted, strict=True):
        if listed_run.configuration == configuration:
            raise FormFieldError("own", f"This run is already on the list as no. {row + 1}.")
