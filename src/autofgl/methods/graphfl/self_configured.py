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
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import (
    Arrays,
    Configurations,
    merge,
    put,
    put_into,
    take,
)
from autofgl.methods.graphfl.configurator import Configurator, distance, shift, weights_by_shape
from autofgl.methods.graphfl.search_jobs import SearchJob, SearchLost, search_request, submit_search
from autofgl.nn.models.spec import ModelSpec
from autofgl.runtime.bounds import ROUNDING
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.clients import Clients
from autofgl.runtime.local_model import Weights
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.outcome import Row
from autofgl.runtime.private import is_private
from autofgl.runtime.recipe import Recipe
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
from autofgl.search.space import Chromosome
from autofgl.sharing.meta.model import MetaModel
from autofgl.sharing.meta.sharing import MetaClient, MetaServer

#: What a search depends on that changes from round to round.
_SEARCH = ("round", "blocks", "weights", "class_weights", "searcher")
#: Inner rates lie within a factor of e to this power of the run's own.
_LARGEST = 20.0
#: What a client says of its search.
NOTE = Record({"trials": WHOLE, "seconds": SECONDS, "below": Truth()}, frozenset({"below"}))


class SelfConfiguredClient(MetaClient):
    """Meta-learns with the network and the settings that its own search has chosen."""

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        super().__init__(data, recipe, settings, secure, trial)
        self._private = is_private(settings)
        self._search = Configurator(data.graph, settings, data.seed)
        self._space = self._search.space
        self._chosen: Chromosome | None = None
        self._active: Chromosome = {}
        self._blocks: Arrays = {}
        self._weights: list[float] = []
        self._lengths: list[float] = []
        self._note: Payload = {}
        self._job: SearchJob | None = None
        self._configure(self._space.environment)

    def weigh_classes(self, weights: Sequence[float]) -> None:
        """As always; also in what the search trains."""
        super().weigh_classes(weights)
        self._search.loss = self.local.loss

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        """Take in blocks and advice; a search beside the training may have ended."""
        self._note = {"trials": 0, "seconds": 0.0}
        super().take(payload, opened)

    def receive(self, payload: Payload) -> None:
        """The global blocks of a message; ``advice`` is for one that never trained."""
        self._blocks = payload["weights"]
        if self._job is not None and "round" in payload:
            self._collect(self._job, payload["round"])
        advice = payload["advice"]
        self._weights = self._weights_in(payload["totals"], advice["shares"])
        self._lengths = advice["lengths"]
        shape = self._space.shapes[advice["shape"]]
        self._configure(self._chosen or self._space.like(shape, advice["inner_lr"]))
        self.local.load_weights(take(self._blocks, self._space.parts_of(self._active)))

    def learn(self, payload: Payload) -> float:
        """Train for a round, with a search before or beside it as the mode has it."""
        at, mode = payload["round"], self.settings.mode
        self._chosen = self._active  # from now on its own affair
        again = mode == "continuous" and self._search.possible
        if again:
            trained = self._evolve(at)  # changes self.local
            self.local.load_state(trained)
        loss = self.local.learn(at, int(again))
        self._search.remember(self._active, self.local)
        if mode == "parallel" and self._search.possible and self._job is None:
            search = {"round": at, "blocks": self._blocks, "weights": self._weights}
            search["class_weights"] = list(self.local.loss.class_weights)
            self._start({**search, "searcher": self._search.state()})
        if mode == "threshold" and self._search.possible:
            accuracy = Metrics.of(self.local.evaluate_adapted()).val_accuracy
            self._note["below"] = accuracy < self.settings.threshold
        return loss

    def vectors(self) -> Weights:
        """The network's part of the blocks; what shape it has, how far it moved, its inner rate."""
        parts, index = self._space.parts_of(self._active), self._space.index_of(self._active)
        trained = self.local.weights()
        before = take(self._blocks, parts) if self._blocks else trained
        if self._private:  # what it has not, and what it has chosen, nobody is to notice
            return put_into(self.reference(), trained, parts)
        length = distance(before, trained)
        shapes, lengths = np.zeros((2, len(self._space.shapes)), np.float32)
        shapes[index], lengths[index] = 1.0, length
        rate = math.log(self.local.settings.inner_lr / self.settings.inner_lr)
        blocks = put(self._equal_step(before, trained, length), parts, self._space.sizes)
        return {
            **blocks,
            "shapes": shapes,
            "lengths": lengths,
            "log_rate": np.array(rate, np.float32),
        }

    def reference(self) -> Arrays:
        """The global blocks."""
        return self._blocks or self._space.initial(self.data.seed)

    def after(self, payload: Payload) -> Payload:
        """Search if asked to by ``evolve``; the ``note`` says what it cost, and who is below, but
        not with differential privacy.
        """
        if payload["evolve"] and self._search.possible:
            self._evolve(payload["round"])
        if self._private:
            return {"note": {"trials": 0, "seconds": 0.0}}
        return {"note": self._note}

    def settle(self, payload: Payload) -> None:
        """Take the final blocks; a search that still runs is given up."""
        if self._job is not None:
            self._job.cancel()
            self._job = None
        super().settle(payload)

    def describe(self, graph: ClientGraph) -> Payload:
        """As GraphFL, with the configuration."""
        return {**super().describe(graph), "configuration": self._active}

    def export(self) -> Payload:
        """The blocks before the first round, and the environment's network."""
        spec = self._space.spec_of(self._space.environment)
        return {"weights": self._space.initial(self.data.seed), "spec": spec.to_json()}

    def state(self) -> Payload:
        """Network, optimizer, configuration, population, and the search that runs, if any."""
        state = {
            "local": self.local.state(),
            "active": self._active,
            "chosen": self._chosen or {},
            "searcher": self._search.state(),
        }
        if self._job is not None:
            state["job"] = {key: self._job.message[key] for key in _SEARCH}
        return state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; a search that ran begins again."""
        self._configure(state["active"])
        self.local.load_state(state["local"])
        self._chosen = state["chosen"] or None
        self._search.load_state(state["searcher"])
        self._job = None
        if "job" in state:
            self._start(state["job"])

    def _weights_in(self, totals: list[int], shares: list[float]) -> list[float]:
        """What of this client's training an average leaves, for each shape that it may train."""
        if self.settings.alone:
            return [1.0] * len(shares)
        share = self.local.taught_nodes / max(totals[0], 1) / self.settings.participation
        return weights_by_shape(min(share, 1.0), shares, self._space.index_of(self._active))

    def _equal_step(self, before: Weights, trained: Weights, length: float) -> Weights:
        """The trained weights, but as far away as clients of this shape went in the last round.

        Who has not changed its settings does as in GraphFL.
        """
        if not self._lengths:
            return trained
        common = self._lengths[self._space.index_of(self._active)]
        changed = self._active != self._space.full(self._space.environment)
        if not (self.settings.equal_steps and changed and common and length):
            return trained
        return shift(before, trained, common / length)

    def _evolve(self, at: int) -> Payload:
        """Search, and change to the winner; the state of its trained network."""
        winner = self._search.evolve(at, self._blocks, self._weights)
        self._note |= {"trials": winner.trials, "seconds": winner.seconds}
        self._chosen = winner.chromosome
        self._configure(winner.chromosome)
        return winner.trained

    def _configure(self, chromosome: Chromosome) -> None:
        """Change to a configuration, unless it is the present one."""
        full = self._space.full(chromosome)
        if full == self._active:
            return
        self._active = full
        self.local = MetaModel(
            self.data.graph.name,
            self.data.inputs(self.settings.normalize_features),
            self._space.spec_of(full),
            self._space.settings_of(full),
            self.data.seed,
        )
        self.local.loss = self._search.loss
        self._search.recall(full, self.local)

    def _start(self, search: Payload) -> None:
        """Begin a search in a process of its own."""
        message = search_request(self.data.graph, self.settings, self.data.seed, search)
        self._job = submit_search(message)

    def _collect(self, job: SearchJob, at: int) -> None:
        """Change to what a search has chosen, if it is time; the weights stay the federation's."""
        after = self.settings.adopt_after
        if not (job.done if after == 0 else at >= job.message["round"] + after):
            return
        self._job = None
        try:
            reply: dict[str, Any] = job.result()
        except SearchLost:
            return
        self._search.load_population_state(reply["population"])
        self._chosen = reply["chromosome"]
        self._note |= {"trials": reply["trials"], "seconds": reply["seconds"]}


class SelfConfiguredServer(MetaServer):
    """Averages networks that differ, advises those that never trained, counts trials."""

    saved = (*MetaServer.saved, "_advice", "_changing", "trials")
    round_fields: ClassVar = {"note": NOTE}
    conclude_fields: ClassVar = {
        "own": OWN.having(unadapted=METRICS, configuration=Named(Scalar())),
    }

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self._advice: Payload = {}
        self._changing: set[str] = set()
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
        }

    def update_forms(self) -> dict[str, Form]:
        """Blocks of the server's sizes; shares by shape, and how far each went."""
        by_shape = Array((len(self._space.shapes),), -ROUNDING)
        numbers = {"shapes": by_shape, "lengths": by_shape, "log_rate": Array(())}
        return {**super().update_forms(), **numbers}

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
        """As in GraphFL."""
        self._train_nodes = totals[0]
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
        self.weights = merge(update, shares, self._space.parts, self.weights, least)
        log_rate = float(update["log_rate"]) / share
        rate = self.settings.inner_lr * math.exp(min(max(log_rate, -_LARGEST), _LARGEST))
        lengths = zip(update["lengths"], shares, self._advice["lengths"], strict=True)
        self._advice = {
            "shape": int(np.argmax(shares)),
            "inner_lr": rate,
            "shares": (np.array(shares) / sum(shares)).tolist(),
            "lengths": [float(sum_) / of if of >= least else last for sum_, of, last in lengths],
        }
        return float(np.float32(update["query_loss"] / share))

    def settle(self, last_is_best: bool) -> Payload:
        """The blocks, and the advice."""
        return {**super().settle(last_is_best), "advice": self._advice}

    def network(self) -> tuple[dict[str, Any], Weights]:
        """The network of the advice; clients' own ones differ."""
        space, shape = self._space, self._advice["shape"]
        spec = space.spec_of(space.like(space.shapes[shape], self._advice["inner_lr"]))
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
