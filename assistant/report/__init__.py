"""What a sweep found, for people: one `ReportData`, rendered by every format."""

from assistant.report.data import ReportData, collect
from assistant.report.html import render_html, write_report

__all__ = ["ReportData", "collect", "render_html", "write_report"]
