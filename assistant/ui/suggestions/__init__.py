"""Suggestions: the open warning, the frozen batch with runs of one's own, and how to get others."""
