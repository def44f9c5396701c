"""Public interface: the Joulie generator of AI workloads: pods with arrivals and profiles.

Its tools calibrate it against telemetry and write manifests of Kubernetes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
