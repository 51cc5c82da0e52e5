"""The client side of ``auto``: besides trainings it looks, keeps candidates, chooses and proves.

Test nodes are left alone until the choice is made: trainings are on trial throughout, and ``prove``
is answered once, after ``decide``.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from autofgl.federation.party import Context, Refused
from autofgl.federation.payload import Payload
from autofgl.methods.auto.choice import Spread, loss_moments, preferred
from autofgl.methods.auto.look import look_at
from autofgl.methods.auto.proof import compared
from autofgl.methods.auto.shelf import Members, Shelf, node_losses, shift_of
from autofgl.runtime.client_data import ClientData, masks_of
from autofgl.runtime.details import detail_kinds, objective_kinds, to_units
from autofgl.runtime.local_model import WORST_LOSS
from autofgl.runtime.metrics import scale_down
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.round_client import RoundClient
from autofgl.runtime.sharing import Sharing, SharingClient
from autofgl.runtime.state import restore_state
from autofgl.runtime.summing import COUNT_UNIT
from autofgl.tasks.counts import prediction_counts
from autofgl.tasks.losses import tempered_losses

#: After the finals, whatever a client has taken part in of them.
_RATE = {"rate": "rated", "inventory": "counted"}


class AutoClient(RoundClient):
    """Serves all ways of sharing; keeps what the finalists predict, and takes what suits it."""

    operations: ClassVar[frozenset[str]] = RoundClient.operations | {
        "look", "shelve", "inventory", "restock", "rate", "choose", "decide", "prove", "hand_over",
    }  # fmt: skip
    phases: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "new": {**RoundClient.phases["new"], "look": "new", **_RATE},
        "started": {**RoundClient.phases["started"], **_RATE},
        "training": {**RoundClient.phases["training"], **_RATE},
        "concluded": {**RoundClient.phases["concluded"], "shelve": "shelved", **_RATE},
        "shelved": {"start": "started", "go_on": "training", "catch_up": "training", **_RATE},
        "counted": {"restock": "counted", **_RATE},
        "rated": {"choose": "choosing"},
        "choosing": {"decide": "decided"},
        "decided": {"prove": "proven"},
        "proven": {"hand_over": "proven"},
        "failed": {"start": "started"},
    }
    saved: ClassVar[tuple[str, ...]] = ("_shelf",)

    def __init__(
        self,
        context: Context,
        data: ClientData,
        ways: Mapping[str, Sharing],
        settings: Any,
        secure: str,
    ) -> None:
        super().__init__(context, data, ways, settings, secure)
        self._shelf = Shelf(data.graph.num_nodes, data.graph.classes)
        self._nodes = [np.flatnonzero(mask) for mask in masks_of(data.graph)]
        self._entries: list[Members] = []
        self._lead = self._chosen = 0

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; trainings may learn from what is on the shelf."""
        restore_state(self, ("_shelf",), state)
        super().load_state(state)

    def prepare(self, sharing: SharingClient, payload: Payload) -> None:
        """With a ``teacher``, members of a mean, the network learns from those that are here."""
        teacher = payload.get("teacher", ())
        if any(name in self._shelf for name, _ in teacher):
            sharing.local.teach(self._shelf.log_probabilities(teacher))

    def permit(self, op: str, payload: Payload) -> None:
        """Show others no embeddings where that was turned down."""
        super().permit(op, payload)
        rows = op in ("introduce", "exchange") or payload.get("sharing") == "across"
        if rows and not self.settings.across:
            raise Refused("this client does not convolve across clients: sharing=across")

    def look(self, payload: Payload) -> Payload:  # noqa: ARG002
        """Count what the graph has."""
        graph, settings = self.data.graph, self.settings
        plain = graph.edge_weight is None and not settings.batch and settings.share != "none"
        return {"look": self.contribute("look", look_at(graph, settings.across and plain))}

    def shelve(self, payload: Payload) -> Payload:
        """Keep the network whose training was concluded, and what fine-tunings make of it.

        Payload: ``name``; ``tunings``, each of so many local epochs at a part of the learning rate,
        the first of none; ``round``, a number that names the dropout; ``shares`` of the classes in
        the federation, where the network is to be kept for the own mix of classes as well.
        """
        local, every = self.sharing.local, []
        across, settled = self.sharing.exchanges > 0, local.weights()
        for at, (epochs, rate) in enumerate(payload["tunings"]):
            if epochs:  # the optimizer's moments are of other weights
                local.load_weights(settled)
                local.restart(rate * local.settings.lr)
                local.train(epochs, payload["round"] + at)
            outputs = local.logits() if epochs else self.sharing.predictions()
            every.append(self._shelf.put(f"{payload['name']}+{at}", local, outputs, across))
        if "shares" in payload:
            local.load_weights(settled)
            shift, name = self._shift(payload["shares"]), f"{payload['name']}+{len(every)}"
            outputs = self.sharing.predictions()
            every.append(self._shelf.put(name, local, outputs, across, shift))
        labels = torch.from_numpy(self._labels(1))
        tempered = [
            tempered_losses(torch.from_numpy(one[self._nodes[1]]), labels, WORST_LOSS)
            for one in every
        ]
        judged = self._judged([one[self._nodes[1]] for one in every])
        sums = {"tempered": np.stack(tempered) / COUNT_UNIT, **judged}
        return {"rated": self.contribute(f"{payload['name']}-shelf", sums)}

    def inventory(self, payload: Payload) -> Payload:
        """Which of some ``names`` are not here: this client was away when they were kept."""
        return {"lacks": {name: True for name in payload["names"] if name not in self._shelf}}

    def restock(self, payload: Payload) -> Payload:
        """Keep a common model that is not here.

        Payload, for those that lack it: its ``name``, a recipe's ``sharing``, ``network`` and
        ``settings``, and its ``weights``.
        """
        if "name" in payload and payload["name"] not in self._shelf:
            recipe = Recipe.from_payload(payload).to_payload()
            local = self.build({**recipe, "trial": True}).local
            local.load_weights(local.buffers() | payload["weights"])
            across = recipe.get("sharing") == "across"
            self._shelf.put(payload["name"], local, local.logits(), across)
        return {}

    def rate(self, payload: Payload) -> Payload:
        """How good candidates are on the own validation nodes.

        Payload: ``entries``, the members of each; names to ``forget``; ``tag``.
        """
        self._shelf.forget(payload["forget"])
        every = [self._shelf.log_probabilities(one)[self._nodes[1]] for one in payload["entries"]]
        labels = self._labels(1)
        losses = np.array([node_losses(one, labels).sum() for one in every])
        sums = {"losses": losses / COUNT_UNIT, **self._judged(every)}
        return {"rated": self.contribute("rate", sums)}

    def choose(self, payload: Payload) -> Payload:
        """How candidates differ here from the federation's choice.

        Payload: ``entries``, and the number of the ``lead`` among them.
        """
        self._entries, self._lead = payload["entries"], payload["lead"]
        return {"moments": self.contribute("choice", loss_moments(self._losses(), self._lead))}

    def decide(self, payload: Payload) -> Payload:
        """Take a candidate, by the own losses and what the federation says of their worth."""
        spread = Spread(**payload)
        if self.data.graph.num_nodes and len(self._nodes[1]):
            self._chosen = preferred(self._losses(), self._lead, spread)
        else:
            self._chosen = self._lead
        votes = np.zeros(len(self._entries))
        votes[self._chosen] = 1.0
        return {"votes": self.contribute("votes", {"votes": votes})}

    def prove(self, payload: Payload) -> Payload:
        """Compare what was chosen with baselines, on test nodes.

        Payload: ``totals``; ``against``, the members of each baseline by its name.
        """
        ours = self._shelf.log_probabilities(self._entries[self._chosen])
        sums = self._figures(ours)
        kinds, cells = detail_kinds(self.settings), self.settings.score_bins
        counted = [
            prediction_counts(ours[self._nodes[at]], self._labels(at), kinds, cells)
            for at in (1, 2)
        ]
        details = {kind: np.stack([one[kind] for one in counted]) for kind in kinds}
        vectors = {"metrics": scale_down(sums, payload["totals"]), **to_units(details)}
        test, labels = self._nodes[2], self._labels(2)
        right = ours[test].argmax(1) == labels
        beaten = {}
        for name, members in payload["against"].items():
            theirs = self._shelf.log_probabilities(members)[test]
            beaten[name] = theirs.argmax(1) == labels
            vectors[f"against_{name}"] = compared(right, beaten[name])
            judged = prediction_counts(theirs, labels, objective_kinds(self.settings), cells)
            vectors |= to_units({f"{name}_{kind}": one[None] for kind, one in judged.items()})
        reply: Payload = {"proof": self.contribute("proof", vectors), "own": {}}
        if self._secure == "none":
            graph, took = self.data.graph, self._chosen
            correct = {name: int(one.sum()) for name, one in beaten.items()}
            reply["own"] = {"nodes": graph.num_nodes, "edges": graph.num_links, "metrics": sums}
            reply["own"] |= {"took": took, "correct": correct}
        return reply

    def hand_over(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The own model, if the settings of this client allow it."""
        if not self.settings.collect_models:
            raise Refused("a client's own model stays with it, unless collect_models is set")
        return {"models": self.own_networks()}

    def own_networks(self) -> Payload:
        """What this client has chosen, for its owner: networks by number; nothing before that."""
        models: Payload = {}
        if not self._entries:
            return models
        for at, (name, temperature) in enumerate(self._entries[self._chosen]):
            one = self._shelf[name]
            about: Payload = {"scaling": one.scaling, "temperature": float(temperature)}
            about |= {"across": one.across, "shift": one.shift}
            models[str(at)] = {"weights": one.weights, "spec": one.spec, **about}
        return models

    def _shift(self, shares: Any) -> Any:
        """What the own mix of classes adds to a network's outputs."""
        graph = self.data.graph
        return shift_of(np.bincount(graph.y[graph.train_mask], minlength=graph.classes), shares)

    def _labels(self, mask: int) -> Any:
        return self.data.graph.y[self._nodes[mask]]

    def _losses(self) -> Any:
        """The candidates' losses at the own validation nodes, ``[M, n]``."""
        labels, nodes = self._labels(1), self._nodes[1]
        every = [self._shelf.log_probabilities(one)[nodes] for one in self._entries]
        return np.stack([node_losses(one, labels) for one in every])

    def _judged(self, every: list[Any]) -> dict[str, Any]:
        """Correct predictions, and what another objective takes, of outputs on validation nodes."""
        labels, kinds = self._labels(1), objective_kinds(self.settings)
        correct = np.array([(one.argmax(1) == labels).sum() for one in every], np.float64)
        counts = [prediction_counts(one, labels, kinds, self.settings.score_bins) for one in every]
        stacked = {kind: np.stack([one[kind] for one in counts]) for kind in kinds}
        return {"correct": correct / COUNT_UNIT, **to_units(stacked, "val_")}

    def _figures(self, log_probabilities: Any) -> Any:
        """Loss sum, correct predictions and count on each mask, ``[9]``."""
        rows = []
        for at, nodes in enumerate(self._nodes):
            labels, outputs = self._labels(at), log_probabilities[nodes]
            right = float((outputs.argmax(1) == labels).sum())
            rows += [node_losses(outputs, labels).sum(), right, float(len(nodes))]
        return np.array(rows, np.float64)
