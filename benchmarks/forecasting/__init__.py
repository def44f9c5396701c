"""Parts of ``python -m benchmarks.forecast``."""
