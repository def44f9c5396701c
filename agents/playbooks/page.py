"""The report of a recipe: verdicts first, then the figures as the paper arranges them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from agents.charts_study import bars
from agents.charts_study import drawings as study_drawings
from agents.files import make_folder, write_whole
from agents.playbooks.compare import BUDGETS, GOAL, goal_panels, strategy_panels
from agents.playbooks.maps import facts, space_map
from agents.playbooks.reproducing import Reproduced
from agents.playbooks.verdicts import OUTCOMES, Verdict
from assistant.report.pages import pages, svg
from assistant.starting import version

TITLES = {
    "5": "Figure 5: the search spaces",
    "6": "Figure 6: runs to the optimum over confidence",
    "7": "Figure 7: the best of a budget, flood",
    "8": "Figure 8: the best of a budget, scheduling",
    "9": "Figure 9: the best of a budget, maze",
    "compare": "Beyond the paper: the default strategy, and advice by the forecast",
}
CAPTIONS = {
    "5": "All combinations, folded onto two axes; the star is the optimum.",
    "6": "Rows are applications, columns insights, as in the paper. Bars are means with 95 % "
    "intervals by the bootstrap; an episode that was given up at half the space counts with that.",
    "compare": "Ratio of the best result of a budget to the optimum, the paper's GRASP beside the "
    "product's default strategy; and the share of agreements (a budget and a goal) that are kept "
    "if warnings of the calibrated forecast are ignored or accepted. Means with 95 % intervals by "
    "the bootstrap.",
}
BUDGET = (
    "Ratio of the best result to the optimum, by budget and exploitation level, which is accepted "
    "after 70 % of the runs. All runs are suggestions (confidence 100 %). Means with 95 % "
    "intervals by the bootstrap."
)
COLUMNS = ("figure", "table", "claim", "outcome", "evidence", "why")


def write_evaluation(done: Reproduced, folder: Path) -> tuple[Path, ...]:
    """Write ``report.html``, ``report.md``, ``verdicts.json`` and ``figures/``; return the first.

    Raises:
        AssistantError: one of them cannot be written.
    """
    drawn = drawings(done)
    make_folder(folder / "figures")
    for figure, ones in drawn.items():
        for name, drawing in ones.items():
            write_whole(folder / "figures" / f"{_file(figure)}_{name}.svg", drawing)
    made = {
        "report.html": render_html(done, drawn),
        "report.md": render_markdown(done, drawn),
        "verdicts.json": json.dumps(evaluation_as_json(done), indent=1) + "\n",
    }
    for name, text in made.items():
        write_whole(folder / name, text)
    return tuple(folder / name for name in made)


def drawings(done: Reproduced) -> dict[str, dict[str, str]]:
    """Return the drawings (SVG) of every figure, by a name for their files."""
    drawn: dict[str, dict[str, str]] = {}
    if "5" in done.recipe.wanted:
        drawn["5"] = {
            name: svg(space_map(truth, f"{name}: {truth.application.objective.wrapper}"))
            for name, truth in done.truths.items()
        }
    for figure, finished in done.studies.items():
        names = dict.fromkeys(
            one.cell.table + ("" if one.cell.runs else f"_{one.cell.insight}")
            for one in finished.summaries
        )
        specs = study_drawings(finished.summaries)
        drawn[figure] = {name: svg(spec) for name, spec in zip(names, specs, strict=True)}
    if done.strategies:
        panels = {name: one for row in done.strategies for name, one in strategy_panels(row)}
        panels |= dict(goal_panels(done.goals))
        drawn["compare"] = {name: svg(bars(one, 1.0)) for name, one in panels.items()}
    return drawn


def render_html(done: Reproduced, drawn: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page; it opens offline and needs no script."""
    return (
        pages("agents")
        .get_template("reproduced.html.j2")
        .render(
            version=version(),
            headline=headline(done),
            tally=tally(done.verdicts),
            verdicts=done.verdicts,
            figures=[
                (name, TITLES[name], CAPTIONS.get(name, BUDGET), list(ones.values()))
                for name, ones in drawn.items()
            ],
            facts=about(done),
        )
    )


def render_markdown(done: Reproduced, drawn: Mapping[str, Mapping[str, str]]) -> str:
    """Return the same as Markdown, with links to the figures."""
    lines = ["# The paper's evaluation, played again", "", headline(done), "", tally(done.verdicts)]
    lines += ["", "| figure | application | claim | verdict | evidence |", "|---|---|---|---|---|"]
    for one in done.verdicts:
        why = f" Why not: {one.why}" if one.why else ""
        lines.append(
            f"| {one.figure} | {one.table} | {one.text} | **{one.outcome}** | {one.evidence}{why} |"
        )
    for figure, ones in drawn.items():
        lines += ["", f"## {TITLES[figure]}", "", CAPTIONS.get(figure, BUDGET), ""]
        lines += [f"![{name}](figures/{_file(figure)}_{name}.svg)" for name in ones]
    lines += ["", "## What was played", ""]
    lines += [f"- {name}: {text}" for name, text in about(done).items()]
    return "\n".join([*lines, ""])


def _file(figure: str) -> str:
    return figure if figure == "compare" else f"figure{figure}"


def headline(done: Reproduced) -> str:
    """Return what was played, in one sentence."""
    n = sum(len(one.summaries) * one.study.replications for one in done.studies.values())
    spaces = ", ".join(f"{name} ({truth.size:,})" for name, truth in done.truths.items())
    return f"{n:,} episodes by simulated analysts on measured spaces: {spaces}."


def tally(verdicts: Sequence[Verdict]) -> str:
    """Return how many claims hold."""
    if not verdicts:
        return "No claim was judged."
    counts = [f"{sum(v.outcome == one for v in verdicts)} {one}" for one in OUTCOMES]
    return f"{len(verdicts)} claims, application by application: {', '.join(counts)}."


def about(done: Reproduced) -> dict[str, str]:
    """Return what a reader should know of what was played."""
    recipe = done.recipe
    told = {
        "Seed": str(recipe.seed),
        "Episodes per cell": f"{recipe.episodes}"
        + (", quick: fewer confidences and budgets" if recipe.quick else ""),
    }
    for space in recipe.spaces:
        told[f"Table {space.name}"] = f"{space.about}; {facts(done.truths[space.name])}"
    for figure, finished in done.studies.items():
        study = finished.study
        if study.stop.runs:
            levels = ["no advice" if one is None else f"{one:g}" for one in study.stop.exploitation]
            told[f"Figure {figure}"] = (
                f"budgets {', '.join(map(str, study.stop.runs))} runs, exploitation "
                f"{', '.join(levels)}"
            )
        else:
            told[f"Figure {figure}"] = (
                f"strategy {study.strategies[0]}, confidence "
                f"{', '.join(map(str, study.confidences))} %, {study.manner.batch} runs at a time; "
                f"an insight is {study.insight.members:.0%} of the space, good ones from the best "
                f"{study.insight.best:.0%}, bad ones from the worst {study.insight.worst:.0%}"
            )
    if done.strategies:
        budgets = ", ".join(f"{row.table} {BUDGETS[row.table]}" for row in done.strategies)
        told["Comparison"] = (
            f"runs: {budgets}; {done.goals[0].gained.n} agreements each, whose goal is what the "
            f"best {GOAL:.0%} reach, by analysts who take every suggestion"
        )
    return told


def evaluation_as_json(done: Reproduced) -> dict[str, object]:
    """Return the verdicts for programs."""
    recipe = done.recipe
    return {
        "figures": list(recipe.wanted),
        "replications": recipe.episodes,
        "quick": recipe.quick,
        "seed": recipe.seed,
        "version": version(),
        "tables": {space.name: space.about for space in recipe.spaces},
        "verdicts": [asdict(one) for one in done.verdicts],
    }
