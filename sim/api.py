"""The public interface: load, generate or describe a workload, and check, simulate and measure.

Shells and applications need no deeper module. A name is imported when it is used: the stub
`sim/__init__.pyi` lists every name with its module.
"""

from typing import Any

import sim

__all__ = sim.__all__


def __getattr__(name: str) -> Any:
    if name in __all__:
        return sim.__getattr__(name)  # not getattr: a subpackage may have the same name
    raise AttributeError(f"module 'sim.api' has no attribute '{name}'")
