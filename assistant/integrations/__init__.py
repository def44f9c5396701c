"""Integrations: other packages that drive our search, or hold the same results.

Each module needs the extra of its package and is imported only when it is used.
"""
