"""Public interface: generate, fit, scale and compare workloads.

An extension: the core of the simulator never imports it. `sim.generators.cloud` and
`sim.generators.joulie` are the interfaces of two generators with tools of their own.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
