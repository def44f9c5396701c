"""``workload share``: a model of a log that may be given away."""

import secrets
from typing import Annotated

import typer

from assistant.applications.generating import knobs_of, save_model
from assistant.cli.console import OUT, Json, print_json
from assistant.cli.generating import ToModel, check_model_file
from assistant.cli.models import model_dict
from assistant.cli.options import ReadingRule
from assistant.cli.working import working
from assistant.cli.workloads import First, Log, load_log
from sim.api import Loss
from sim.api import share as share_log


def share(
    log: Log,
    to: ToModel,
    strength: Annotated[
        float, typer.Option(help="Of the noise, 0 to 1: rates and shares vary by about so much.")
    ] = 0.1,
    least_users: Annotated[
        int, typer.Option(help="Requests and contexts of fewer users are rounded or taken out.")
    ] = 5,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Of the noise; keep it to yourself. Drawn if not given.", show_default=False
        ),
    ] = None,
    knob: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="How three_stage is fitted; see the guide."),
    ] = None,
    first: First = None,
    reading: ReadingRule = None,
    as_json: Json = False,
) -> int:
    """Make a slightly fictitious model of a log, to give away, and say what that costs."""
    check_model_file(to)
    knobs = knobs_of(knob or [])
    with working(f"Reading {log.name} …"):
        workload = load_log(log, first, reading)
    with working(f"Making a model of {workload.n_jobs:,} jobs …"):
        made = share_log(
            workload,
            secrets.randbits(63) if seed is None else seed,
            least_users=least_users, strength=strength, knobs=knobs,
        )  # fmt: skip
    save_model(made.model, to)
    if as_json:
        print_json({**model_dict(made.model), "file": str(to), "loss": vars(made.loss)})
        return 0
    OUT.print(f"{to}: {made.model.source}", soft_wrap=True)
    for line in _lines(made.loss):
        OUT.print(f"  {line}", soft_wrap=True)
    OUT.print(f"  next: copperline workload generate {to} --duration 7d --to FILE", soft_wrap=True)
    return 0


def _lines(loss: Loss) -> list[str]:
    """Return what a model lost, for people."""
    return [
        f"requests: {loss.rounded:.1%} of the jobs rounded, {loss.left_out:.1%} left out",
        f"contexts: {loss.contexts:.1%} taken out",
        f"next flavour: {loss.flavour_nll:+.3f} nats, total variation {loss.flavour_tv:.3f}",
        f"lifetimes: {loss.lifetime_nll:+.3f} nats per job, total variation {loss.lifetime_tv:.3f}",
        f"arrivals: {loss.rate:.2f} times the real rate; this and the above are not to be shared",
    ]
