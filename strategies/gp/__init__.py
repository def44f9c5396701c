"""Gaussian process over the parameter grid with the ANOVA kernel; it imports `space` and `data`."""
