"""``python -m tests.fuzz READER [--seconds 120] [--seed N]``: exit code 1 if anything was found."""

import argparse
import random
import resource
import sys
import warnings
from pathlib import Path

from tests.fuzz.fuzzing import fuzz
from tests.fuzz.readers import READERS

MOST_ADDRESSES = 8 * 2**30
"""Address space: what runs away meets this wall before the machine's memory ends."""


def main() -> int:
    """Fuzz, print what was found, and keep the inputs."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("reader", choices=[*READERS, "all"])
    parser.add_argument("--seconds", type=float, default=120.0, help="per reader")
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed if not given")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for inputs that fail")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    warnings.simplefilter("error")  # as in pytest
    seed = random.SystemRandom().randrange(10**9) if chosen.seed is None else chosen.seed
    n_found = 0
    for reader in READERS if chosen.reader == "all" else (chosen.reader,):
        count, found = fuzz(reader, chosen.seconds, seed)
        n_found += len(found)
        sys.stdout.write(f"{reader}: seed {seed}, {count:,} inputs, {len(found)} findings\n")
        for one in found:
            shown = one.data if len(one.data) < 400 else one.data[:400] + b"..."
            sys.stdout.write(f"\n  {reader}/{seed}/{one.count}: {one.fault}\n  {shown!r}\n")
            if chosen.keep is not None:
                chosen.keep.mkdir(parents=True, exist_ok=True)
                (chosen.keep / f"{reader}-{seed}-{one.count}").write_bytes(one.data)
        sys.stdout.flush()
    return min(n_found, 1)


if __name__ == "__main__":
    sys.exit(main())
