"""Commands ``copperline effects`` (with the missing runs) and ``copperline forecast``."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from assistant.analysis.effects import (
    EffectsReport,
    InteractionEffect,
    MainEffect,
    MissingReport,
    ValueChange,
    effects_report,
    missing_report,
)
from assistant.analysis.experiment_state import NextStep, displayed_forecast
from assistant.cli.console import OUT, Json, StoreOption, print_json, table_of
from assistant.cli.experiment_view import (
    print_state,
    print_warning,
    stored_session,
    stored_state,
    warning_object,
)
from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.core.forecast import FanPoint, Forecast
from assistant.presentation.charts import effects as charts_effects
from assistant.presentation.charts import forecast as charts_forecast
from assistant.presentation.report.data import collect
from assistant.presentation.tables.effects import (
    EffectsRanking,
    amount,
    effect_sentences,
    figure_of,
    interaction_figure,
    interval_text,
    p_text,
    ranking_of,
)
from assistant.presentation.text.forecast import (
    TERMS,
    ForecastSubject,
    GoalVerdict,
    clock,
    figures,
    forecast_sentences,
    headline,
    paper_words,
    term_used,
    term_words,
    verdict_of,
)
from assistant.presentation.text.number_format import level, number
from assistant.session.session import Session
from strategies import Level
from strategies.doe.coverage import EstimationTarget, LevelCoverage
from strategies.doe.factorial_model import TermTest, all_pairs
from strategies.space.parameter import show

EVERYTHING = "all"
MOST_SHOWN = 40


def target_of(experiment: Experiment, text: str) -> EstimationTarget:
    """Parse the value of ``--missing`` (``a``, ``a=4``, ``a,b`` or ``all``) into a target.

    Raises StrategyError if there is no such parameter or level.
    """
    if text == EVERYTHING:
        return EstimationTarget()
    name, equals, value = (part.strip() for part in text.partition("="))
    if equals:
        parameter = experiment.space.parameter(name)
        return EstimationTarget((name,), parameter.level_id(parameter.parse(value)))
    return EstimationTarget(tuple(part.strip() for part in text.split(",")))


def print_missing(
    session: Session, target: EstimationTarget, store: Path | None, *, as_json: bool
) -> int:
    """Print the runs that an estimate still needs, and a factorial block, with their commands."""
    report = missing_report(session.experiment, target)
    command = _command(session, report.runs, store)
    block_command = _command(session, report.block_runs, store)
    if as_json:
        design = report.missing
        print_json(
            {
                "experiment": session.id,
                "lacking": design.lacking,
                "left": design.left,
                "smallest": design.is_smallest,
                "waiting": design.n_waiting,
                "looked_at_all": design.looked_at_all,
                "runs": list(report.runs),
                "command": command,
                "block": list(report.block_runs) if report.block else None,
                "block_command": block_command,
            }
        )
        return 0
    _print_missing(session, report, command)
    _print_block(session, report, block_command)
    return 0


def _print_missing(session: Session, report: MissingReport, command: str | None) -> None:
    design, subject = report.missing, _target_words(session.experiment, report.missing.target)
    if design.n_waiting:
        OUT.print(f"{design.n_waiting} waiting runs are counted as if they were completed.")
    if not design.lacking:
        shut = _closed(session.experiment, design.target)
        but = f" among the open levels; the closed levels {shut} are left out" if shut else ""
        OUT.print(f"Nothing is missing: the runs determine {subject}{but}.", soft_wrap=True)
    elif report.runs:
        n = "1 run is" if len(report.runs) == 1 else f"{len(report.runs)} runs are"
        sure = "; fewer are not enough" if design.is_smallest else ", found by greedy search"
        missing = f"{n} missing to estimate {subject}{sure}:"
        if design.left:
            missing = f"{n} missing for the part of {subject} that can be estimated{sure}:"
        OUT.print(missing, soft_wrap=True)
        _print_runs(session, report.runs, command)
    if design.left:
        _print_left(design.left, design.lacking, subject, exhaustive=design.looked_at_all)


def _closed(experiment: Experiment, target: EstimationTarget) -> str:
    """Return the closed levels of the target as words; empty if there are none."""
    space = experiment.space
    if target.level_id is not None:
        return ""
    return ", ".join(
        f"{name}={level(space.parameter(name).levels[level_id])}"
        for name, level_id in sorted(space.closed)
        if name in (target.parameters or space.names)
    )


def _print_left(left: int, lacking: int, subject: str, *, exhaustive: bool) -> None:
    why = (
        "closed levels, exclusions or failed runs leave no suitable configuration"
        if exhaustive
        else "no suitable configuration is near the runs; the space is too large for a full search"
    )
    OUT.print(
        f"{left} of the {lacking} comparisons missing for {subject} are impossible: {why}.",
        style="yellow", soft_wrap=True,
    )  # fmt: skip


def _target_words(experiment: Experiment, target: EstimationTarget) -> str:
    if not target.parameters:
        return "all main effects"
    if len(target.parameters) == 2:
        return f"the interaction of {' and '.join(target.parameters)}"
    (name,) = target.parameters
    if target.level_id is None:
        return f"the effect of {name}"
    return f"the effect of {name}={show(experiment.space.parameter(name).levels[target.level_id])}"


def _print_block(session: Session, report: MissingReport, command: str | None) -> None:
    if report.block is None:
        why = "each contains an excluded or failed combination"
        if not session.experiment.observations:
            why = "no run is completed yet"
        OUT.print(f"No factorial block around the runs can be completed: {why}.", soft_wrap=True)
        return
    space, block = session.experiment.space, report.block.block
    sides = " x ".join(f"{len(block.level_ids[i])} {space.names[i]}" for i in block.varied)
    if not report.block_runs:
        OUT.print(f"The runs contain a complete factorial block, {sides}.", soft_wrap=True)
        return
    n = "1 run completes" if len(report.block_runs) == 1 else f"{len(report.block_runs)} complete"
    OUT.print(f"\n{n} the nearest factorial block, {sides}:", soft_wrap=True)
    _print_runs(session, report.block_runs, command)


def _print_runs(session: Session, runs: Sequence[Mapping[str, Level]], command: str | None) -> None:
    table = table_of(*session.experiment.space.names, left=0)
    for values in runs[:MOST_SHOWN]:
        table.add_row(*(level(value) for value in values.values()))
    OUT.print(table)
    if len(runs) > MOST_SHOWN:
        left = len(runs) - MOST_SHOWN
        OUT.print(f"and {left} more; --json prints all, with the command to run them.")
    elif command is not None:
        OUT.print(f"Run them with: {command}", soft_wrap=True)
    else:
        OUT.print("Run them with session.include(values) in Python.", soft_wrap=True)


def _command(
    session: Session, runs: Sequence[Mapping[str, Level]], store: Path | None
) -> str | None:
    """Return the command that runs these; None if there are none, or only Python can run them."""
    experiment = session.experiment
    texts = [",".join(f"{n}={level(v)}" for n, v in values.items()) for values in runs]
    commas = any(isinstance(v, str) and "," in v for values in runs for v in values.values())
    if not runs or not experiment.opened.recipe or commas:
        return None
    words = ["copperline", "resume", session.id]
    needed, budget = experiment.n_charged + len(runs), experiment.sla.max_runs
    if experiment.finished is not None or (budget is not None and budget < needed):
        words += ["--runs", str(max(needed, budget or 0))]
    for text in texts:
        words += ["--include", text]
    if store is not None:
        words += ["--store", str(store)]
    return shlex.join(words)


MOST_CONTRASTS = 12
MOST_PAIRS = 10


def effects(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    pair: Annotated[
        list[str] | None,
        typer.Option(
            "--pair",
            metavar="NAME,NAME",
            help="Add the interaction of two parameters; repeatable, or 'all'.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            "--missing",
            metavar="WHAT",
            help="Show the runs missing to estimate a parameter (a), a level (a=4), an "
            "interaction (a,b), or all main effects (all).",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Estimate the effect of each parameter on the measured value, with intervals and tests.

    The ranking comes first: how much the levels of each parameter differ. A linear model is fitted
    by least squares to the completed runs, balanced or not. --missing shows the runs needed before
    an effect can be estimated, and the command to run them.
    """
    session = stored_session(experiment, store)
    if missing is not None:
        if pair:
            raise SettingsError("--pair and --missing cannot be combined; give one")
        target = target_of(session.experiment, missing)
        return print_missing(session, target, store, as_json=as_json)
    report = effects_report(session.experiment, _pairs(session.experiment, pair or []))
    if as_json:
        ranking = asdict(ranking_of(report))
        print_json({"experiment": session.id, "ranking": ranking, **_effects_object(report)})
        return 0
    _print_report(session, report)
    return 0


def _pairs(experiment: Experiment, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for text in texts:
        if text == EVERYTHING:
            pairs += all_pairs(experiment.space)
            continue
        names = [name.strip() for name in text.split(",")]
        if len(names) != 2:
            raise SettingsError(
                f"--pair '{text}' is not of the form name,name (or 'all' for every pair)"
            )
        pairs.append((names[0], names[1]))
    return tuple(pairs)


def _print_report(session: Session, report: EffectsReport) -> None:
    unit = f" [{report.unit}]" if report.unit else ""
    better = "less" if report.goal == "minimise" else "more"
    of = "main effects" if not report.interactions else "main effects and interactions"
    runs = "1 run" if report.n_runs == 1 else f"{report.n_runs} runs"
    OUT.print(
        f"{session.experiment.opened.name}: effects on {report.value_name}{unit}, {better} is "
        f"better; {of} from {runs}",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    if not report.n_runs:
        OUT.print(report.error.reason)
        return
    ranking = ranking_of(report)
    OUT.print(ranking.sentence, soft_wrap=True)
    OUT.print(_ranking(ranking))
    OUT.print()
    OUT.print(_tests(report))
    for test in report.tests:
        if test.reason is not None:
            OUT.print(f"{' x '.join(test.parameters)}: {test.reason}", style="dim", soft_wrap=True)
    lacking = [t for t in report.tests if len(t.parameters) == 2 and t.df < t.full_df]
    if lacking:
        OUT.print(_help(session, lacking), soft_wrap=True)
    for effect in report.main:
        if len(effect.comparable) > 1:
            _print_main(effect)
    for interaction in report.interactions:
        _print_interaction(interaction)
    if report.contrasts:
        OUT.print(_contrasts(report))
    OUT.print()
    for sentence in effect_sentences(report):
        OUT.print(sentence, soft_wrap=True)
    OUT.print(_coverage(report))
    _print_pairs_seen(report)


def _help(session: Session, lacking: Sequence[TermTest]) -> str:
    """Return which runs help interactions without enough runs, or which levels to reopen first."""
    caution = "If an interaction in the model lacks runs, main effects may be unknown. "
    able = next((test for test in lacking if not test.needs_closed), None)
    if able is not None:
        names = ",".join(able.parameters)
        return f"{caution}Missing runs: copperline effects {session.id} --missing {names}"
    needed = dict.fromkeys(level for test in lacking for level in test.needs_closed)
    again = " ".join(shlex.join(("--reopen", level)) for level in needed)
    return f"{caution}Only closed levels lack runs: copperline steer {session.id} {again}"


def _ranking(ranking: EffectsRanking) -> Table:
    """Return the parameters by the range of their main effect."""
    table = table_of("parameter", "range", "95 % interval", "levels compared", "runs")
    for entry in ranking.parameters:
        table.add_row(
            entry.parameter, amount(entry.value, ranking.unit), interval_text(entry, ranking.unit),
            f"{entry.n_compared} of {entry.n_levels}", f"{entry.n_runs}",
        )  # fmt: skip
    return table


def _tests(report: EffectsReport) -> Table:
    table = table_of("term", "df", "sum of squares", "F", "p")
    for test in report.tests:
        estimable = test.sum_squares is not None
        table.add_row(
            " x ".join(test.parameters),
            f"{test.df}" if estimable else "",
            number(test.sum_squares),
            number(test.f) if test.f is not None else "",
            p_text(test.p).removeprefix("= ") if test.p is not None else "",
        )
    error = report.error
    if error.mean_square is not None:
        squares = number(error.mean_square * error.df)
        table.add_row(f"error ({error.source})", f"{error.df}", squares, style="dim")
    return table


def _print_main(effect: MainEffect) -> None:
    unit = f" [{effect.unit}]" if effect.unit else ""
    table = table_of(f"{effect.parameter}{unit}", "runs", "change", "95 % interval")
    table.add_column("")
    _add_changes(table, effect.comparable)
    OUT.print()
    OUT.print(table)
    unknown = [change for change in effect.levels if change.change is None]
    for title, is_tried in (("not tried", False), ("tried, but not separated", True)):
        levels = [level(value) for c in unknown if (c.n > 0) == is_tried for value in c.levels]
        if levels:
            OUT.print(f"{title}: {', '.join(levels)}", style="dim", soft_wrap=True)


def _add_changes(table: Table, changes: Iterable[ValueChange]) -> None:
    for change in changes:
        interval = "" if change.low is None else f"{_signed(change.low)} to {_signed(change.high)}"
        cells = [f"{level(value)}" for value in change.levels]
        table.add_row(
            *cells,
            str(change.n),
            _signed(change.change),
            interval,
            change.verdict or "",
            style=_style(change),
        )


def _style(change: ValueChange) -> str:
    return {"better": "green", "worse": "red"}.get(change.verdict or "", "")


def _with_half(change: ValueChange) -> str:
    """Return a change with half the width of its interval."""
    if change.change is None:
        return "unknown"
    half = "" if change.high is None else f" ± {number(change.high - change.change)}"
    return f"{_signed(change.change)}{half}"


def _signed(value: float | None) -> str:
    text = number(value)
    return f"+{text}" if value is not None and value > 0 else text


def _print_interaction(interaction: InteractionEffect) -> None:
    OUT.print()
    first, second = interaction.parameters
    if len([change for change in interaction.combinations if change.change is not None]) < 2:
        return
    table = table_of(first, second, "runs", "total change", left=2)
    table.add_column("")
    table.add_column("beyond the sum", justify="right")
    beyond = {change.levels: change for change in interaction.beyond}
    for change in interaction.combinations:
        table.add_row(
            *(level(value) for value in change.levels), str(change.n), _with_half(change),
            change.verdict or "", _with_half(beyond[change.levels]), style=_style(change),
        )  # fmt: skip
    OUT.print(table)


def _contrasts(report: EffectsReport) -> Table:
    table = table_of("contrast", "effect")
    table.add_column("")
    margins = report.margins
    largest = sorted(report.contrasts, key=lambda c: -abs(c.effect))[:MOST_CONTRASTS]
    for contrast in (contrast for contrast in report.contrasts if contrast in largest):
        size, verdict = abs(contrast.effect), ""
        if margins.simultaneous is not None and size > margins.simultaneous:
            verdict = "beyond SME"
        elif margins.margin is not None and size > margins.margin:
            verdict = "beyond ME"
        table.add_row(contrast.name, _signed(contrast.effect), verdict)
    left = len(report.contrasts) - MOST_CONTRASTS
    if left > 0:
        table.add_row(f"and {left} smaller ones", "", "", style="dim")
    OUT.print()
    return table


def _coverage(report: EffectsReport) -> Table:
    coverage = report.coverage
    table = table_of("coverage", "seen", "allowed", "runs each")
    for covered in coverage.parameters:
        table.add_row(*_covered(covered))
    share = "" if coverage.share is None else f"{coverage.share:.2%}"
    allowed = "unknown" if coverage.n_allowed is None else f"{coverage.n_allowed:,}"
    table.add_row("configurations", f"{coverage.n_seen:,}", allowed, share)
    OUT.print()
    return table


def _covered(covered: LevelCoverage) -> tuple[str, str, str, str]:
    allowed = "unknown" if covered.n_allowed is None else f"{covered.n_allowed:,}"
    least = "?" if covered.least is None else f"{covered.least}"
    name = " x ".join(covered.parameters)
    return name, f"{covered.n_seen:,}", allowed, f"{least} to {covered.most}"


def _print_pairs_seen(report: EffectsReport) -> None:
    """Print the pairs of parameters with the smallest share of measured combinations."""
    counted_pairs = [pair for pair in report.coverage.pairs if pair.n_allowed]
    if not counted_pairs:
        return
    counted_pairs.sort(key=lambda pair: pair.n_seen / (pair.n_allowed or 1))
    table = table_of("pairs, least covered first", "seen", "allowed", "runs each")
    for pair in counted_pairs[:MOST_PAIRS]:
        table.add_row(*_covered(pair))
    left = len(report.coverage.pairs) - min(len(counted_pairs), MOST_PAIRS)
    if left:
        table.add_row(f"and {left} more", "", "", "", style="dim")
    OUT.print()
    OUT.print(table)


def _effects_object(report: EffectsReport) -> dict[str, Any]:
    """Return the report as JSON, with Vega-Lite charts."""
    title = f"{report.value_name} [{report.unit}]" if report.unit else report.value_name
    change, effect = f"change of {title}", f"effect on {title}"
    mains = {
        main.parameter: charts_effects.main_effects(
            figure_of(main, report.unit).levels, main.parameter, main.unit, change
        )
        for main in report.main
        if len(main.comparable) > 1
    }
    pairs = {
        " x ".join(interaction.parameters): charts_effects.interaction(
            figure.changes, *interaction.parameters, change, figure.second_levels
        )
        for interaction in report.interactions
        for figure in (interaction_figure(interaction, report),)
    }
    return {
        **asdict(report),
        "coverage": {**asdict(report.coverage), "share": report.coverage.share},
        "charts": {
            "main": mains,
            "interactions": pairs,
            "pareto": charts_effects.pareto(report.contrasts, report.margins, effect),
            "half_normal": charts_effects.half_normal(report.half_normal, report.margins, effect),
        },
    }


FAN_ROWS = 6

_STYLES: dict[GoalVerdict, str] = {
    "on_track": "bold green",
    "reached": "bold green",
    "likely_miss": "bold yellow",
    "very_likely_miss": "bold red",
    "missed": "bold red",
}


def forecast(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Forecast whether the sweep will reach its goal, and the best value to expect.

    The chance is calibrated on similar studies; the result of the paper's rule is printed too.
    Nothing is run and nothing is stored.
    """
    session = stored_session(experiment, store)
    state, subject = stored_state(session, store), ForecastSubject.of(session.experiment)
    current = displayed_forecast(session.forecast(), state, session.now_s())
    if as_json:
        print_json({"experiment": session.id, **_forecast_object(session, subject, current)})
        return 0
    OUT.print(f"{session.experiment.opened.name}: {session.experiment.opened.objective}")
    style = _STYLES.get(verdict_of(current), "bold")
    OUT.print(headline(subject, current), style=style, soft_wrap=True)
    for sentence in forecast_sentences(subject, current):
        OUT.print(f"  {sentence}", soft_wrap=True)
    if current.terms:
        OUT.print(_terms(subject, current))
    if len(current.fan) > 1 and not current.is_over:
        OUT.print(_fan(subject, current))
    if not current.is_over:
        OUT.print(f"Diagnostics: {paper_words(current.paper)}", style="dim", soft_wrap=True)
    print_warning(session.experiment, OUT, store)
    if state.next_step is not NextStep.ANSWER:
        print_state(state, store)
    return 0


def _terms(subject: ForecastSubject, forecast: Forecast) -> Table:
    table = table_of("SLA term", "limit", "runs left", "")
    several = len(forecast.terms) > 1
    for term in forecast.terms:
        tightest = "tightest" if several and term.term == forecast.binding else ""
        used = term_used(subject, term, forecast.at_s)
        table.add_row(TERMS[term.term], used, figures(term.remaining), tightest)
    return table


def _fan(subject: ForecastSubject, forecast: Forecast) -> Table:
    unit = f" [{subject.unit}]" if subject.unit else ""
    table = table_of(
        f"best {subject.measure}{unit} to come", "by", "1 in 10 better than", "median",
        "1 in 10 worse than",
    )  # fmt: skip
    for point in _spaced_points(forecast.fan):
        after = "now" if point.runs == 0 else f"after {point.runs} more"
        by = (
            "unknown"
            if point.seconds is None
            else clock(forecast.at_s + point.seconds, forecast.at_s)
        )
        table.add_row(after, by, number(point.low), number(point.median), number(point.high))
    return table


def _spaced_points(fan: tuple[FanPoint, ...]) -> tuple[FanPoint, ...]:
    """Return a few evenly spaced points, with the first and the last."""
    if len(fan) <= FAN_ROWS:
        return fan
    return tuple(fan[round(i * (len(fan) - 1) / (FAN_ROWS - 1))] for i in range(FAN_ROWS))


def _measured(session: Session, forecast: Forecast) -> Forecast:
    """Return the forecast with the measured values of the regions, whatever the direction."""
    value_of = session.experiment.opened.objective.value_of
    regions = tuple(
        replace(region, mean=value_of(region.mean), best=value_of(region.best))
        for region in forecast.paper.regions
    )
    return replace(forecast, paper=replace(forecast.paper, regions=regions))


def _forecast_object(
    session: Session, subject: ForecastSubject, forecast: Forecast
) -> dict[str, Any]:
    """Return the forecast as JSON, with its words and the fan as a Vega-Lite chart."""
    data = collect(session.experiment)
    title = f"{subject.measure} [{subject.unit}]" if subject.unit else subject.measure
    goal = session.experiment.sla.goal
    left = None if forecast.remaining is None else forecast.remaining.median
    return {
        "verdict": verdict_of(forecast),
        "headline": headline(subject, forecast),
        "sentences": forecast_sentences(subject, forecast),
        "terms_in_words": [term_words(subject, term, forecast.at_s) for term in forecast.terms],
        "paper_in_words": paper_words(forecast.paper),
        "miss": forecast.miss,
        "warning": warning_object(session.experiment),
        **asdict(_measured(session, forecast)),
        "charts": {
            "fan": charts_forecast.best_with_fan(
                data.points,
                forecast.fan,
                baseline=data.baseline_value,
                goal=goal,
                end=left,
                title=title,
            )
        },
    }
