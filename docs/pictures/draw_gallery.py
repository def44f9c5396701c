"""Draw docs/pictures/gallery and write docs/reference/gallery.md, from charts of real runs.

Every public function of `assistant.presentation.charts` that returns a Vega-Lite specification is
recorded while commands and pages of Copperline run on the built-in examples. The first
specification of each is drawn; a chart that nothing drew ends the script with its name.
"""

import functools
import importlib
import inspect
import os
import pkgutil
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import vl_convert

from assistant.presentation import charts
from assistant.presentation.charts.vega_lite import CONFIG, Spec

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
FOLDER = HERE / "gallery"
PAGE = HERE.parent / "reference" / "gallery.md"
LARGEST_SVG = 60_000
"""Bytes; a larger chart is drawn as PNG."""

SUBJECTS = {
    "forecast": "Progress and forecast",
    "effects": "Effects",
    "response_map": "The space",
    "comparison": "Several experiments",
    "vega_lite": "Two measures",
    "schedule": "Schedules and machines",
    "workload": "Workloads",
    "capacity": "Generated workloads and servers",
    "ai_platform": "The AI platform",
    "training": "Trained schedulers",
    "testbeds": "Testbeds",
}
INTRODUCTION = (
    "Every chart of report and browser, drawn by `make pictures` from runs of the built-in "
    "examples. Each is a Vega-Lite specification made by the function of its name in "
    "`assistant.presentation.charts`."
)
PAGES = (
    "overview", "suggestions", "queue", "what-if", "space", "effects", "run", "steering", "report",
    "workload",
)  # fmt: skip

RETURNS = (Spec, "Spec")
Drawn = dict[tuple[str, str], Spec]


def record() -> tuple[Drawn, dict[tuple[str, str], str]]:
    """Wrap every chart before anything else imports it; return what is drawn, and what each is."""
    drawn: Drawn = {}
    purposes: dict[tuple[str, str], str] = {}
    for info in pkgutil.iter_modules(charts.__path__):
        module = importlib.import_module(f"{charts.__name__}.{info.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            is_own = function.__module__ == module.__name__ and not name.startswith("_")
            purpose = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
            is_chart = purpose.startswith("Draw ")  # others return a part of one
            if is_own and is_chart and function.__annotations__.get("return") in RETURNS:
                key = info.name, name
                purposes[key] = purpose
                setattr(module, name, _recorded(function, key, drawn))
    return drawn, purposes


def _recorded(
    function: Callable[..., Spec], key: tuple[str, str], drawn: Drawn
) -> Callable[..., Spec]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Spec:
        spec = function(*args, **kwargs)
        drawn.setdefault(key, spec)
        return spec

    return call


def run_everything(folder: Path) -> None:
    """Run commands and pages that draw every chart."""
    from assistant.cli.main import run

    def command(line: str) -> None:
        words = line.split()
        code = run(words)
        if code not in (0, 3):
            sys.exit(f"copperline {line} ended with {code}")

    os.environ["COPPERLINE_STORE"] = str(folder / "store.db")
    os.chdir(folder)
    (folder / "wide.toml").write_text(
        'runs = 40\n[application]\nkind = "scheduling"\nprocs = 160\nlog = "users.swf"\n'
        "first = 1500\n"
        '[application.levels]\norder = ["fcfs", "sjf", "saf"]\n'
        '[objective]\nminimise = "mean_response_s"\nsecond = "mean_bounded_slowdown"\n'
    )
    command("demo")
    write_users_log(Path("users.swf"))
    command("sweep wide.toml --report wide.html")
    leave_unfinished(folder / "store.db")
    command("report latest --out unfinished.html")
    command("report demo users --out both.html")
    command("workload convert users.swf early.swf --until 14d")
    command("workload convert users.swf late.swf --from 14d")
    command(
        "workload validate --train early.swf --test late.swf --windows 20 --packings 60 "
        "--html late.html"
    )
    command(
        "workload capacity early.swf --cores-per-server 64 --days 2 --futures 72 "
        "--picture servers.svg"
    )
    for kind in ("maze", "flood", "ai_platform", "placement"):
        command(f"play {kind} --picture {kind}.svg")
    command("play ai_platform --day day.svg --trace trace")
    command("platform describe trace --report trace.html")
    command("platform validate --report likeness.html")
    command("workload generate joulie --duration 2d --seed 1 --to pods.jsonl")
    command("init fleet.toml --kind placement")
    command("sweep fleet.toml --runs 4 --report fleet.html")
    command("workload generate graphs --duration 3h --to jobs.tasks.csv")
    Path("machines.csv").write_text("name,count,cores,mem_gib\nm,3,8,12\n")
    command(
        "learn jobs.tasks.csv --machines machines.csv --iterations 8 --jobs 4 --parts 1 "
        "--to learned.npz --picture curve.svg"
    )
    train()
    compare_hours()
    run_pages(folder)


def train() -> None:
    """Draw the loss of a perceptron over its epochs, as the page *Run* does."""
    import numpy as np
    from sklearn.linear_model import Perceptron

    from assistant.presentation.charts.vega_lite import MeasuredMoment, measure_over_time

    random = np.random.default_rng(1)
    x = random.normal(size=(2_000, 20))
    y = x @ random.normal(size=20) + random.normal(size=2_000) > 0
    model = Perceptron(eta0=0.01, random_state=1)
    moments = []
    for epoch in range(30):
        model.partial_fit(x[:1_000], y[:1_000], [False, True])
        loss = 1.0 - float(model.score(x[1_000:], y[1_000:]))
        moments.append(MeasuredMoment(2.0 * (epoch + 1), loss))
    measure_over_time(moments, "error")


def compare_hours() -> None:
    """Compare the two parts of the log, as the page *Workload* does."""
    from assistant.presentation.charts.workload import hours_of_the_day
    from sim.api import load_workload
    from sim.generators import compare_workloads

    parts = [load_workload(f"{name}.swf") for name in ("early", "late")]
    hours_of_the_day(dict(zip(("early", "late"), compare_workloads(*parts).hours, strict=True)))


def write_users_log(path: Path) -> None:
    """Write three weeks of jobs whose users come in sessions."""
    import numpy as np

    from sim import Workload
    from sim.api import write_workload
    from sim.generators import generate, published_model

    drawn = generate(published_model("lublin"), duration_s=21 * 86_400.0, seed=1, scale=1.5)
    random = np.random.default_rng(1)
    sessions = np.cumsum(random.random(drawn.n_jobs) < 0.2)
    likes = random.integers(0, 30, sessions[-1] + 1)  # the user of each session
    first = np.concatenate(([True], sessions[1:] != sessions[:-1]))
    same = np.maximum.accumulate(np.where(first, np.arange(drawn.n_jobs), 0))
    write_workload(
        Workload.from_arrays(
            submit_s=drawn.submit_s,
            runtime_s=drawn.runtime_s,
            procs=drawn.procs[same],
            requested_s=np.maximum(drawn.requested_s, drawn.runtime_s),
            user=likes[sessions],
            mem_bytes_per_proc=(2 ** (30 + likes[sessions] % 4)),
        ),
        path,
    )


def leave_unfinished(store: Path) -> None:
    """Store an experiment with a goal in the middle of its budget."""
    from agents import Follower
    from assistant import Objective, SingleMeasure, Sla, open_session
    from assistant.applications import Function
    from assistant.executors import SerialExecutor
    from assistant.presentation.charts.forecast import best_over_time
    from assistant.presentation.report.data import run_points
    from assistant.store import SqliteStore
    from strategies import Parameter, ParameterSpace

    def error(depth: int, rate: float, width: int) -> float:
        time.sleep(0.01)  # a duration, for the forecast by time
        return (depth - 5) ** 2 + 100 * abs(rate - 0.03) + abs(width - 24) / depth

    space = ParameterSpace(
        (
            Parameter.range("depth", 1, 8, 1),
            Parameter("rate", (0.001, 0.003, 0.01, 0.03, 0.1)),
            Parameter.range("width", 4, 64, 4),
        )
    )
    application = Function(error, space, Objective(SingleMeasure("error")))
    sla = Sla(max_runs=60, goal=1.0, deadline_s=time.time() + 3600.0)
    session = open_session(application, store=SqliteStore(store), sla=sla, strategy="random")
    Follower(max_runs=22).steer(session, SerialExecutor(application))
    now = session.forecast()
    best_over_time(
        run_points(session.experiment), now.fan, now_s=now.at_s, goal=1.0,
        deadline_s=now.at_s + 1.0, title="error",
    )  # fmt: skip


def run_pages(folder: Path) -> None:
    """Open every page of every stored experiment, as a browser would."""
    from streamlit.testing.v1 import AppTest
    from streamlit.util import calc_hash

    from assistant.service.browser_access import AccessPolicy, BrowserAccess
    from assistant.store import SqliteStore
    from assistant.ui import state

    BrowserAccess(None, AccessPolicy(), "")  # as in use: without it pages show nothing
    store = folder / "store.db"
    sys.argv = ["streamlit_app.py"]
    experiments = [one.id for one in SqliteStore(store).experiments()]
    try:
        for experiment in experiments:
            for name in PAGES:
                page = AppTest.from_file(str(REPOSITORY / "streamlit_app.py"), default_timeout=120)
                page.query_params["e"] = experiment
                page.query_params["with"] = "1"  # *Run* beside the current configuration
                page._page_hash = calc_hash(name)
                page.session_state["workload-source"] = "path"
                page.session_state["workload-path"] = str(folder / "users.swf")
                page.run()
                for error in page.exception:
                    sys.exit(f"the page {name} of {experiment}: {error.value}")
    finally:
        state.service_connection(str(store)).companion.end()


def picture_of(spec: Spec, name: str) -> str:
    """Draw a specification as the report does, small ones as SVG; return its file name."""
    whole = {"background": "white", **spec, "config": CONFIG | spec.get("config", {})}
    svg = vl_convert.vegalite_to_svg(whole)
    svg = re.sub(r">\s+<", "><", svg)
    if len(svg) <= LARGEST_SVG:
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")
        return f"{name}.svg"
    (FOLDER / f"{name}.png").write_bytes(vl_convert.vegalite_to_png(whole, scale=1.0))
    return f"{name}.png"


def gallery(drawn: Drawn, purposes: dict[tuple[str, str], str]) -> str:
    """Draw every chart; return the page."""
    parts = [
        "# Gallery of charts",
        INTRODUCTION,
    ]
    for module, title in SUBJECTS.items():
        parts.append(f"## {title}")
        for key, spec in sorted(drawn.items()):
            if key[0] == module:
                file = picture_of(spec, "-".join(key).replace("_", "-"))
                text = re.sub(r"^(Draw|Return|Build)\s+", "", purposes[key])
                words = key[1].replace("_", " ")
                parts += [
                    f"### {words.capitalize()}",
                    f"{text[0].upper()}{text[1:]}".replace("``", "`"),
                    f"![{words}](../pictures/gallery/{file})",
                ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    drawn, purposes = record()
    with tempfile.TemporaryDirectory() as scratch:
        run_everything(Path(scratch))
    if missing := sorted(".".join(key) for key in purposes.keys() - drawn.keys()):
        sys.exit(f"nothing drew {', '.join(missing)}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    PAGE.write_text(gallery(drawn, purposes), encoding="utf-8")
