"""Public API of Copperline: steer a parameter sweep under a budget, with the analyst in charge.

The UI, scripts, agents and HTTP clients all make the same calls on a `Session`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
