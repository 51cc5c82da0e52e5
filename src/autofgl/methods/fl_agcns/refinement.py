"""Which networks FL-AGCNS races on their own after the search.

Shared weights tell which layers are good, but little of the activations at both ends: a relu at the
output, say, costs a SuperNet nothing and kills many networks that are trained from scratch. So the
networks race in brackets, each made from the best so far:

1. the search's best networks of each kind of layers, as they are, and with the usual activations,
2. the best network so far with every other activation at its input or output,
3. children of the best, by evolution, as long as there are trials left.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from autofgl.methods.fl_agcns.client import variation
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, make_codes, make_space
from autofgl.nn.space import Genotype
from autofgl.runtime.race import Entry
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.state import Saved
from autofgl.search.evolution import Evolution
from autofgl.seeding import numpy_generator

#: Networks of a bracket.
BRACKET = 8
#: How often more children are asked for if too few of them are new.
ATTEMPTS = 20
#: Activations at both ends with which most networks train well.
USUAL = ("relu", "identity")


class Refinement(Saved):
    """Proposes brackets of networks, from the search's networks as text, best first."""

    saved = ("_brackets", "_proposed")

    def __init__(self, searched: Sequence[str], settings: FLAGCNSSettings, seed: int) -> None:
        self._space = make_space(settings)
        kinds: dict[Any, Genotype] = {}  # the best network of each kind of layers, best first
        for network in map(self._space.parse, searched):
            kinds.setdefault(network.shape()[1], network)
        self._kinds = list(kinds.values())
        self._settings = settings
        self._seed = seed
        self._brackets = 0
        self._proposed = 0

    def ask(self, entries: Sequence[Entry], best_first: Sequence[Entry]) -> list[Recipe]:
        """The next bracket: networks that were not raced yet; none if there are enough."""
        left = self._settings.trials - self._proposed
        seen = {network.shape() for network in self._networks(entries)}
        settings = _settings_of_best(best_first)
        bracket: list[Recipe] = []
        while left > 0 and not bracket and self._brackets < self._settings.trials + len(_PLANS):
            plan = _PLANS[min(self._brackets, len(_PLANS) - 1)]
            fresh = _unseen(plan(self, best_first), seen)
            bracket = [
                Recipe(network=str(one), settings=settings) for one in fresh[: min(left, BRACKET)]
            ]
            self._brackets += 1
        self._proposed += len(bracket)
        return bracket

    def _searched(self, best_first: Sequence[Entry]) -> list[Genotype]:  # noqa: ARG002
        """Of the best kinds of layers, as they were searched and with the usual activations."""
        ways = [[kind, Genotype(USUAL[0], kind.layers, USUAL[1])] for kind in self._kinds]
        return [network for pair in ways for network in pair]

    def _activations(self, best_first: Sequence[Entry]) -> list[Genotype]:
        """The best code with another activation at one of its ends."""
        best = next(iter(self._networks(best_first)), None)
        if best is None:
            return []
        ends = self._space.activations
        inputs = [Genotype(one, best.layers, best.output) for one in ends]
        return [*inputs, *(Genotype(best.input, best.layers, one) for one in ends)]

    def _children(self, best_first: Sequence[Entry]) -> list[Genotype]:
        """Offspring of the codes that raced so far."""
        codes, raced = make_codes(self._space), list(self._networks(best_first))
        if not raced:
            return self._kinds
        rng = numpy_generator(self._seed, "trials", self._brackets)
        evolution = Evolution(codes, BRACKET, rng, variation(self._settings))
        encoded = codes.stack(self._space.encode(one) for one in raced[:BRACKET])
        evolution.tell(encoded, list(range(len(encoded))))
        return [self._space.decode(evolution.ask(1)[0]) for _ in range(ATTEMPTS)]

    def _networks(self, entries: Iterable[Entry]) -> Iterable[Genotype]:
        """The codes among recipes."""
        recipes = (Recipe.parse(one.recipe) for one in entries)
        return (self._space.parse(one.network) for one in recipes if "|" in one.network)


def _settings_of_best(best_first: Sequence[Entry]) -> dict[str, Any]:
    """The settings of the best recipe, unless they are those of a family without layers to learn,
    which no other network could use.
    """
    recipes = (Recipe.parse(one.recipe) for one in best_first)
    best = next((one for one in recipes if one.network != "sgc"), Recipe())
    return dict(best.settings)


def _unseen(networks: Iterable[Genotype], seen: set[Any]) -> list[Genotype]:
    fresh: dict[Any, Genotype] = {}
    for one in networks:
        if one.shape() not in seen:
            fresh.setdefault(one.shape(), one)
    return list(fresh.values())


#: How the brackets are made, in turn; the last goes on.
_PLANS = (Refinement._searched, Refinement._activations, Refinement._children)
