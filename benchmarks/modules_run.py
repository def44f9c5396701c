"""How many modules of the project work for one thing that a user does, counted by tracing it.

``python -m benchmarks.modules_run`` does each of three flows in a process of its own:

* ``sweep``: ``copperline sweep --table TABLE --runs 12 --report FILE``, from the command's first
  line to its end;
* ``suggestion``: a press of *Suggest* in the browser until the page has drawn the rows. Service and
  page share one process here, and Streamlit's own tester stands for the browser;
* ``claim``: one lease of a run over HTTP, in a service that has given one before.

A module counts if a function of its file is called, be it a method, a property, a lambda, a
comprehension or a generator. What runs while a module is imported does not count, nor do methods
that `dataclasses` writes, which have no line in the file, nor templates of the report. Functions
that Numba compiled are not seen. Housekeeping of the service, which comes every half second
whatever is asked, is off in the last two flows; threads that only watch the service are left out.

It prints a table with the target of each flow, then the modules of each flow by package.
``--why MODULE`` prints which functions of a module other modules called, in which flow.
"""

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from benchmarks.harness import Record, guarded, parser, table

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = ("agents", "assistant", "copperline", "sim", "strategies", "streamlit_app")
TARGETS = {"sweep": 80, "suggestion": 40, "claim": 22}
"""Flows, and the most modules that each should need."""

WATCHERS = ("copperline-companion",)
"""Names of threads that belong to no flow: they only look whether a service is there."""

N_RUNS = 12
LEVELS = range(1, 9)
NEVER_S = 3600.0


class ModuleTrace:
    """Record of the functions that were called, and of the first caller of each.

    Args:
        root: folder of the modules that count.
        packages: top names below it that count.
    """

    def __init__(self, root: Path = REPOSITORY, packages: Sequence[str] = PACKAGES) -> None:
        self._prefixes = tuple(
            f"{root / package}{end}" for package in packages for end in (os.sep, ".py")
        )
        self._root = root
        self._callers: dict[CodeType, str] = {}
        self._seen: dict[int, CodeType] = {}  # by identity: to hash a code object is slow
        self._is_on = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record calls, in this thread and in those that `install` has seen start."""
        self._is_on = True
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._is_on = False

    def install(self) -> None:
        """Watch all threads that start later; nothing is recorded yet."""
        threading.setprofile(self._called)

    def functions(self) -> dict[str, dict[str, str]]:
        """Return the recorded functions by module, each with its first caller."""
        by_module: dict[str, dict[str, str]] = defaultdict(dict)
        for code, caller in self._callers.items():
            by_module[self._module(code.co_filename)][code.co_qualname] = caller
        return {module: by_module[module] for module in sorted(by_module)}

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not self._is_on:
            return
        code = frame.f_code
        if id(code) in self._seen:
            return
        if self._counts(code) and code.co_flags & inspect.CO_OPTIMIZED:  # no body of a module
            if threading.current_thread().name in WATCHERS or _is_importing(frame):
                return
            self._callers[code] = self._caller(frame.f_back)
        self._seen[id(code)] = code

    def _caller(self, frame: FrameType | None) -> str:
        """Return the nearest function of the project that led here."""
        while frame is not None:
            code = frame.f_code
            if self._counts(code):
                return f"{self._module(code.co_filename)}.{code.co_qualname}"
            frame = frame.f_back
        return "outside of the project"

    def _counts(self, code: CodeType) -> bool:
        name = code.co_filename
        return name.startswith(self._prefixes) and name.endswith(".py")

    def _module(self, filename: str) -> str:
        parts = Path(filename).relative_to(self._root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_importing(frame: FrameType) -> bool:
    """Return whether a call comes from the body of a module, other than that of a script."""
    at: FrameType | None = frame
    while at is not None:
        if at.f_code.co_name == "<module>" and at.f_globals.get("__name__") != "__main__":
            return True
        at = at.f_back
    return False


def write_table(path: Path) -> None:
    """Write a measured table of three parameters with some interaction."""
    lines = ["a,b,c,objective"]
    lines += [
        f"{a},{b},{c},{(a - 3) ** 2 + (b - 5) ** 2 + a * c}"
        for a in LEVELS
        for b in LEVELS
        for c in LEVELS
    ]
    path.write_text("\n".join(lines) + "\n")


def run_sweep(folder: Path, trace: ModuleTrace) -> None:
    """Sweep a table of measurements and write the report."""
    from assistant.cli.main import run

    write_table(folder / "table.csv")
    words = ["sweep", "--table", str(folder / "table.csv"), "--runs", str(N_RUNS), "--store",
             str(folder / "store.db"), "--report", str(folder / "report.html")]  # fmt: skip
    with trace.recording():
        code = run(words)
    assert code == 0, f"exit code {code}"
    assert (folder / "report.html").exists()


@contextmanager
def _served(path: Path) -> Iterator[str]:
    """Serve a store in this process, without housekeeping; yield the address and announce it."""
    from assistant.service.app import make_service
    from assistant.service.auth import Role, RoleTokens
    from assistant.service.experiment_service import ExperimentService
    from assistant.service.observability import ServiceLog
    from assistant.service.server import HttpServer, bind
    from assistant.service.store_lock import StoreLock
    from assistant.store import SqliteStore
    from benchmarks.service_http import TOKEN

    lock = StoreLock.take(path)
    assert lock is not None
    store, log = SqliteStore(path), ServiceLog(level="error")
    tokens = RoleTokens({Role.OWNER: TOKEN})
    app = make_service(ExperimentService(store, log), tokens, log, look_after_s=NEVER_S)
    with HttpServer(app.asgi, bind(), log, drain=app.context.drain, drain_s=2) as server:
        lock.publish(server.url, TOKEN)
        yield server.url
    store.close()
    lock.release()


def show_suggestion(folder: Path, trace: ModuleTrace) -> None:
    """Press *Suggest* on a page that shows 12 results, and draw the rows."""
    from streamlit.testing.v1 import AppTest
    from streamlit.util import calc_hash

    from assistant import open_session
    from assistant.applications.lookup import Lookup
    from assistant.core.sla import Sla
    from assistant.executors.serial import SerialExecutor
    from assistant.service.browser_access import AccessPolicy, BrowserAccess
    from assistant.store import SqliteStore

    write_table(folder / "table.csv")
    path, application = folder / "store.db", Lookup.read(folder / "table.csv")
    store = SqliteStore(path)
    session = open_session(application, store=store, sla=Sla(50), experiment_id="table")
    session.submit(session.initial_evaluation(N_RUNS))
    session.run_queued(SerialExecutor(application))
    store.close()

    BrowserAccess(None, AccessPolicy(), "")  # as in use: without it pages show nothing
    os.environ["COPPERLINE_STORE"] = str(path)
    sys.argv = ["streamlit_app.py"]
    with _served(path):
        page = AppTest.from_file(str(REPOSITORY / "streamlit_app.py"), default_timeout=120)
        page.query_params["e"] = session.id
        page._page_hash = calc_hash("suggestions")
        page.run()
        button = page.button(key="suggest")
        with trace.recording():
            button.click().run()
        assert not page.exception, [each.value for each in page.exception]
        assert len(page.data_editor[0].value) > 0


def lease_run(folder: Path, trace: ModuleTrace) -> None:
    """Lease a run over HTTP, after another one."""
    from benchmarks.service import store_with
    from benchmarks.service_http import Wire

    path = folder / "store.db"
    store_with(path, N_RUNS).close()
    with _served(path) as url:
        wire = Wire(int(url.rsplit(":", 1)[1]))
        assert wire.lease("first") is not None
        with trace.recording():
            assert wire.lease("second") is not None
        wire.close()


FLOWS: Mapping[str, Callable[[Path, ModuleTrace], None]] = {
    "sweep": run_sweep,
    "suggestion": show_suggestion,
    "claim": lease_run,
}


def trace_flow(name: str) -> dict[str, dict[str, str]]:
    """Trace a flow in this process; return the functions called by module, with their callers."""
    trace = ModuleTrace()
    trace.install()
    with tempfile.TemporaryDirectory() as folder:
        FLOWS[name](Path(folder), trace)
    return trace.functions()


def traced(name: str) -> dict[str, Any]:
    """Trace a flow in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.modules_run", "--inside", name],
        capture_output=True, text=True, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def by_package(modules: Iterable[str]) -> dict[str, list[str]]:
    """Return module names by package, which is the first two parts of a name.

    >>> by_package(["sim.api", "sim.policies.orders", "sim.policies.user.limits"])
    {'sim': ['api'], 'sim.policies': ['orders', 'user.limits']}
    """
    packages: dict[str, list[str]] = defaultdict(list)
    for module in sorted(modules):
        *parts, last = module.split(".", 2)
        packages[".".join(parts) or last].append(last)
    return dict(packages)


def main() -> None:
    """Trace the flows, print their modules, write the JSON."""
    options_parser: argparse.ArgumentParser = parser(__doc__ or "")
    options_parser.add_argument("--flow", action="append", choices=FLOWS, help="all if not given")
    options_parser.add_argument("--why", action="append", default=[], help="a module to explain")
    options_parser.add_argument("--inside", choices=FLOWS, help=argparse.SUPPRESS)
    options = options_parser.parse_args()
    if options.inside:
        print(json.dumps(trace_flow(options.inside)))
        return
    record = Record("modules_run", options, [], free=("flow", "why", "inside"))
    chosen = options.flow or list(FLOWS)
    found = {name: record.step(name, partial(traced, name)) for name in chosen}
    for name in chosen:
        record.figure(f"{name}: modules", len(found[name]))
        record.figure(f"{name}: target", TARGETS[name])
    table(
        ["flow", "modules that run", "target"],
        [[name, str(len(found[name])), f"<= {TARGETS[name]}"] for name in chosen],
    )
    for name in chosen:
        print(f"\n{name}:")
        for package, modules in by_package(found[name]).items():
            print(f"  {package} ({len(modules)}): {' '.join(modules)}")
    for module in options.why:
        for name in chosen:
            for function, caller in found[name].get(module, {}).items():
                if not caller.startswith(f"{module}."):
                    print(f"{name}: {module}.{function} <- {caller}")
    record.write()


if __name__ == "__main__":
    guarded(main)
