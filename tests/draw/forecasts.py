"""Forecasts of every kind: known and unknown parts, decided and open, tiny and huge numbers."""

from hypothesis import strategies as st

from assistant.core.forecast import (
    EndForecast,
    FanPoint,
    Forecast,
    GoalForecast,
    Interval,
    PaperForecast,
    RegionCount,
    TermForecast,
)
from assistant.presentation.text.forecast import ForecastSubject

NOW_S = 1_795_273_000.0
values = st.floats(-1e12, 1e12)
counts = st.integers(0, 10**9).map(float)
chances = st.floats(0.0, 1.0)


def ordered(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[Interval]:
    """Intervals whose upper end, or all of it, may be unknown."""
    return st.builds(
        lambda three, known: Interval(*(x if i < known else None for i, x in enumerate(three))),
        st.tuples(numbers, numbers, numbers).map(sorted),
        st.integers(0, 3),
    )


terms = st.lists(
    st.one_of(
        st.builds(
            TermForecast,
            st.just("max_runs"),
            st.integers(1, 10**6),
            st.integers(0, 10**6),
            counts.map(lambda n: Interval(n, n, n)),
        ),
        st.builds(
            TermForecast,
            st.just("deadline"),
            st.floats(1.0, 1e18),
            st.just(NOW_S),
            st.none() | ordered(counts),
        ),
        st.builds(
            TermForecast,
            st.just("max_cost"),
            st.floats(1e-9, 1e12),
            st.none() | st.floats(0.0, 1e12),
            st.none() | ordered(counts),
        ),
    ),
    max_size=3,
    unique_by=lambda term: term.term,
).map(tuple)

goals = st.builds(
    GoalForecast,
    goal=values,
    reached_by=st.none() | st.integers(1, 999),
    chance=st.none() | chances,
    band=st.none() | st.tuples(chances, chances),
    runs_needed=st.none() | ordered(counts),
    seconds_needed=st.none() | ordered(st.floats(0.0, 1e18)),
    steps_away=st.none() | st.floats(0.0, allow_nan=False),
    if_doubled=st.none() | chances,
)

ends = st.one_of(
    st.builds(
        EndForecast,
        miss=chances,
        band=st.tuples(chances, chances),
        if_doubled=st.none() | chances,
    ),
    st.just(EndForecast(None, None, None, "more than 100 runs are left")),
)

papers = st.builds(
    PaperForecast,
    at_s=st.just(NOW_S),
    basis=st.sampled_from(["near", "plan", "queued"]),
    executed=st.integers(0, 500),
    remaining=st.none() | st.integers(0, 500),
    remaining_by_runs=st.none() | st.integers(0, 500),
    remaining_by_deadline=st.none() | st.integers(0, 500),
    pending=st.none() | st.integers(0, 10**6),
    shortfall=st.none() | st.integers(-500, 10**6),
    regions=st.lists(
        st.builds(RegionCount, st.just(1), st.just(3), st.just(3), st.none(), values, values),
        max_size=3,
    ).map(tuple),
    mean_duration_s=st.none() | st.floats(0.0, 1e9),
    predicted_end_s=st.none(),
    remaining_by_cost=st.none() | st.integers(0, 500),
)

fans = st.lists(
    st.builds(
        FanPoint,
        st.integers(0, 100),
        st.none() | st.floats(0.0, 1e18),
        values,
        values,
        values,
    ),
    max_size=6,
    unique_by=lambda point: point.runs,
).map(lambda points: tuple(sorted(points, key=lambda point: point.runs)))

forecasts = st.builds(
    Forecast,
    at_s=st.just(NOW_S),
    paper=papers,
    terms=terms,
    remaining=st.none() | ordered(counts),
    binding=st.sampled_from([None, "max_runs", "deadline", "max_cost"]),
    goal=st.none() | goals,
    duration_s=st.none() | ordered(st.floats(0.0, 1e9)),
    seconds_left=st.none() | ordered(st.floats(0.0, 1e18)),
    best=st.none() | ordered(values),
    fan=fans,
    silence=st.sampled_from(["", "7 runs have ended, and a forecast needs 12"]),
    cautions=st.sampled_from([(), ("tested after at most 90 runs",)]),
    calibration=st.just("drawn"),
    is_over=st.booleans(),
    under_way=st.integers(0, 9),
    end=st.none() | ends,
)

subjects = st.builds(
    ForecastSubject,
    st.just("mean_wait_s"),
    st.sampled_from(["", "s"]),
    st.sampled_from(["", "EUR"]),
    st.booleans(),
)
