"""Federated evolutionary optimization (FEO): the pieces of FL-AGCNS's Algorithms 1 and 2.

Wang et al., "FL-AGCNS: Federated Learning Framework for Automatic Graph Convolutional Network
Search" (2021). The controller evolves the population P by the federated loss FLL (Eq. 1), every
client i evolves a population P_Gi of its own by its validation loss, and both have a say in the
next P. One generation t, after the weights step:

==== ========== ====================================================================
line who        what
==== ========== ====================================================================
1    clients    losses of P, encrypted
2, 3 controller FLL(P); P_FL = :func:`evolve` (P, FLL(P))
3-5  client i   :func:`client_step`: P_Gi from P_Gi and P_FL; its best codes P'_Gi
6    client i   P'_Gi, and the losses of P_FL, encrypted
4-6  controller FLL(P_FL); P = :func:`next_population` (P'_G1, ..., P'_GN, P_FL, FLL(P_FL))
==== ========== ====================================================================

The paper leaves three things open, which we read so:

* Children have no loss when P_FL is made, so "evolve P" cannot choose among them yet. P_FL is
  therefore P *and* as many children, and the choice falls in line 5, where the best of P_FL by FLL
  are kept: that is survival of the best among parents and children. The losses of P are known from
  line 1 under the same weights, so that line 6 only has to send those of the children.
* A client can measure its own children, so it chooses at once, and is cut back to |P| codes.
* P and its parts are sets of networks: codes that repeat another become mutants of it, and |P| is
  constant.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from autofgl.search.evolution import (
    DEFAULT,
    Variation,
    offspring,
    ranks,
    survivors,
    without_repeats,
)
from autofgl.search.searcher import Losses, SearchError, as_losses
from autofgl.search.space import Population, SearchSpace

#: Losses [n] of n candidates, or the values [n, k] of several objectives.
Evaluate: TypeAlias = Callable[[Population], Losses]


class Memo:
    """Evaluates every network once, however often and in whichever form it is asked for.

    It holds as long as the weights do: :meth:`clear` it when they change.
    """

    def __init__(self, space: SearchSpace, evaluate: Evaluate) -> None:
        self.evaluated = 0
        self._space = space
        self._evaluate = evaluate
        self._losses: dict[Hashable, Any] = {}

    def __call__(self, population: Population) -> Losses:
        """Losses of a population; only those of new networks are computed."""
        keys = self._space.keys(population)
        rows = [row for row in self._space.unique(population) if keys[row] not in self._losses]
        if rows:
            losses = as_losses(self._evaluate(population[rows]), len(rows), objectives=True)
            self._losses.update(zip((keys[row] for row in rows), losses.tolist(), strict=True))
            self.evaluated += len(rows)
        return np.array([self._losses[key] for key in keys], np.float64)

    def clear(self) -> None:
        """Forget all losses."""
        self._losses.clear()


def gamma(t: int, start: float = 0.5, decay: float = 0.99) -> float:
    """Share of the clients' codes in the next P in generation t ≥ 1 (Algorithm 2, line 15)."""
    return float(start * decay**t)


class Quotas(NamedTuple):
    """How many codes of the next P come from whom; they add up to |P|."""

    clients: tuple[int, ...]  # codes of each client, in the order of the validation counts
    controller: int  # codes that the controller keeps of P_FL


def quotas(population: int, gamma: float, val_counts: Sequence[int]) -> Quotas:
    """Places in the next P (Algorithm 1, client line 5 and controller line 5).

    Client i gets |P| γ |val_i| / Σ_j |val_j|, the controller |P| (1 - γ), rounded by largest
    remainders: whole parts first, and what is left goes to the largest fractions, on a tie to the
    controller and then to the earlier client. The paper's sum over i in the client's share is an
    evident slip. If nobody has validation nodes, all places are the controller's.
    """
    if population < 0 or not 0 <= gamma <= 1 or min(val_counts, default=0) < 0:
        raise SearchError(f"no quotas for |P| {population}, γ {gamma}, nodes {list(val_counts)}")
    total = sum(val_counts)
    client_places = population * Fraction(gamma) if total else Fraction(0)
    shares = [population - client_places]
    shares += [client_places * Fraction(int(count), max(total, 1)) for count in val_counts]
    places = [math.floor(share) for share in shares]
    by_fraction = sorted(range(len(shares)), key=lambda i: places[i] - shares[i])
    for i in by_fraction[: population - sum(places)]:
        places[i] += 1
    return Quotas(tuple(places[1:]), places[0])


def evolve(
    space: SearchSpace,
    population: Population,
    losses: Losses,
    rng: np.random.Generator,
    variation: Variation = DEFAULT,
) -> Population:
    """P_FL from P and FLL(P) (Algorithm 1, controller line 3): all parents, then as many children.

    Which of its 2 |P| codes survive is settled in :func:`next_population`.
    """
    children = offspring(space, population, losses, len(population), rng, variation)
    return np.concatenate([population, children])


class ClientStep(NamedTuple):
    """What is left of a client's step."""

    population: Population  # the new P_Gi, best first
    losses: Losses  # the client's losses of it, or their ranks if there are several objectives
    best: Population  # P'_Gi, the codes for the controller


def client_step(
    space: SearchSpace,
    own: Population,
    shared: Population,
    evaluate: Evaluate,
    quota: int,
    rng: np.random.Generator,
    variation: Variation = DEFAULT,
) -> ClientStep:
    """The client's optimizer (Algorithm 1, client lines 3 to 5).

    ``own`` is P_Gi, in the first generation P itself (Algorithm 2, line 3), and ``shared`` is P_FL.
    The client's own validation losses, alone or with other objectives, are asked for both and for
    |P| children; :class:`Memo` spares repeats. ``quota`` codes go to the controller.
    """
    pool = np.concatenate([own, shared])
    pool = pool[space.unique(pool)]  # line 3
    values = as_losses(evaluate(pool), len(pool), objectives=True)
    children = offspring(space, pool, ranks(values), len(own), rng, variation)  # line 4
    pool = np.concatenate([pool, children])
    fresh = as_losses(evaluate(children), len(children), objectives=True)
    losses = ranks(np.concatenate([values, fresh]))
    best = survivors(space, pool, losses, len(own))
    return ClientStep(pool[best], losses[best], pool[best[:quota]])  # line 5


def next_population(
    space: SearchSpace,
    client_codes: Sequence[Population],
    shared: Population,
    losses: Losses,
    size: int,
    rng: np.random.Generator,
    variation: Variation = DEFAULT,
) -> Population:
    """The next P (Algorithm 1, controller lines 5 and 6).

    It has ``size`` |P| codes: first the controller's, the best of ``shared`` P_FL by its ``losses``
    FLL(P_FL), then the ``client_codes`` P'_Gi of each client that answered; a :class:`SearchError`
    if one is not of the space. The controller fills the places that the clients leave. With every
    client's full quota these are its own |P| (1 - γ); if a client was lost, its places are filled
    too. Repeated codes mutate.
    """
    received = np.concatenate([space.stack([]), *map(space.checked, client_codes)])
    if len(received) > size:
        raise SearchError(f"clients sent {len(received)} codes for {size} places")
    best = survivors(space, shared, as_losses(losses, len(shared)), size - len(received))
    population = np.concatenate([shared[best], received])
    # repeats only in a space with fewer networks than places
    population = population[np.arange(size) % max(len(population), 1)]
    return without_repeats(space, population, set(), variation.mutation, rng)
