"""Episodes of simulated analysts as Numba-compiled code, on measured tables; imports `analysts`."""
