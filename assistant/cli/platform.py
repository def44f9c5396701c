"""``platform fit``: statistics of an AI platform from its own logs."""

from pathlib import Path
from typing import Annotated

import typer

from assistant.applications.platform_statistics import fit_platform, read_logs, save_model
from assistant.cli.console import OUT, Json, print_json
from assistant.cli.generating import ToModel, check_model_file
from assistant.cli.models import model_dict
from assistant.cli.working import working


def fit(
    log: Annotated[
        Path,
        typer.Argument(
            help="Executed tasks, one a row (CSV or Parquet): task and seconds; and where known "
            "submitted or submit_s, framework, estimator, rows, columns, bytes, performance.",
            show_default=False,
        ),
    ],
    to: ToModel,
    components: Annotated[
        int, typer.Option(help="Of the mixture that data sets are drawn from, at most.")
    ] = 50,
    seed: Annotated[int, typer.Option(help="Of where the fits begin their searches.")] = 0,
    as_json: Json = False,
) -> int:
    """Fit the statistics of an AI platform to its logs, for `statistics` of a sweep file."""
    check_model_file(to)
    with working(f"Reading {log.name} …"):
        logs = read_logs(log)
    with working(f"Fitting to {len(logs):,} executed tasks …"):
        found = fit_platform(logs, log.name, components=components, seed=seed)
    save_model(found.model, to)
    if as_json:
        told = {**model_dict(found.model), "file": str(to), "notes": list(found.sentences)}
        print_json(told)
        return 0
    OUT.print(f"{to}: statistics of a platform", soft_wrap=True)
    for sentence in found.sentences:
        OUT.print(f"  {sentence}", soft_wrap=True)
    OUT.print(
        f'  next: statistics = "{to}" under [application] of a sweep file '
        "(copperline init FILE --kind ai_platform)",
        soft_wrap=True,
    )
    return 0
