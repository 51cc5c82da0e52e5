"""GraphFL's way of sharing with clients that configure themselves (Rezaei et al., 2024).

As :mod:`autofgl.sharing.meta.sharing`, but each client searches for its own network and its own
settings of MAML (:mod:`autofgl.methods.graphfl.configurator`), and the server averages networks
that differ (:mod:`autofgl.methods.graphfl.configurations`). When a client searches, is the ``mode``
(section 3.3):

* ``continuous``: whenever it trains; the winner's trained network is where its training starts.
* ``parallel``: in a process of its own beside the training, which never waits for it; the winner is
  adopted with the federation's weights of that round, as the paper has it.
* ``threshold``: a client whose validation accuracy after training is below the threshold does not
  train but searches in the next round, and returns.

In the test phase each client adapts its own network by its own settings. One that never trained,
such as a new client, takes the network of the largest part of the last average, and the geometric
mean of the inner rates in it: the *advice*. The paper is silent on such clients.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.methods.graphfl.client import SelfConfiguredClient
from autofgl.methods.graphfl.configurations import Configurations, merge, take
from autofgl.methods.graphfl.votes import LEAST, SCALES, decide, farther, shared_genes
from autofgl.nn.models.spec import ModelSpec
from autofgl.runtime.bounds import ROUNDING
from autofgl.runtime.clients import Clients
from autofgl.runtime.local_model import Weights
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.outcome import Row
from autofgl.runtime.replies import (
    METRICS,
    OWN,
    SECONDS,
    WHOLE,
    Array,
    Form,
    Named,
    Record,
    Scalar,
    Truth,
)
from autofgl.runtime.sharing import Sharing
from autofgl.runtime.specs import family_spec
from autofgl.runtime.summing import average
from autofgl.sharing.meta.sharing import MetaServer

#: Inner rates lie within a factor of e to this power of the run's own.
_LARGEST = 20.0
#: What a client says of its search.
NOTE = Record({"trials": WHOLE, "seconds": SECONDS, "below": Truth()}, frozenset({"below"}))


class SelfConfiguredServer(MetaServer):
    """Averages networks that differ, advises those that never trained, counts trials."""

    saved = (*MetaServer.saved, "_advice", "_changing", "_ways", "_last", "trials")
    round_fields: ClassVar = {"note": NOTE}
    conclude_fields: ClassVar = {
        "own": OWN.having(unadapted=METRICS, configuration=Named(Scalar())),
    }

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self._advice: Payload = {}
        self._changing: set[str] = set()
        self._ways: list[float] = []
        self._line: list[float] = []
        self._last: Weights = {}
        self._train_nodes = 0
        self.trials = 0

    def begin(self, replies: Mapping[str, Payload]) -> None:
        """As in GraphFL; at first all have the environment's network."""
        super().begin(replies)
        own = self._space.environment
        shape = self._space.shapes.index(self._space.shape_of(own))
        shares = [float(index == shape) for index in range(len(self._space.shapes))]
        self._advice = {
            "shape": shape,
            "inner_lr": self.settings.inner_lr,
            "shares": shares,
            "lengths": [0.0] * len(shares),
            "propagation": self._space.propagation_of(own),
            "common": shared_genes(self._space) if self.settings.common_rate else {},
        }

    def update_forms(self) -> dict[str, Form]:
        """Blocks of the server's sizes; shares by shape, and how far each went."""
        by_shape = Array((len(self._space.shapes),), -ROUNDING)
        numbers: dict[str, Form] = {"shapes": by_shape, "lengths": by_shape, "log_rate": Array(())}
        sizes = {
            "ways": len(self._space.propagations),
            "tried": len(self._space.optimizers),
        }
        numbers |= {name: Array((size,), -ROUNDING) for name, size in sizes.items()}
        return {**super().update_forms(), **numbers}

    def figure_forms(self, most: float) -> dict[str, Form]:
        """As in GraphFL, and the vote."""
        forms = super().figure_forms(most)
        return (
            forms if self.clients.private else {**forms, "votes": Array((len(SCALES),), -ROUNDING)}
        )

    def center(self) -> None:
        """Networks that differ cannot be compared."""

    def trainable(self) -> list[str]:
        """Those that are neither new nor change their structure; there may be none."""
        return [name for name in super().trainable() if name not in self._changing]

    def handout(self) -> Payload:
        """The advice."""
        return {"advice": self._advice}

    def handout_each(self, chosen: set[str]) -> dict[str, Payload]:
        """As in GraphFL, and who is to change its structure."""
        each = super().handout_each(chosen)
        return {name: {**own, "evolve": name in self._changing} for name, own in each.items()}

    def judge(self, figures: Mapping[str, Any], totals: list[int]) -> tuple[Row, Metrics]:
        """As in GraphFL; the vote is counted when the update is there."""
        self._train_nodes = totals[0]
        self._line = np.asarray(figures.get("votes", ())).tolist()
        return super().judge(figures, totals)

    def aggregate(self, total: Mapping[str, Any], replies: Mapping[str, Payload]) -> Row:
        """As in GraphFL, and what the searches cost."""
        row = super().aggregate(total, replies)
        notes = {name: reply["note"] for name, reply in replies.items() if "note" in reply}
        changed = len(self._changing)
        self._changing = {name for name, note in notes.items() if note.get("below")}
        trials = sum(note["trials"] for note in notes.values())
        self.trials += trials
        seconds = sum(note["seconds"] for note in notes.values())
        row |= {"trials": trials, "search_s": round(seconds, 6)}
        return {**row, "changed": changed} if self.settings.mode == "threshold" else row

    def average(self, update: Mapping[str, Any]) -> float:
        """The average of each entry over the clients that have it; with differential privacy over
        all, of which those that have it not leave it as it was, and nobody advises.
        """
        if self.clients.private:
            blocks = {name: update[name] for name in ("share", *self.weights)} if update else {}
            self.weights = (average(blocks) if blocks else {}) or self.weights
            return 0.0
        least = 0.25 / max(self._train_nodes, 1)  # a quarter of the share of a single node
        share = float(update["share"]) if update else 0.0
        if share < least:
            return 0.0
        shares = [float(value) for value in update["shapes"]]
        if sum(shares) < least:
            return 0.0
        before = self.weights
        self.weights = merge(update, shares, self._space.parts, before, least)
        back = farther(self._line) - 1
        if self._last and back:
            self.weights = {
                name: value + back * (before[name] - self._last[name])
                for name, value in self.weights.items()
            }
        self._last = before
        log_rate = float(update["log_rate"]) / share
        rate = self.settings.inner_lr * math.exp(min(max(log_rate, -_LARGEST), _LARGEST))
        lengths = zip(update["lengths"], shares, self._advice["lengths"], strict=True)
        self._advice = {
            **self._advice,
            "shape": int(np.argmax(shares)),
            "propagation": self._way(np.asarray(update["ways"]), share),
            "inner_lr": rate,
            "shares": (np.array(shares) / sum(shares)).tolist(),
            "lengths": [float(sum_) / of if of >= least else last for sum_, of, last in lengths],
        }
        if self.settings.common_rate:
            tried = np.asarray(update["tried"]).tolist()
            self._advice["common"] = decide(self._space, self._advice["common"], self._line, tried)
        return float(np.float32(update["query_loss"] / share))

    def _way(self, losses: Any, share: float) -> int:
        """Hops and teleport with the least losses of all clients, over the last rounds: as many as
        it takes until all have voted about twice.
        """
        if losses.min() / share > LEAST:
            now = (losses - losses.mean()) / share
            before = np.array(self._ways) if self._ways else now
            keep = 1 - self.settings.participation / 2
            self._ways = (keep * before + (1 - keep) * now).tolist()
        return int(np.argmin(self._ways)) if self._ways else int(self._advice["propagation"])

    @property
    def inner_lr(self) -> float:
        """Geometric mean of the clients' inner rates."""
        return float(self._advice["inner_lr"])

    def settle(self, last_is_best: bool) -> Payload:
        """The blocks, and the advice."""
        return {**super().settle(last_is_best), "advice": self._advice}

    def network(self) -> tuple[dict[str, Any], Weights]:
        """The network of the advice; clients' own ones differ."""
        space, shape = self._space, self._advice["shape"]
        advised = self._advice["inner_lr"], self._advice["propagation"]
        spec = space.spec_of(space.like(space.shapes[shape], *advised))
        return spec.to_json(), take(self.best_weights, space.parts[shape])

    def client_line(self, line: dict[str, Any], own: Payload) -> dict[str, Any]:
        """As in GraphFL, with the configuration."""
        line = super().client_line(line, own)
        return {**line, "configuration": own["configuration"]} if own else line

    @cached_property
    def _space(self) -> Configurations:
        return Configurations(ModelSpec.from_json(self.spec), self.settings)


SELF_CONFIGURED = Sharing(
    "self-configured", SelfConfiguredServer, SelfConfiguredClient, family_spec
)
