"""What the simulator is measured beside, in the same run: plain SimPy, and AccaSim from PyPI."""
