"""One attempt at one run, the same text for every executor."""

import time
import traceback
from collections.abc import Mapping

from assistant.errors import RunError
from assistant.objective import Measure, finite
from assistant.ports import Application, Completion, Work


def attempt(application: Application, work: Work) -> Completion:
    """Evaluate once and say what came of it; an exception becomes a failure with its sentence.

    Numbers that are not finite are unknown (None). KeyboardInterrupt and SystemExit pass through.
    """
    started_s = time.perf_counter()
    measures: Mapping[str, Measure] | None = None
    failure: str | None = None
    try:
        measures = {k: finite(v) for k, v in application.evaluate(work.values, work.seed).items()}
    except RunError as error:
        failure = str(error)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    return Completion(work.run_id, measures, failure, time.perf_counter() - started_s)
