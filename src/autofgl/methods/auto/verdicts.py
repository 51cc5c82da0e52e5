"""The server's side of the choice and of the proof: what sites take, and the certificate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.methods.auto.bench import Entrant
from autofgl.methods.auto.candidates import (
    Candidate,
    judge_forms,
    judged,
    means,
    worth_keeping,
)  # fmt: skip
from autofgl.methods.auto.choice import Spread, best_of, moment_forms
from autofgl.methods.auto.front import Costs, front_of, recommended, within
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
#: So many means of finalists may be taken.
KEPT_MEANS = 2
#: A mean of several is preferred to a single finalist whose loss is lower by less than this share:
#: the best of several on the nodes that they are compared by looks better than it is, a mean less.
MEAN_AHEAD = 0.005
#: Baselines in the order of the certificate.
BASELINES = ("alone", "fedavg", "fixed")


@dataclass(frozen=True)
class Chosen:
    """Candidates, the number of the federation's choice, how many clients took each, and those of
    the Pareto front; no more candidates than the costs that count allow.
    """

    candidates: list[Candidate]
    lead: int
    votes: list[int]
    front: list[Candidate]


@dataclass(frozen=True)
class Proof:
    """What clients found on test nodes: sums, their own words (if any), and the certificate."""

    totals: list[int]
    total: dict[str, Any]
    own: dict[str, Payload]
    certificate: dict[str, Any]


class Choosing:
    """Goes from candidates to what every client takes, and proves it."""

    def __init__(self, clients: Clients, settings: Any, totals: list[int], seed: int) -> None:
        self._clients = clients
        self._settings = settings
        self._totals = totals
        self._seed = seed

    def choose(self, every: Sequence[Candidate], costs: Sequence[Costs]) -> Chosen:
        """Let every client take a candidate; ``costs`` are those of the finalists."""
        kept = worth_keeping(every)
        for one in kept:
            one.costs = dict(costs[one.entrant])
        names = {member[0] for one in kept for member in one.members}
        forget = [one.members[0][0] for one in every if one.members[0][0] not in names]
        mixed = [] if self._settings.distill else means(kept, self._settings.ensemble)
        rated = [*kept, *mixed]
        self._rate(rated, {"entries": [one.members for one in rated], "forget": forget})
        by_score = self._settings.objective != "accuracy"
        mixed.sort(key=lambda one: (-one.score if by_score else 0.0, one.loss))
        candidates = [*kept, *mixed[:KEPT_MEANS]]
        candidates, lead, front = self._narrowed(candidates, by_score)
        entries = [one.members for one in candidates]
        spread = self._spread(entries, lead)
        replies = self._call("decide", spread.to_payload(), "votes")
        votes = Array((len(entries),), -ROUNDING)
        total = self._clients.total("votes", replies, "votes", {"votes": votes})
        return Chosen(candidates, lead, np.rint(total["votes"]).astype(int).tolist(), front)

    def _narrowed(
        self, candidates: list[Candidate], by_score: bool
    ) -> tuple[list[Candidate], int, list[Candidate]]:
        """Those that cost no more than allowed, the number of the federation's choice among them,
        and the Pareto front of all, with that choice.
        """
        counts, nodes = self._settings.counted_costs, self._totals[1]
        scores, each = [one.score for one in candidates], [one.costs for one in candidates]
        if counts:
            lead = recommended(scores, each, counts, nodes)
            able = [candidates[at] for at in within(each, lead, counts)]
        else:
            losses = [one.loss - MEAN_AHEAD * one.loss * one.is_mean for one in candidates]
            lead = best_of(losses, scores, by_score)
            able = candidates
        front = [candidates[at] for at in front_of(scores, each, counts, lead)]
        return able, able.index(candidates[lead]), front

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
        about["shift"] = Array((None,))
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
