"""The user's draft of a batch: suggestions left out, changed levels, and own runs.

It holds texts as in the table, so it can be kept, merged into the next drawing, and written into
the address of the page, from which it survives a restart of the server.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import streamlit as st

from assistant.core.events import BatchSuggested
from assistant.core.experiment import Experiment
from assistant.core.submission import RunRequest, requests_from_batch
from assistant.presentation.text.number_format import level
from strategies import Configuration, Level, ParameterSpace, StrategyError

MOST_TEXT = 3_000  # Most characters of a draft in an address; a longer draft is not written there

_MOST_READ = 100_000


@dataclass(frozen=True, slots=True)
class ManualRun:
    """Configuration entered by the user: levels as text, in the order of the parameters."""

    levels: tuple[str, ...]
    reason: str = ""
    taken: bool = True


@dataclass(frozen=True, slots=True)
class BatchDraft:
    """Unsubmitted changes to a batch: suggestions left out, edited levels, user's own runs.

    ``left`` has the positions of left-out suggestions, ``edits`` changed levels as text.
    """

    left: frozenset[int] = frozenset()
    edits: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    own: tuple[ManualRun, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the draft changes nothing in the batch."""
        return not self.left and not self.edits and not self.own

    def ticked(self, n: int, taken: bool) -> BatchDraft:
        """Return the draft with all rows selected if ``taken``, else none (``n`` suggestions)."""
        left = frozenset() if taken else frozenset(range(n))
        return replace(self, left=left, own=tuple(replace(one, taken=taken) for one in self.own))

    def without(self, row: int, n: int) -> BatchDraft:
        """Return the draft with one row left out, for a batch of ``n`` suggestions."""
        if row < n:
            return replace(self, left=self.left | {row})
        own = [replace(o, taken=o.taken and i != row - n) for i, o in enumerate(self.own)]
        return replace(self, own=tuple(own))

    def adding(self, one: ManualRun) -> BatchDraft:
        """Return the draft with one more run entered by the user."""
        return replace(self, own=(*self.own, one))

    def tidied(self) -> BatchDraft:
        """Return the draft without those own runs of the user that are not selected."""
        return replace(self, own=tuple(one for one in self.own if one.taken))

    @property
    def own_only(self) -> BatchDraft:
        """Draft with only the user's own runs, to carry them over to another batch."""
        return BatchDraft(own=self.own)

    def text(self, of: str) -> str:
        """Return the draft encoded for a URL, with ``of`` identifying its batch."""
        told = {
            "of": of,
            "left": sorted(self.left),
            "edits": {str(row): dict(cells) for row, cells in sorted(self.edits.items())},
            "own": [[list(one.levels), one.reason, one.taken] for one in self.own],
        }
        packed = zlib.compress(json.dumps(told, separators=(",", ":")).encode(), 9)
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def read(cls, text: str, of: str, n: int, space: ParameterSpace) -> BatchDraft:
        """Decode a draft from a URL, or return an empty one if invalid or of another batch.

        Anybody can write an address, so the draft is checked again at submission.
        """
        try:
            packed = base64.urlsafe_b64decode(text[:MOST_TEXT] + "=" * (-len(text) % 4))
            told = json.loads(zlib.decompressobj().decompress(packed, _MOST_READ))
            if told["of"] != of:
                return cls()
            draft = cls(
                frozenset(int(row) for row in told["left"]),
                {
                    int(row): {str(name): str(value) for name, value in cells.items()}
                    for row, cells in told["edits"].items()
                },
                tuple(
                    ManualRun(tuple(map(str, levels)), str(reason), taken is True)
                    for levels, reason, taken in told["own"]
                ),
            )
            for cells in draft.edits.values():
                for name, level_text in cells.items():
                    space.parameter(name).parse(level_text)
            for one in draft.own:
                values_of(space, one)
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error, StrategyError):
            return cls()
        rows = {*draft.left, *draft.edits}
        return draft if all(0 <= row < n for row in rows) else cls()


@dataclass(frozen=True, slots=True)
class SuggestionRow:
    """Row of the table of suggestions: levels as text in parameter order, choice and reason."""

    levels: tuple[str, ...]
    taken: bool
    reason: str


def rows_of(
    space: ParameterSpace, batch: BatchSuggested | None, draft: BatchDraft
) -> tuple[SuggestionRow, ...]:
    """Return the table rows of a batch with the changes of a draft applied."""
    rows = []
    for position, suggestion in enumerate(() if batch is None else batch.suggestions):
        values = space.all_values(suggestion.configuration)
        cells = draft.edits.get(position, {})
        levels = tuple(cells.get(name, level(values[name])) for name in space.names)
        rows.append(SuggestionRow(levels, position not in draft.left, suggestion.reason))
    return (*rows, *(SuggestionRow(one.levels, one.taken, one.reason) for one in draft.own))


def draft_of(
    space: ParameterSpace,
    batch: BatchSuggested | None,
    rows: Sequence[tuple[tuple[str, ...], bool]],
    own: Sequence[ManualRun],
) -> BatchDraft:
    """Return the draft that describes edited table rows; ``own`` has the user's reasons."""
    suggestions = () if batch is None else batch.suggestions
    n = len(suggestions)
    left = frozenset(i for i, (_, taken) in enumerate(rows[:n]) if not taken)
    edits: dict[int, dict[str, str]] = {}
    for position, suggestion in enumerate(suggestions):
        values = space.all_values(suggestion.configuration)
        for name, cell in zip(space.names, rows[position][0], strict=True):
            if cell != level(values[name]):
                edits.setdefault(position, {})[name] = cell
    mine = (
        ManualRun(levels, one.reason, taken)
        for one, (levels, taken) in zip(own, rows[n:], strict=True)
    )
    return BatchDraft(left, edits, tuple(mine))


@dataclass(frozen=True, slots=True)
class SubmissionPreview:
    """Runs that a draft would submit.

    Args:
        keep: positions of the batch that are taken; ``edits`` has their changed levels.
        own: values and reason of each own run that is taken.
        rows: row of each run in ``wanted``, from 0.
    """

    keep: tuple[int, ...]
    edits: Mapping[int, Mapping[str, Level]]
    own: tuple[tuple[Mapping[str, Level], str], ...]
    rows: tuple[int, ...]
    wanted: tuple[RunRequest, ...]


def submission_preview(
    experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft
) -> SubmissionPreview:
    """Return the runs that a draft would submit, or raise StrategyError if a level is invalid."""
    space = experiment.space
    n = 0 if batch is None else len(batch.suggestions)
    keep = tuple(i for i in range(n) if i not in draft.left)
    edits = {
        position: {name: space.parameter(name).parse(text) for name, text in cells.items()}
        for position, cells in draft.edits.items()
        if position in keep
    }
    mine = tuple((values_of(space, one), one.reason) for one in draft.own if one.taken)
    wanted = () if batch is None else requests_from_batch(experiment, batch, keep, edits)
    added = tuple(RunRequest(space.from_values(v), "analyst", reason) for v, reason in mine)
    rows = (*keep, *(n + i for i, one in enumerate(draft.own) if one.taken))
    return SubmissionPreview(keep, edits, mine, rows, (*wanted, *added))


def values_of(space: ParameterSpace, one: ManualRun) -> dict[str, Level]:
    """Return a user's own run as levels by parameter, or raise StrategyError if invalid."""
    pairs = zip(space.parameters, one.levels, strict=True)
    return {parameter.name: parameter.parse(text) for parameter, text in pairs}


def configuration_of(space: ParameterSpace, one: ManualRun) -> Configuration:
    """Return the configuration of a user's own run, or raise StrategyError if not allowed."""
    configuration = space.from_values(values_of(space, one))
    space.check(configuration)
    return configuration


_PARAMETER = "list"


def release_batch(experiment_id: str) -> None:
    """Forget the shown batch, so that the next drawing shows the open batch."""
    st.session_state.pop(_batch_key(experiment_id), None)


def batch_on_screen(experiment: Experiment) -> BatchSuggested | None:
    """Return the shown batch, which was the open batch when the page was first drawn."""
    key = _batch_key(experiment.opened.experiment_id)
    number = st.session_state.get(key)
    if number is None:
        batch = experiment.open_batch
        if batch is not None:
            st.session_state[key] = batch.number
        return batch
    return experiment.batches[number - 1] if number <= len(experiment.batches) else None


def base(experiment: Experiment, batch: BatchSuggested | None) -> BatchDraft:
    """Return the draft from which the table of suggestions is drawn."""
    of = _draft_key(experiment, batch)
    draft: BatchDraft | None = st.session_state.get(f"base-{of}")
    if draft is None:
        n = 0 if batch is None else len(batch.suggestions)
        text = st.query_params.get(_PARAMETER, "")
        draft = BatchDraft.read(text, of, n, experiment.space) if text else BatchDraft()
    elif table_key(experiment, batch, draft) not in st.session_state:
        # The page was left and its widgets are gone: what they held goes into the base.
        draft = st.session_state.get(f"draft-{of}", draft)
    st.session_state[f"base-{of}"] = draft
    _into_address("" if draft.is_empty else draft.text(of))
    return draft


def keep(experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft) -> None:
    """Store the draft that the table of suggestions currently shows."""
    st.session_state[f"draft-{_draft_key(experiment, batch)}"] = draft


def current_draft(experiment: Experiment, batch: BatchSuggested | None) -> BatchDraft:
    """Return the last stored draft of a batch, or an empty draft."""
    draft: BatchDraft = st.session_state.get(f"draft-{_draft_key(experiment, batch)}", BatchDraft())
    return draft


def put(experiment: Experiment, batch: BatchSuggested | None, draft: BatchDraft) -> None:
    """Set the draft from which the table of suggestions is drawn next time."""
    of = _draft_key(experiment, batch)
    st.session_state[f"base-{of}"] = st.session_state[f"draft-{of}"] = draft


def table_key(experiment: Experiment, batch: BatchSuggested | None, drawn_from: BatchDraft) -> str:
    """Return the widget key of the table, which depends on experiment, batch and base draft."""
    of = _draft_key(experiment, batch)
    return f"editor-{of}-{zlib.crc32(drawn_from.text(of).encode()):08x}"


def _batch_key(experiment_id: str) -> str:
    return f"held-{experiment_id}"


def _draft_key(experiment: Experiment, batch: BatchSuggested | None) -> str:
    return f"{experiment.opened.experiment_id}-{0 if batch is None else batch.number}"


def _into_address(text: str) -> None:
    if text and len(text) <= MOST_TEXT:
        if st.query_params.get(_PARAMETER) != text:
            st.query_params[_PARAMETER] = text
    elif _PARAMETER in st.query_params:
        del st.query_params[_PARAMETER]
