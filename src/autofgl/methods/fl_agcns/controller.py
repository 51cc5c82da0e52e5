"""FL-AGCNS: federated search for graph network architectures (Wang et al., 2021).

All networks of the search space share the weights of one SuperNet. A generation (Algorithm 2) makes
E_weight steps on the SuperNet's weights with the gradient of the whole population P, summed over
the clients (Eq. 2), and then evolves P (Algorithm 1): the controller by the federated validation
loss FLL (Eq. 1), every client by its own validation loss, and the next P holds codes of both. It
takes E_weight + 2 calls to every client.

After the generations the evolution goes on for some ``trials`` with networks that are trained
briefly on their own: shared weights tell good networks from bad ones, but not the best from the
good, nor which of them are hard to train from scratch. The best ``finalists`` are then trained from
scratch under federation, and federated validation picks one. docs/methods.md says where we differ
from the paper.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from autofgl.federation import Federation
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.client import FLAGCNSClient, make_supernet
from autofgl.methods.fl_agcns.generations import Generations, rejoin_search
from autofgl.methods.fl_agcns.refinement import Refinement
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings
from autofgl.nn.models.networks import count_parameters
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.recipe_search import candidate_round, trial_json
from autofgl.runtime.rounds import RoundEngine
from autofgl.runtime.trials import (
    FinalTraining,
    Score,
    Trial,
    Trials,
    distinct,
    fitness,
    most_accurate,
    smallest_of_the_best_first,
)
from autofgl.sharing.common import COMMON

#: Share of the generations' time after which they evolve, warmed up or not.
WARMUP_SHARE = 2 / 3


class FLAGCNS(Method):
    """The controller: generations of the search, trials, then the training of the finalists."""

    Settings = FLAGCNSSettings
    ways: ClassVar = {"common": COMMON}
    Client = FLAGCNSClient
    saved = (
        "_generations", "_wrapped_up", "search", "_candidates", "_trial_rounds", "_trials",
        "_final",
    )  # fmt: skip
    settings: FLAGCNSSettings

    @classmethod
    def parameters(cls, graph: ClientGraph, settings: Any) -> int:
        """Those of the SuperNet, which has every searched network in it."""
        return count_parameters(partial(make_supernet, graph, settings))

    def __init__(
        self, federation: Federation, settings: FLAGCNSSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self.search = Generations(self.clients, settings, seed)
        self._trials = Trials(
            self._trial_training, lambda best: float(fitness(best.loss, best.score, "objective"))
        )
        self._final = FinalTraining(self.final_training, self._choose)
        self._refinement: Refinement | None = None
        self._candidates: list[str] = []
        self._trial_rounds = 0
        self._generations = settings.generations

    @property
    def done(self) -> bool:
        """All finalists are trained."""
        return self._final.done

    @property
    def rounds(self) -> int:
        """Generations, then the rounds of all trials and of every finalist."""
        left = 0 if self._trials_over else self.settings.trials - len(self._trials.over)
        trials = self._trial_rounds + left * self.settings.trial_rounds
        trials -= self._trials.rounds_made
        finalists = min(self.settings.finalists, len(self._candidates) or self.settings.finalists)
        return self._generations + trials + self.settings.rounds * finalists

    def setup(self) -> None:
        """Draw the first population."""
        self.search.setup()

    def pace(self, spent: float) -> bool:
        """End the warm-up while there is time to evolve, and the generations for trials."""
        before = self.search.warmup, self._generations
        share = self.settings.search_share if self.settings.trials else 1.0
        if spent >= WARMUP_SHARE * share:
            self.search.end_warmup()
        if self.settings.trials and spent >= share:
            self._end_generations()
        return before != (self.search.warmup, self._generations)

    def wrap_up(self) -> None:
        """The budget is spent: end search and trials, and train the best."""
        self._wrapped_up = True
        self._end_generations()
        self._trials.give_up()

    def step(self) -> Row:
        """One generation, or one round of a trial or of a finalist's training."""
        self.round += 1
        if self.search.count < self._generations:
            return {"round": self.round, "phase": "search", **self.search.step()}
        if not self._candidates:
            self._candidates = self.search.best_codes()
        if not self._trials_over:
            return {"round": self.round, "phase": "trial", **self._trial_round()}
        if not self._final.begun:
            self._final.begin(self._finalists())
        return {**self._final.step(), "round": self.round, "phase": "train"}

    def catch_up(self, names: Sequence[str]) -> None:
        """In the search with the SuperNet of another client."""
        super().catch_up(names)
        if not self._candidates:
            rejoin_search(self.clients, self.search.count)

    def finish(self) -> Outcome:
        """The best finalist's outcome."""
        outcome = self._final.outcome()
        extra: dict[str, Any] = {
            **outcome.extra,
            "generations": self.search.count,
            "population": self._candidates[:10],
            "trials": [trial_json(one) for one in self._trials.best_first],
            "front": self.search.front(),
        }
        return replace(outcome, extra=extra)

    def state(self) -> Payload:
        """Everything between two rounds."""
        state = super().state()
        return state if self._refinement is None else {**state, "plan": self._refinement.state()}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        super().load_state(state)
        if "plan" in state:
            self._refinement = self._refine()
            self._refinement.load_state(state["plan"])

    def _end_generations(self) -> None:
        self._generations = min(self._generations, max(self.search.count, 1))

    @property
    def _trials_over(self) -> bool:
        enough = len(self._trials.over) >= self.settings.trials
        return enough or self._wrapped_up or self._final.begun

    @property
    def _thrifty(self) -> bool:
        return "params" in self.settings.objective_names

    def _choose(self, outcomes: list[Outcome]) -> int:
        """With ``params`` an objective, the smallest of those that validation cannot tell apart."""
        if not self._thrifty:
            return most_accurate(outcomes)
        networks = [Score(one.score, one.extra["val_loss"], one.parameters) for one in outcomes]
        return smallest_of_the_best_first(networks, self.search.val_nodes)[0]

    def _trial_round(self) -> Row:
        """One round of a network on trial."""
        self._refinement = self._refinement or self._refine()
        if not self._trials.running:
            best = next(iter(self._best_trials()), None)
            network = self._refinement.ask(self._trials.over, best)
            self._trials.begin(network, Recipe(network=network))
        self._trial_rounds += 1
        row = candidate_round(self._trials)
        if not self._trials.running:
            self._refinement.tell(self._trials.over[-1].loss)
        return row

    def _refine(self) -> Refinement:
        return Refinement(self._candidates, self.settings, self.seed)

    def _finalists(self) -> list[Recipe]:
        """The best by their trials, then by FLL."""
        best = [one.candidate for one in distinct(self._best_trials())]
        over = {one.candidate for one in self._trials.over}
        rest = [code for code in self._candidates if code not in over]
        codes = [*best, *rest][: self.settings.finalists] or self._candidates[:1]
        return [Recipe(network=code) for code in codes]

    def _best_trials(self) -> list[Trial]:
        trials = self._trials.best_first
        if not self._thrifty:
            return trials
        networks = [
            Score(one.score, one.val_loss, self.search.parameters(one.candidate)) for one in trials
        ]
        return [trials[i] for i in smallest_of_the_best_first(networks, self.search.val_nodes)]

    def _trial_training(self, number: int, recipe: Recipe) -> RoundEngine:
        about = {"rounds": self.settings.trial_rounds, "patience": 0, "select": "objective"}
        return self.engine(recipe, f"candidate-{number}-", **about)
