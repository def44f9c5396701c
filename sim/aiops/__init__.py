"""Simulate an AI operations platform: pipelines that build and renew models, after PipeSim.

It may import `sim.model` and `sim.generators`. Source: Thomas Rausch, Waldemar Hummer, Vinod
Muthusamy: PipeSim, trace-driven simulation of large-scale AI operations platforms, 2020.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
