"""Simulators of computer clusters, usable without the rest of Copperline.

>>> from sim import ClusterSpec, Scenario, default_workload, simulate, summarise
>>> scenario = Scenario(default_workload(seed=1, n_jobs=50), ClusterSpec.single(160))
>>> summarise(scenario, simulate(scenario)).n_rejected
0
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
