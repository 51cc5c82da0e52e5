"""One common network that convolves across clients: any of ours, by federated averaging.

Clients learn as in :mod:`autofgl.sharing.common`, and every hop of the network that is not closed
takes in the rows of external neighbors (:mod:`autofgl.nn.cross_client`). Before a round all clients
go through a pass without dropout at the weights that the round begins with, hop by hop: each sends
what its own nodes feed into a hop to those that have an edge to them, and goes on to the next hop
with what it is sent. So the figures of a round are those of the network on the uncut graph
(exactly, with ``share=all``), and one exchange for each hop is all that a round costs.

Training uses the same rows: they are those of the same weights, without dropout, and constants in
backpropagation, as in FedGraph (Eq. 3 and Algorithm 1). A client thus has the gradient of its own
loss through its own nodes; what its loss owes to other clients' nodes, and theirs to its own, is
left out. With ``aggregate=parameters`` the rows stay the same over the local epochs of a round.

With ``backward=true`` it is not left out: after the pass clients go back hop by hop, and each tells
the owners of the rows that it was sent what the federation's loss owes to them
(:mod:`autofgl.nn.cross_client_backward`). Another exchange for each hop, and the summed gradient is
that of the uncut graph.

With ``refresh=k`` there is an exchange in every k-th round only, and before the end: in between the
rows are those of older weights, and so are a round's figures.

A client that is lost sends no more rows; what it sent last goes on being used. Hops are counted by
a pass at the start, and all clients count alike since they have the same network.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from autofgl.errors import UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.cross_client import CrossClientStructure, closed_hops
from autofgl.nn.cross_client_backward import BackwardPass, LeafRows
from autofgl.nn.features import Scaling
from autofgl.nn.models.spec import own_names
from autofgl.nn.sampling.neighborhood import NO_WEIGHTS_ACROSS
from autofgl.runtime.client_data import ClientData, Inputs
from autofgl.runtime.clients import Clients
from autofgl.runtime.device import fetch
from autofgl.runtime.local_model import Weights
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.reversal import Flat
from autofgl.runtime.rows import BOXES, Place, delivered
from autofgl.runtime.sharing import Sharing
from autofgl.runtime.summing import weighted
from autofgl.runtime.trial_model import LARGEST_GRADIENT
from autofgl.sharing.common import CommonClient, CommonServer, network_spec


class _AcrossData(ClientData):
    """A client's data with a structure that takes in rows of other clients."""

    def __init__(self, data: ClientData, structure: CrossClientStructure) -> None:
        super().__init__(data.graph, data.seed)
        self._data = data
        self._structure = structure

    def inputs(self, scaling: Scaling) -> Inputs:
        """See :meth:`ClientData.inputs`."""
        inputs = self._data.inputs(scaling)
        return replace(inputs.origin or inputs, structure=self._structure)


class AcrossCommonClient(CommonClient):
    """Trains the common network on its own graph and on rows of its external neighbors."""

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        spec = network_spec(data.graph, settings, recipe.network)
        self._structure = CrossClientStructure(data.operators, closed_hops(spec, settings.share))
        super().__init__(_AcrossData(data, self._structure), recipe, settings, secure, trial)
        with torch.no_grad():
            self._run()
        self._hops = sorted(self._structure.widths)
        self.exchanges = len(self._hops)
        #: While gradients go back: the pass that they go through, and what this client's own loss
        #: owes to the parameters and, by hop, to the rows that it was sent.
        self._backward: BackwardPass | None = None
        self._owes: tuple[Weights, dict[int, torch.Tensor]] = {}, {}

    def rows_to_send(self, exchange: int, payload: Payload) -> Any:
        """What own nodes feed into the hop of an exchange, ``[n, width]``; on the way back what the
        federation's loss owes to rows of external nodes, ``[m, width]``.
        """
        if exchange == 0:
            self._structure.begin_exchanges()
            self._backward = None
        hop = self._hop(exchange)
        if not self.goes_back(exchange):
            with torch.no_grad():
                return fetch(self._structure.rows_at(hop, self._run))
        if exchange == self.exchanges:
            self._turn_back(payload)
        assert self._backward is not None
        owed = self._share(payload) * self._owes[1][hop] + self._backward.to_owners(hop)
        return fetch(torch.nan_to_num(owed).clamp(-LARGEST_GRADIENT, LARGEST_GRADIENT))

    def goes_back(self, exchange: int) -> bool:
        """See :meth:`SharingClient.goes_back`: after an exchange for every hop."""
        return exchange >= self.exchanges

    def width_of(self, exchange: int) -> int:
        """Length of a row in an exchange."""
        return self._structure.widths[self._hop(exchange)]

    def take_rows(self, exchange: int, place: Place, rows: Any) -> None:
        """Take in rows of some external nodes, or what peers' losses owe to rows of own ones."""
        hop, values = self._hop(exchange), torch.from_numpy(np.array(rows, np.float32))
        if not self.goes_back(exchange):
            self._structure.rows[hop][place] = values
        elif self._backward is not None:
            bounded = values.clamp(-LARGEST_GRADIENT, LARGEST_GRADIENT)
            self._backward.add(hop, torch.tensor(place), bounded)

    def update(self, payload: Payload) -> dict[str, Any]:
        """As with one common network; with what peers' losses owe to it, if they have said so."""
        if self._backward is None:
            return super().update(payload)
        gradient, share = self._owes[0], self._share(payload)
        names = [name for name, _ in self.local.trained()]
        parameters = [value for _, value in self.local.trained()]
        owed = self._backward.parameter_gradients(parameters)
        self._backward = None
        others = self.local.bounded(
            {name: fetch(value) for name, value in zip(names, owed, strict=True)}
        )
        both = {name: gradient[name] + others[name] / share for name in names} if share else {}
        update = weighted(gradient, share)
        update |= {name: update[name] + others[name] for name in names}
        return update | self._vote(both, {})

    def _hop(self, exchange: int) -> int:
        """The hop of an exchange: first to last, then back."""
        return [*self._hops, *reversed(self._hops)][exchange]

    def _run(self) -> torch.Tensor:
        """A pass without dropout."""
        output: torch.Tensor = self.local.model.eval()(*self.local.network_inputs)
        return output

    def _share(self, payload: Payload) -> float:
        """Own part of the federation's training nodes."""
        share: float = self.local.train_nodes / max(payload["totals"][0], 1)
        return share

    def _turn_back(self, payload: Payload) -> None:
        """The gradient of the own loss, and a pass that those of others can go back through."""
        with LeafRows(self._structure) as received:
            gradient = self.local.gradient(payload["round"])
        self._owes = gradient, received.gradients()
        self._backward = BackwardPass(self._structure, self._run)

    def state(self) -> Payload:
        """Everything between two rounds, the rows that came last included."""
        rows = {str(hop): fetch(rows) for hop, rows in self._structure.rows.items()}
        return {**super().state(), "rows": rows}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; what all have alike has no rows."""
        super().load_state(state)
        for hop, rows in state.get("rows", {}).items():
            self._structure.rows[int(hop)] = torch.from_numpy(np.array(rows, np.float32))

    def common_state(self) -> Payload:
        """What all clients have alike: rows are not."""
        return {name: value for name, value in super().common_state().items() if name != "rows"}


class AcrossCommonServer(CommonServer):
    """Averages as with one common network; clients exchange rows before a round."""

    saved: ClassVar[tuple[str, ...]] = (*CommonServer.saved, "_exchanges")

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self._exchanges = 0

    def begin(self, replies: Mapping[str, Payload]) -> None:
        """Learn how many hops take in rows: all clients count the same."""
        counted = Counter(reply.get("exchanges", 0) for reply in replies.values())
        self._exchanges = counted.most_common(1)[0][0]
        super().begin(replies)

    def exchange_rows(
        self, message: Payload, handout: Payload
    ) -> tuple[Payload, dict[str, Payload]]:
        """Have the clients take in the handout and exchange rows, hop by hop."""
        stale = (message["round"] - 1) % self.settings.refresh and not message.get("settles")
        if not self._exchanges or stale:
            return handout, {}
        place = {name: message[name] for name in ("stage", "round")}
        each: dict[str, Payload] = {}
        back = self.settings.backward and message.get("contribute", False)
        for at in range(self._exchanges * (1 + back)):
            ahead = {**handout, **message} if at == 0 else place
            replies = self.clients.call(
                "exchange", {**ahead, "exchange": at}, each=each, reply=BOXES
            )
            each = delivered(replies.ok)
        return {}, each

    def step_of(self, total: Mapping[str, Any]) -> Flat | None:
        """See :meth:`SharingServer.step_of`; clients that are told what others' losses owe to their
        rows do not send the gradient of the loss that they report.
        """
        return None if self.settings.backward else super().step_of(total)


def check_across(graph: ClientGraph, settings: Any, network: Any) -> None:
    """Refuse what cannot convolve across clients; a ``UserError`` says why."""
    if graph.edge_weight is not None:
        raise UserError(f"{graph.name}: {NO_WEIGHTS_ACROSS}")
    if own_names(network):
        raise UserError(
            "sharing=across splits a pass at every hop, and cannot look into a network or layer "
            "from outside: choose one of the package's own"
        )
    if settings.backward and (settings.aggregate != "gradients" or settings.participation < 1):
        raise UserError(
            "backward=true is about the gradient of all clients in every round: leave aggregate "
            "and participation as they are"
        )
    if settings.backward and settings.refresh > 1:
        raise UserError("backward=true takes an exchange in every round: leave 'refresh' out")
    if settings.batch:
        raise UserError("sharing=across takes all nodes at once: leave 'batch' out")


ACROSS = Sharing(
    "across",
    AcrossCommonServer,
    AcrossCommonClient,
    network_spec,
    exchanges=True,
    check=check_across,
)
