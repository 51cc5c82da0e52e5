"""FL-AGCNS: federated search for graph network architectures (Wang et al., 2021).

All networks of the search space share the weights of one SuperNet. A generation (Algorithm 2) makes
E_weight steps on the SuperNet's weights with the gradient of the whole population P, summed over
the clients (Eq. 2), and then evolves P (Algorithm 1): the controller by the federated validation
loss FLL (Eq. 1), every client by its own validation loss, and the next P holds codes of both. It
takes E_weight + 2 calls to every client.

Before the search well-known networks race (``portfolio.py``); after the generations the best codes
race with them, trained on their own: shared weights tell good networks from bad ones, but not the
best from the good, nor which of them are hard to train from scratch. The best go on with other
settings, and the finalists are trained to the end. docs/methods.md says where we differ
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
from autofgl.methods.fl_agcns.portfolio import KNOWN
from autofgl.methods.fl_agcns.refinement import Refinement
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings
from autofgl.nn.models.networks import count_parameters
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.selection import FINALS_FROM, Selection
from autofgl.search.halving import bracket_rounds
from autofgl.sharing.ways import WAYS

#: Share of a time budget after which only the best known networks go on, and how many do.
SAFE = 2
OPENING_SHARE = 0.15
#: Share of the generations' time after which they evolve, warmed up or not.
WARMUP_SHARE = 2 / 3


class FLAGCNS(Method):
    """The controller: known networks, generations of the search, races, then the finals."""

    Settings = FLAGCNSSettings
    ways: ClassVar = WAYS
    Client = FLAGCNSClient
    saved = (
        "_generations",
        "_wrapped_up",
        "_opened",
        "_narrowed",
        "search",
        "_candidates",
        "_brackets",
        "_selection",
    )
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
        tune = settings.tune if settings.trials else 0
        self._selection = Selection(self, settings.trial_rounds, tune)
        self._refinement: Refinement | None = None
        self._candidates: list[str] = []
        self._generations = settings.generations
        self._brackets = 0
        self._narrowed = False  # whether few of them went on, for want of time
        self._opened = False  # whether the known networks have had their race

    @property
    def done(self) -> bool:
        """All finalists are trained."""
        return self._selection.done

    @property
    def rounds(self) -> int:
        """Rounds so far, and generations, trials and finals that are left at most."""
        left = 0 if self._candidates else self.settings.trials
        trials = bracket_rounds(left, self.settings.trial_rounds)
        return self.round + self._generations - self.search.count + trials + self._selection.planned

    def setup(self) -> None:
        """Let the known networks begin; the search is set up when its turn comes."""
        if self.settings.trials and self.settings.known:
            self._selection.race.begin(KNOWN)
        else:
            self._open_search()

    def pace(self, spent: float) -> bool:
        """Give every part its share of the time: known networks, warm-up, generations, races."""
        before = self._narrowed, self.search.warmup, self._generations
        share = self.settings.search_share if self.settings.trials else 1.0
        race = self._selection.race
        if not self._opened and not self._narrowed and spent >= OPENING_SHARE and race.best_first:
            race.narrow(SAFE)
            self._narrowed = True
        if self._opened and spent >= WARMUP_SHARE * share:
            self.search.end_warmup()
        if self._opened and self.settings.trials and spent >= share:
            self._end_generations()
        changed = before != (self._narrowed, self.search.warmup, self._generations)
        if spent >= FINALS_FROM and race.best_first and self._candidates:
            changed = self._selection.hurry() or changed
        return changed

    def wrap_up(self) -> None:
        """The budget is spent: the best so far is what there is; without any race, the best code
        of the search is trained to the end.
        """
        self._wrapped_up = True
        self._end_generations()
        self._selection.wrap_up()

    def step(self) -> Row:
        """One round of a race or of the finals, or one generation."""
        self.round += 1
        if not self._opened:
            if self._selection.race.running:
                return {"round": self.round, "phase": "trial", **self._selection.race_round()}
            self._open_search()
        if self.search.count < self._generations:
            return {"round": self.round, "phase": "search", **self.search.step()}
        if not self._candidates:
            self._candidates = self.search.best_codes()
        phase, row = self._after_search()
        return {**row, "round": self.round, "phase": phase}

    def catch_up(self, names: Sequence[str]) -> None:
        """In the search with the SuperNet of another client."""
        super().catch_up(names)
        if self._opened and not self._candidates:
            rejoin_search(self.clients, self.search.count)

    def finish(self) -> Outcome:
        """The best finalist's outcome."""
        outcome = self._selection.outcome()
        extra: dict[str, Any] = {
            **outcome.extra,
            "generations": self.search.count,
            "population": self._candidates[:10],
            "trials": self._selection.trials(),
            "front": self.search.front() if self._candidates else [],
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

    def _open_search(self) -> None:
        self._opened = True
        self.search.setup(self._selection.race.room())

    def _end_generations(self) -> None:
        if self._opened:
            self._generations = min(self._generations, max(self.search.count, 1))

    def _after_search(self) -> tuple[str, Row]:
        """Race the search's networks, then other settings, then the finals."""
        selection = self._selection
        if not self.settings.trials and not selection.finals.begun:
            codes = self._candidates[: self.settings.finalists]
            selection.finals.begin([(Recipe(network=code), None) for code in codes])
        if not (selection.finals.begun or selection.race.running or selection.hurried):
            self._next_bracket()
        return selection.step()

    def _next_bracket(self) -> None:
        """Race networks and other settings in turn, each from the best so far."""
        self._brackets += 1
        if self._brackets % 2 == 0 and self._selection.race_settings():
            return
        self._refinement = self._refinement or self._refine()
        race = self._selection.race
        bracket = self._refinement.ask(race.entries, race.best_first)
        if bracket:
            race.begin(bracket)

    def _refine(self) -> Refinement:
        return Refinement(self._candidates, self.settings, self.seed)
