"""Ask/tell searchers over one kind of search space; they know neither graphs nor clients.

The modules that need torch or Optuna are not imported here: :mod:`autofgl.search.ddpg` and
:mod:`autofgl.search.bayes`.
"""

from autofgl.search.baselines import GridSearch, RandomSearch
from autofgl.search.evolution import Evolution
from autofgl.search.genes import Categorical, Float, Integer, LogFloat, Ordinal
from autofgl.search.genetic import Genetic
from autofgl.search.q_learning import QLearning
from autofgl.search.searcher import Searcher, SearchError
from autofgl.search.space import Codes, SearchSpace

__all__ = [
    "Categorical",
    "Codes",
    "Evolution",
    "Float",
    "Genetic",
    "GridSearch",
    "Integer",
    "LogFloat",
    "Ordinal",
    "QLearning",
    "RandomSearch",
    "SearchError",
    "SearchSpace",
    "Searcher",
]
