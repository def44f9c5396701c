"""Public interface: values that describe workloads and schedules, and constants of their measures.

The functions used most are `sim.measures`, `sim.summarise` and `sim.describe`. The package imports
the model and no kernel, policy or engine.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
