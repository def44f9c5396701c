"""Chart of the training of a scheduler: how good it became, beside what it is compared with."""

from dataclasses import dataclass

from assistant.presentation.charts.axes import value_axis
from assistant.presentation.charts.palette import ACCENT, MUTED, SERIES
from assistant.presentation.charts.vega_lite import HEAD, Spec, nominal
from assistant.presentation.text.number_format import number

TRAINED, FIRST_FIT = "trained scheduler", "first fit, first come first served"
BOUND = "no schedule below"


@dataclass(frozen=True, slots=True)
class TrainingCurve:
    """The training of a scheduler; all values are over first fit on the jobs held back.

    Attributes:
        name: name or file of the scheduler.
        objective: what it was trained for.
        points: iterations and values of the checks, oldest first.
        best_rule: the best heuristic and its value; None if none was compared.
        bound: value that no schedule can go below; None if unknown.
    """

    name: str
    objective: str
    points: tuple[tuple[int, float], ...]
    best_rule: tuple[str, float] | None = None
    bound: float | None = None

    @property
    def best(self) -> tuple[int, float]:
        """The check whose network was kept: the first of the least values."""
        return min(self.points, key=lambda point: point[1])

    @property
    def sentence(self) -> str:
        """Say how good it is, beside the best heuristic and the bound."""
        iteration, value = self.best
        text = (
            f"Trained scheduler {self.name}, best after iteration {iteration}: {self.objective} on "
            f"held-back jobs is {number(value)} of that of first fit"
        )
        if self.best_rule is not None:
            rule, ratio = self.best_rule
            text += f"; the best heuristic in hindsight ({rule}) reaches {number(ratio)}"
        return text + (f", and no schedule goes below {number(self.bound)}." if self.bound else ".")


def learning_curve(curve: TrainingCurve) -> Spec:
    """Draw a training over its iterations, with the best heuristic and the bound as lines."""
    lines = [(FIRST_FIT, 1.0, MUTED)]
    if curve.best_rule is not None:
        lines.append((f"best heuristic: {curve.best_rule[0]}", curve.best_rule[1], SERIES[0]))
    if curve.bound is not None:
        lines.append((BOUND, curve.bound, SERIES[2]))
    values = [*(ratio for _, ratio in curve.points), *(value for _, value, _ in lines)]
    names, colours = [TRAINED, *(name for name, _, _ in lines)], [ACCENT, *(c for *_, c in lines)]
    y = value_axis(values, f"{curve.objective} over that of first fit")
    legend = {"title": None, "orient": "top", "columns": 2, "labelLimit": 320, "symbolOpacity": 1}
    colour = nominal("series", names, colours, legend=legend)
    return {
        **HEAD, "width": 640, "height": 260,
        "description": f"training of {curve.name} for {curve.objective}",
        "layer": [
            {
                "data": {"values": [{"series": n, "ratio": v} for n, v, _ in lines]},
                "mark": {"type": "rule", "strokeWidth": 1.5, "strokeDash": [6, 4]},
                "encoding": {
                    "y": {"field": "ratio", **y}, "color": colour,
                    "tooltip": [{"field": "series"}, {"field": "ratio", "format": ".3f"}],
                },
            },
            {
                "data": {"values": [
                    {"series": TRAINED, "iteration": at, "ratio": ratio}
                    for at, ratio in curve.points
                ]},
                "mark": {"type": "line", "strokeWidth": 2, "point": {"size": 30}},
                "encoding": {
                    "x": {"field": "iteration", "type": "quantitative", "title": "iteration",
                          "axis": {"grid": False, "tickMinStep": 1, "tickCount": 10}},
                    "y": {"field": "ratio", **y}, "color": colour,
                    "tooltip": [{"field": "iteration"}, {"field": "ratio", "format": ".3f"}],
                },
            },
        ],
    }  # fmt: skip
