"""Optuna's own contract of samplers, run on ours."""

from collections.abc import Callable

import optuna
import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)

from assistant.integrations.optuna_sampler import CopperlineSampler

optuna.logging.set_verbosity(optuna.logging.ERROR)


class _OurSampler:
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: CopperlineSampler(seed=0)


class TestBasic(_OurSampler, BasicSamplerTestCase, SingleOnlySamplerTestCase):
    pass


@pytest.mark.soak  # 45 pairs of distributions
class TestRelative(_OurSampler, RelativeSamplerTestCase):
    pass
