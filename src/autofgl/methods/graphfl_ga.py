"""GraphFL with clients that configure themselves by a genetic algorithm (Rezaei et al., 2024).

As :mod:`autofgl.methods.graphfl`, but each client searches for its own network and its own settings
of MAML (:mod:`autofgl.methods.configurator`), and the server averages networks that differ
(:mod:`autofgl.methods.slices`). When a client searches, is the ``mode`` (section 3.3):

* ``continuous``: whenever it trains; the winner's trained network is where its training starts.
* ``parallel``: in a process of its own beside the training, which never waits for it; what is found
  is adopted with the federation's weights of that round, as the paper has it.
* ``threshold``: the server keeps a list of clients that may train and one of those that change
  their structure. A client whose validation accuracy after training is below the threshold goes to
  the second list, searches in the next round, and returns.

In the test phase each client adapts its own network by its own settings. One that never trained,
such as a new client, takes the network of the largest part of the last average, and the geometric
mean of the inner rates in it: the *advice*. The paper is silent on such clients.

Where we differ from the paper besides: fitness is measured on validation nodes, and of what an
average would leave of the training; outer steps are plain gradient descent unless ``optimisers``
says otherwise; nobody adapts where the federation is better without (``adapt=if-better``).

===========  =======================================================================================
Who          learns what, besides what GraphFL tells
===========  =======================================================================================
Server       by shape of network, the training nodes of those who hold it in a round and the mean
             length of their steps; the mean inner rate; how many chromosomes each client tried and
             how long it took; with ``threshold``, who is below it. With ``secure=none`` also each
             client's configuration.
Clients      the blocks of all shapes; what share of a round's training nodes each shape has, and
             the mean length of a step; the mean inner rate.
Nobody else  populations, losses and accuracies of chromosomes.
===========  =======================================================================================
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from autofgl.errors import UserError
from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.configuration import Configurations
from autofgl.methods.graphfl import GraphFL
from autofgl.methods.graphfl_ga_client import GraphFLGAClient
from autofgl.methods.graphfl_ga_settings import GraphFLGASettings
from autofgl.methods.method import Outcome, Row, Weights
from autofgl.methods.settings import model_spec
from autofgl.methods.slices import merge, take
from autofgl.nn.models.spec import ModelSpec


class GraphFLGA(GraphFL):
    """The server."""

    summary: ClassVar[str] = "graphfl with clients that configure themselves"
    Settings: ClassVar[type[GraphFLGASettings]] = GraphFLGASettings
    settings: GraphFLGASettings

    def __init__(
        self, federation: Federation, settings: GraphFLGASettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._advice: Payload = {}
        self._changing: set[str] = set()
        self._trials = 0

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """See :meth:`Method.check`."""
        super().check(clients, settings, secure)
        if settings.select != "last":
            raise UserError(
                f"select={settings.select}: a client's configuration is that of the last round, "
                "so that graphfl-ga has select=last only"
            )

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: Any, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        spec = model_spec(graph, settings)
        return lambda context: GraphFLGAClient(context, graph, spec, settings, seed, secure)

    def setup(self) -> None:
        """As in GraphFL; at first all hold the environment's network."""
        super().setup()
        own = self._space.environment
        shape = self._space.shapes.index(self._space.shape_of(own))
        shares = [float(index == shape) for index in range(len(self._space.shapes))]
        self._advice = {
            "shape": shape,
            "inner_lr": self.settings.inner_lr,
            "shares": shares,
            "lengths": [0.0] * len(shares),
        }

    def finish(self) -> Outcome:
        """As in GraphFL, with the number of chromosomes that were tried."""
        found = super().finish()
        return replace(found, extra={**found.extra, "trials": self._trials})

    def state(self) -> Payload:
        """Everything between two rounds."""
        own = {"advice": self._advice, "changing": sorted(self._changing), "trials": self._trials}
        return {**super().state(), **own}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        super().load_state(state)
        self._advice, self._trials = state["advice"], state["trials"]
        self._changing = set(state["changing"])

    @cached_property
    def _space(self) -> Configurations:
        return Configurations(ModelSpec.from_json(self._spec), self.settings)

    def _participants(self) -> set[str]:
        """Those on the list of trainable clients have an equal chance; it may be empty."""
        return super()._participants() if set(self._trainable()) else set()

    def _trainable(self) -> list[str]:
        return [name for name in super()._trainable() if name not in self._changing]

    def _common(self) -> Payload:
        return {"advice": self._advice}

    def _duty(self, name: str) -> Payload:
        return {"evolve": name in self._changing}

    def _note(self, replies: Mapping[str, Payload]) -> Row:
        notes = {name: reply["note"] for name, reply in replies.items() if "note" in reply}
        changed = len(self._changing)
        self._changing = {name for name, note in notes.items() if note.get("below")}
        trials = sum(note["trials"] for note in notes.values())
        self._trials += trials
        seconds = sum(note["seconds"] for note in notes.values())
        row: Row = {"trials": trials, "search_s": round(seconds, 6)}
        return {**row, "changed": changed} if self.settings.mode == "threshold" else row

    def _absorb(self, total: Mapping[str, Any]) -> float:
        """The average of each entry over its holders."""
        least = 0.25 / max(self._totals[0], 1)  # a quarter of the share of a single node
        share = float(total["share"]) if total else 0.0
        if share < least:
            return 0.0
        shares = [float(value) for value in total["shapes"]]
        self._weights = merge(total, shares, self._space.held, self._weights, least)
        rate = self.settings.inner_lr * math.exp(float(total["log_rate"]) / share)
        told = zip(total["lengths"], shares, self._advice["lengths"], strict=True)
        self._advice = {
            "shape": int(np.argmax(shares)),
            "inner_lr": rate,
            "shares": (np.array(shares) / sum(shares)).tolist(),
            "lengths": [float(sum_) / of if of >= least else known for sum_, of, known in told],
        }
        return float(np.float32(total["query_loss"] / share))

    def _network(self) -> tuple[dict[str, Any], Weights]:
        """The network of the advice; clients' own ones differ."""
        space, shape = self._space, self._advice["shape"]
        spec = space.spec_of(space.like(space.shapes[shape], self._advice["inner_lr"]))
        return spec.to_json(), take(self._best_weights, space.held[shape])

    def _with_own(self, row: dict[str, Any], own: Payload) -> dict[str, Any]:
        row = super()._with_own(row, own)
        return {**row, "configuration": own["configuration"]} if own else row
