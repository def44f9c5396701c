"""Rounds of the soak until so many faults are made.

``python -m tests.faults.soak --faults N --seed S --json FILE``
"""

import argparse
import json
import os
import secrets
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.soak.app import MARK
from tests.faults.soak.driver import Round, play


def main() -> int:
    """Play rounds; print a table; end with 1 if any promise was broken."""
    options = argparse.ArgumentParser(description="kill the service and its workers at random")
    options.add_argument("--faults", type=int, default=300)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--json", type=Path, default=None)
    options.add_argument("--per-round", type=int, default=400)
    options.add_argument("--seconds", type=float, default=110.0, help="of faults, at most, a round")
    options.add_argument("--workers", type=int, default=6)
    options.add_argument("--every", type=float, default=0.3, help="seconds between faults, mean")
    asked = options.parse_args()
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    rounds: list[Round] = []
    began_s = time.monotonic()
    while (made := sum(one.faults.total() for one in rounds)) < asked.faults:
        wanted = min(asked.per_round, asked.faults - made)
        os.environ[MARK] = secrets.token_hex(8)
        rounds.append(_apart(seed + len(rounds), wanted, asked))
        one = rounds[-1]
        sys.stdout.write(f"round {len(rounds)}, seed {one.seed}: {one.faults.total()} faults\n")
        sys.stdout.writelines(f"  {line}\n" for line in one.wrong)
        sys.stdout.flush()
        if asked.json is not None:
            _write(asked.json, seed, rounds, time.monotonic() - began_s)
        if not one.faults:
            break
    _print(rounds)
    return int(any(one.wrong for one in rounds))


def _apart(seed: int, wanted: int, asked: argparse.Namespace) -> Round:
    """Play a round in a process of its own, whose mounts and memory end with it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)
            one = play(seed, wanted, asked.seconds, asked.workers, asked.every)
            told = {"faults": one.faults, "wrong": one.wrong, "notes": one.notes}
            with os.fdopen(writing, "w") as file:
                json.dump(told, file)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(pid, 0)
    if not text:
        return Round(seed, wrong=["the round itself broke off; see above"])
    told = json.loads(text)
    return Round(seed, Counter(told["faults"]), told["wrong"], told["notes"])


def _write(path: Path, seed: int, rounds: list[Round], seconds: float) -> None:
    told: dict[str, Any] = {
        "seed": seed,
        "seconds": round(seconds),
        "faults": sum((one.faults for one in rounds), Counter()),
        "rounds": [
            {"seed": r.seed, "faults": r.faults, "wrong": r.wrong, "notes": r.notes} for r in rounds
        ],
    }
    path.write_text(json.dumps(told, indent=1, default=dict))


def _print(rounds: list[Round]) -> None:
    faults = sum((one.faults for one in rounds), Counter[str]())
    wrong = [line for one in rounds for line in one.wrong]
    notes: Counter[str] = Counter()
    for one in rounds:
        notes.update({k: v for k, v in one.notes.items() if isinstance(v, int)})
    rows = [*sorted(faults.items()), *notes.items()]
    sys.stdout.write("\n| what | how often |\n|---|---|\n")
    sys.stdout.writelines(f"| {name} | {n:,} |\n" for name, n in rows)
    by = Counter("lost" if line[:2] in ("I1", "I3", "I9") else "wrong" for line in wrong)
    twice = sum("duplicate" in line or "I2" in line[:2] for line in wrong)
    n, kinds = faults.total(), len({kind[:2] for kind in faults})
    sys.stdout.write(
        f"\n{n:,} faults of {kinds} kinds ({len(faults)} with their variants), {by['lost']} lost, "
        f"{twice} duplicated, {by['wrong'] - twice} wrong"
    )
    if n and not wrong:
        sys.stdout.write(f"; at 95 % fewer than {3 / n:.2g} a fault (rule of three)")
    sys.stdout.write("\n")


if __name__ == "__main__":
    sys.exit(main())
