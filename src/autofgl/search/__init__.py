"""Ask/tell searchers over gene vectors; they know neither graphs nor clients."""

from autofgl.search.codes import Code, Codes, Losses, Population, SearchError
from autofgl.search.evolution import Evolution, Variation, offspring
from autofgl.search.feo import ClientStep, Quotas, client_step, evolve, gamma, merge, quotas
from autofgl.search.memo import Memo
from autofgl.search.pareto import fronts, ranks
from autofgl.search.q_learning import QLearning, scaled_schedule
from autofgl.search.random import RandomSearch
from autofgl.search.searcher import Searcher, State

__all__ = [
    "ClientStep",
    "Code",
    "Codes",
    "Evolution",
    "Losses",
    "Memo",
    "Population",
    "QLearning",
    "Quotas",
    "RandomSearch",
    "SearchError",
    "Searcher",
    "State",
    "Variation",
    "client_step",
    "evolve",
    "fronts",
    "gamma",
    "merge",
    "offspring",
    "quotas",
    "ranks",
    "scaled_schedule",
]
