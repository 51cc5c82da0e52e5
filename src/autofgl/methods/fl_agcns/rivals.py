"""The rivals of FL-AGCNS that train every candidate: FL-Random and FL-RL (section 4.1).

A searcher proposes one code after the other. Each is trained from scratch under federation, as the
chosen one will be in the end, but for ``candidate_rounds`` (the paper's 50 epochs) only. The best
by federated validation are then trained to the end, and federated validation picks one.
"""

from typing import Any, ClassVar

from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.client import largest_searched
from autofgl.methods.fl_agcns.settings import CandidateSettings, RLSettings, make_codes, make_space
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.recipe_search import RecipeSearch
from autofgl.search.baselines import RandomSearch
from autofgl.search.q_learning import QLearning, likelihood, scaled_schedule
from autofgl.seeding import numpy_generator
from autofgl.sharing.ways import WAYS


class FLRandom(RecipeSearch):
    """Networks at random; they end early less often than uniform genes would (``stop``)."""

    Settings = CandidateSettings
    ways: ClassVar = WAYS

    @classmethod
    def parameters(cls, graph: ClientGraph, settings: Any) -> int:
        """Those of the largest candidate."""
        return largest_searched(graph, settings)

    def recipe(self, candidate: Any) -> Recipe:
        """The network of a code."""
        return network_recipe(self.settings, candidate)

    def make_searcher(self) -> RandomSearch:
        """Samples without repeats."""
        codes = make_codes(make_space(self.settings))
        return RandomSearch(codes, numpy_generator(self.seed, "candidates"))


class FLRL(RecipeSearch):
    """Q-learning over the genes, as BlockQNN (Zhong et al., 2018), with federated evaluation.

    The ε-schedule is stretched over ``candidates``; genes are uniform: ``stop`` has no effect here.
    """

    Settings = RLSettings
    ways: ClassVar = WAYS

    @classmethod
    def parameters(cls, graph: ClientGraph, settings: Any) -> int:
        """Those of the largest candidate."""
        return largest_searched(graph, settings)

    def recipe(self, candidate: Any) -> Recipe:
        """The network of a code."""
        return network_recipe(self.settings, candidate)

    def make_searcher(self) -> QLearning:
        """The agent; accuracy is its reward as in BlockQNN, or the objective, or the likelihood of
        the labels.
        """
        settings = self.settings
        return QLearning(
            make_codes(make_space(settings)),
            numpy_generator(self.seed, "candidates"),
            scaled_schedule(settings.candidates),
            memory=settings.memory,
            rate=settings.rate,
            replay=settings.replay,
            reward=likelihood if settings.fitness == "loss" else (lambda score: 1.0 - score),
        )

    def notes(self) -> dict[str, float]:
        """The probability of a random gene."""
        return {"epsilon": self.searcher.epsilon}


def network_recipe(settings: Any, code: Any) -> Recipe:
    """The recipe that trains the network of a code, as the run's settings say."""
    return Recipe(network=str(make_space(settings).decode(code)))
