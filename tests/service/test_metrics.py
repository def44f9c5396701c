"""The text format, by its specification's own kind of example."""

import pytest

from assistant.service.observability import MetricsRegistry


def test_the_whole_text() -> None:
    metrics = MetricsRegistry()
    done = metrics.counter("runs_total", "Runs\nthat ended.", ("state",))
    waiting = metrics.gauge("waiting", "Runs that wait.")
    took = metrics.histogram("took_seconds", "How long.", ("route",), bounds=(0.1, 1.0))
    metrics.counter("never_total", "Not yet.")
    done.inc("done")
    done.inc("done", by=2)
    done.inc('a"b\\c\nd')
    waiting.follow(lambda: 3)
    for value in (0.05, 0.1, 0.5, 7.0):
        took.observe(value, "/x")
    assert metrics.render().splitlines() == [
        r"# HELP runs_total Runs\nthat ended.",
        "# TYPE runs_total counter",
        r'runs_total{state="a\"b\\c\nd"} 1',
        'runs_total{state="done"} 3',
        "# HELP waiting Runs that wait.",
        "# TYPE waiting gauge",
        "waiting 3",
        "# HELP took_seconds How long.",
        "# TYPE took_seconds histogram",
        'took_seconds_bucket{route="/x",le="0.1"} 2',
        'took_seconds_bucket{route="/x",le="1"} 3',
        'took_seconds_bucket{route="/x",le="+Inf"} 4',
        'took_seconds_sum{route="/x"} 7.65',
        'took_seconds_count{route="/x"} 4',
        "# HELP never_total Not yet.",
        "# TYPE never_total counter",
        "never_total 0",
    ]


def test_what_cannot_be_is_refused() -> None:
    metrics = MetricsRegistry()
    counter = metrics.counter("a_total", "", ("x",))
    gauge = metrics.gauge("g", "")
    gauge.inc(by=-2)
    gauge.inc()
    assert metrics.render().endswith("g -1\n")
    for wrong in (
        lambda: metrics.counter("a_total", ""),
        lambda: metrics.counter("b", ""),
        lambda: metrics.gauge("no-name", ""),
        lambda: metrics.histogram("h", "", bounds=(2.0, 1.0)),
        lambda: metrics.histogram("h", "", ("le",)),
        counter.inc,
        lambda: counter.inc("x", by=-1),
        lambda: counter.inc("x", by=float("nan")),
    ):
        with pytest.raises(ValueError):
            wrong()
