"""Parameter spaces, results of runs, and strategies that choose the next configurations to run.

It imports nothing of this project.

>>> import numpy as np
>>> from strategies import Knowledge, Parameter, ParameterSpace, make_strategy
>>> space = ParameterSpace((Parameter("procs", (1, 2, 4)), Parameter("order", ("fcfs", "sjf"))))
>>> strategy = make_strategy("copper", beta=0.9)
>>> suggestions = strategy.suggest(3, Knowledge(space), np.random.default_rng(1))
>>> len({suggestion.configuration for suggestion in suggestions})
3
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
