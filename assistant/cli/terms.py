"""The terms of the agreement as options: of a new sweep, and of one that goes on."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import typer

from assistant import Session, Sla, Tariff
from assistant.ending import passed_limit, reached_goal
from assistant.errors import SettingsError
from assistant.settings import check_settings
from assistant.settings_agreement import check_tariff
from strategies.parameter import parse_number

NONE: Final = "none"
"""What takes a term away."""

Deadline = Annotated[
    str | None,
    typer.Option(help="Time from now until the last run must be over, e.g. 30m.", metavar="TIME"),
]
Goal = Annotated[
    str | None,
    typer.Option(
        help="Value of the measure that is good enough; it ends the sweep.", metavar="VALUE"
    ),
]
AtGoal = Annotated[str | None, typer.Option(help="At the goal: stop or go_on.  [default: stop]")]
RunLimit = Annotated[
    str | None,
    typer.Option(
        help="What a single run may take, e.g. 10m; a longer one has failed.", metavar="TIME"
    ),
]
CostLimit = Annotated[
    str | None, typer.Option(help="What all runs may cost together.", metavar="COST")
]
CostPerHour = Annotated[str | None, typer.Option(help="Price of an hour of a run.", metavar="COST")]
CostResources = Annotated[
    str | None,
    typer.Option(
        help="Parameter or measure by which the price of an hour is multiplied.", metavar="NAME"
    ),
]
CostMeasure = Annotated[
    str | None,
    typer.Option(help="Measure that is the cost of a run, instead of a price.", metavar="NAME"),
]
CostUnit = Annotated[str | None, typer.Option(help="Unit of the cost, e.g. EUR.", metavar="UNIT")]


@dataclass(frozen=True, slots=True)
class Terms:
    """The options as they were typed; None is one that was not given."""

    runs: str | None = None
    deadline: str | None = None
    goal: str | None = None
    at_goal: str | None = None
    run_limit: str | None = None
    cost_limit: str | None = None
    cost_per_hour: str | None = None
    cost_resources: str | None = None
    cost_measure: str | None = None
    cost_unit: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether any was given."""
        return self != Terms()

    def tables(self) -> dict[str, Any]:
        """Return them as a sweep file says them; those that take a term away are left out.

        Raises:
            SettingsError: a number that is none.
        """
        top = {
            "runs": _number("--runs", self.runs),
            "deadline": _kept(self.deadline),
            "goal": _number("--goal", self.goal),
            "at_goal": self.at_goal,
            "run_limit": _kept(self.run_limit),
        }
        cost = {
            "limit": _number("--cost-limit", self.cost_limit),
            "per_hour": _number("--cost-per-hour", self.cost_per_hour),
            "resources": _kept(self.cost_resources),
            "measure": self.cost_measure,
            "unit": self.cost_unit,
        }
        found: dict[str, Any] = {name: value for name, value in top.items() if value is not None}
        if any(value is not None for value in cost.values()):
            found["cost"] = {name: value for name, value in cost.items() if value is not None}
        return found

    def laid_over(self, tables: dict[str, Any]) -> None:
        """Put them into the tables of a sweep file, which they overrule.

        A measure that is the cost replaces a price, and the other way round.

        Raises:
            SettingsError: a number that is none.
        """
        given = self.tables()
        cost = given.pop("cost", {})
        tables.update(given)
        for name in ("deadline", "goal", "run_limit"):
            if _is_none(getattr(self, name)):
                tables.pop(name, None)
        present = dict(tables.get("cost", {}))
        for name in ("limit", "resources"):
            if _is_none(getattr(self, f"cost_{name}")):
                present.pop(name, None)
        if not cost and not present:
            return
        if "measure" in cost:
            present = {k: v for k, v in present.items() if k not in ("per_hour", "resources")}
        if "per_hour" in cost:
            present.pop("measure", None)
        tables["cost"] = {**present, **cost}

    def changed(self, sla: Sla, now_s: float) -> Sla:
        """Return an agreement with these terms instead of its own; ``none`` takes one away.

        Raises:
            SettingsError: a term that cannot be, or terms that do not go together.
        """
        given = check_settings(self.tables(), "the options")
        terms: dict[str, Any] = {}
        if self.runs is not None:
            terms["max_runs"] = given.runs
        if self.deadline is not None:
            terms["deadline_s"] = None if given.deadline is None else now_s + given.deadline
        if self.goal is not None:
            terms["goal"] = given.goal
        if self.at_goal is not None:
            terms["at_goal"] = given.at_goal
        if self.run_limit is not None:
            terms["run_limit_s"] = given.run_limit
        if self.cost_limit is not None:
            terms["max_cost"] = None if given.cost is None else given.cost.limit
        return replace(sla, **terms, tariff=self._tariff(sla.tariff))

    def _tariff(self, present: Tariff | None) -> Tariff | None:
        price = _number("--cost-per-hour", self.cost_per_hour)
        resources, measure = self.cost_resources, self.cost_measure
        if (price, resources, measure, self.cost_unit) == (None, None, None, None):
            return present
        unit = self.cost_unit if self.cost_unit is not None else present.unit if present else ""
        if measure is not None or present is None:
            return Tariff(unit, price, _kept(resources), measure)
        if price is None and resources is None:
            return replace(present, unit=unit)
        per_hour = present.per_hour if price is None else price
        by = present.resources if resources is None else _kept(resources)
        return Tariff(unit, per_hour, by, None)


def agree(session: Session, terms: Terms, now_s: float) -> None:
    """Agree on other terms of an experiment, and reopen it if it is finished.

    What is refused may have changed the session already: agree in rehearsal first.

    Raises:
        SettingsError: a term that cannot be, or an agreement under which no run is left.
    """
    experiment = session.experiment
    sla = terms.changed(experiment.sla, now_s)
    if sla.tariff is not None:
        check_tariff(
            sla.tariff, experiment.space, experiment.known_measures, experiment.opened.application
        )
    used = experiment.n_charged
    if sla.max_runs is not None and sla.max_runs <= used:
        if terms.runs is not None:
            raise SettingsError(
                f"experiment '{session.id}' has used {used} runs; a budget of {sla.max_runs} "
                "leaves none"
            )
        if experiment.finished is not None:
            raise SettingsError(
                f"experiment '{session.id}' is finished and has used its {used} runs; give it more "
                f"to go on with, for example --runs {used + 10}"
            )
    was_finished = experiment.finished is not None
    if was_finished:
        session.reopen()
    session.change_budget(sla)
    reached = reached_goal(experiment)
    if was_finished and reached is not None and sla.at_goal == "stop":
        raise SettingsError(
            f"{reached} of experiment '{session.id}' already; agree on a better one (--goal), "
            "or on going on beyond it (--at-goal go_on)"
        )
    over = passed_limit(experiment, now_s)
    if over is not None:
        raise SettingsError(
            f"under this agreement experiment '{session.id}' has no run left: {over}; agree on more"
        )


def _is_none(text: str | None) -> bool:
    return text is not None and text.strip().lower() == NONE


def _kept(text: str | None) -> str | None:
    return None if _is_none(text) else text


def _number(option: str, text: str | None) -> float | None:
    kept = _kept(text)
    return None if kept is None else number_of(option, kept)


def number_of(option: str, text: str) -> float:
    """Return the number that was typed. Raises SettingsError if it is none."""
    number = parse_number(text.strip())
    if number is None:
        raise SettingsError(f"{option} '{text}' is no number; write it with a point for decimals")
    return number
