"""The client half of :mod:`autofgl.methods.graphfl.self_configured`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import Arrays, put, put_into, take
from autofgl.methods.graphfl.configurator import Configurator
from autofgl.methods.graphfl.search_jobs import SearchJob, SearchLost, search_request, submit_search
from autofgl.methods.graphfl.steps import distance, shift, weights_by_shape
from autofgl.methods.graphfl.trials import Situation
from autofgl.methods.graphfl.votes import SCALES, bounded_loss, line_losses
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.local_model import Weights
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.private import is_private
from autofgl.runtime.recipe import Recipe
from autofgl.search.space import Chromosome
from autofgl.sharing.meta.model import MetaModel
from autofgl.sharing.meta.sharing import MetaClient

#: What a search depends on that changes from round to round.
_SEARCH = ("round", "blocks", "weights", "drift", "advised", "common", "class_weights", "searcher")


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
        self._before: Arrays = {}
        self._advised: Chromosome = self._space.environment
        self._ways = [0.0] * len(self._space.propagations)
        self._tried = np.zeros(len(self._space.optimizers))
        self._weights: list[float] = []
        self._lengths: list[float] = []
        self._note: Payload = {}
        self._job: SearchJob | None = None
        self._configure(self._space.environment)

    def weigh_classes(self, weights: Sequence[float]) -> None:
        """As always; also in what the search trains."""
        super().weigh_classes(weights)
        self._search.trials.loss = self.local.loss

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        """Take in blocks and advice; a search beside the training may have ended."""
        self._note = {"trials": 0, "seconds": 0.0}
        super().take(payload, opened)

    def receive(self, payload: Payload) -> None:
        """The global blocks of a message; ``advice`` is for one that never trained."""
        self._before, self._blocks = self._blocks, payload["weights"]
        if self._job is not None and "round" in payload:
            self._collect(self._job, payload["round"])
        advice = payload["advice"]
        self._weights = self._weights_in(payload["totals"], advice["shares"])
        self._lengths = advice["lengths"]
        self._search.common = dict(advice["common"])
        advised = advice["inner_lr"], advice["propagation"]
        self._advised = self._space.like(self._space.shapes[advice["shape"]], *advised)
        self._configure({**(self._chosen or self._advised), **self._search.common})
        self.local.load_weights(take(self._blocks, self._space.parts_of(self._active)))

    def figures(self, payload: Payload) -> dict[str, Any]:
        """As in GraphFL, and the vote on how far the last step should have gone."""
        figures = super().figures(payload)
        if self._private or not figures:
            return figures
        return {**figures, "votes": self._vote() / max(payload["totals"][1], 1)}

    def learn(self, payload: Payload) -> float:
        """Train for a round, with a search before or beside it as the mode has it."""
        at, mode = payload["round"], self.settings.mode
        self._chosen = self._active  # from now on its own affair
        self._tried[:] = 0.0
        again = mode == "continuous" and self._search.possible
        if again:
            trained = self._evolve(at)  # changes self.local
            self.local.load_state(trained)
        loss = self.local.learn(at, int(again))
        self._search.trials.remember(self._active, self.local)
        if mode == "parallel" and self._search.possible and self._job is None:
            weights = list(self.local.loss.class_weights)
            about = {"class_weights": weights, "searcher": self._search.state()}
            about["common"] = self._search.common
            now = self._situation(at)._asdict()
            about |= {key: value for key, value in now.items() if value is not None}
            self._start({"round": about.pop("at"), **about})
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
            "ways": np.array(
                [bounded_loss(loss + 2.0) if loss else 0.0 for loss in self._ways], np.float32
            ),
            "tried": np.array(self._tried, np.float32),
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
            "common": self._search.common,
            "blocks": self._blocks,
            "ways": self._ways,
        }
        if self._job is not None:
            message = self._job.message
            state["job"] = {key: message[key] for key in _SEARCH if key in message}
        return state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; a search that ran begins again."""
        self._search.common, self._blocks = dict(state["common"]), dict(state["blocks"])
        self._ways = list(state["ways"])
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
        environment = {**self._space.environment, **self._search.common}
        changed = self._active != self._space.full(environment)
        if not (self.settings.equal_steps and changed and common and length):
            return trained
        return shift(before, trained, common / length)

    def _evolve(self, at: int) -> Payload:
        """Search, and change to the winner; the state of its trained network."""
        now = self._situation(at)
        winner = self._search.evolve(now)
        self._try_optimizers(winner.chromosome, now)
        self._ways = winner.ways
        self._note |= {"trials": winner.trials, "seconds": winner.seconds}
        self._chosen = winner.chromosome
        self._configure(winner.chromosome)
        return winner.trained

    def _situation(self, at: int) -> Situation:
        """What trials depend on; how the average moved counts only beyond a round."""
        drift = None
        if self._before and self.settings.horizon > 1:
            drift = {name: value - self._before[name] for name, value in self._blocks.items()}
        return Situation(at, self._blocks, self._weights, drift, self._advised)

    def _vote(self) -> Any:
        """Summed losses of the own network along the last move of the average (votes.py)."""
        local = self.local
        if not (self._seen and self._before and self._search.common and local.val_nodes):
            return np.zeros(len(SCALES))

        def loss(weights: Weights) -> float:
            local.load_weights(weights)
            return Metrics.of(local.evaluate()).val_loss

        now = local.weights()
        losses = line_losses(take(self._before, self._space.parts_of(self._active)), now, loss)
        local.load_weights(now)
        return losses * local.val_nodes

    def _try_optimizers(self, winner: Chromosome, now: Situation) -> None:
        """What the winner would be worth with each optimizer, if there is a choice."""
        if not self._search.common or len(self._space.optimizers) < 2:
            return
        variants = [{**winner, "optimizer": name} for name in self._space.optimizers]
        losses = self._search.trials.losses(variants, now)
        self._tried = np.array([bounded_loss(loss + 2.0) for loss in losses])  # all above 0

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
        self.local.loss = self._search.trials.loss
        self._search.trials.recall(full, self.local)

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
        self._ways = reply["ways"]
        self._note |= {"trials": reply["trials"], "seconds": reply["seconds"]}
