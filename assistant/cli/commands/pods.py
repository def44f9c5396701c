"""Commands ``workload manifests``, ``retarget``, ``calibrate`` and ``bundle``, for pods."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from assistant.cli.commands.workload_model import check_model_file, check_place
from assistant.cli.console import OUT, Json, print_json, progress_spinner
from assistant.core.errors import SettingsError
from assistant.presentation.text.number_format import number
from sim.api import load_workload, write_workload
from sim.formats import format_by_name, read_telemetry
from sim.generators import load_model, save_model
from sim.generators.joulie import (
    ManifestStyle,
    TargetNode,
    calibrate,
    export_bundle,
    import_bundle,
    without_power_terms,
    write_manifests,
)
from sim.generators.joulie import retarget as retargeted

Pods = Annotated[
    Path, typer.Argument(metavar="FILE", help="A trace of pods (.jsonl).", show_default=False)
]
ToModel = Annotated[Path, typer.Option("--to", help="Write the model here (.json).")]


def manifests(
    file: Pods,
    to: Annotated[Path, typer.Option("--to", help="Write the manifests here (.yaml).")],
    first: Annotated[
        int | None, typer.Option(help="Only the first N workloads.", min=1, show_default=False)
    ] = None,
    image: Annotated[str, typer.Option(help="Image of every container; it needs sleep.")] = "",
    mpi: Annotated[
        bool, typer.Option("--mpi", help="Write distributed training as MPIJob, not PyTorchJob.")
    ] = False,
    namespace: Annotated[
        str | None, typer.Option(help="Namespace of all objects (default: that of each workload).")
    ] = None,
    scheduler: Annotated[str, typer.Option(help="Scheduler; for gangs it must support them.")] = "",
    whole_gpus: Annotated[
        bool, typer.Option("--whole-gpus", help="Request a whole GPU instead of a share of a GPU.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Write the workloads of a trace as manifests for Kubernetes: PyTorchJob, Katib, Job ..."""
    check_place(to)
    distributed: Literal["PyTorchJob", "MPIJob"] = "MPIJob" if mpi else "PyTorchJob"
    style = ManifestStyle(
        image or ManifestStyle().image, distributed, namespace, scheduler, whole_gpus
    )
    with progress_spinner(f"Writing {to.name} …"):
        workload = load_workload(file, first=first)
        n_jobs = write_manifests(workload, to, style=style)
    if as_json:
        print_json({"file": str(to), "n_jobs": n_jobs})
        return 0
    OUT.print(f"{to}: manifests of {n_jobs:,} workloads", soft_wrap=True)
    return 0


def retarget(
    file: Pods,
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File to write (.jsonl).")],
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FAMILY[=RESOURCE[,LABEL=VALUE...]]",
            help="A machine: NVIDIA-H100=nvidia.com/gpu,zone=a; may be repeated. No resource: no "
            "GPUs.",
        ),
    ] = None,
    by_family: Annotated[
        bool, typer.Option("--by-family", help="Pods also demand the family of their machine.")
    ] = False,
    whole_jobs: Annotated[
        bool, typer.Option("--whole-jobs", help="All pods of a job get GPUs of one vendor.")
    ] = False,
    without_profiles: Annotated[
        bool, typer.Option("--without-power-terms", help="Remove the terms on power profiles.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Assign the pods of a trace to the machines of a cluster; jobs and work do not change."""
    format_by_name(target)
    check_place(target)
    nodes = [_node(text) for text in node or []]
    if not nodes and not without_profiles:
        raise SettingsError("name machines: --node FAMILY=RESOURCE, or give --without-power-terms")
    workload = load_workload(file)
    n_before = len(workload.notes)
    if nodes:
        workload = retargeted(workload, nodes, by_family=by_family, whole_jobs=whole_jobs)
    if without_profiles:
        workload = without_power_terms(workload)
    write_workload(workload, target)
    notes = [reading_note.sentence for reading_note in workload.notes[n_before:]]
    if as_json:
        print_json({"file": str(target), "n_jobs": workload.n_jobs, "notes": notes})
        return 0
    OUT.print(f"{target}: {workload.n_jobs:,} jobs with changed pods", soft_wrap=True)
    for note in notes:
        OUT.print(f"  note: {note}", soft_wrap=True)
    return 0


def calibrate_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model of joulie (.json).")],
    file: Pods,
    telemetry: Annotated[
        Path,
        typer.Argument(metavar="TELEMETRY", help="Measured pods: jobId, start, end, ... (CSV)."),
    ],
    to: ToModel,
    drop_unknown: Annotated[
        bool, typer.Option("--drop-unknown", help="Leave out pods that are not in the trace.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Calibrate a model of joulie with measurements of the pods of a trace."""
    check_model_file(to)
    with progress_spinner("Calibrating …"):
        unknown: Literal["refuse", "drop"] = "drop" if drop_unknown else "refuse"
        measurements = read_telemetry(telemetry, load_workload(file), unknown_pods=unknown)
        calibrated, changes = calibrate(load_model(model), measurements)
    save_model(calibrated, to)
    if as_json:
        rows = [
            {"parameter": change.parameter, "before": change.before, "after": change.after,
             "low": change.low, "high": change.high, "n": change.n}
            for change in changes
        ]  # fmt: skip
        print_json({"file": str(to), "digest": calibrated.digest, "changes": rows})
        return 0
    OUT.print(f"{to}: {len(changes):,} parameters changed", soft_wrap=True)
    for change in changes:
        low, high = number(change.low), number(change.high)
        OUT.print(
            f"  {change.parameter}: {number(change.before)} becomes {number(change.after)} "
            f"({low} to {high}, of {change.n:,})",
            soft_wrap=True,
        )
    return 0


def bundle(
    way: Annotated[str, typer.Argument(metavar="export|import", help="Direction.")],
    source: Annotated[Path, typer.Argument(metavar="IN", help="A model, or a bundle (.json).")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A bundle, or a model (.json).")],
    name: Annotated[
        str | None, typer.Option(help="Name of the bundle (default: that of its file).")
    ] = None,
    only_changed: Annotated[
        bool, typer.Option("--only-changed", help="Leave out published values.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Export the priors of a model of joulie as a profile bundle, or import one as a model."""
    check_model_file(target)
    if way == "export":
        export_bundle(load_model(source), target, name=name, only_changed=only_changed)
    elif way == "import":
        save_model(import_bundle(source), target)
    else:
        raise SettingsError(f"'{way}' is not a direction; allowed are export and import")
    if as_json:
        print_json({"file": str(target), "way": way})
        return 0
    OUT.print(f"{target}: {'a bundle' if way == 'export' else 'a model'} of {source}")
    return 0


def _node(text: str) -> TargetNode:
    """Return a machine from ``FAMILY=RESOURCE,LABEL=VALUE``. Raises SettingsError otherwise."""
    family, _, rest = text.partition("=")
    resource, *labels = rest.split(",")
    pairs = dict(label.partition("=")[::2] for label in labels)
    if not family.strip() or not all(pairs) or not all(pairs.values()):
        raise SettingsError(
            f"--node '{text}' is not of the form FAMILY=RESOURCE,LABEL=VALUE, such as "
            "NVIDIA-H100=nvidia.com/gpu,zone=a"
        )
    return TargetNode(family.strip(), resource.strip(), pairs)
