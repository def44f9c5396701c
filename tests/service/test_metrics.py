"""The text format, and that nothing but our metrics is in it."""

import pytest
from prometheus_client import Counter

from assistant.service.observability import MetricsRegistry, ServiceCounters


def test_the_whole_text_of_the_counters() -> None:
    metrics = MetricsRegistry()
    counters = ServiceCounters(metrics, lambda: {"running": 2}, lambda: 3)
    counters.leased("given")
    counters.leased("given")
    counters.resulted('a"b\\c\nd')
    counters.decided(None)
    lines = metrics.render().splitlines()
    assert [line for line in lines if not line.startswith("# HELP")] == [
        "# TYPE copperline_leases_total counter",
        'copperline_leases_total{outcome="given"} 2.0',
        "# TYPE copperline_results_total counter",
        r'copperline_results_total{kind="a\"b\\c\nd"} 1.0',
        "# TYPE copperline_decisions_total counter",
        'copperline_decisions_total{event="none"} 1.0',
        "# TYPE copperline_leases_lost_total counter",
        "copperline_leases_lost_total 3.0",
        "# TYPE copperline_runs gauge",
        'copperline_runs{state="queued"} 0.0',
        'copperline_runs{state="running"} 2.0',
        'copperline_runs{state="completed"} 0.0',
        'copperline_runs{state="failed"} 0.0',
        'copperline_runs{state="cancelled"} 0.0',
    ]


def test_a_name_is_registered_once_and_each_service_counts_for_itself() -> None:
    first, second = MetricsRegistry(), MetricsRegistry()
    for metrics in (first, second):
        ServiceCounters(metrics, dict, lambda: 0).leased("given")
        for name in ("copperline_leases_total", "copperline_runs", "copperline_leases_lost_total"):
            with pytest.raises(ValueError, match="Duplicated"):
                Counter(name, "", registry=metrics)
        assert 'copperline_leases_total{outcome="given"} 1.0' in metrics.render()
