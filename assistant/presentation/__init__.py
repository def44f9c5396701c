"""Presentation of results to people: charts, tables, texts and reports, without any user interface.

It may import `assistant.analysis`, `assistant.core` and `strategies`. Functions are pure: values
in, Vega-Lite specifications, rows, sentences or pages out.
"""
