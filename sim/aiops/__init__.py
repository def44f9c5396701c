"""An AI operations platform: pipelines that build and renew models, simulated after PipeSim.

Thomas Rausch, Waldemar Hummer, Vinod Muthusamy: PipeSim, trace-driven simulation of large-scale AI
operations platforms, 2020.
"""
