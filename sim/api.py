"""The public interface of the core: load and describe a workload, check, simulate and measure.

It has the names of `sim`; the stub `sim/__init__.pyi` lists each with its module, which is imported
when the name is used. Generators, explanations, the placement of tasks by a user's algorithm, the
AI platform and the testbeds are extensions with packages of their own, and so are the details of
`sim.formats` and `sim.metrics`.
"""

from typing import Any

import sim

__all__ = sim.__all__


def __getattr__(name: str) -> Any:
    if name in __all__:
        return sim.__getattr__(name)  # not getattr: a subpackage may have the same name
    raise AttributeError(f"module 'sim.api' has no attribute '{name}'")
