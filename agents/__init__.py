"""Simulated analysts who use the assistant's API, and studies of them; may import `assistant`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
