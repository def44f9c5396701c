"""Gaussian process over the parameter grid with the ANOVA kernel; imports `space` to `doe`."""
