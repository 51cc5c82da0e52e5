"""The server's side of the choice and of the proof: candidates, what sites take, the certificate.

A *candidate* is a model that any client could take: a finalist as all clients have it (``common``),
as each has fine-tuned it (``personal``), as each has trained it (``alone``), or a mean of some.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.methods.auto.bench import Entrant
from autofgl.methods.auto.choice import Spread, best_of, moment_forms
from autofgl.methods.auto.portfolio import is_common
from autofgl.methods.auto.proof import PAIR_FORM, comparison, sentence
from autofgl.runtime.bounds import ROUNDING, metrics_form
from autofgl.runtime.clients import Clients
from autofgl.runtime.details import detail_forms, from_units, kind_form, objective_kinds
from autofgl.runtime.metrics import SIZE
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import (
    METRICS,
    NOTHING,
    SUM,
    WEIGHTS,
    WHOLE,
    Array,
    Form,
    Named,
    Network,
    Number,
    Record,
    Scalar,
    Truth,
)  # fmt: skip
from autofgl.runtime.summing import COUNT_UNIT
from autofgl.seeding import numpy_generator
from autofgl.tasks.figures import objective_value
from autofgl.tasks.losses import TEMPERATURES

#: What a client says of itself with ``secure=none``, at the end.
_OWN = Record(
    {
        "nodes": WHOLE,
        "edges": WHOLE,
        "metrics": METRICS,
        "took": WHOLE,
        "correct": Named(WHOLE),
    },
    or_nothing=True,
)
#: Of so many finalists means are tried, and so many means may be taken.
MIXED, KEPT_MEANS = 4, 2
#: Baselines in the order of the certificate.
BASELINES = ("alone", "fedavg", "fixed")


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

    def figures(self) -> dict[str, Any]:
        """For ``result.json``."""
        about = asdict(self)
        return {key: about[key] for key in ("label", "kind", "loss", "accuracy", "score")}


@dataclass(frozen=True)
class Chosen:
    """Candidates, the number of the federation's choice, and how many clients took each."""

    candidates: list[Candidate]
    lead: int
    votes: list[int]


@dataclass(frozen=True)
class Proof:
    """What clients found on test nodes: sums, their own words (if any), and the certificate."""

    totals: list[int]
    total: dict[str, Any]
    own: dict[str, Payload]
    certificate: dict[str, Any]


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
    clients: Clients, settings: Any, at: int, one: Entrant, epochs: Sequence[int], nodes: int
) -> list[Candidate]:
    """Have the clients keep a finalist; the candidates that it makes."""
    message = {"name": str(at), "epochs": list(epochs), "round": settings.rounds + 1}
    replies = clients.call("shelve", message, reply=Record({"rated": SUM})).ok
    tempered = Array((len(epochs), len(TEMPERATURES)), -ROUNDING)
    forms = {"tempered": tempered, **judge_forms(settings, nodes, len(epochs))}
    total = clients.total(f"{at}-shelf", replies, "rated", forms)
    losses = np.asarray(total["tempered"]) * COUNT_UNIT / max(nodes, 1)
    made = []
    for row, after, (accuracy, score) in zip(
        losses, epochs, judged(settings, total, nodes), strict=True
    ):
        kind = ("personal" if after else "common") if is_common(Recipe.parse(one.recipe)) else ""
        kind = kind or Recipe.parse(one.recipe).sharing
        label = f"{one.recipe}, then {after} epochs alone" if after else one.recipe
        best = int(np.argmin(row))
        members = [[f"{at}+{after}", TEMPERATURES[best]]]
        figures = (float(row[best]), accuracy, score, one.cut_short)
        made.append(Candidate(members, label, kind, at, *figures))
    return made


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
            made.append(Candidate(members, label, "ensemble", chosen[0].entrant))
    return made


class Choosing:
    """Goes from candidates to what every client takes, and proves it."""

    def __init__(self, clients: Clients, settings: Any, totals: list[int], seed: int) -> None:
        self._clients = clients
        self._settings = settings
        self._totals = totals
        self._seed = seed

    def choose(self, every: Sequence[Candidate]) -> Chosen:
        """Let every client take a candidate."""
        kept = worth_keeping(every)
        names = {member[0] for one in kept for member in one.members}
        forget = [one.members[0][0] for one in every if one.members[0][0] not in names]
        mixed = means(kept, self._settings.ensemble)
        rated = [*kept, *mixed]
        self._rate(rated, {"entries": [one.members for one in rated], "forget": forget})
        by_score = self._settings.objective != "accuracy"
        mixed.sort(key=lambda one: (-one.score if by_score else 0.0, one.loss))
        candidates = [*kept, *mixed[:KEPT_MEANS]]
        entries = [one.members for one in candidates]
        losses, scores = [one.loss for one in candidates], [one.score for one in candidates]
        lead = best_of(losses, scores, by_score)
        spread = self._spread(entries, lead)
        replies = self._call("decide", spread.to_payload(), "votes")
        votes = Array((len(entries),), -ROUNDING)
        total = self._clients.total("votes", replies, "votes", {"votes": votes})
        return Chosen(candidates, lead, np.rint(total["votes"]).astype(int).tolist())

    def restock(self, entrants: Sequence[Entrant]) -> None:
        """Give the common models to clients that were away when the others kept them."""
        common = {
            f"{at}+0": {**recipe.to_payload(), "weights": one.model.weights}
            for at, one in enumerate(entrants)
            if one.result and is_common(recipe := Recipe.parse(one.recipe))
        }
        form = Record({"lacks": Named(Truth())})
        replies = self._clients.call("inventory", {"names": list(common)}, reply=form).ok
        for key, message in common.items():  # one at a time: a site checks each recipe
            short = [name for name, reply in replies.items() if key in reply["lacks"]]
            if short:
                each = {name: {"name": key, **message} for name in short}
                self._clients.call("restock", {}, each=each, reply=NOTHING)

    def prove(self, baselines: Mapping[str, Candidate]) -> Proof:
        """Compare what the clients took with baselines, on test nodes."""
        against = {name: one.members for name, one in baselines.items()}
        message = {"totals": self._totals, "against": against}
        form = Record({"proof": SUM, "own": _OWN})
        replies = self._clients.call("prove", message, reply=form).ok
        forms: dict[str, Form] = {"metrics": metrics_form(SIZE)}
        forms |= detail_forms(self._settings, self._totals)
        for name in against:
            forms[f"against_{name}"] = PAIR_FORM
            for kind in objective_kinds(self._settings):
                forms[f"{name}_{kind}"] = kind_form(kind, [self._totals[2]])
        total = self._clients.total("proof", replies, "proof", forms)
        own = {name: reply["own"] for name, reply in replies.items()}
        return Proof(self._totals, dict(total), own, self._certificate(total, baselines))

    def collect(self) -> Mapping[str, Payload]:
        """Every client's own model: its networks by number."""
        about: dict[str, Form] = {"scaling": Scalar(), "temperature": Number(0)}
        about |= {"weights": WEIGHTS, "spec": Network(), "across": Truth()}
        one = Record(about)
        form = Record({"models": Named(one)})
        return {
            name: reply["models"]
            for name, reply in self._clients.call("hand_over", {}, reply=form).ok.items()
        }

    def _certificate(
        self, total: Mapping[str, Any], baselines: Mapping[str, Candidate]
    ) -> dict[str, Any]:
        """What ``certificate.json`` says of the comparisons."""
        tested, against = self._totals[2], {}
        for name, one in baselines.items():
            rng = numpy_generator(self._seed, "bootstrap", name)
            against[name] = {"model": one.label, "cut_short": one.cut_short}
            against[name] |= comparison(total[f"against_{name}"], tested, rng)
            for kind in objective_kinds(self._settings):
                counts = from_units(kind, total[f"{name}_{kind}"])[0]
                value = objective_value(self._settings.objective, counts)
                against[name][f"test_{self._settings.objective}"] = value
        return {"test_nodes": tested, "against": against, "sentence": sentence(against)}

    def _rate(self, candidates: Sequence[Candidate], message: Payload) -> None:
        nodes, many = self._totals[1], len(candidates)
        replies = self._call("rate", message, "rated")
        forms: dict[str, Form] = {"losses": Array((many,), -ROUNDING)}
        forms |= judge_forms(self._settings, nodes, many)
        total = self._clients.total("rate", replies, "rated", forms)
        losses = (np.asarray(total["losses"]) * COUNT_UNIT / max(nodes, 1)).tolist()
        for one, loss, figures in zip(
            candidates, losses, judged(self._settings, total, nodes), strict=True
        ):
            one.loss, (one.accuracy, one.score) = loss, figures

    def _spread(self, entries: Any, lead: int) -> Spread:
        replies = self._call("choose", {"entries": entries, "lead": lead}, "moments")
        forms = moment_forms(len(entries))
        return Spread.of(self._clients.total("choice", replies, "moments", forms))

    def _call(self, op: str, message: Payload, key: str) -> Mapping[str, Payload]:
        return self._clients.call(op, message, reply=Record({key: SUM})).ok
