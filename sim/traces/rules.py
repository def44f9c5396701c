"""The rules by which a log becomes a workload: each has a name, a default and a note."""

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

from sim.errors import UnknownNameError


@dataclass(frozen=True, kw_only=True)
class ReadingRules:
    """What to do with the peculiarities of real logs. Whatever a rule does is counted in a note.

    Attributes:
        unsorted: submit times step back (theta_2023 does, 2,726 times). ``refuse`` or ``sort``.
        never_ran: run time -1 or 0, such as jobs cancelled in the queue (Curie 17,286, Atlas
            7,178). ``drop``; ``keep_zero`` keeps run times of 0 that have processors (they may
            have run for less than a second) and drops the others; ``refuse``.
        partial_executions: a row with status 2, 3 or 4 is a part of a job between checkpoints
            (SWF 2.2); the whole job has a summary line of its own with status 0, 1 or 5. ``refuse``
            refuses such rows if they ran (in the logs seen so far none did: Gaia has 127, all with
            run time -1) and leaves the others to `never_ran`; ``drop`` keeps summary lines alone,
            as the format asks of workload studies; ``keep`` makes every part a job of its own.
        requested_time: the field with the requested time. ``field_9`` is the standard's;
            ``field_6`` (average CPU time there) is where logs such as mira and theta_argonne have
            it. A log without requests in field 9 whose field 6 looks like one gets a note.
        requested_missing: the requested time is -1 or 0 (all of NASA). ``runtime`` puts the run
            time in its place, which makes the scheduler clairvoyant and is flagged; ``drop``;
            ``refuse``.
        procs: which of the two processor counts is simulated when both are known.
            ``requested_else_allocated`` or ``allocated_else_requested``.
        procs_missing: a job ran but neither processor count is above 0. ``refuse`` or ``drop``.
        negative: a negative number other than -1 (wagap has two run times of about -1.36e9).
            ``refuse``; ``unknown`` reads it as -1.
        duplicate_ids: a job number occurs twice or is unknown. ``refuse``; ``renumber`` numbers
            all rows by their place in the file, from 1. What `partial_executions` drops is gone
            before job numbers and submit times are looked at.
        extra_columns: more than 18 fields (wagap has 21, some `_walltime` logs 19). ``refuse``;
            ``drop`` reads the first 18.
        machine_size: where the machine's size comes from. ``max_procs`` is the header key MaxProcs
            alone; ``max_nodes`` falls back to MaxNodes (right where a node has one processor).
        wider_than_machine: a job is wider than MaxProcs (theta_2023 has some). ``note`` keeps it;
            ``refuse``.
        encoding: of the file. ``utf-8`` or ``latin-1`` (old headers with accented names).
    """

    unsorted: Literal["refuse", "sort"] = "refuse"
    never_ran: Literal["drop", "keep_zero", "refuse"] = "drop"
    partial_executions: Literal["refuse", "drop", "keep"] = "refuse"
    requested_time: Literal["field_9", "field_6"] = "field_9"
    requested_missing: Literal["runtime", "drop", "refuse"] = "runtime"
    procs: Literal["requested_else_allocated", "allocated_else_requested"] = (
        "requested_else_allocated"
    )
    procs_missing: Literal["refuse", "drop"] = "refuse"
    negative: Literal["refuse", "unknown"] = "refuse"
    duplicate_ids: Literal["refuse", "renumber"] = "refuse"
    extra_columns: Literal["refuse", "drop"] = "refuse"
    machine_size: Literal["max_procs", "max_nodes"] = "max_procs"
    wider_than_machine: Literal["note", "refuse"] = "note"
    encoding: Literal["utf-8", "latin-1"] = "utf-8"

    def __post_init__(self) -> None:
        for name, choices in rule_choices().items():
            if getattr(self, name) not in choices:
                raise UnknownNameError(f"choice for rule '{name}'", getattr(self, name), choices)


def rule_choices() -> dict[str, tuple[str, ...]]:
    """Return every rule with its choices, the default first."""
    hints = get_type_hints(ReadingRules)
    choices: dict[str, tuple[str, ...]] = {}
    for field in fields(ReadingRules):
        default = str(field.default)
        rest = tuple(choice for choice in get_args(hints[field.name]) if choice != default)
        choices[field.name] = (default, *rest)
    return choices


def rules_from_texts(texts: dict[str, str]) -> ReadingRules:
    """Build rules from texts such as ``{"unsorted": "sort"}``, as a command line gives them.

    Raises:
        UnknownNameError: no such rule, or no such choice for it.
    """
    known = rule_choices()
    for name in texts:
        if name not in known:
            raise UnknownNameError("reading rule", name, known)
    return ReadingRules(**texts)  # type: ignore[arg-type]  # __post_init__ checks the choices
