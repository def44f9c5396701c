"""Switches of a program of which at most one is on, steered as one parameter.

A level of the parameter is the switch that is on; the level `NONE` means that none is. A program
gets the text of that switch in place of the parameter, or a value for each switch by its own name.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from assistant.core.errors import ApplicationError
from strategies import Level

NONE = "none"


@dataclass(frozen=True, slots=True)
class SwitchGroup:
    """Switches of which exactly one is on, or at most one if the parameter has the level `NONE`.

    Args:
        parameter: name of the parameter whose levels are the switches.
        switches: texts, such as ``--quicksort`` or ``quicksort``.
    """

    parameter: str
    switches: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The switches that can be placeholders or keyword arguments by themselves."""
        return tuple(switch for switch in self.switches if switch.isidentifier())

    def states(self, level: Level) -> dict[str, bool]:
        """Return whether each of `names` is on.

        >>> SwitchGroup("sort", ("quick", "merge")).states("merge")
        {'quick': False, 'merge': True}
        """
        return {name: name == level for name in self.names}


def check_switches(groups: Sequence[SwitchGroup], others: Collection[str]) -> None:
    """Raise ApplicationError if a switch has the name of another one or of something else."""
    taken = set(others)
    for group in groups:
        for name in group.names:
            if name in taken:
                raise ApplicationError(
                    f"one_of of the parameter '{group.parameter}' contains '{name}', which is "
                    "also the name of another parameter, switch or placeholder; rename one of them"
                )
            taken.add(name)


def switch_texts(groups: Sequence[SwitchGroup], values: Mapping[str, Level]) -> dict[str, str]:
    """Return the texts of placeholders: 1 or 0 of each switch, and the one that is on of a group.

    The text of a group is empty if none is on.
    """
    texts: dict[str, str] = {}
    for group in groups:
        level = values[group.parameter]
        texts[group.parameter] = str(level) if level in group.switches else ""
        texts |= {name: str(int(is_on)) for name, is_on in group.states(level).items()}
    return texts


def switch_arguments(
    groups: Sequence[SwitchGroup], values: Mapping[str, Level]
) -> dict[str, Level]:
    """Return keyword arguments: a truth value for each switch in place of the group's level."""
    arguments = dict(values)
    for group in groups:
        arguments |= group.states(arguments.pop(group.parameter))
    return arguments


def unused_parameters(
    groups: Sequence[SwitchGroup], missing: Sequence[str], used: Collection[str]
) -> list[str]:
    """Return the parameters without a placeholder of their own or of all their switches.

    Args:
        groups: all groups of the program.
        missing: parameters without a placeholder of their own.
        used: names of all placeholders.

    Raises:
        ApplicationError: some switches of a group have placeholders, and others have none.
    """
    left = list(missing)
    for group in groups:
        if group.parameter not in left:
            continue
        absent = [switch for switch in group.switches if switch not in used]
        if absent and len(absent) < len(group.switches):
            raise ApplicationError(
                f"the command, env and stdin contain some switches of '{group.parameter}', but "
                f"not '{{{absent[0]}}}'; name all of them, or write '{{{group.parameter}}}'"
            )
        if not absent:
            left.remove(group.parameter)
    return left
