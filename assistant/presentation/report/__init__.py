"""The report of an experiment: `data` collects a `ReportData`, and every format renders it."""
