"""The terms of the agreement in a sweep file, read strictly and made real."""

from collections.abc import Collection

from pydantic import Field

from assistant.applications.schema import Strict
from assistant.errors import SettingsError, hint
from assistant.sla import Tariff
from strategies import ParameterSpace


class CostSettings(Strict):
    """``[cost]``: what a run costs, and what all runs may cost together."""

    limit: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    unit: str = ""
    per_hour: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    resources: str | None = None
    measure: str | None = None

    @property
    def tariff(self) -> Tariff:
        """What a run costs. Raises SettingsError if it is not said, or said twice."""
        return Tariff(self.unit, self.per_hour, self.resources, self.measure)


def check_tariff(
    tariff: Tariff, space: ParameterSpace, measures: Collection[str] | None, application: str
) -> None:
    """Refuse a tariff that names what there is not.

    Args:
        tariff: what a run costs.
        space: whose parameters may say how many resources a run holds.
        measures: that a run gives; None if they are known after a run only, so that an unknown
            name may be one of them.
        application: its name, for the sentence.

    Raises:
        SettingsError: no such parameter or measure, or a parameter whose levels are no numbers.
    """
    if tariff.measure is not None and measures is not None and tariff.measure not in measures:
        raise SettingsError(
            f"the cost is the measure '{tariff.measure}', which the {application} application "
            f"does not give{hint(tariff.measure, measures)}"
        )
    if tariff.resources is None:
        return
    if tariff.resources in space.names:
        levels = space.parameter(tariff.resources).levels
        if any(isinstance(level, bool | str) for level in levels):
            raise SettingsError(
                f"the cost is per unit of '{tariff.resources}', whose levels are no numbers; name "
                "a parameter or a measure that counts what a run holds"
            )
    elif measures is not None and tariff.resources not in measures:
        raise SettingsError(
            f"the cost is per unit of '{tariff.resources}', which is neither a parameter nor a "
            f"measure{hint(tariff.resources, {*space.names, *measures})}"
        )
