"""State and transitions that every engine shares, in the subset of Python that Numba compiles."""
