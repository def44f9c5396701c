"""Ask and tell beside Optuna: lines of code, seconds per call, and the same runs as a sweep.

``python -m benchmarks.ask_tell --optuna PATH`` searches one space of six parameters with both
libraries, each in a child process on one thread, by the two scripts below. PATH is an interpreter
that has Optuna; without it only ours is measured. Printed are the lines of each script that are not
blank, the median CPU milliseconds of ask and tell in the last ten runs, and of our ask the parts:
the strategy's choice, the model's predictions for the forecast, and the rest. The last line says
whether ``copperline sweep`` with the same seed made the same runs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from assistant import AssistantError
from benchmarks.harness import Record, guarded, parser, table

LAST = 10
SEED = 0

PROGRAM = """
def loss(a, b, c, d, e, f):
    return (a - 2) ** 2 + 2 * (b - 3) ** 2 + (c - 1) ** 2 + abs(d - e) + (a - f) ** 2 / 4
"""

OURS = """
import copperline as cl
study = cl.study({p: range(5) for p in "abcdef"}, minimise="loss", runs=RUNS, seed=0)
while run := study.ask():
    study.tell(run, loss(**run))
print(study.best.value)
"""

OPTUNA = """
import optuna
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
for _ in range(RUNS):
    trial = study.ask()
    values = {p: trial.suggest_int(p, 0, 4) for p in "abcdef"}
    study.tell(trial, loss(**values))
print(study.best_value)
"""

OURS_TIMED = """
import copperline as cl
from strategies import UntriedPredictions
from assistant.session import commands
parts = {"strategy": [], "predictions": []}
def timed(part, call):
    def timing(*arguments):
        start = time.process_time()
        try:
            return call(*arguments)
        finally:
            parts[part].append(time.process_time() - start)
    return timing
UntriedPredictions.of = timed("predictions", UntriedPredictions.of)
choose = commands.current_strategy
class Timed:
    def __init__(self, strategy):
        self.suggest = timed("strategy", strategy.suggest)
commands.current_strategy = lambda experiment: Timed(choose(experiment))
study = cl.study({p: range(5) for p in "abcdef"}, minimise="loss", runs=RUNS, seed=0)
while True:
    for times in parts.values():
        times.clear()
    start = time.process_time()
    run = study.ask()
    asked = time.process_time()
    if run is None:
        break
    value = loss(**run)
    told = time.process_time()
    study.tell(run, value)
    done.append([asked - start, time.process_time() - told, *(sum(t) for t in parts.values())])
best = study.best.value
rows = study.to_pandas()[["a", "b", "c", "d", "e", "f", "loss"]].values.tolist()
"""

OPTUNA_TIMED = """
import optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
for _ in range(RUNS):
    start = time.process_time()
    trial = study.ask()
    values = {p: trial.suggest_int(p, 0, 4) for p in "abcdef"}
    asked = time.process_time()
    value = loss(**values)
    told = time.process_time()
    study.tell(trial, value)
    done.append([asked - start, time.process_time() - told, 0.0, 0.0])
best, rows = study.best_value, []
"""

SWEEP = """
runs = {runs}
seed = {seed}
[application]
kind = "function"
function = "program:loss"
[objective]
minimise = "loss"
""" + "".join(f'[[parameters]]\nname = "{p}"\nlevels = [0, 1, 2, 3, 4]\n' for p in "abcdef")


def lines_of(script: str) -> int:
    """Return the number of lines that are not blank."""
    return sum(bool(line.strip()) for line in script.splitlines())


def play(python: str, body: str, runs: int) -> dict[str, Any]:
    """Run one timed script in a child; raises `AssistantError` with its last line."""
    head = f"import json, time\nRUNS = {runs}\ndone = []\n"
    tail = '\nprint(json.dumps({"done": done, "best": best, "rows": rows}))\n'
    child = subprocess.run(
        [python, "-c", head + PROGRAM + body + tail],
        capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    if child.returncode:
        last = (child.stderr.strip().splitlines() or ["no message"])[-1]
        raise AssistantError(f"the script in '{python}' failed: {last}")
    answer: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return answer


def swept(runs: int) -> list[list[float]]:
    """Return values and result of every run of ``copperline sweep`` on the same function."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "program.py").write_text(PROGRAM)
        (home / "sweep.toml").write_text(SWEEP.format(runs=runs, seed=SEED))
        command = [sys.executable, "-m", "assistant.cli", "sweep", "sweep.toml", "--store", "a.db"]
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssistantError(f"copperline sweep failed: {done.stderr.strip()}")
        import copperline

        with copperline.load_study(home / "a.db") as study:
            rows: list[list[float]] = study.to_pandas()[[*"abcdef", "loss"]].to_numpy().tolist()
            return rows


def median_ms(done: list[list[float]], column: int) -> float:
    """Return the median of one column over the last runs, in milliseconds."""
    return 1000 * statistics.median(row[column] for row in done[-LAST:])


def main() -> None:
    """Measure both, print the table, write the JSON."""
    options_parser: argparse.ArgumentParser = parser(__doc__ or "")
    options_parser.add_argument("--optuna", metavar="PATH", help="interpreter that has Optuna")
    options = options_parser.parse_args()
    runs = 20 if options.quick else 110
    record = Record("ask_tell", options, [SEED])
    plays = {"copperline": (sys.executable, OURS, OURS_TIMED)}
    if options.optuna is not None:
        plays["Optuna, TPE"] = (options.optuna, OPTUNA, OPTUNA_TIMED)
    rows = []
    for name, (python, script, body) in plays.items():
        found = record.step(name, lambda p=python, b=body: play(p, b, runs))
        ask, tell, strategy, predictions = (median_ms(found["done"], c) for c in range(4))
        rest = ask - strategy - predictions
        is_ours = name == "copperline"
        figures = {"lines": float(lines_of(script)), "ask_ms": ask, "tell_ms": tell}
        if is_ours:
            figures |= {"strategy_ms": strategy, "predictions_ms": predictions, "rest_ms": rest}
        for key, value in figures.items():
            record.figure(f"{name}: {key}", value)
        parts = f"{strategy:.1f} + {predictions:.1f} + {rest:.1f}" if is_ours else ""
        rows.append(
            [name, str(lines_of(script)), f"{ask:.1f}", parts, f"{tell:.2f}", f"{found['best']:g}"]
        )
    ours = record.step("copperline", dict)["rows"]
    same = record.step("sweep", lambda: {"same": swept(runs) == ours})["same"]
    record.figure("same runs as copperline sweep", float(same))
    record.write()
    head = ["library", "lines", f"ask after {runs - LAST} runs (ms)"]
    table([*head, "strategy + predictions + rest (ms)", "tell (ms)", "best"], rows)
    sys.stdout.write(f"\nThe same runs as copperline sweep: {'yes' if same else 'NO'}\n")


if __name__ == "__main__":
    guarded(main)
