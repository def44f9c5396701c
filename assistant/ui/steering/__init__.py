"""Steering: everything that is agreed and how it chooses, to look up and to change."""
