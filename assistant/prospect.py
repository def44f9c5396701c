"""The forecast under a change that is only thought of. Pure; what is thought of changes nothing."""

from dataclasses import replace

from assistant.experiment import Experiment
from assistant.forecast.calibration import Calibration
from assistant.forecast.whole import evidence_of, foresee, outlook
from assistant.forecasts import Forecast


def prospect(
    experiment: Experiment, after: Experiment, now_s: float, coefficients: Calibration
) -> Forecast:
    """Return the forecast of an experiment after changes, from the results that it has.

    Levels that are closed make the space smaller in proportion: N in the calibrated formula. That
    fewer levels help as much as a smaller space does was not tested as an intervention.

    Args:
        experiment: as it is.
        after: the same, with other terms, another steering or fewer levels; see
            `Experiment.supposing`.
        now_s: seconds since 1970-01-01 UTC.
        coefficients: of the forecast.
    """
    evidence = evidence_of(experiment)
    share = after.space.open_size / experiment.space.open_size
    evidence = replace(evidence, size=max(1, round(evidence.size * share)))
    known = replace(outlook(after, now_s), evidence=evidence)
    return foresee(after, known, now_s, after.sla, after.steering, coefficients)
