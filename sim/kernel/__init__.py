"""The kernel: state and transitions of all engines, in the subset of Python that Numba compiles."""
