"""From what clients took and proved to the outcome of the run."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.methods.auto.bench import Entrant, FinalModel
from autofgl.methods.auto.candidates import Candidate
from autofgl.methods.auto.settings import COSTS
from autofgl.methods.auto.verdicts import BASELINES, Chosen, Proof
from autofgl.runtime.metrics import Metrics, scale_up
from autofgl.runtime.outcome import Outcome, client_lines


def baselines_of(
    every: Sequence[Mapping[str, Any]], entrants: Sequence[Entrant]
) -> dict[str, Candidate]:
    """The candidate of each baseline: as trained, without fine-tuning."""
    first = {one["entrant"]: Candidate(**one) for one in reversed(every)}
    roles = {
        role: first[at] for at, one in enumerate(entrants) for role in one.roles if at in first
    }
    return {name: roles[name] for name in BASELINES if name in roles}


def common_model(
    chosen: Sequence[Candidate], every: Sequence[Candidate], entrants: Sequence[Entrant]
) -> FinalModel:
    """The best network that all clients have alike, of those to choose from if there is one."""
    common = [one for many in (chosen, every) for one in by_loss(many) if one.kind == "common"]
    for one in common:
        model = entrants[one.entrant].model
        if model.weights:
            return model
    raise AutoFGLError("no network that all clients share has come to a result: lower 'lr'")


def by_loss(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best first."""
    return sorted(candidates, key=lambda one: one.loss)


def outcome_of(
    chosen: Chosen, proof: Proof, common: FinalModel, handed: Mapping[str, Payload]
) -> Outcome:
    """The common network, with the figures of what the clients took."""
    figures = Metrics.of(scale_up(proof.total["metrics"], proof.totals))
    taken = [
        {**one.figures(), "sites": sites}
        for one, sites in zip(chosen.candidates, chosen.votes, strict=True)
        if sites
    ]
    certificate = {**proof.certificate, "test_accuracy": figures.test_accuracy, "taken": taken}
    own = own_models(handed)
    specs = {"model": common.spec, **own["specs"]} if handed else {}
    lead = chosen.candidates[chosen.lead]
    return Outcome(
        test_accuracy=figures.test_accuracy,
        val_accuracy=figures.val_accuracy,
        per_client=[
            {**line, **own_words(proof.own[line["name"]], chosen.candidates)}
            for line in client_lines(proof.own)
        ],
        spec=common.spec,
        models={"model": common.weights, **own["models"]},
        specs=specs,
        scalings={"model": common.scaling, **own["scalings"]},
        ensembles=own["ensembles"],
        parameters=common.parameters,
        inference_s=common.inference_s,
        architecture=common.architecture,
        features=common.scaling,
        across=[*(["model"] if common.across else []), *own["across"]],
        files={"certificate.json": (json.dumps(certificate, indent=2) + "\n").encode()},
        extra={
            "certificate": certificate,
            "choice": lead.figures(),
            "candidates": [one.figures() for one in chosen.candidates],
            "front": [front_line(one, one is lead) for one in chosen.front],
            "best_round": common.best_round,
            "val_loss": lead.loss,
        },
    )


def front_line(one: Candidate, recommended: bool) -> dict[str, Any]:
    """A candidate of the Pareto front, with its costs, by the names that results have for them."""
    names = dict(zip(COSTS, ("parameters", "inference_s", "bytes"), strict=True))
    costs = {names[name]: value for name, value in one.costs.items()}
    return {**one.figures(), **costs, "recommended": recommended}


def own_models(handed: Mapping[str, Payload]) -> dict[str, dict[str, Any]]:
    """The clients' own models: several networks where one takes a mean of them."""
    parts: dict[str, dict[str, Any]] = {
        key: {} for key in ("models", "specs", "scalings", "ensembles", "across")
    }
    for client, networks in handed.items():
        shifts = [[float(value) for value in one["shift"]] for one in networks.values()]
        as_it_is = len(networks) == 1 and not shifts[0]
        names = [client] if as_it_is else [f"{client}/{at}" for at in networks]
        for name, one in zip(names, networks.values(), strict=True):
            parts["models"][name], parts["specs"][name] = one["weights"], one["spec"]
            parts["scalings"][name] = one["scaling"]
            if one["across"]:
                parts["across"][name] = True
        if not as_it_is:
            temperatures = [one["temperature"] for one in networks.values()]
            parts["ensembles"][client] = {"members": names, "temperatures": temperatures}
            parts["ensembles"][client] |= {"shifts": shifts} if any(shifts) else {}
    return parts


def own_words(own: Payload, candidates: Sequence[Candidate]) -> dict[str, Any]:
    """What a client says of its choice and of its test nodes, where it does."""
    if not own:
        return {}
    tested = max(int(own["metrics"].reshape(3, 3)[2, 2]), 1)
    beaten = {f"{name}_test_accuracy": count / tested for name, count in own["correct"].items()}
    one = candidates[min(own["took"], len(candidates) - 1)]
    return {"takes": one.kind, "model": one.label, **beaten}
