"""Policies: who goes first, and who may overtake. A policy sees state and never an engine."""
