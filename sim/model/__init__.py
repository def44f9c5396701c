"""Model: workload, tasks, cluster, scenario, admission, result; imports no other part of `sim`."""
