"""Candidates: models that any client could take, and how good each is on validation nodes.

A finalist is one as all clients have it (``common``), as each has fine-tuned it (``personal``), or
as each has trained its own (by the name of the way); a mean of some finalists is another one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from autofgl.methods.auto.bench import Entrant
from autofgl.methods.auto.front import together
from autofgl.methods.auto.portfolio import is_common
from autofgl.runtime.bounds import ROUNDING
from autofgl.runtime.clients import Clients
from autofgl.runtime.details import from_units, kind_form, objective_kinds
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import SUM, Array, Form, Record
from autofgl.runtime.summing import COUNT_UNIT
from autofgl.tasks.figures import objective_value
from autofgl.tasks.losses import TEMPERATURES

#: Of so many finalists means are tried.
MIXED = 4
#: A finalist with at most this many times the least loss may teach.
NEAR_BEST = 1.05


@dataclass
class Candidate:
    """A model that a client could take, and its federated figures on validation nodes.

    ``members`` are names on the clients' shelves, each with its temperature; ``cut_short`` if the
    training had no time to come to its own end.
    """

    members: list[list[Any]]
    label: str
    kind: str
    entrant: int
    loss: float = float("inf")
    accuracy: float = 0.0
    score: float = 0.0
    cut_short: bool = False
    costs: dict[str, float] = field(default_factory=dict)

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean of several."""
        return len(self.members) > 1

    def figures(self) -> dict[str, Any]:
        """For ``result.json``."""
        about = asdict(self)
        return {key: about[key] for key in ("label", "kind", "loss", "accuracy", "score")}


def judge_forms(settings: Any, nodes: int, many: int) -> dict[str, Form]:
    """What summed judgments of so many candidates can be."""
    kinds = objective_kinds(settings)
    counts = {f"val_{kind}": kind_form(kind, [nodes] * many) for kind in kinds}
    return {"correct": Array((many,), -ROUNDING), **counts}


def judged(settings: Any, total: Mapping[str, Any], nodes: int) -> list[tuple[float, float]]:
    """Accuracy and objective of candidates from a sum."""
    accuracies = (np.asarray(total["correct"]) * COUNT_UNIT / max(nodes, 1)).tolist()
    kinds = objective_kinds(settings)
    if not kinds:
        return [(one, one) for one in accuracies]
    counts = from_units(kinds[0], total[f"val_{kinds[0]}"])
    scores = [objective_value(settings.objective, one) for one in counts]
    return list(zip(accuracies, scores, strict=True))


def shelve(
    clients: Clients,
    settings: Any,
    at: int,
    one: Entrant,
    tunings: Sequence[tuple[int, float]],
    nodes: int,
    shares: Sequence[float] = (),
) -> list[Candidate]:
    """Have the clients keep a finalist; the candidates that it makes. With the ``shares`` of the
    classes in the federation, each client makes one of it for its own mix of classes, too.
    """
    message: dict[str, Any] = {"name": str(at), "tunings": [list(one) for one in tunings]}
    message |= {"round": settings.rounds + 1, **({"shares": list(shares)} if shares else {})}
    words = [(in_words(*one), one[0] > 0) for one in tunings]
    words += [(", with the own mix of classes", True)] if shares else []
    replies = clients.call("shelve", message, reply=Record({"rated": SUM})).ok
    tempered = Array((len(words), len(TEMPERATURES)), -ROUNDING)
    forms = {"tempered": tempered, **judge_forms(settings, nodes, len(words))}
    total = clients.total(f"{at}-shelf", replies, "rated", forms)
    losses = np.asarray(total["tempered"]) * COUNT_UNIT / max(nodes, 1)
    return [
        Candidate(
            [[f"{at}+{number}", TEMPERATURES[int(np.argmin(row))]]],
            one.label + said,
            kind_of(Recipe.parse(one.recipe), own),
            at,
            float(np.min(row)),
            *figures,
            one.cut_short,
        )
        for number, (row, (said, own), figures) in enumerate(
            zip(losses, words, judged(settings, total, nodes), strict=True)
        )
    ]


def kind_of(recipe: Recipe, own: bool) -> str:
    """What a finalist is to a client: common, personal, or the way in which it has its own."""
    if own:
        return "personal"
    return "common" if is_common(recipe) else recipe.sharing


def in_words(epochs: int, rate: float) -> str:
    """A fine-tuning in a label; nothing if there is none."""
    slower = f" at {rate:g} of the rate" if rate != 1 else ""
    return f", then {epochs} epochs alone{slower}" if epochs else ""


def teacher_of(every: Sequence[Candidate], most: int) -> list[list[Any]]:
    """Members of a mean to learn from: the finalists, each as it is best, whose loss is near the
    least; none if there is only one.
    """
    best: dict[int, Candidate] = {}
    for one in sorted(every, key=lambda one: one.loss):
        best.setdefault(one.entrant, one)
    near = [one for one in best.values() if one.loss <= NEAR_BEST * next(iter(best.values())).loss]
    members = [member for one in near[:most] for member in one.members]
    return members if len(members) > 1 else []


def worth_keeping(every: Sequence[Candidate]) -> list[Candidate]:
    """Of each finalist the first, and the best of those that clients have fine-tuned."""
    kept = []
    for at in dict.fromkeys(one.entrant for one in every):
        first, *tuned = [one for one in every if one.entrant == at]
        kept += [first, *sorted(tuned, key=lambda one: one.loss)[:1]]
    return kept


def means(every: Sequence[Candidate], most: int) -> list[Candidate]:
    """Means of two and more of the best finalists, each as it is best, in all combinations."""
    best: dict[int, Candidate] = {}
    for one in sorted(every, key=lambda one: one.loss):
        best.setdefault(one.entrant, one)
    ranked = list(best.values())[:MIXED]
    made = []
    for count in range(2, min(most, len(ranked)) + 1):
        for chosen in combinations(ranked, count):
            label = "mean of " + " and ".join(one.label for one in chosen)
            members = [member for one in chosen for member in one.members]
            costs = together([one.costs for one in chosen])
            made.append(Candidate(members, label, "ensemble", chosen[0].entrant, costs=costs))
    return made
