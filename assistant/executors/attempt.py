"""One attempt at one run, the same text for every executor."""

import time
import traceback
from collections.abc import Mapping

from assistant.errors import RunError
from assistant.objective import Measure, finite
from assistant.ports import Application, Completion, Endable, Work


def attempt(application: Application, work: Work) -> Completion:
    """Evaluate once and say what came of it; an exception becomes a failure with its sentence.

    Numbers that are not finite are unknown (None). KeyboardInterrupt and SystemExit pass through.
    """
    started_s = time.perf_counter()
    measures: Mapping[str, Measure] | None = None
    failure: str | None = None
    try:
        measures = {k: finite(v) for k, v in _evaluate(application, work).items()}
    except RunError as error:
        failure = str(error)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    return Completion(work.run_id, measures, failure, time.perf_counter() - started_s)


def _evaluate(application: Application, work: Work) -> Mapping[str, Measure]:
    if work.limit_s is not None and isinstance(application, Endable):
        return application.evaluate_within(work.values, work.seed, work.limit_s)
    return application.evaluate(work.values, work.seed)
