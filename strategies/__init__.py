"""Search spaces, observations and strategies that choose configurations, without input or output.

It imports nothing of this project.

>>> import numpy as np
>>> from strategies import Knowledge, Parameter, ParameterSpace, make_strategy
>>> space = ParameterSpace((Parameter("procs", (1, 2, 4)), Parameter("order", ("fcfs", "sjf"))))
>>> strategy = make_strategy("grasp", beta=0.9)
>>> suggestions = strategy.suggest(3, Knowledge(space), np.random.default_rng(1))
>>> len({suggestion.configuration for suggestion in suggestions})
3
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
