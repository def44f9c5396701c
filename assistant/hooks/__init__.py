"""Hooks: programs of the operator that are started with notices on warnings, ends and failures."""
