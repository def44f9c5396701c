"""Hooks: programs of the user, started on warnings, at the end of a sweep, and on failures."""
