"""What a sweep found, for people: one `ReportData`, rendered by every format."""
