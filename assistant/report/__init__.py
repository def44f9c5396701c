"""What a sweep found, for people: one `ReportData`, rendered by every format."""

from assistant.report.data import ReportData, collect
from assistant.report.html import check_target, render_html, write_report

__all__ = ["ReportData", "check_target", "collect", "render_html", "write_report"]
