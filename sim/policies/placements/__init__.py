"""Placement rules, as kernel text."""
