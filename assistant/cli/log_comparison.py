"""Comparisons of a simulated log: with its records, and of two configurations out of sample."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.table import Table

from assistant.cli.console import OUT, print_json, say
from assistant.core.errors import SettingsError
from assistant.presentation.text.number_format import number
from assistant.simtools.out_of_sample import out_of_sample
from sim.api import ClusterSpec, Partition, Scenario, SimulationResult, check_scenario
from sim.api import simulate as run_simulation
from sim.metrics import (
    Backtest,
    CorrectedReplays,
    WaitAgreement,
    backtest,
    can_correct,
    corrected_replays,
    has_recorded_waits,
    wait_agreement,
)

_LEAST_SHOWN = 30  # Jobs of a group in the table of a backtest; --json has all groups


@dataclass(frozen=True)
class LogComparison:
    """Agreement of a schedule with its log; backtest and replays if requested and possible."""

    agreement: WaitAgreement
    backtest: Backtest | None = None
    corrected: CorrectedReplays | None = None

    @classmethod
    def of(
        cls, scenario: Scenario, result: SimulationResult, *, compare: bool
    ) -> "LogComparison | None":
        """Compare a schedule with its log; None if the log has no waits and none are needed.

        Raises:
            ScenarioError: a backtest is requested, and the log records no wait of a job that ran.
        """
        if compare:
            tested = backtest(scenario, result)
            corrected = None
            if can_correct(scenario):
                corrected = corrected_replays(scenario, run_simulation)
            return cls(tested.agreement, tested, corrected)
        if not has_recorded_waits(scenario.workload, result):
            return None
        return cls(wait_agreement(scenario, result))

    def as_json(self) -> dict[str, Any]:
        """Return agreement, groups, causes and replays as JSON."""
        content = {"sentence": self.agreement.sentence, **asdict(self.agreement)}
        if self.backtest is None:
            return {"recorded_waits": content}
        details = asdict(self.backtest)
        del details["agreement"]
        replays = None
        if self.corrected is not None:
            replays = {"sentence": self.corrected.sentence, **asdict(self.corrected)}
        return {"recorded_waits": content, "backtest": {**details, "corrected": replays}}

    def print(self) -> None:
        """Print the sentence; of a backtest also groups, causes and the corrected replay."""
        OUT.print(self.agreement.sentence, style="bold", soft_wrap=True)
        if self.backtest is None:
            return
        OUT.print(_agreement_table(self.backtest))
        weeks = [each.agreement for each in self.backtest.groups if each.kind == "week"]
        known = [week.ratio for week in weeks if week.ratio is not None]
        if len(known) > 1:
            n_close = sum(week.is_close for week in weeks)
            OUT.print(
                f"  By week of submission: within 7 % in {n_close} of {len(known)} weeks; ratios "
                f"from {_ratio(min(known))} to {_ratio(max(known))}.",
                soft_wrap=True,
            )
        if self.backtest.causes:
            OUT.print("In the log, but not in the simulation (parts of the wait overlap)")
        for cause in self.backtest.causes:
            OUT.print(f"  {cause.sentence}", soft_wrap=True)
        if self.corrected is not None:
            OUT.print(f"Corrected capacity: {self.corrected.sentence}", soft_wrap=True)


def _agreement_table(tested: Backtest) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("wait [s]", "jobs", "recorded", "simulated", "ratio", "rank", "apart"):
        table.add_column(name, justify="left" if name == "wait [s]" else "right", no_wrap=True)
    every = tested.agreement
    titles = [("mean of all", every)]
    titles += [(f"{e.kind} {e.name}", e.agreement) for e in tested.groups if e.kind != "week"]
    shown = [(title, agreement) for title, agreement in titles if agreement.n >= _LEAST_SHOWN]
    for title, agreement in shown or titles[:1]:
        table.add_row(
            f"  {title}",
            f"{agreement.n:,}",
            number(agreement.recorded.mean_s),
            number(agreement.simulated.mean_s),
            _ratio(agreement.ratio),
            "" if agreement.rank is None else f"{agreement.rank:.2f}",
            number(agreement.mean_difference_s),
        )
        if agreement is every:
            for name, of in (("median", "median_s"), ("90 %", "p90_s")):
                pair = (number(getattr(side, of)) for side in (every.recorded, every.simulated))
                table.add_row(f"  {name} of all", f"{every.n:,}", *pair)
    if len(titles) > len(shown):
        table.add_row(f"  groups below {_LEAST_SHOWN} jobs", f"{len(titles) - len(shown)}")
    return table


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def current_configuration(scenario: Scenario, against: str) -> Scenario:
    """Return the scenario with all processors in one partition, by ``ORDER[:BACKFILL]``.

    Raises:
        SettingsError: the cluster has machines, or the form is wrong.
        UnknownNameError: no such order or rule.
    """
    order, _, backfill = against.partition(":")
    if not order or ":" in backfill:
        raise SettingsError(
            f"--against '{against}' is not of the form ORDER[:BACKFILL], for example fcfs:easy"
        )
    if scenario.allocation != "processors":
        raise SettingsError(
            "--against needs counted processors; leave out --whole-nodes and --shared-nodes"
        )
    current = replace(
        scenario,
        cluster=ClusterSpec((Partition("main", scenario.cluster.total_procs),)),
        order=order,
        backfill=backfill or "easy",
        options={},
    )
    check_scenario(current)
    return current


def print_transfer(tuned: Scenario, current: Scenario, *, as_json: bool) -> None:
    """Test out of sample whether a configuration waits less than the one in use, and print it."""
    transfer = out_of_sample(tuned, current, progress=lambda name: say(f"simulating: {name}"))
    ratios = (transfer.tuned, transfer.tested, *transfer.variants)
    if as_json:
        rows = [{**asdict(ratio), "verdict": ratio.verdict} for ratio in ratios]
        print_json(
            {
                "verdict": transfer.verdict,
                "sentence": transfer.sentence,
                "ratios": rows,
                "left_out": list(transfer.left_out),
            }
        )
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("mean wait [s]", "jobs", "current", "this", "ratio", "95 % interval"):
        table.add_column(name, justify="left" if name == "mean wait [s]" else "right")
    for ratio in ratios:
        known = ratio.low is not None and ratio.high is not None
        table.add_row(
            f"  {ratio.name}",
            f"{ratio.n_jobs:,}",
            number(ratio.current_s),
            number(ratio.tuned_s),
            _ratio(ratio.ratio),
            f"{ratio.low:.2f} to {ratio.high:.2f}" if known else "unknown",
        )
    OUT.print(table)
    OUT.print(transfer.sentence, style="bold", soft_wrap=True)
    for reason in transfer.left_out:
        OUT.print(f"  left out: {reason}", soft_wrap=True)
