"""Generators of cloud workloads, whose jobs come in batches of similar jobs.

Bergsma, Zeyl, Senderovich and Beck, "Generating Complex, Realistic Cloud Workloads using Recurrent
Neural Networks", SOSP 2021: the number of batches per period (`arrivals`), the sequence of
requests (`flavours`), and their lifetimes (`lifetimes`). Tables of contexts replace the paper's
recurrent networks, and beat the paper's baselines by as much.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
