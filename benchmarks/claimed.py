"""The claims of README.md and docs, each with the command that measures it again.

A number stands in its document only; here stands where, and what measures it. Whoever adds a
figure to a document adds a line here, or leaves the figure out.
"""

from collections.abc import Callable, Sequence

from benchmarks.claim_kinds import Claim, Command, Figures, Sentence, Table, Transcript

README, BENCH = "README.md", "docs/explanation/benchmarks.md"
CLOUDS = "docs/explanation/cloud-workloads.md"
PLACING = "docs/explanation/placement.md"
PLATFORM, AIOPS = "docs/howto/ai-platform.md", "docs/explanation/ai-platform.md"
SERVICE = "docs/explanation/service.md"
PAST_ONE = "docs/explanation/past-one-machine.md"
FLEETS, ANALYSTS = "docs/howto/gpu-fleet.md", "docs/howto/analysts.md"
EFFECTS_PAGE, START_PAGE = "docs/howto/effects.md", "docs/howto/explain-a-start.md"
LOG_TUTORIAL, TESTBED = "docs/tutorial/job-log.md", "docs/reference/applications.md"
PAPER, OPTUNA = "docs/explanation/paper.md", "docs/howto/optuna.md"

FIT = Command("benchmarks.aiops --part fit", "quick")
FLEET = Command("assistant.cli sweep placement --runs 60 --json", "quick")
LUBLIN = Command("benchmarks.workloads --part lublin", "quick")
CARRIED = Command("benchmarks.service_model", "quick")
QUALITY = Command("benchmarks.policies --logs {data}/swf --part quality", "quick")
RULES = Command("benchmarks.workloads --part rules", "quick")
SLURM = Command("benchmarks.slurm_fidelity --run {data}/slurm_runs", "quick")
SWEEPS = Command("benchmarks.sweeps --logs {data}/swf", "quick")
DAY = Command("assistant.cli play ai_platform --set training_capacity=4 --day day.svg", "quick")
SHOWN = Command(
    "assistant.cli sweep --table {data}/tables/kt_hp_genetic.csv --runs 40 --name genetic "
    "--strategy copper\n"
    "assistant.cli effects\n"
    "assistant.cli effects --pair popsize,maxiter\n"
    "assistant.cli effects --missing method,popsize",
    "quick",
)
STARTED = Command("assistant.cli demo\nassistant.cli init\nassistant.cli sweep sweep.toml", "quick")
EARLY = Command("benchmarks.early_stopping", packages=("optuna",))
RANGES = Command("benchmarks.wide_ranges", packages=("optuna", "torch"))
QUESTION = Command("benchmarks.default_question --data {data}", "quick")
PRIORITIES = Command(
    "benchmarks.default_question --data {data} --preset slurm_priorities --log UniLu-Gaia-2014-1 "
    "--log theta_2022 --log alea-hpc2n-subset"
)
BACKFILLED = Command(
    "benchmarks.default_question --data {data} --preset slurm_backfill --jobs 20000 "
    "--log UniLu-Gaia-2014-1 --log alea-hpc2n-subset"
)
TUNED = Command("benchmarks.slurm_tuned --slurm {data}/../slurm", "hours")
BACKTEST = Command("benchmarks.backtest --data {data}", "quick")
EXPLAINED = Command(
    "assistant.cli simulate {data}/swf/alea-hpc2n-subset.swf.gz --explain 7078", "quick"
)
EPISODE = Command("benchmarks.agents --part episode")
ENERGY = Command(
    "assistant.cli sweep --log {data}/swf/LLNL-Atlas-2006-2.1-cln.swf.gz --preset policies "
    "--levels order=fcfs,sjf --levels backfill=easy "
    "--levels power_off_after_s=0,300,1800,7200,28800 --power busy_w=350 --power idle_w=220 "
    "--power off_w=10 --power boot=5m --power node_procs=8 --also 'minimise energy_kwh' --runs 10 "
    "--name atlas-energy",
    "quick",
)
MOLDABLE = Command(
    "assistant.cli simulate {data}/swf/theta_2022.swf.gz --backfill none\n"
    "assistant.cli simulate {data}/swf/theta_2022.swf.gz --backfill none --moldable halvings=2\n"
    "assistant.cli simulate {data}/swf/theta_2022.swf.gz --backfill easy\n"
    "assistant.cli simulate {data}/swf/theta_2022.swf.gz --backfill easy --moldable halvings=2",
    "quick",
)
OPENB = Command("benchmarks.openb --data {data}/openb")
OPERATIONS = Command("assistant.cli sweep ai_platform --runs 60 --json")
PLACEMENT = Command("benchmarks.placement --data {data} --part heuristics")
DEEPJS = Command("benchmarks.deepjs")
DEEPJS_SEEDS = Command("benchmarks.deepjs --part trainings --iterations 40 --trainings 10", "hours")
DEEPJS_LAW = Command("benchmarks.deepjs --part law")
SPEED = Command(
    "benchmarks.sim --log {data}/swf/theta_2022.swf.gz --log {data}/swf/UniLu-Gaia-2014-1.swf.gz "
    "--part speed"
)
BIG = Command("benchmarks.service --part big", packages=("optuna",))
STORE = Command("benchmarks.service --part store", packages=("optuna",))
SUGGEST = Command("benchmarks.suggest --methods grasp")
YEAR = Command("benchmarks.aiops --sizes 10000,100000")
CLOUD = Command(
    "benchmarks.cloud --azure {data}/azure_v1 --part arrivals --part flavours --part lifetimes "
    "--part survival"
)
NETWORKS = Command("benchmarks.cloud_lstm --azure {data}/azure_v1", packages=("torch",))
DEMAND = Command(
    "benchmarks.cloud --azure {data}/azure_v1 --part demand --generator naive --generator "
    "simple_batch --generator 'three_stage, tables' --generator 'three_stage, dimensions'"
)
PACKING = Command("benchmarks.cloud_packing --azure {data}/azure_v1")
FUTURES = Command("benchmarks.futures --logs {data}/swf")
SEARCH = Command(
    "benchmarks.search --generated --methods grasp,random,copper,tpe,gpsampler,botorch",
    "hours",
    ("optuna", "botorch"),
)
SEARCH_TABLES = Command(
    "benchmarks.search --tables {data}/tables --methods "
    "grasp,random,copper,tpe,gpsampler,smac,botorch,nevergrad",
    "hours",
    ("optuna", "smac", "botorch", "nevergrad"),
)
SAMPLER = Command(
    "benchmarks.search --tables {data}/tables --methods grasp,copperline-sampler "
    "--against copperline-sampler --budget 60 --seeds 0-29 --stop-at-optimum",
    packages=("optuna",),
)
FORECAST = Command(
    "benchmarks.search --drawn 0-359 --methods grasp --seeds 0 --json drawn.json\n"
    "benchmarks.search --test-spaces 0-1 --fresh {folder}/fresh --methods grasp --seeds 0-1 "
    "--json others.json\n"
    "benchmarks.search --tables {data}/tables --generated --scheduling {folder}/tabulated "
    "--logs {data}/swf --methods grasp --seeds 0-2 --json known.json\n"
    "benchmarks.forecast --tables {data}/tables --generated --scheduling {folder}/tabulated "
    "--drawn 0-359 --test-spaces 0-1 --fresh {folder}/fresh --methods grasp --seeds 0-2 "
    "--from drawn.json --from others.json --from known.json --only-known",
    "minutes",
)

Numbers = Callable[[Figures], Sequence[float]]


def named(*names: str, times: float = 1.0) -> Numbers:
    """Return figures by name, times a factor."""
    return lambda figures: [times * figures[name] for name in names]


def ratios(*pairs: tuple[str, str]) -> Numbers:
    """Return ratios of figures by name."""
    return lambda figures: [figures[one] / figures[other] for one, other in pairs]


def extreme(choose: Callable[[list[float]], float], begin: str, end: str) -> Numbers:
    """Return the least or greatest of the figures whose names begin and end so."""
    return lambda figures: [
        choose([v for name, v in figures.items() if name.startswith(begin) and name.endswith(end)])
    ]


def engine_speeds(figures: Figures) -> Sequence[float]:
    """Return how many times as fast as others engines are under EASY."""
    theta, gaia = "theta_2022, 5000 jobs", "UniLu-Gaia-2014-1, 5000 jobs"
    compiled = figures[f"{theta}: compiled, easy"]
    return (
        *(compiled / figures[f"{theta}: {one}, easy"] for one in ("plain SimPy", "interpreted")),
        *(figures[f"{log}: process over plain SimPy, easy"] for log in (theta, gaia)),
    )


def sampler_cost(figures: Figures) -> Sequence[float]:
    """Return the CPU seconds per suggestion in Optuna over those of the strategy alone."""
    sampler, strategy = (
        float(figures[f"measured, {method}: CPU s per suggestion"])
        for method in ("copperline-sampler", "grasp")
    )
    return [sampler / strategy]


def slurm_errors(figures: Figures) -> Sequence[float]:
    """Return the least tau, the partitions, and the largest error of a mean wait in per cent."""
    taus = [value for name, value in figures.items() if ": tau of " in name]
    of = {name.partition(":")[0] for name in figures if name.endswith("predicted (s)")}
    waits = [
        [figures[f"{run}: mean wait {k} (s)"] for k in ("predicted", "measured")] for run in of
    ]
    return min(taus), len(taus), 100 * max(abs(one / other - 1) for one, other in waits)


def fit_errors(figures: Figures) -> Sequence[float]:
    """Return the largest KS distance of a law, and the error of arrivals in per cent."""
    (distance,) = extreme(max, "ks ", "")(figures)
    return distance, 100 * figures["arrivals by hour, mean error"]


def quantile_errors(figures: Figures) -> Sequence[float]:
    """Return the largest deviations of logarithms of quantiles in per cent."""
    of = ("gaps", "run times, types as in the reference", "run times, whole runs")
    return [100 * figures[f"lublin: {one}, largest deviation of a log quantile"] for one in of]


def fleet_found(figures: Figures) -> Sequence[float]:
    """Return combinations, best and current cost, the change in per cent, and both fleets."""
    both = figures["best"], figures["baseline"]
    best, current = (one["value"] for one in both)
    fleets = [one["values"]["gpu8_machines"] for one in both]
    return figures["space"]["size"], best, current, 100 * (best / current - 1), *fleets


def platform_found(figures: Figures) -> Sequence[float]:
    """Return best and current cost of a day, and the best levels that are numbers."""
    levels = ("training_capacity", "compute_capacity", "drift_threshold", "max_age_d")
    best = figures["best"]
    return best["value"], figures["baseline"]["value"], *(best["values"][one] for one in levels)


def episode_speedup(figures: Figures) -> Sequence[float]:
    """Return how many times as fast the compiled loop is as a session, at the least."""
    cells = [name.partition(": ")[0] for name in figures if name.endswith(": compiled us")]
    return [min(figures[f"{one}: session us"] / figures[f"{one}: compiled us"] for one in cells)]


def paper_space(_: Figures) -> Sequence[float]:
    """Return the levels of the paper's parameters, and their combinations."""
    from assistant.applications.scheduling_parameters import N_SPLITS, N_TIMES, N_WIDTHS

    return N_SPLITS, N_TIMES, N_WIDTHS, N_SPLITS * N_TIMES * N_WIDTHS


def testbeds() -> Sequence[float]:
    """Return how many configurations `flood`, the paper's scheduling and `maze` have."""
    from assistant.applications.extensions.flood import Flood
    from assistant.applications.extensions.maze import MazeRunner

    return Flood().space.size, paper_space({})[-1], MazeRunner().space.size


def platform_size(_: Figures) -> Sequence[float]:
    """Return how many configurations the AI platform has."""
    from assistant.applications.extensions.ai_platform import AiPlatform

    return [AiPlatform().space.size]


OVER_OPTUNA = extreme(min, "", "processes: ratio")
ONCE_QUEUED = ratios(("claim of 100000: p50_ms", "claim of 10: p50_ms"))
BIG_OVER_OPTUNA = ratios(
    *(
        (f"big, {operation}: s", f"big, {operation}: optuna, s")
        for operation in ("first look, with reading the log", "effects", "suggest 1")
    )
)
BY_DIGITS = ratios(("grasp, 10^12: mean_s", "grasp, 10^4: mean_s"))
BY_SIZE = ratios(*((f"{one} 100000", f"{one} 10000") for one in ("us_per_pipeline", "peak_mb")))
COVERAGES = named(
    "F2, grasp: coverage of runs needed", "F2, grasp: coverage of the best at the end", times=100
)
OUTSIDE = named(
    "rules: checks", "rules: outside of their 95 % interval", "rules: checks of random figures"
)
CLAIMS: tuple[Claim, ...] = (
    Sentence(LOG_TUTORIAL, r"(\d+) x (\d+) x (\d+) = (8,\d+) combinations", None, paper_space),
    Sentence(BENCH, r"least (\d+) times as fast as a scheduler .*? least (\d+) times as fast as "
             r"`interpreted`.*?least ([\d.]+) times .*?least ([\d.]+) times", SPEED,
             engine_speeds, "at least"),
    Table(BENCH, "| order | lublin_256", QUALITY),
    Sentence(BENCH, r"starts is at least ([\d.]+) in each of the (\d+) partitions, and the mean "
             r"wait of a run is off by at most ([\d.]+) %", SLURM, slurm_errors),
    Table(BENCH, "| log, parameters | current", SWEEPS),
    Table(BENCH, "| log | jobs | none", QUESTION),
    Table("docs/howto/stop-runs.md", "| task | rule", EARLY, keys=2),
    Table("docs/howto/wide-ranges.md", "| function | refined", RANGES),
    Table("docs/howto/wide-ranges.md", "| function | Optuna GPSampler", RANGES),
    Table(BENCH, "| log | none: in, out", PRIORITIES),
    Table(BENCH, "| log | lanes: in, out", BACKFILLED),
    Table(BENCH, "| measured: runs of grasp", SEARCH_TABLES),
    Table(BENCH, "| generated: runs of grasp", SEARCH),
    Table(OPTUNA, "| measured: runs of copperline-sampler", SAMPLER),
    Sentence(OPTUNA, r"takes at most ([\d.]+) times as long to choose", SAMPLER, sampler_cost,
             "at most"),
    Sentence(BENCH, r"takes at most (\d+) times as long in", SUGGEST, BY_DIGITS, "at most"),
    Table(BENCH, "| F1, families left out", FORECAST),
    Table(BENCH, "| End, families left out", FORECAST),
    Table(BENCH, "| grasp: P(missed) by", FORECAST),
    Sentence(BENCH, r"runs needed holds (\d+) %, that of the best at the end (\d+) %", FORECAST,
             COVERAGES),
    Table(BENCH, "| F4: method", FORECAST),
    Sentence(SERVICE, r"at least (\d+) times as many runs", STORE, OVER_OPTUNA, "at least"),
    Sentence(SERVICE, r"at most (\d+) times as long with", STORE, ONCE_QUEUED, "at most"),
    Sentence(SERVICE, r"takes at most ([\d.]+) times as long as Optuna's .*? at most ([\d.]+) "
             r"times as long as Optuna's importances, a suggestion at most ([\d.]+) times", BIG,
             BIG_OVER_OPTUNA, "at most"),
    Table(PAST_ONE, "| measured on", CARRIED),
    Table(PAST_ONE, "| request | a second", CARRIED),
    Table(PAST_ONE, "| 1,000 runs in the store", CARRIED),
    Table(PAST_ONE, "| held out | figures", CARRIED),
    Table(PAST_ONE, "| core busy | formula", CARRIED),
    Table(PAST_ONE, "| runs of | workers of a core", CARRIED),
    Table(PAST_ONE, "| runs of | workers | core busy", CARRIED, keys=2),
    Sentence(PAST_ONE, r"stores (\d+) million events a day", CARRIED,
             named("limits: events a day", times=1e-6)),
    Sentence(PLATFORM, r"Parameters \((7,\d+) combinations\)", None, platform_size),
    Sentence(PLATFORM, r"found (\d+) a day against ([\d,]+) of .*? training for (\d+), compute for "
             r"(\d+), `potential`, ([\d.]+), (\d+) days", OPERATIONS, platform_found),
    Sentence(AIOPS, r"takes at most ([\d.]+) times as long as one of 10,000, and the process "
             r"at most ([\d.]+) times as much memory", YEAR, BY_SIZE, "at most"),
    Sentence(AIOPS, r"KS distance of ([\d.]+) of .*? ([\d.]+) % off on", FIT, fit_errors),
    Transcript(PLATFORM, DAY),
    Table(PLACING, "| machines | placement | rule |", PLACEMENT, keys=3),
    Sentence(PLACING, r"slowdown is at most ([\d.]+) by every rule", PLACEMENT,
             extreme(max, "1000_", "_slowdown")),
    Table(PLACING, "| jobs held back | trained", DEEPJS),
    Table(PLACING, "| training seeds | trained", DEEPJS_SEEDS),
    Table(PLACING, "| larger graphs | trained", DEEPJS_LAW),
    Table(PLACING, "| placement | GPUs held", OPENB),
    Table(PLACING, "| in fragments, at load", OPENB),
    Sentence(FLEETS, r"60 of (\d+,\d+) combinations, found ([\d,]+) against ([\d,]+) of the "
             r"current configuration \((-[\d.]+) %\): (\d+) machines of 8 GPUs instead of (\d+)",
             FLEET, fleet_found),
    Table(CLOUDS, "| next flavour |", CLOUD),
    Table(CLOUDS, "| bin of the lifetime |", CLOUD),
    Table(CLOUDS, "| Survival-MSE", CLOUD),
    Table(CLOUDS, "| arrivals in 90 %", CLOUD),
    Table(CLOUDS, "| cores in use |", DEMAND),
    Table(CLOUDS, "| first failure |", PACKING, keys=2),
    Table(CLOUDS, "| next flavour, networks", NETWORKS),
    Table(CLOUDS, "| bin of the lifetime, networks", NETWORKS),
    Table(CLOUDS, "| cores in use, networks", NETWORKS),
    Table(CLOUDS, "| first failure, networks", NETWORKS),
    Table(CLOUDS, "| expected over observed ends, networks", NETWORKS),
    Table(CLOUDS, "| alive after, networks", NETWORKS),
    Sentence(CLOUDS, r"drawn at least ([\d,]+) tokens .*? together at least ([\d,]+) tokens",
             NETWORKS,
             named(*(f"speed, 2 layers of 200 units, {how} (tokens per CPU s)"
                     for how in ("one trace", "256 traces"))), "at least"),
    Transcript(README, STARTED),
    Transcript(EFFECTS_PAGE, SHOWN),
    Table("docs/howto/backtest.md", "| log", BACKTEST),
    Table("docs/howto/compare-with-slurm.md", "| seed", TUNED),
    Transcript(START_PAGE, EXPLAINED),
    Transcript("docs/howto/energy.md", ENERGY),
    Transcript("docs/howto/moldable-jobs.md", MOLDABLE),
    Table(BENCH, "| | promised | bounded slowdown ratio", FUTURES),
    Sentence(TESTBED, r"levels each, (1,\d+) combinations: .*? Parameters \((\d+) combinations\): "
             "`movement`", None, lambda _: testbeds()[::2]),
    Sentence(PAPER, r"`flood` for IFM, ([\d,]+); `scheduling` for SchedSim, ([\d,]+), .*? Maze "
             r"Runner, (\d+)\)", None, lambda _: testbeds()),
    Sentence(ANALYSTS, r"as a session's, at least (\d+) times as fast", EPISODE, episode_speedup,
             "at least"),
    Sentence(BENCH, r"quantiles differ by at most ([\d.]+) % for gaps .*? at most ([\d.]+) % for "
             r"run times if both .*? quantile of run times is ([\d.]+) % off", LUBLIN,
             quantile_errors),
    Sentence(BENCH, r"rules` sets (\d+) figures .*? and (\d+) of the (\d+) that", RULES, OUTSIDE),
)  # fmt: skip
