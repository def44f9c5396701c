"""Values: workload, cluster, scenario, result and its metrics."""
