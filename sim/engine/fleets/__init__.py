"""Engines for instances of tasks on machines: setting up, the loop, and SimPy processes."""
