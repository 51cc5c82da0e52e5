"""The proof: what clients take home against baselines, on test nodes that nothing used before.

Two models are compared on the same nodes, so only those count on which one is right and the other
is not: b nodes for ours, c for the baseline. McNemar's exact test (1947) asks how often fair coins
would differ as much, p = 2 P(X ≤ min(b, c)) with X of b + c coins. Drawing the n test nodes anew
with replacement (the bootstrap; Efron, 1979) changes the difference (b - c) / n only through how
often nodes of the three kinds are drawn, which is multinomial: the interval needs the sums b, c and
n and no client's own nodes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import bdtr

from autofgl.runtime.bounds import ROUNDING
from autofgl.runtime.replies import Array, Form
from autofgl.runtime.summing import COUNT_UNIT

#: A site is worse off if its own test says so at this level.
LEVEL = 0.05
#: Draws of the bootstrap.
DRAWS = 4000
#: What a client adds for each baseline: nodes that only one of the two gets right, those that the
#: baseline gets right; then a one for better, as good, worse, surely better, surely worse.
_COUNTS, _SITES = ("only_ours", "only_theirs", "right"), (
    "better", "same", "worse", "surely_better", "surely_worse",
)  # fmt: skip

PAIR_FORM: Form = Array((len(_COUNTS) + len(_SITES),), -ROUNDING)


def compared(ours: Any, theirs: Any) -> Any:
    """What a client adds, from which test nodes are right, ``[n]`` each."""
    b, c = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    sure = mcnemar(b, c) < LEVEL
    sites = [b > c, b == c, b < c, sure and b > c, sure and b < c]
    there = len(ours) > 0
    counts = np.array([b, c, theirs.sum()], np.float64) / COUNT_UNIT
    return np.concatenate([counts, np.array(sites, np.float64) * there])


def mcnemar(only_ours: int, only_theirs: int) -> float:
    """The two-sided p-value."""
    fewer, both = min(only_ours, only_theirs), only_ours + only_theirs
    return min(1.0, 2.0 * float(bdtr(fewer, both, 0.5))) if both else 1.0


def interval(b: int, c: int, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """The 95 % bootstrap interval of the difference of two accuracies."""
    if not n:
        return 0.0, 0.0
    draws = rng.multinomial(n, [b / n, c / n, (n - b - c) / n], size=DRAWS)
    low, high = np.quantile((draws[:, 0] - draws[:, 1]) / n, [0.025, 0.975])
    return float(low), float(high)


def comparison(pair: Any, tested: int, rng: np.random.Generator) -> dict[str, Any]:
    """A baseline's part of the certificate, from the clients' sum."""
    b, c, right = (round(float(one) * COUNT_UNIT) for one in pair[: len(_COUNTS)])
    sites = {
        name: round(float(one)) for name, one in zip(_SITES, pair[len(_COUNTS) :], strict=True)
    }
    low, high = interval(b, c, tested, rng)
    return {
        "test_accuracy": right / max(tested, 1),
        "difference": (b - c) / max(tested, 1),
        "interval": [low, high],
        "only_ours": b,
        "only_theirs": c,
        "p": mcnemar(b, c),
        "sites": sites,
    }


def sentence(against: Mapping[str, Mapping[str, Any]]) -> str:
    """The certificate in plain words: first against training alone."""
    words = {"alone": "training alone", "fedavg": "FedAvg with a GCN"}
    words["fixed"] = "the best fixed network"
    short = " (which the budget cut short)"
    said = [
        compare_in_words(words.get(name, name) + short * bool(one.get("cut_short")), one)
        for name, one in against.items()
    ]
    return "; ".join(said) + "." if said else "There was nothing to compare with."


def compare_in_words(what: str, one: Mapping[str, Any]) -> str:
    """How sites fare against one baseline."""
    sites, p = one["sites"], one["p"]
    better, worse, sure = sites["better"], sites["worse"], sites["surely_worse"]
    many = better + sites["same"] + worse
    points = f"{100 * one['difference']:+.1f} points, {p_text(p)}"
    if not one["only_ours"] and not one["only_theirs"]:
        return f"the same as {what} at every site"
    if one["difference"] <= 0 or not better:
        if p < LEVEL:
            return f"worse than {what} over all sites ({points})"
        if sure:
            return f"no better than {what} ({points}), and worse at {sure} of {many} sites"
        return f"no better and no worse than {what} beyond chance ({points})"
    text = f"better than {what} at {better} of {many} sites ({points})"
    rest = many - better
    if not rest:
        return text
    others = "the other" if rest == 1 else f"the other {rest}"
    if sure:
        return f"{text}, worse at {sure}"
    if not worse:
        return f"{text}, as good at {others}"
    return f"{text}, no worse at {others} beyond chance"


def p_text(p: float) -> str:
    """A p-value as papers write it."""
    bound = next((one for one in (0.001, 0.01) if p < one), None)
    return f"p < {bound:g}" if bound else f"p = {p:.2f}"
