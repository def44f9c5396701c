"""The ANOVA model of a grid: one Gaussian process that searches and explains."""

from strategies.anova.model import AnovaModel, Marginal, Prediction
from strategies.anova.reach import Reach
from strategies.anova.search import Anova

__all__ = ["Anova", "AnovaModel", "Marginal", "Prediction", "Reach"]
