"""The client side of GraphFL with a genetic algorithm; :mod:`autofgl.methods.graphfl_ga`."""

import math
from typing import Any

import numpy as np

from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.configurator import Configurator, distance, moved, stakes_of
from autofgl.methods.graphfl_client import GraphFLClient
from autofgl.methods.graphfl_ga_settings import GraphFLGASettings
from autofgl.methods.local_model import Inputs
from autofgl.methods.meta_model import MetaModel
from autofgl.methods.method import Weights
from autofgl.methods.metrics import Metrics
from autofgl.methods.search_processes import Job, SearchLost, processes
from autofgl.methods.search_request import request
from autofgl.methods.slices import Arrays, put, take
from autofgl.nn.networks import NetworkSpec
from autofgl.search.genes import Chromosome

#: What a search depends on that changes from round to round.
_SEARCH = ("round", "whole", "stakes", "searcher")


class GraphFLGAClient(GraphFLClient):
    """Meta-learns with the network and the settings that its own search has found.

    Until it has trained, it goes by the server's advice: the network that the largest part of the
    federation trains.
    """

    def __init__(
        self,
        context: Context,
        graph: ClientGraph,
        spec: NetworkSpec,
        settings: GraphFLGASettings,
        seed: int,
        secure: str,
    ) -> None:
        super().__init__(context, graph, spec, settings, seed, secure)
        self._settings = settings
        self._seed = seed
        self._search = Configurator(graph, settings, seed)
        self._space = self._search.space
        self._inputs = Inputs.of(graph, settings.normalize_features)
        self._found: Chromosome | None = None
        self._active: Chromosome = {}
        self._whole: Arrays = {}
        self._stakes: list[float] = []
        self._lengths: list[float] = []
        self._job: Job | None = None
        self._configure(self._space.environment)

    def round(self, payload: Payload) -> Payload:
        """As in GraphFL. ``evolve`` asks for a search; ``advice`` is for one that never trained.

        The reply's ``note`` has what the search cost and, with ``mode=threshold``, whether the
        client is below the threshold after it trained.
        """
        self._note: Payload = {"trials": 0, "seconds": 0.0}
        reply = super().round(payload)
        if payload["evolve"] and payload["contribute"] and self._search.possible:
            self._evolve(payload["round"])
        return {**reply, "note": self._note} if payload["contribute"] else reply

    def conclude(self, payload: Payload) -> Payload:
        """As in GraphFL; a search that still runs is given up."""
        if self._job is not None:
            self._job.cancel()
            self._job = None
        return super().conclude(payload)

    def export(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The blocks before the first round, and the environment's network."""
        spec = self._space.spec_of(self._space.environment)
        return {"weights": self._space.initial(self._seed), "spec": spec.to_json()}

    def state(self) -> Payload:
        """Network, optimiser, configuration, population, and the search that runs, if any."""
        state = {
            "local": self._local.state(),
            "active": self._active,
            "found": self._found or {},
            "searcher": self._search.state(),
        }
        if self._job is not None:
            state["job"] = {key: self._job.message[key] for key in _SEARCH}
        return state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; a search that ran begins again."""
        self._configure(state["active"])
        self._local.load_state(state["local"])
        self._found = state["found"] or None
        self._search.load_state(state["searcher"])
        self._job = None
        if "job" in state:
            self._start(state["job"])

    def _receive(self, payload: Payload) -> None:
        self._whole = payload["weights"]
        if self._job is not None and "round" in payload:
            self._collect(self._job, payload["round"])
        advice = payload["advice"]
        self._stakes = self._stakes_in(payload["totals"], advice["shares"])
        self._lengths = advice["lengths"]
        shape = self._space.shapes[advice["shape"]]
        self._configure(self._found or self._space.like(shape, advice["inner_lr"]))
        self._local.load_weights(take(self._whole, self._space.parts_of(self._active)))

    def _stakes_in(self, totals: list[int], shares: list[float]) -> list[float]:
        """What of this client's training an average leaves, for each shape that it may train."""
        if self._settings.alone:
            return [1.0] * len(shares)
        share = self._local.taught_nodes / max(totals[0], 1) / self._settings.participation
        return stakes_of(min(share, 1.0), shares, self._space.index_of(self._active))

    def _learn(self, payload: Payload) -> float:
        at, mode = payload["round"], self._settings.mode
        self._found = self._active  # from now on its own affair
        again = mode == "continuous" and self._search.possible
        if again:
            trained = self._evolve(at)  # changes self._local
            self._local.load_state(trained)
        loss = self._local.learn(at, int(again))
        self._search.remember(self._active, self._local)
        if mode == "parallel" and self._search.possible and self._job is None:
            search = {"round": at, "whole": self._whole, "stakes": self._stakes}
            self._start({**search, "searcher": self._search.state()})
        if mode == "threshold" and self._search.possible:
            accuracy = Metrics.of(self._local.evaluate_adapted()).val_accuracy
            self._note["below"] = accuracy < self._settings.threshold
        return loss

    def _news(self) -> Weights:
        parts, index = self._space.parts_of(self._active), self._space.index_of(self._active)
        before, trained = take(self._whole, parts), self._local.weights()
        length = distance(before, trained)
        shapes = np.zeros(len(self._space.shapes), np.float32)
        shapes[index] = 1.0
        rate = math.log(self._local.settings.inner_lr / self._settings.inner_lr)
        blocks = put(self._evened(before, trained, length), parts, self._space.sizes)
        return {
            **blocks,
            "shapes": shapes,
            "lengths": shapes * np.float32(length),
            "log_rate": np.array(rate, np.float32),
        }

    def _evened(self, before: Weights, trained: Weights, length: float) -> Weights:
        """The trained weights, but as far away as clients of this shape went in the last round.

        Who has not changed its settings does as in GraphFL.
        """
        common = self._lengths[self._space.index_of(self._active)]
        changed = self._active != self._space.full(self._space.environment)
        if not (self._settings.equal_steps and changed and common and length):
            return trained
        return moved(before, trained, common / length)

    def _own(self) -> Payload:
        return {**super()._own(), "configuration": self._active}

    def _evolve(self, at: int) -> Payload:
        """Search, and change to what was found; the state of its trained network."""
        winner = self._search.evolve(at, self._whole, self._stakes)
        self._note |= {"trials": winner.trials, "seconds": winner.seconds}
        self._found = winner.chromosome
        self._configure(winner.chromosome)
        return winner.trained

    def _configure(self, chromosome: Chromosome) -> None:
        """Change to a configuration, unless it is the present one."""
        full = self._space.full(chromosome)
        if full == self._active:
            return
        self._active = full
        self._local = MetaModel(
            self._graph,
            self._space.spec_of(full),
            self._space.settings_of(full),
            self._seed,
            inputs=self._inputs,
        )
        self._search.recall(full, self._local)

    def _start(self, search: Payload) -> None:
        """Begin a search in a process of its own."""
        message = request(self._graph, self._settings, self._seed, search)
        self._job = processes().submit(message)

    def _collect(self, job: Job, at: int) -> None:
        """Change to what a search has found, if it is time; the weights stay the federation's."""
        after = self._settings.adopt_after
        if not (job.done if after == 0 else at >= job.message["round"] + after):
            return
        self._job = None
        try:
            reply: dict[str, Any] = job.result()
        except SearchLost:
            return
        self._search.load_population_state(reply["population"])
        self._found = reply["chromosome"]
        self._note |= {"trials": reply["trials"], "seconds": reply["seconds"]}
