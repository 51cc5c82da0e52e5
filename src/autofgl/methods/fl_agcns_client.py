"""The client side of FL-AGCNS; :mod:`autofgl.methods.fl_agcns` says what it does."""

from typing import Any, ClassVar

import numpy as np
import torch

from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.candidate_client import CandidateClient
from autofgl.methods.objectives import (
    cost_of,
    latency_table,
    objective_values,
    parameter_table,
)
from autofgl.methods.optimiser_state import load_optimiser_state, optimiser_state
from autofgl.methods.search_settings import SearchSettings
from autofgl.methods.search_space import genotypes, make_codes, make_space
from autofgl.methods.sums import average, weighted
from autofgl.nn.features import InputFeatures
from autofgl.nn.structure import Structure
from autofgl.nn.supernet import Field, SuperNet
from autofgl.search import Memo, Variation, client_step
from autofgl.seeding import numpy_generator, torch_generator

#: A diverged network counts as this bad on every node: secure sums take finite numbers only.
WORST_LOSS = 50.0


class SearchClient(CandidateClient):
    """Holds the SuperNet and a population of its own, later the found network."""

    operations: ClassVar[frozenset[str]] = CandidateClient.operations | {
        "latency", "weights", "losses", "evolve",
    }  # fmt: skip

    def __init__(
        self,
        context: Context,
        graph: ClientGraph,
        settings: SearchSettings,
        seed: int,
        secure: str,
    ) -> None:
        super().__init__(context, graph, settings, seed, secure)
        self._search = settings
        self._space = make_space(settings)
        self._codes = make_codes(self._space)
        self._supernet = make_supernet(self._space, graph, settings, seed)
        self._optimiser = torch.optim.Adam(
            self._supernet.parameters(),
            lr=settings.search_lr or settings.lr,
            weight_decay=settings.search_weight_decay,
        )
        self._train_field, self._val_field = _fields(graph, settings)
        self._memo = Memo(self._codes, self._own_losses)
        self._own: Any = None
        self._tables: Payload = {}
        self._train_loss = 0.0

    def start(self, payload: Payload) -> Payload:
        """Node counts, and in the clear the validation nodes, by which codes are apportioned.

        Also how many parameters a network has, which is the same at every client.
        """
        reply = {**super().start(payload), "val": self._val_field.measured}
        return {**reply, "params": parameter_table(self._space, self._graph, self._search)}

    def latency(self, payload: Payload) -> Payload:  # noqa: ARG002
        """Contribute to the mean time that networks take, where it is an objective."""
        table = latency_table(self._space, self._graph, self._search)
        return {"latency": self.sums.protect("latency", {"table": table, "clients": np.ones(1)})}

    def weights(self, payload: Payload) -> Payload:
        """One weights step (Algorithm 2, lines 10 to 12; Eq. 2).

        Take in the last step's summed gradient, then contribute the weighted gradient of the mean
        over P of the mean training loss. Only parameters that P touches are in it; everybody
        knows P, and so which ones these are.
        """
        self._take_gradient(payload)
        at = (payload["generation"], payload["step"])
        population = genotypes(self._space, payload["codes"])
        generator = torch_generator(self._seed, "supernet-dropout", self._graph.name, *at)
        self._supernet.train()
        gradient, losses = self._supernet.gradient(population, self._train_field, generator)
        finite = np.nan_to_num(losses, nan=WORST_LOSS, posinf=WORST_LOSS)
        self._train_loss = float(np.minimum(finite, WORST_LOSS).mean())
        mean = {name: value / len(population) for name, value in gradient.items()}
        share = self._train_field.measured / max(payload["totals"][0], 1)
        tag = f"gradient-{at[0]}-{at[1]}"
        return {"gradient": self.sums.protect(tag, weighted(mean, share), reveal="parties")}

    def losses(self, payload: Payload) -> Payload:
        """Contribute to FLL(P), Eq. 1: own sums of validation losses over all validation nodes."""
        self._take_gradient(payload)
        sums = self._evaluated(payload["codes"]) / max(payload["totals"][1], 1)
        train = self._train_loss * self._train_field.measured / max(payload["totals"][0], 1)
        figures = {"losses": sums[:, 0], "correct": sums[:, 1], "train_loss": np.array(train)}
        return {"losses": self.sums.protect(f"losses-{payload['generation']}", figures)}

    def evolve(self, payload: Payload) -> Payload:
        """The client's optimiser (Algorithm 1, client lines 2 to 6).

        Payload: ``shared`` is P_FL, whose last ``children`` codes have no federated loss yet;
        ``quota`` codes are asked for; ``tables`` tell the costs that are objectives besides. A
        client without validation nodes has no preferences.
        """
        shared, children = payload["shared"], payload["children"]
        self._tables = payload["tables"]
        best = self._codes.stack([])
        if payload["quota"] and self._val_field.measured:
            best = self._client_step(shared, payload["quota"], payload["generation"])
        fresh = self._evaluated(shared[len(shared) - children :])
        sums = fresh / max(payload["totals"][1], 1)
        figures = {"losses": sums[:, 0], "correct": sums[:, 1]}
        protected = self.sums.protect(f"children-{payload['generation']}", figures)
        return {"codes": best, "losses": protected}

    def state(self) -> Payload:
        """The SuperNet, its optimiser, the own population, and what the final training has."""
        state = super().state()
        state["supernet"] = {
            name: value.detach().numpy().copy()
            for name, value in self._supernet.state_dict().items()
        }
        state["supernet_moments"] = optimiser_state(self._optimiser)
        return state if self._own is None else {**state, "own": self._own}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        super().load_state(state)
        with torch.no_grad():
            for name, value in self._supernet.state_dict().items():
                value.copy_(torch.from_numpy(state["supernet"][name].copy()))
        load_optimiser_state(self._optimiser, state["supernet_moments"])
        self._own = state.get("own")

    def _take_gradient(self, payload: Payload) -> None:
        """All clients take the same step, so that all hold the same W without it being sent."""
        if "gradient" not in payload:
            return
        gradient = average(self.sums.open(payload["gradient"]))
        self._memo.clear()
        for name, parameter in self._supernet.named_parameters():
            found = gradient.get(name)
            parameter.grad = None if found is None else torch.from_numpy(found)
        self._optimiser.step()

    def _evaluated(self, codes: Any) -> Any:
        """Sum of losses and correct predictions on own validation nodes, ``[n, 2]``; finite."""
        if not self._val_field.measured:
            return np.zeros((len(codes), 2))
        sums = self._supernet.evaluate(genotypes(self._space, codes), self._val_field)[:, 0]
        worst = WORST_LOSS * self._val_field.measured
        sums[:, 0] = np.clip(np.nan_to_num(sums[:, 0], nan=worst, posinf=worst), 0, worst)
        return sums[:, :2]

    def _own_losses(self, codes: Any) -> Any:
        """What this client's optimiser minimises: L_val_i, or the share of wrong predictions.

        And, where they are objectives, the costs of the codes.
        """
        sums = self._evaluated(codes) / max(self._val_field.measured, 1)
        costs = {name: cost_of(table, self._space, codes) for name, table in self._tables.items()}
        return objective_values(self._search.objective_names, sums[:, 0], sums[:, 1], costs)

    def _client_step(self, shared: Any, quota: int, generation: int) -> Any:
        own = shared[: self._search.population] if self._own is None else self._own
        rng = numpy_generator(self._seed, "client-evolution", self._graph.name, generation)
        step = client_step(
            self._codes, own, shared, self._memo, quota, rng, variation(self._search)
        )
        self._own = step.population
        return step.best


def make_supernet(space: Any, graph: ClientGraph, settings: SearchSettings, seed: int) -> SuperNet:
    """The SuperNet, at initial weights that are the same at every client."""
    supernet = SuperNet(
        space,
        graph.num_features,
        graph.classes,
        settings.hidden,
        dropout=settings.dropout,
        layer_dropout=settings.layer_dropout,
        fusion=settings.fusion,
        per_predecessor=settings.per_predecessor,
    )
    supernet.reset_parameters(torch_generator(seed, "supernet"))
    return supernet


def variation(settings: SearchSettings) -> Variation:
    """How children come about."""
    return Variation(settings.tournament, settings.crossover, settings.mutation)


def _fields(graph: ClientGraph, settings: SearchSettings) -> tuple[Field, Field]:
    features = InputFeatures.from_client(graph.x)
    if settings.normalize_features:
        features = features.row_normalised()
    structure = Structure.from_client(graph)
    labels = torch.from_numpy(graph.y.copy())
    train, val = (
        Field(features, structure, labels, [torch.from_numpy(np.flatnonzero(mask))])
        for mask in (graph.train_mask, graph.val_mask)
    )
    return train, val
