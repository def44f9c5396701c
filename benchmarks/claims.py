"""Every figure of README.md and docs, claimed beside measured.

``python -m benchmarks.claims`` runs the command behind every claim of `benchmarks.claimed` and
compares what it measures with the number that is read from the document itself. ``--quick`` takes
the claims that need about a minute together and no quiet machine; ``--only TEXT`` those with this
text in their document, command or cost. It prints a table, and ends with exit code 1 if a claim
does not hold, with 2 if one is not found in its document. ``--json FILE`` is written after every
command; ``--resume`` keeps the commands that are there already, and a long benchmark keeps its own
steps beside it. A claim is told as not measured if its data is not in ``--data``, or a peer is not
installed (extra ``bench``).
"""

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from assistant import AssistantError
from benchmarks.claim_kinds import REPOSITORY, Claim, Command
from benchmarks.claimed import CLAIMS
from benchmarks.harness import Record, guarded, parser, table


def main() -> None:
    """Measure what was chosen and print claimed beside measured."""
    options = parser(__doc__ or "")
    options.add_argument("--only", default="", help="of claims with this text")
    options.add_argument("--data", type=Path, default=REPOSITORY / "../shared/data")
    chosen = options.parse_args()
    record = Record("claims", chosen, [], free=("quick", "only"))
    texts = {claim.document: (REPOSITORY / claim.document).read_text() for claim in CLAIMS}
    for claim in CLAIMS:
        claim.spans(texts[claim.document])
    rows: list[list[str]] = []
    for claim in filter(lambda claim: _is_chosen(claim, chosen), CLAIMS):
        rows += _rows(claim, texts[claim.document], chosen, record)
    verdicts = [row[-1] for row in rows]
    for verdict in ("ok", "WRONG", "not measured"):
        record.figure(verdict, verdicts.count(verdict))
    record.write()
    table(["document", "what", "claimed", "measured", "verdict"], rows)
    sys.exit(1 if "WRONG" in verdicts else 0)


def _is_chosen(claim: Claim, chosen: argparse.Namespace) -> bool:
    line, cost = (claim.source.line, claim.source.cost) if claim.source else ("", "quick")
    return chosen.only in f"{claim.document} {line} {cost}" and cost in (
        ("quick",) if chosen.quick else ("quick", "minutes", "hours")
    )


def _rows(claim: Claim, text: str, chosen: argparse.Namespace, record: Record) -> list[list[str]]:
    """Return a row for every number of a claim."""
    result: dict[str, Any] = {}
    if claim.source is not None:
        about = [claim.document, claim.source.line.splitlines()[-1]]
        if missing := claim.source.missing(chosen.data):
            return [[*about, "", f"no {', '.join(missing)}", "not measured"]]
        try:
            result = _measured(claim.source, chosen, record)
        except AssistantError as error:
            return [[*about, "", " ".join(str(error).split()), "WRONG"]]
    return [
        [claim.document, one.what, one.claimed, one.measured, "ok" if one.holds else "WRONG"]
        for one in claim.compare(text, result)
    ]


def _measured(command: Command, chosen: argparse.Namespace, record: Record) -> dict[str, Any]:
    """Return the result of a command, measured now or kept from before."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if chosen.json is not None:
            name = hashlib.sha256(command.line.encode()).hexdigest()[:12]
            folder = chosen.json.resolve().with_suffix(".steps") / name
        return record.step(command.line, lambda: command.run(chosen.data, folder))


if __name__ == "__main__":
    guarded(main)
