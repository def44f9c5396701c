"""Report of the reproduced evaluation: verdicts, then the figures as in the Copper paper.

Figure 5 is a folded map of each search space, dark where results are better.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from agents.analysts.episode import Truth
from agents.reproduction.claims import OUTCOMES, ClaimVerdict
from agents.reproduction.recipe import BUDGETS, GOAL, Reproduction, goal_panels, strategy_panels
from agents.studies.report import bars
from agents.studies.report import panel_specs as study_drawings
from agents.studies.results import make_folder, write_whole
from assistant.analysis.response_map import Fold, arrange_axes, build_grid
from assistant.config.snapshot import version
from assistant.presentation.charts.response_map import (
    Axis,
    CellValues,
    MapMark,
    NestedParameter,
    response_map,
)
from assistant.presentation.charts.vega_lite import Spec
from assistant.presentation.report.html import page_environment, svg


def space_map(truth: Truth, title: str) -> Spec:
    """Draw a map of the qualities of a measured space, with the optimum marked by a star.

    Several parameters share an axis, chosen by the shares of the variance that their levels
    explain (`assistant.analysis.response_map.arrange_axes`).
    """
    fold = arrange_axes(truth.space, shares(truth))
    grid = build_grid(truth.space, fold)
    n_levels = np.array(truth.n_levels)
    flat = np.ravel_multi_index(tuple(grid.level_ids.T), tuple(n_levels))
    objective = truth.application.objective
    values = [
        None if np.isnan(quality) else objective.value_of(quality)
        for quality in truth.quality[flat].tolist()
    ]
    place = grid.place(truth.space.configuration(int(truth.ranked[0])))
    marks = [] if place is None else [MapMark(*place, "best")]
    cells = CellValues(title, values, "low" if objective.goal == "minimise" else "high")
    return response_map(
        _axis(truth, fold, across=True), _axis(truth, fold, across=False), cells,
        [0] * len(values), marks,
    )  # fmt: skip


def shares(truth: Truth) -> dict[str, float]:
    """Return the share of the quality's variance that each parameter explains alone, by name."""
    succeeded = ~np.isnan(truth.quality)
    quality = truth.quality[succeeded]
    total = float(((quality - quality.mean()) ** 2).sum()) or 1.0
    explained = {}
    for parameter, name in enumerate(truth.space.names):
        ids = truth.level_ids[succeeded, parameter]
        counts, sums = np.bincount(ids), np.bincount(ids, weights=quality - quality.mean())
        explained[name] = float((sums**2 / np.maximum(counts, 1)).sum()) / total
    return explained


def facts(truth: Truth) -> str:
    """Return a text that summarises a measured space's results."""
    objective = truth.application.objective
    values = [objective.value_of(quality) for quality in truth.quality[truth.ranked].tolist()]
    n_best = int((truth.quality == truth.optimum).sum())
    _, counts = np.unique(truth.quality[truth.ranked], return_counts=True)
    alike = int(counts.max())
    parts = ", ".join(f"{name} {share:.0%}" for name, share in shares(truth).items())
    best = "one configuration is optimal" if n_best == 1 else f"{n_best} are optimal"
    return (
        f"{truth.size:,} configurations, {best} ({values[0]:,.4g}); the best tenth reaches "
        f"{values[len(values) // 10]:,.4g}, half {values[len(values) // 2]:,.4g}, all "
        f"{values[-1]:,.4g}; {alike:,} have the same result; variance explained by levels alone: "
        f"{parts}"
    )


def _axis(truth: Truth, fold: Fold, *, across: bool) -> Axis:
    nested = []
    for name in fold.across if across else fold.down:
        position = truth.space.names.index(name)
        parameter = truth.space.parameter(name)
        ids = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
        texts = tuple(_level(parameter.levels[i]) for i in ids)
        nested.append(NestedParameter(name, texts, tuple(f"{position}:{i}" for i in ids)))
    return nested


def _level(level: object) -> str:
    return f"{level:,g}" if isinstance(level, int | float) else str(level)


TITLES = {
    "5": "Figure 5: the search spaces",
    "6": "Figure 6: runs to the optimum over confidence",
    "7": "Figure 7: the best of a budget, flood",
    "8": "Figure 8: the best of a budget, scheduling",
    "9": "Figure 9: the best of a budget, maze",
    "compare": "Beyond the paper: the default strategy, and warnings of the forecast",
}
CAPTIONS = {
    "5": "All combinations, folded onto two axes; the star is the optimum.",
    "6": "Rows are applications, columns insights, as in the paper. Bars are means with 95 % "
    "intervals by the bootstrap; an episode given up at half the space counts with that number.",
    "compare": "Ratio of the best result of a budget to the optimum, for the paper's GRASP and "
    "the default strategy. Then the share of SLAs (a budget and a goal) met by analysts who "
    "ignore or accept warnings of the calibrated forecast. Means with 95 % intervals by "
    "the bootstrap.",
}
BUDGET = (
    "Ratio of the best result to the optimum, by budget and exploitation level. The level applies "
    "after 70 % of the runs. All runs are suggestions (confidence 100 %). Means with 95 % "
    "intervals by the bootstrap."
)
COLUMNS = ("figure", "table", "claim", "outcome", "evidence", "why")


def write_evaluation(done: Reproduction, folder: Path) -> tuple[Path, ...]:
    """Write the evaluation report, verdicts and figures to a folder and return the paths.

    Raises `AssistantError` if one of them cannot be written.
    """
    drawings_by_figure = drawings(done)
    make_folder(folder / "figures")
    for figure, ones in drawings_by_figure.items():
        for name, drawing in ones.items():
            write_whole(folder / "figures" / f"{_file(figure)}_{name}.svg", drawing)
    files = {
        "report.html": render_html(done, drawings_by_figure),
        "report.md": render_markdown(done, drawings_by_figure),
        "verdicts.json": json.dumps(evaluation_as_json(done), indent=1) + "\n",
    }
    for name, text in files.items():
        write_whole(folder / name, text)
    return tuple(folder / name for name in files)


def drawings(done: Reproduction) -> dict[str, dict[str, str]]:
    """Return the SVG drawings by name of the figure and name of the file."""
    drawings_by_figure: dict[str, dict[str, str]] = {}
    if "5" in done.recipe.playable_figures:
        drawings_by_figure["5"] = {
            name: svg(space_map(truth, f"{name}: {truth.application.objective.wrapper}"))
            for name, truth in done.truths.items()
        }
    for figure, finished in done.studies.items():
        names = dict.fromkeys(
            entry.cell.table + ("" if entry.cell.runs else f"_{entry.cell.insight}")
            for entry in finished.summaries
        )
        specs = study_drawings(finished.summaries)
        drawings_by_figure[figure] = {
            name: svg(spec) for name, spec in zip(names, specs, strict=True)
        }
    if done.strategies:
        panels = {name: entry for row in done.strategies for name, entry in strategy_panels(row)}
        panels |= dict(goal_panels(done.goals))
        drawings_by_figure["compare"] = {
            name: svg(bars(entry, 1.0)) for name, entry in panels.items()
        }
    return drawings_by_figure


def render_html(done: Reproduction, drawings_by_figure: Mapping[str, Mapping[str, str]]) -> str:
    """Render the evaluation report as a self-contained HTML page."""
    return (
        page_environment("agents.reproduction")
        .get_template("reproduced.html.j2")
        .render(
            version=version(),
            headline=headline(done),
            tally=tally(done.verdicts),
            verdicts=done.verdicts,
            figures=[
                (name, TITLES[name], CAPTIONS.get(name, BUDGET), list(ones.values()))
                for name, ones in drawings_by_figure.items()
            ],
            facts=about(done),
        )
    )


def render_markdown(done: Reproduction, drawings_by_figure: Mapping[str, Mapping[str, str]]) -> str:
    """Render the report as Markdown, with links to the figures."""
    lines = ["# The paper's evaluation, played again", "", headline(done), "", tally(done.verdicts)]
    lines += ["", "| figure | application | claim | verdict | evidence |", "|---|---|---|---|---|"]
    for verdict in done.verdicts:
        why = f" Why not: {verdict.why}" if verdict.why else ""
        lines.append(
            f"| {verdict.figure} | {verdict.table} | {verdict.text} | **{verdict.outcome}** | "
            f"{verdict.evidence}{why} |"
        )
    for figure, ones in drawings_by_figure.items():
        lines += ["", f"## {TITLES[figure]}", "", CAPTIONS.get(figure, BUDGET), ""]
        lines += [f"![{name}](figures/{_file(figure)}_{name}.svg)" for name in ones]
    lines += ["", "## Settings", ""]
    lines += [f"- {name}: {text}" for name, text in about(done).items()]
    return "\n".join([*lines, ""])


def _file(figure: str) -> str:
    return figure if figure == "compare" else f"figure{figure}"


def headline(done: Reproduction) -> str:
    """Return a sentence that summarises the played episodes and measured spaces."""
    n = sum(
        len(finished.summaries) * finished.study.replications for finished in done.studies.values()
    )
    spaces = ", ".join(f"{name} ({truth.size:,})" for name, truth in done.truths.items())
    return f"{n:,} episodes by simulated analysts on measured spaces: {spaces}."


def tally(verdicts: Sequence[ClaimVerdict]) -> str:
    """Return the number of claims per verdict as text."""
    if not verdicts:
        return "No claim was judged."
    counts = [f"{sum(v.outcome == outcome for v in verdicts)} {outcome}" for outcome in OUTCOMES]
    return f"{len(verdicts)} claims, application by application: {', '.join(counts)}."


def about(done: Reproduction) -> dict[str, str]:
    """Return the settings of the evaluation, as texts by their names."""
    recipe = done.recipe
    facts_by_name = {
        "Seed": str(recipe.seed),
        "Episodes per cell": f"{recipe.episodes}"
        + (", quick: fewer confidences and budgets" if recipe.quick else ""),
    }
    for space in recipe.spaces:
        facts_by_name[f"Table {space.name}"] = f"{space.about}; {facts(done.truths[space.name])}"
    for figure, finished in done.studies.items():
        study = finished.study
        if study.stop.runs:
            levels = [
                "no level" if level is None else f"{level:g}" for level in study.stop.exploitation
            ]
            facts_by_name[f"Figure {figure}"] = (
                f"budgets {', '.join(map(str, study.stop.runs))} runs, exploitation "
                f"{', '.join(levels)}"
            )
        else:
            facts_by_name[f"Figure {figure}"] = (
                f"strategy {study.strategies[0]}, confidence "
                f"{', '.join(map(str, study.confidences))} %, {study.manner.batch} runs at a time; "
                f"an insight is {study.insight.members:.0%} of the space, good ones from the best "
                f"{study.insight.best:.0%}, bad ones from the worst {study.insight.worst:.0%}"
            )
    if done.strategies:
        budgets = ", ".join(f"{row.table} {BUDGETS[row.table]}" for row in done.strategies)
        facts_by_name["Comparison"] = (
            f"runs: {budgets}; {done.goals[0].gained.n} SLAs each, with the goal that the "
            f"best {GOAL:.0%} reach, by analysts who take every suggestion"
        )
    return facts_by_name


def evaluation_as_json(done: Reproduction) -> dict[str, object]:
    """Return the verdicts and settings as JSON values."""
    recipe = done.recipe
    return {
        "figures": list(recipe.playable_figures),
        "replications": recipe.episodes,
        "quick": recipe.quick,
        "seed": recipe.seed,
        "version": version(),
        "tables": {space.name: space.about for space in recipe.spaces},
        "verdicts": [asdict(verdict) for verdict in done.verdicts],
    }
