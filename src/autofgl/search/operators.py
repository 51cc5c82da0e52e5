"""The operators of evolution, each a pure function of codes, losses and a generator.

FL-AGCNS says "evolutionary operations" and leaves them open. Ours are a tournament, uniform
crossover, mutation of single genes, and survival of the best among parents and children.
"""

from collections.abc import Container

import numpy as np
import numpy.typing as npt

from autofgl.search.codes import Code, Codes, Losses, Population

#: How often a fresh code is looked for before a repeat is accepted: the space may be used up.
TRIES = 64


def tournament(losses: Losses, n: int, size: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Indices [n] of the winners of ``n`` tournaments among ``size`` random entrants each."""
    entrants = rng.integers(0, len(losses), (n, size))
    winners = np.argmin(losses[entrants], axis=1, keepdims=True)
    return np.take_along_axis(entrants, winners, axis=1)[:, 0].astype(np.intp)


def crossover(
    mothers: Population, fathers: Population, rate: float, rng: np.random.Generator
) -> Population:
    """Uniform crossover: each gene is the father's with probability ``rate``, else the mother's."""
    return np.where(rng.random(mothers.shape) < rate, fathers, mothers)


def mutate(
    codes: Codes, population: Population, rate: float, rng: np.random.Generator
) -> Population:
    """Change each gene with probability ``rate`` to one of its other values, all equally likely."""
    cardinalities = np.array(codes.cardinalities)
    shift = rng.integers(1, np.maximum(cardinalities, 2), population.shape)
    chosen = rng.random(population.shape) < rate
    return np.where(chosen, (population + shift) % cardinalities, population)


def survivors(codes: Codes, population: Population, losses: Losses, n: int) -> npt.NDArray[np.intp]:
    """Indices of the best ``n`` different codes, best first.

    Of equal losses the earlier code survives, and of equal codes the earlier one.
    """
    unique = codes.unique(population)
    order = np.argsort(losses[unique], kind="stable")[:n]
    return unique[order].astype(np.intp)


def fresh_code(codes: Codes, taken: Container[bytes], rng: np.random.Generator) -> Code:
    """A random code that is not taken, or any random code if none turns up."""
    for _ in range(TRIES):
        code: Code = codes.draw(1, rng)[0]
        if codes.key(code) not in taken:
            break
    return code


def fresh_mutant(
    codes: Codes, code: Code, taken: Container[bytes], rate: float, rng: np.random.Generator
) -> Code:
    """The code itself if it is not taken, else the first mutant on a random walk from it that is.

    If the walk leads nowhere new, a random code takes its place.
    """
    for _ in range(TRIES):
        if codes.key(code) not in taken:
            return code
        code = mutate(codes, code[None], rate, rng)[0]
    return fresh_code(codes, taken, rng)


def without_repeats(
    codes: Codes,
    population: Population,
    taken: set[bytes],
    rate: float,
    rng: np.random.Generator,
) -> Population:
    """The population with every code that is taken, or that an earlier row has, made a mutant."""
    taken = set(taken)
    fresh = np.empty_like(population)
    for row, code in enumerate(population):
        fresh[row] = fresh_mutant(codes, code, taken, rate, rng)
        taken.add(codes.key(fresh[row]))
    return fresh
