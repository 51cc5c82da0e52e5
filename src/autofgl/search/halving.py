"""Successive halving: after how many rounds the better half of a bracket goes on.

Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization",
2016. Half of the candidates end after a quarter of the rounds, half of the others after half.
"""

import math

#: Shares of a trial's rounds after which the better half goes on.
RUNGS = (0.25, 0.5, 1.0)


def rungs_of(rounds: int) -> list[int]:
    """Rounds after which the better half of a bracket goes on, the last where all end."""
    return sorted({max(1, round(share * rounds)) for share in RUNGS})


def bracket_rounds(candidates: int, rounds: int) -> int:
    """Rounds that a bracket of so many candidates takes at most."""
    total, before = 0, 0
    for rung in rungs_of(rounds):
        total += candidates * (rung - before)
        candidates, before = math.ceil(candidates / 2), rung
    return total
