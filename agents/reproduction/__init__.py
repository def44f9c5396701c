"""Playbooks: the paper's evaluation played again, and what becomes of each of its claims."""
