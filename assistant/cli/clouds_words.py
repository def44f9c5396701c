"""The report on windows that were foreseen, in words and tables: of the console and of the page."""

from assistant.report.words import number
from sim.api import CLOUD_FULL, CloudReport

Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""Headings, and rows of as many cells."""


def headline(found: CloudReport) -> str:
    """Say what was foreseen from what, in one sentence."""
    return (
        f"{found.test} ({found.n_jobs[1]:,} jobs in {found.n_batches[1]:,} batches, "
        f"{found.days[1]:.1f} days) foreseen from {found.train} ({found.n_jobs[0]:,} jobs in "
        f"{found.n_batches[0]:,} batches, {found.days[0]:.1f} days); {found.n_windows} windows of "
        f"each generator, seed {found.seed}"
    )


def tables(found: CloudReport) -> dict[str, Table]:
    """Return the figures of a report as tables of texts, by their titles."""
    told: dict[str, Table] = {
        "Next flavour or end of batch": (
            ("", "NLL", "error"),
            tuple((r.name, _figure(r.nll), _share(r.error)) for r in found.next_flavour),
        ),
        "Bin of the lifetime": (
            (
                "",
                "BCE",
                "NLL per job",
                "error",
                "error as the paper counts it",
                "Survival-MSE, CDI",
                "stepped",
            ),
            tuple(
                (
                    r.name,
                    _figure(r.bce),
                    _figure(r.nll),
                    _share(r.error),
                    _share(r.masked_error),
                    _fine(r.survival_mse),
                    _fine(r.survival_mse_stepped),
                )
                for r in found.next_lifetime
            ),
        ),
    }
    for what, title in (
        ("batches", "Batches that begin in a period"), ("jobs", "Jobs that begin in a period"),
        ("cores", "Demand: processors in use if nobody waits"),
    ):  # fmt: skip
        courses = [(one.name, getattr(one, what)) for one in found.generators]
        told[title] = (
            ("", "inside the 90 % band", "mean width", "interval score"),
            tuple(
                (name, _share(c.inside), number(c.width), number(c.score)) for name, c in courses
            ),
        )
    told["Generated windows"] = (
        ("", "jobs in a window", "reuse distance, total variation", "survival, largest difference"),
        (
            ("real", f"{found.n_jobs[1]:,}", "", ""),
            *(
                (g.name, f"{g.n_jobs.mean:,.0f} ({g.n_jobs.low:,.0f} to {g.n_jobs.high:,.0f})",
                 f"{g.reuse_variation:.3f}", f"{g.survival_distance:.3f}")
                for g in found.generators
            ),
        ),
    )  # fmt: skip
    told |= _packed(found)
    columns = dict.fromkeys(one.column for g in found.generators for one in g.columns)
    for column in columns:
        rows = [
            (g.name, one) for g in found.generators for one in g.columns if one.column == column
        ]
        told[f"{column[:1].upper()}{column[1:]}"] = (
            ("", "KS", "90 % of the windows", f"Wasserstein [{rows[0][1].unit}]",
             "90 % of the windows"),
            tuple(
                (name, f"{one.ks.mean:.3f}", f"{one.ks.low:.3f} to {one.ks.high:.3f}",
                 number(one.wasserstein.mean),
                 f"{number(one.wasserstein.low)} to {number(one.wasserstein.high)}")
                for name, one in rows
            ),
        )  # fmt: skip
    return {title: table for title, table in told.items() if table[1]}


def packing_words(found: CloudReport) -> str:
    """Say on which servers windows were packed, or why none was."""
    told, ranges = found.packing, found.packing.ranges
    if told.skipped is not None or ranges is None:
        return told.skipped or ""
    low, high = ranges.gib_per_core
    servers, cores = (
        f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in (ranges.servers, ranges.cores)
    )
    missing = [
        f"{one.every.n_tuples - one.every.n_failed:,} of {one.name}"
        for one in told.windows
        if one.every.n_failed < one.every.n_tuples
    ]
    more = f" In some packings every job found room, and they tell nothing: {', '.join(missing)}."
    return (
        f"{len(told.tuples):,} packings of each, on {servers} server"
        f"{'' if servers == '1' else 's'} of {cores} cores with {low:.3g} to {high:.3g} GiB a "
        f"core.{more if missing else ''}"
    )


def _packed(found: CloudReport) -> dict[str, Table]:
    told = found.packing.windows
    rules = list(told[0].by_algorithm) if told else []
    return {
        "First failure on servers: the resource that limits": (
            ("", "packings", "median", f"above {100 * CLOUD_FULL:g} %", "limited by cores"),
            tuple(
                (w.name, f"{w.every.n_failed:,}", _share(w.every.median), _share(w.every.above),
                 _share(w.every.cpu_limited))
                for w in told
            ),
        ),
        f"First failure by algorithm: median, and share above {100 * CLOUD_FULL:g} %": (
            ("", *rules),
            tuple(
                (w.name, *(
                    f"{_share(one.median)}, {_share(one.above)}"
                    for one in (w.by_algorithm[rule] for rule in rules)
                ))
                for w in told
            ),
        ),
    }  # fmt: skip


def _fine(value: float | None) -> str:
    return "-" if value is None else f"{value:.3%}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
