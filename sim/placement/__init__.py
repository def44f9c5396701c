"""Public interface: simulations in which a user's algorithm object places tasks on machines.

An extension: the core of the simulator never imports it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
