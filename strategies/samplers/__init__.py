"""Strategies that propose configurations; they import `space`, `data`, `doe` and `gp`."""
