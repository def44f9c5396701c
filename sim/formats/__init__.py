"""Public interface: the formats of workload files, how to detect them, and each one's functions.

`sim.load_workload` and `sim.write_workload` choose among them. It may import `sim.model`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
