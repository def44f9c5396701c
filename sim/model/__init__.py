"""The model: workload, tasks, cluster, scenario, admission and result; it imports no other part."""
