"""Design of experiments: effects and their tests, two-level designs, blocks and missing runs.

Pure functions of a space and observations; it imports `space` and `data`. Effects are on the
scale of the responses (see `strategies.data.observation`), greater is better.

>>> from strategies import Configuration, Observation, Parameter, ParameterSpace
>>> from strategies.doe.factorial_model import FactorialModel
>>> space = ParameterSpace((Parameter("procs", (1, 2)), Parameter("order", ("fcfs", "sjf"))))
>>> runs = [Observation(space.configuration(i), q) for i, q in enumerate((1.0, 2.0, 5.0, 6.0))]
>>> model = FactorialModel.fit(space, runs)
>>> [(contrast.name, contrast.effect) for contrast in model.contrasts]
[('procs', 4.0), ('order', 1.0)]
"""
