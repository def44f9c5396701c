"""Draw docs/pictures/runs.svg from the tables of docs/explanation/benchmarks.md.

Runs of other methods to within 5 % of the best, relative to those of `grasp`: the inverse of what
the tables of ``python -m benchmarks.search`` say.
"""

import re
import sys
from pathlib import Path
from typing import Any

import vl_convert

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "explanation" / "benchmarks.md"
SPACES = {"measured": "six measured tables", "generated": "twelve generated spaces"}
METHODS = {
    "random": "random search",
    "tpe": "Optuna TPE",
    "gpsampler": "Optuna GPSampler",
    "botorch": "BoTorch LogEI",
}
CELL = re.compile(r"([\d.]+) \[([\d.]+), ([\d.]+)\]")


def rows(text: str) -> list[dict[str, Any]]:
    """Return the ratios of the page's tables with their intervals, inverted."""
    found = []
    for key, spaces in SPACES.items():
        table = text.split(f"| {key}: runs of grasp", 1)[1].split("\n\n", 1)[0]
        for line in table.splitlines()[2:]:
            name, within_5_percent = (cell.strip() for cell in line.split("|")[1:3])
            match = CELL.fullmatch(within_5_percent)
            if match is None:
                sys.exit(f"{PAGE.name} has the cell '{within_5_percent}'; expected: 0.5 [0.2, 0.8]")
            if name in METHODS:
                ratio, low, high = (1 / float(one) for one in match.groups())
                where = {"method": METHODS[name], "spaces": spaces}
                found.append({**where, "ratio": ratio, "low": high, "high": low})
    return found


def chart(data: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the Vega-Lite specification of dots with intervals."""
    y = {"field": "method", "type": "nominal", "sort": list(METHODS.values()), "title": None}
    x = {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [0.5, 10]},
        "axis": {"values": [0.5, 1, 2, 3, 5, 10], "grid": True, "format": "~g"},
    }
    offset = {"field": "spaces", "sort": list(SPACES.values())}
    color = {
        "field": "spaces",
        "sort": list(SPACES.values()),
        "scale": {"range": ["#b4511e", "#2a6f97"]},
        "legend": {"title": None, "orient": "top", "symbolType": "circle"},
    }
    common = {"y": y, "yOffset": offset, "color": color}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "white",
        "padding": 12,
        "width": 520,
        "height": {"step": 17},
        "config": {"font": "sans-serif", "axis": {"labelFontSize": 12, "titleFontSize": 12}},
        "data": {"values": data},
        "layer": [
            {
                "mark": {"type": "rule", "color": "#555", "strokeDash": [4, 3]},
                "data": {"values": [{"one": 1}]},
                "encoding": {
                    "x": {"field": "one", **x, "title": "times as many runs as Copperline"}
                },
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2, "clip": True},
                "encoding": {
                    **common,
                    "x": {"field": "low", **x, "title": "times as many runs as Copperline"},
                    "x2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {
                    **common,
                    "x": {"field": "ratio", **x, "title": "times as many runs as Copperline"},
                },
            },
        ],
    }


if __name__ == "__main__":
    svg = vl_convert.vegalite_to_svg(chart(rows(PAGE.read_text(encoding="utf-8"))))
    (HERE / "runs.svg").write_text(svg, encoding="utf-8")
