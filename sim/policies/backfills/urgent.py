"""Rules for instances on machines that ask anew, before every instance, whose turn it is.

The order of the scenario decides ties. Whoever has no room is passed over, as in `greedy`.
"""

from sim.kernel.serving import dominant_share, fewest_first, served_by, work_left
from sim.policies.kinds import Backfill

DRF = Backfill(
    "drf",
    "the user, or job, with the smallest dominant share is next (Ghodsi et al., NSDI 2011)",
    decide_instances=served_by("drf", dominant_share),
    counts_holders=True,
)
MAX_WEIGHT = Backfill(
    "max_weight",
    "the request of which most instances wait is next (after Maguluri et al., INFOCOM 2012)",
    decide_instances=served_by("max_weight", fewest_first, by_need=True),
)
LEAST_WORK = Backfill(
    "least_work",
    "the job with the least work left is next (the other half of Tetris, Grandl et al. 2014)",
    decide_instances=served_by("least_work", work_left),
)
