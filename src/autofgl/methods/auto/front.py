"""Several objectives: what candidates cost besides how good they are, and which is recommended.

Costs are a candidate's ``size`` (parameters), ``latency`` (seconds of a pass over a client's nodes)
and ``bytes`` (those of all rounds that its recipe had, both ways); a mean of several costs what its
members cost together. A candidate is on the Pareto front unless another one is at least as good and
costs no more in everything that counts, and is better in something.

Recommended is, of the candidates whose objective on validation nodes is within a standard error of
the best, the one with the lowest product of the costs that count: a tenth of the size is worth ten
times the latency.
"""

import math
from collections.abc import Mapping, Sequence
from operator import le

from autofgl.methods.auto.bench import Entrant
from autofgl.methods.auto.settings import COSTS

#: A candidate's costs by name.
Costs = Mapping[str, float]


def costs_of(entrants: Sequence[Entrant], sent: Mapping[str, int]) -> list[Costs]:
    """Of each finalist that has a result; ``sent`` are the bytes of each recipe's rounds."""
    every: list[Costs] = []
    for one in entrants:
        if not one.result:
            every.append({})
            continue
        figures = (one.model.parameters, one.model.inference_s, sent.get(one.label, 0))
        every.append(dict(zip(COSTS, map(float, figures), strict=True)))
    return every


def together(every: Sequence[Costs]) -> dict[str, float]:
    """What several cost that are used at once."""
    return {name: sum(one.get(name, 0.0) for one in every) for name in COSTS}


def front_of(
    scores: Sequence[float], costs: Sequence[Costs], counts: Sequence[str], lead: int
) -> list[int]:
    """The numbers of the candidates on the Pareto front, and the ``lead``, which comes first; of
    those that are equal in everything, the first.

    Size always counts; seconds vary from run to run, and so would what is on the front by them.
    """
    names = dict.fromkeys(["size", *counts])
    points = [
        (-score, *(one[name] for name in names)) for score, one in zip(scores, costs, strict=True)
    ]
    order = [lead, *(at for at in range(len(points)) if at != lead)]
    first = {points[at]: at for at in reversed(order)}

    def beaten(one: tuple[float, ...]) -> bool:
        return any(by != one and all(map(le, by, one)) for by in points)

    alone = [at for at in order if first[points[at]] == at and not beaten(points[at])]
    return alone if lead in alone else [lead, *alone]


def recommended(
    scores: Sequence[float], costs: Sequence[Costs], counts: Sequence[str], nodes: int
) -> int:
    """The number of the recommended candidate, by the costs that count; ``nodes`` say how large the
    standard error of a score in [0, 1] is at most.
    """
    best = max(scores)
    error = math.sqrt(max(best * (1 - best), 0.0) / max(nodes, 1))
    able = [at for at, score in enumerate(scores) if score >= best - error]
    return min(
        able,
        key=lambda at: (sum(math.log(costs[at][name] + 1e-9) for name in counts), -scores[at]),
    )


def within(costs: Sequence[Costs], lead: int, counts: Sequence[str]) -> list[int]:
    """The numbers of candidates that cost no more than the ``lead`` in all that counts."""
    most = costs[lead]
    return [at for at, one in enumerate(costs) if all(one[name] <= most[name] for name in counts)]
