"""``copperline effects``: effects with their tests, what stands out, and which runs are missing."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from assistant import charts_effects
from assistant.charts_effects import CombinationChange
from assistant.cli.console import OUT, Json, StoreOption, print_json, table_of
from assistant.cli.experiments import stored_session
from assistant.cli.missing import EVERYTHING, target_of, tell_missing
from assistant.effects import (
    EffectsReport,
    Interaction,
    MainEffect,
    ValueChange,
    effects_report,
)
from assistant.errors import SettingsError
from assistant.experiment import Experiment
from assistant.report.effects import figure_of, p_text, sentences
from assistant.report.words import level, number
from assistant.session import Session
from strategies.analysis import Covered, TermTest, all_pairs

MOST_CONTRASTS = 12
MOST_PAIRS = 10


def effects(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    pair: Annotated[
        list[str] | None,
        typer.Option(
            "--pair",
            metavar="NAME,NAME",
            help="With the interaction of two parameters; repeat it, or 'all'.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            "--missing",
            metavar="WHAT",
            help="Which runs are missing for a parameter (a), one level of it (a=4), an "
            "interaction (a,b), or all main effects (all).",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Say what each parameter does to the measured value, with intervals and tests.

    A linear model fitted by least squares to the completed runs, balanced or not. With --missing:
    the runs that are needed before an effect can be estimated, and the command that runs them.
    """
    session = stored_session(experiment, store)
    if missing is not None:
        if pair:
            raise SettingsError("--pair and --missing answer different questions; give one")
        target = target_of(session.experiment, missing)
        return tell_missing(session, target, store, as_json=as_json)
    report = effects_report(session.experiment, _pairs(session.experiment, pair or []))
    if as_json:
        print_json({"experiment": session.id, **_as_object(report)})
        return 0
    _print_report(session, report)
    return 0


def _pairs(experiment: Experiment, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for text in texts:
        if text == EVERYTHING:
            found += all_pairs(experiment.space)
            continue
        names = [name.strip() for name in text.split(",")]
        if len(names) != 2:
            raise SettingsError(
                f"--pair '{text}' is not of the form name,name (or 'all' for every pair)"
            )
        found.append((names[0], names[1]))
    return tuple(found)


def _print_report(session: Session, report: EffectsReport) -> None:
    unit = f" [{report.unit}]" if report.unit else ""
    better = "less" if report.goal == "minimise" else "more"
    of = "main effects" if not report.interactions else "main effects and interactions"
    runs = "1 run" if report.n_runs == 1 else f"{report.n_runs} runs"
    OUT.print(
        f"{session.experiment.opened.name}: what changes {report.value_name}{unit}, {better} is "
        f"better; {of} of {runs}",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    if not report.n_runs:
        OUT.print(report.error.reason)
        return
    OUT.print(_tests(report))
    for test in report.tests:
        if test.reason is not None:
            OUT.print(f"{' x '.join(test.parameters)}: {test.reason}", style="dim", soft_wrap=True)
    lacking = [t for t in report.tests if len(t.parameters) == 2 and t.df < t.full_df]
    if lacking:
        OUT.print(_help(session, lacking), soft_wrap=True)
    for effect in sorted(report.main, key=lambda e: -(e.test.f or e.test.sum_squares or 0.0)):
        if len(effect.known) > 1:
            _print_main(effect)
    for interaction in report.interactions:
        _print_interaction(interaction)
    if report.contrasts:
        OUT.print(_contrasts(report))
    OUT.print()
    for sentence in sentences(report):
        OUT.print(sentence, soft_wrap=True)
    OUT.print(_coverage(report))
    _print_pairs_seen(report)


def _help(session: Session, lacking: Sequence[TermTest]) -> str:
    """Say which runs help interactions that lack some, or which levels to reopen first."""
    told = "With an interaction that lacks runs in the model, main effects may be unknown. "
    able = next((test for test in lacking if not test.needs_closed), None)
    if able is not None:
        names = ",".join(able.parameters)
        return f"{told}Which runs: copperline effects {session.id} --missing {names}"
    needed = dict.fromkeys(level for test in lacking for level in test.needs_closed)
    again = " ".join(shlex.join(("--reopen", level)) for level in needed)
    return f"{told}Only closed levels lack them: copperline steer {session.id} {again}"


def _tests(report: EffectsReport) -> Table:
    table = table_of("term", "df", "sum of squares", "F", "p")
    for test in report.tests:
        known = test.sum_squares is not None
        table.add_row(
            " x ".join(test.parameters),
            f"{test.df}" if known else "",
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
    _add_changes(table, effect.known)
    OUT.print()
    OUT.print(table)
    unknown = [one for one in effect.levels if one.change is None]
    if unknown:
        with_runs = sum(one.n > 0 for one in unknown)
        told = f"{len(unknown)} of {len(effect.levels)} levels unknown"
        OUT.print(f"{told}, {with_runs} of them with runs", style="dim")


def _add_changes(table: Table, changes: Iterable[ValueChange]) -> None:
    for one in changes:
        interval = "" if one.low is None else f"{_signed(one.low)} to {_signed(one.high)}"
        cells = [f"{level(value)}" for value in one.levels]
        table.add_row(
            *cells, str(one.n), _signed(one.change), interval, one.verdict or "", style=_style(one)
        )


def _style(one: ValueChange) -> str:
    return {"better": "green", "worse": "red"}.get(one.verdict or "", "")


def _with_half(one: ValueChange) -> str:
    """Return a change with half the width of its interval."""
    if one.change is None:
        return "unknown"
    half = "" if one.high is None else f" ± {number(one.high - one.change)}"
    return f"{_signed(one.change)}{half}"


def _signed(value: float | None) -> str:
    text = number(value)
    return f"+{text}" if value is not None and value > 0 else text


def _print_interaction(interaction: Interaction) -> None:
    OUT.print()
    first, second = interaction.parameters
    if len([one for one in interaction.combinations if one.change is not None]) < 2:
        return
    table = table_of(first, second, "runs", "change in all", left=2)
    table.add_column("")
    table.add_column("beyond the sum", justify="right")
    beyond = {one.levels: one for one in interaction.beyond}
    for one in interaction.combinations:
        table.add_row(
            *(level(value) for value in one.levels), str(one.n), _with_half(one),
            one.verdict or "", _with_half(beyond[one.levels]), style=_style(one),
        )  # fmt: skip
    OUT.print(table)


def _contrasts(report: EffectsReport) -> Table:
    table = table_of("contrast, the largest first", "effect")
    table.add_column("")
    margins = report.margins
    for contrast in report.contrasts[:MOST_CONTRASTS]:
        size, told = abs(contrast.effect), ""
        if margins.simultaneous is not None and size > margins.simultaneous:
            told = "beyond SME"
        elif margins.margin is not None and size > margins.margin:
            told = "beyond ME"
        table.add_row(contrast.name, _signed(contrast.effect), told)
    left = len(report.contrasts) - MOST_CONTRASTS
    if left > 0:
        table.add_row(f"and {left} smaller ones", "", "", style="dim")
    OUT.print()
    return table


def _coverage(report: EffectsReport) -> Table:
    told = report.coverage
    table = table_of("coverage", "seen", "allowed", "runs of one")
    for covered in told.parameters:
        table.add_row(*_covered(covered))
    share = "" if told.share is None else f"{told.share:.2%}"
    allowed = "unknown" if told.n_allowed is None else f"{told.n_allowed:,}"
    table.add_row("configurations", f"{told.n_seen:,}", allowed, share)
    OUT.print()
    return table


def _covered(covered: Covered) -> tuple[str, str, str, str]:
    allowed = "unknown" if covered.n_allowed is None else f"{covered.n_allowed:,}"
    least = "?" if covered.least is None else f"{covered.least}"
    name = " x ".join(covered.parameters)
    return name, f"{covered.n_seen:,}", allowed, f"{least} to {covered.most}"


def _print_pairs_seen(report: EffectsReport) -> None:
    """Print the pairs with the smallest share of their combinations seen."""
    known = [pair for pair in report.coverage.pairs if pair.n_allowed]
    if not known:
        return
    known.sort(key=lambda pair: pair.n_seen / (pair.n_allowed or 1))
    table = table_of("pairs, the least covered first", "seen", "allowed", "runs of one")
    for pair in known[:MOST_PAIRS]:
        table.add_row(*_covered(pair))
    left = len(report.coverage.pairs) - min(len(known), MOST_PAIRS)
    if left:
        table.add_row(f"and {left} more", "", "", "", style="dim")
    OUT.print()
    OUT.print(table)


def _as_object(report: EffectsReport) -> dict[str, Any]:
    """Return the whole report as JSON, with Vega-Lite charts."""
    title = f"{report.value_name} [{report.unit}]" if report.unit else report.value_name
    change, effect = f"change of {title}", f"effect on {title}"
    mains = {
        main.parameter: charts_effects.main_effects(
            figure_of(main).levels, main.parameter, main.unit, change
        )
        for main in report.main
        if len(main.known) > 1
    }
    pairs = {
        " x ".join(one.parameters): charts_effects.interaction(
            [
                CombinationChange(level(c.levels[0]), level(c.levels[1]), c.change, c.n)
                for c in one.combinations
                if c.change is not None
            ],
            *one.parameters,
            change,
        )
        for one in report.interactions
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
