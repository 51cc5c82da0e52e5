"""Search by trial: a searcher proposes recipes, each is trained briefly, the best to the end.

Any searcher pairs with any way of sharing. A method of this kind says who proposes the candidates
(:meth:`RecipeSearch.make_searcher`) and what a candidate stands for (:meth:`RecipeSearch.recipe`);
trials, other settings for the best, finalists, history, resume and budget are here.

A recipe that diverges counts as worst, and its training is not continued.
"""

import math
from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from autofgl.federation import Federation
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.race import Entry
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.selection import FINALS_FROM, Selection
from autofgl.runtime.trials import fitness

#: How many of the best candidates the result names.
TOP = 10
#: Share of a time budget after which no further candidate is asked for: what is left is for other
#: settings of the best, and for the finals.
SEARCH_UNTIL = 0.55


class RecipeSearch(Method):
    """The server: trials, other settings for the best of them, then the finals.

    A round is one of the recipe whose turn it is, so that a run can be stopped at any of them.
    """

    Settings: ClassVar[Any]
    saved = (
        "_wrapped_up", "_enough", "_notes", "searcher", "_candidate", "_asked", "_selection",
    )  # fmt: skip

    def __init__(
        self, federation: Federation, settings: Any, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        rounds, tune = settings.candidate_rounds, settings.tune
        self._selection = Selection(self, rounds, tune, self.final_recipe)
        self._candidate: Any = None
        self._asked = 0
        self._enough = False
        self._notes: dict[str, float] = {}

    @abstractmethod
    def make_searcher(self) -> Any:
        """Who proposes the candidates: ``ask``, ``tell``, ``state`` and ``load_state``."""

    @abstractmethod
    def recipe(self, candidate: Any) -> Recipe:
        """What a candidate stands for."""

    def final_recipe(self, recipe: Recipe) -> Recipe:
        """What is trained to the end where a recipe is among the best; the same by default."""
        return recipe

    def notes(self) -> dict[str, float]:
        """What the history has of the searcher when it is about to be asked."""
        return {}

    @cached_property
    def searcher(self) -> Any:
        """Who proposes the candidates."""
        return self.make_searcher()

    @property
    def rounds(self) -> int:
        """Rounds so far, of all candidates that are left, and of what follows."""
        left = 0 if self._search_over else self.settings.candidates - self._asked
        return int(self.round + left * self.settings.candidate_rounds + self._selection.planned)

    @property
    def done(self) -> bool:
        """All finalists are trained."""
        return self._selection.done

    def setup(self) -> None:
        """There is nothing to prepare: a candidate begins with its first round."""

    def pace(self, spent: float) -> bool:
        """Leave time for other settings of the best candidates, and for the finals."""
        changed = False
        if spent >= SEARCH_UNTIL and not self._enough and self._selection.race.best_first:
            changed = self._enough = True
        if spent >= FINALS_FROM and self._selection.race.best_first:
            changed = self._selection.hurry() or changed
        return changed

    def wrap_up(self) -> None:
        """The budget is spent: the best so far is what there is.

        As long as none has come to anything, the search goes on.
        """
        self._wrapped_up = True
        self._selection.wrap_up()

    def step(self) -> Row:
        """One round of a candidate, of one with other settings, or of a finalist's training."""
        self.round += 1
        if not self._search_over:
            return {"round": self.round, "phase": "search", **self._search_round()}
        phase, row = self._selection.step()
        return {**row, "round": self.round, "phase": phase}

    def finish(self) -> Outcome:
        """The best finalist's outcome, and the best of the candidates."""
        outcome = self._selection.outcome()
        trials, entries = self._selection.trials(), self._selection.race.entries
        search = {
            "candidates": self._asked,
            "diverged": sum(one.ending == "diverged" for one in entries),
            "best_score": trials[0]["score"],
            "top": trials[:TOP],
        }
        return replace(outcome, extra={**outcome.extra, **search})

    def _loss(self, entry: Entry) -> float:
        """What the searcher is told of a candidate, as ``fitness`` says."""
        kind = self.settings.fitness
        score = entry.val_accuracy if kind == "accuracy" else entry.score
        worst = not math.isfinite(entry.loss)
        return math.inf if worst else float(fitness(entry.val_loss, score, kind))

    @property
    def _search_over(self) -> bool:
        if self._selection.race.running and self._candidate is not None:
            return False
        if self._enough or self._asked >= self.settings.candidates:
            return True
        return self._wrapped_up and bool(self._selection.race.best_first)

    def _search_round(self) -> Row:
        race = self._selection.race
        if not race.running:
            self._notes = self.notes()
            self._candidate = self.searcher.ask(1)[0]
            self._asked += 1
            race.begin([self.recipe(self._candidate)])
        row = self._selection.race_round()
        if not race.running:
            self.searcher.tell([self._candidate], [self._loss(race.entries[-1])])
            self._candidate = None
        return {**row, **self._notes}
