"""Measurements that anyone can rerun.

``python -m benchmarks.NAME [--quick] [--resume] [--json FILE]``.

Each module measures one subject, prints a table and writes one JSON object with ``figures`` (name
to number), commit, seeds, versions and machine.
"""
