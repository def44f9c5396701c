"""Simulate an AI operations platform: pipelines that build and renew models, after PipeSim.

It may import `sim.model` and `sim.generators`. Source: Thomas Rausch, Waldemar Hummer, Vinod
Muthusamy: PipeSim, trace-driven simulation of large-scale AI operations platforms, 2020.
"""
