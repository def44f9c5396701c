"""Numbered bad inputs, each with the answer that is expected of us."""
