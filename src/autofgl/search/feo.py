"""Federated evolutionary optimisation (FEO): the pieces of FL-AGCNS's Algorithms 1 and 2.

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
4-6  controller FLL(P_FL); P = :func:`merge` (P'_G1, ..., P'_GN, P_FL, FLL(P_FL))
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
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from autofgl.search.codes import Codes, Losses, Population, SearchError, worst_if_diverged
from autofgl.search.evolution import DEFAULT, Variation, offspring
from autofgl.search.memo import Evaluate
from autofgl.search.operators import survivors, without_repeats
from autofgl.search.pareto import ranks


def gamma(t: int, start: float = 0.5, decay: float = 0.99) -> float:
    """Share of the clients' codes in the next P in generation t ≥ 1 (Algorithm 2, line 15)."""
    return float(start * decay**t)


@dataclass(frozen=True)
class Quotas:
    """How many codes of the next P come from whom; they add up to |P|.

    Attributes:
        clients: Codes of each client, in the order of the validation counts.
        controller: Codes that the controller keeps of P_FL.
    """

    clients: tuple[int, ...]
    controller: int


def quotas(population: int, gamma: float, val_counts: Sequence[int]) -> Quotas:
    """Places in the next P (Algorithm 1, client line 5 and controller line 5).

    Client i gets |P| γ |val_i| / Σ_j |val_j|, the controller |P| (1 - γ), rounded by largest
    remainders: whole parts first, and what is left goes to the largest fractions, on a tie to the
    controller and then to the earlier client. The paper's sum over i in the client's share is an
    evident slip. If nobody has validation nodes, all places are the controller's.

    Raises:
        SearchError: γ is not in [0, 1], or a count is negative.
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
    codes: Codes,
    population: Population,
    losses: Losses,
    rng: np.random.Generator,
    variation: Variation = DEFAULT,
) -> Population:
    """P_FL from P (Algorithm 1, controller line 3): all parents, then as many children.

    Args:
        codes: The space.
        population: P [|P|, genes].
        losses: FLL(P).
        rng: Source of all chance.
        variation: How children come about.

    Returns:
        P_FL [2 |P|, genes]. Which of it survives is settled in :func:`merge`.
    """
    children = offspring(codes, population, losses, len(population), rng, variation)
    return np.concatenate([population, children])


@dataclass(frozen=True)
class ClientStep:
    """What is left of a client's step.

    Attributes:
        population: The new P_Gi, best first.
        losses: The client's losses of it, or their ranks where there are several objectives.
        best: P'_Gi, the codes for the controller.
    """

    population: Population
    losses: Losses
    best: Population


def client_step(
    codes: Codes,
    own: Population,
    shared: Population,
    evaluate: Evaluate,
    quota: int,
    rng: np.random.Generator,
    variation: Variation = DEFAULT,
) -> ClientStep:
    """The client's optimiser (Algorithm 1, client lines 3 to 5).

    Args:
        codes: The space.
        own: P_Gi [|P|, genes]; in the first generation P itself (Algorithm 2, line 3).
        shared: P_FL.
        evaluate: The client's own validation losses, alone or with other objectives. It is asked
            for all of ``own`` and ``shared``, and for |P| children; a
            :class:`~autofgl.search.memo.Memo` spares what is known.
        quota: How many codes go to the controller.
        rng: Source of all chance, the client's own.
        variation: How children come about.
    """
    pool = np.concatenate([own, shared])
    pool = pool[codes.unique(pool)]  # line 3
    values = worst_if_diverged(evaluate(pool), len(pool), objectives=True)
    children = offspring(codes, pool, ranks(values), len(own), rng, variation)  # line 4
    pool = np.concatenate([pool, children])
    fresh = worst_if_diverged(evaluate(children), len(children), objectives=True)
    losses = ranks(np.concatenate([values, fresh]))
    best = survivors(codes, pool, losses, len(own))
    return ClientStep(pool[best], losses[best], pool[best[:quota]])  # line 5


def merge(
    codes: Codes,
    client_codes: Sequence[Population],
    shared: Population,
    losses: Losses,
    size: int,
    rng: np.random.Generator,
    variation: Variation = DEFAULT,
) -> Population:
    """The next P (Algorithm 1, controller lines 5 and 6).

    The controller fills the places that the clients' codes leave. With every client's full quota
    these are its own |P| (1 - γ); if a client was lost, its places are filled too.

    Args:
        codes: The space.
        client_codes: P'_Gi of each client that answered.
        shared: P_FL.
        losses: FLL(P_FL).
        size: |P|.
        rng: Source of all chance.
        variation: The rate at which repeated codes mutate.

    Returns:
        P [|P|, genes]: the controller's codes, best first, then the clients'.

    Raises:
        SearchError: A client's code is not of the space, or there are more than |P|.
    """
    received = np.concatenate([codes.stack([]), *map(codes.check, client_codes)])
    if len(received) > size:
        raise SearchError(f"clients sent {len(received)} codes for {size} places")
    best = survivors(codes, shared, worst_if_diverged(losses, len(shared)), size - len(received))
    population = np.concatenate([shared[best], received])
    # only in a space with fewer networks than places
    population = np.resize(population, (size, codes.genes))
    return without_repeats(codes, population, set(), variation.mutation, rng)
