"""Simulators of computer clusters, usable without the rest of Copperline.

The names of this package, listed in its stub, are the core. Extensions have their own packages:
`sim.generators`, `sim.placement`, `sim.explain`, `sim.aiops` and `sim.testbeds`.

>>> from sim import ClusterSpec, Scenario, simulate, summarise
>>> from sim.generators import default_workload
>>> scenario = Scenario(default_workload(seed=1, n_jobs=50), ClusterSpec.single(160))
>>> summarise(scenario, simulate(scenario)).n_rejected
0
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
