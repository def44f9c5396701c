"""What a program that still runs has measured so far, told to whoever watches over the run.

It is read where the result will be read: the last complete line of stdout that is a JSON object,
the last match of each pattern in complete lines, or the file of measures whenever it was written
anew. What cannot be read is passed over; the result is never changed by it.
"""

import re
import time
from collections.abc import Callable, Mapping

from assistant.applications.measured_file import MeasuredFile
from assistant.applications.measuring import JsonOutput, Patterns, from_json, so_far
from assistant.errors import RunError
from assistant.objective import Measure, Objective
from assistant.ports import Oversight
from strategies.parameter import parse_number

REPORT_S = 0.25
"""Between two reports of a run, at least."""

KEPT_BYTES = 1 << 16
"""Of what a program printed since the last report."""


class Following:
    """Follows one run of a program.

    Args:
        reading: where the measures are; ``file`` counts where they are in a file.
        objective: what is wanted of them.
        oversight: who is told, and says whether the run shall end.
        file: that the run writes its measures into.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        reading: object,
        objective: Objective,
        oversight: Oversight,
        file: MeasuredFile | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objective, self._oversight, self._file, self._clock = (
            objective, oversight, file, clock,
        )  # fmt: skip
        self._patterns = reading if isinstance(reading, Patterns) else None
        lines = isinstance(reading, JsonOutput) and reading.part == "last_line"
        stream = self._patterns.stream if self._patterns is not None else "stdout"
        self._stream = stream if lines or self._patterns is not None else ""
        self._fresh = bytearray()
        self._matched: dict[str, Measure] = {}
        self._told: Mapping[str, Measure] = {}
        self._next_s = clock()

    def heard(self, stream: str, data: bytes) -> None:
        """Take what the program has just printed."""
        if stream == self._stream:
            self._fresh += data
            if len(self._fresh) > 2 * KEPT_BYTES:
                del self._fresh[:-KEPT_BYTES]

    def wants_end(self) -> bool:
        """Report what is new, a few times a second at most; whether the run shall end now."""
        now_s = self._clock()
        if now_s >= self._next_s:
            found = self._measured()
            if found and found != self._told:
                self._told = found
                self._next_s = now_s + REPORT_S
                self._oversight.report(found)
        return self._oversight.wants_end()

    def _measured(self) -> Mapping[str, Measure]:
        """Return the latest measures that are new; empty if there are none."""
        if self._file is not None:
            news = self._file.news()
            return {} if news is None else so_far(news, self._objective)
        if not self._fresh:
            return {}
        whole, line_end, rest = bytes(self._fresh).rpartition(b"\n")
        if not line_end:
            return {}
        self._fresh = bytearray(rest)
        text = whole.decode("utf-8", "replace")
        return self._last_object(text) if self._patterns is None else self._last_matches(text)

    def _last_object(self, text: str) -> Mapping[str, Measure]:
        for line in reversed(text.splitlines()):
            if line.lstrip().startswith("{"):
                try:
                    value = from_json(line, "a line")
                except RunError:
                    continue
                return so_far(value, self._objective)
        return {}

    def _last_matches(self, text: str) -> Mapping[str, Measure]:
        patterns = () if self._patterns is None else self._patterns.patterns
        for pattern in patterns:
            for match in re.finditer(pattern, text, re.MULTILINE):
                for name, given in match.groupdict().items():
                    number = None if given is None else parse_number(given.strip())
                    if number is not None:
                        self._matched[name] = float(number)
        return dict(self._matched)
