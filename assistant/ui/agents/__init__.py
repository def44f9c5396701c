"""Agents: studies of simulated analysts, set up, played beside the pages, and what they show."""
