"""How far a SuperNet can be trusted: do shared weights rank networks as training alone does?

Networks are ranked twice by their federated validation loss FLL (FL-AGCNS, Eq. 1): with the
SuperNet's weights, as the search sees them, and after each was trained from scratch. Kendall's τ
and Spearman's ρ tell how well the two agree: 1 is perfect, 0 is chance.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

from autofgl.methods.fl_agcns.controller import FLAGCNS
from autofgl.methods.fl_agcns.settings import genotypes
from autofgl.runtime.recipe import Recipe
from autofgl.search.baselines import RandomSearch
from autofgl.seeding import numpy_generator


@dataclass(frozen=True)
class Ranked:
    """A network's federated validation figures, with shared weights and trained alone."""

    genotype: str
    shared_loss: float
    shared_accuracy: float
    alone_loss: float
    alone_accuracy: float


@dataclass(frozen=True)
class Quality:
    """Agreement of the two rankings, by loss and by accuracy."""

    networks: list[Ranked]
    kendall_loss: float
    spearman_loss: float
    kendall_accuracy: float
    spearman_accuracy: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def supernet_quality(
    method: FLAGCNS, count: int, rounds: int, report: Callable[[Ranked], None] | None = None
) -> Quality:
    """Rank ``count`` networks, at least 3, in both ways, each trained alone for some ``rounds``.

    Half of them are evenly out of the last population, half random. Each is reported when it is
    done.
    """
    codes = _sample(method, count)
    session = method.clients.session().get("session", "")  # may be done again, with other networks
    shared = method.search.measure(codes, session)
    ranked = []
    for index, genotype in enumerate(genotypes(method.search.space, codes)):
        best = _alone(method, f"quality{session}-{index}-", str(genotype), rounds)
        figures = float(shared["losses"][index]), float(shared["correct"][index])
        ranked.append(Ranked(str(genotype), *figures, *best))
        if report is not None:
            report(ranked[-1])
    return agreement(ranked)


def agreement(ranked: list[Ranked]) -> Quality:
    """Rank correlations of networks that were measured in both ways."""
    losses = [one.shared_loss for one in ranked], [one.alone_loss for one in ranked]
    hits = [one.shared_accuracy for one in ranked], [one.alone_accuracy for one in ranked]
    measures = (stats.kendalltau, stats.spearmanr)
    return Quality(
        ranked, *(_correlation(way, *both) for both in (losses, hits) for way in measures)
    )


def _sample(method: FLAGCNS, count: int) -> Any:
    population = method.search.population
    places = np.linspace(0, len(population) - 1, min(count // 2, len(population))).astype(int)
    chosen = population[np.unique(places)]
    search = RandomSearch(method.search.codes, numpy_generator(method.seed, "quality"))
    search.tell(chosen, np.zeros(len(chosen)))
    return np.concatenate([chosen, search.ask(count - len(chosen))])


def _alone(method: FLAGCNS, stage: str, genotype: str, rounds: int) -> tuple[float, float]:
    """Loss and accuracy of the best round; a network that diverges has its best before that."""
    recipe = Recipe(network=genotype)
    training = method.engine(recipe, stage, rounds=rounds, patience=0)
    training.start(recipe, trial=True)
    while not training.done:
        training.step()
    training.evaluate_last()
    return training.best.loss, training.best.accuracy


def _correlation(measure: Callable[..., Any], left: list[float], right: list[float]) -> float:
    """A rank correlation; one with a constant ranking is none."""
    constant = min(len(set(left)), len(set(right))) == 1
    return 0.0 if constant else float(measure(left, right).statistic)
