"""Search by trial: a searcher proposes recipes, each is trained briefly, the best to the end.

Any searcher pairs with any way of sharing. A method of this kind says who proposes the candidates
(:meth:`RecipeSearch.make_searcher`) and what a candidate stands for (:meth:`RecipeSearch.recipe`);
trials, finalists, history, resume and budget are here.

A recipe that diverges counts as worst, and its training is not continued.
"""

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from autofgl.errors import AutoFGLError
from autofgl.federation import Federation
from autofgl.runtime.method import Method
from autofgl.runtime.metrics import BestRound
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.rounds import RoundEngine
from autofgl.runtime.trials import FinalTraining, Trial, Trials, fitness, most_accurate, named

#: How many of the best candidates the result names.
TOP = 10


class RecipeSearch(Method):
    """The server: trials, then the training of the finalists.

    A round is one of the recipe whose turn it is, so that a run can be stopped at any of them.
    """

    Settings: ClassVar[Any]
    saved = (
        "_search_rounds", "_wrapped_up", "_notes", "searcher", "_trials", "_final", "_candidate",
    )  # fmt: skip

    def __init__(
        self, federation: Federation, settings: Any, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._trials = Trials(self._trial_training, self._loss)
        self._final = FinalTraining(self.final_training, most_accurate)
        self._search_rounds = 0
        self._candidate: Any = None
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
        """Rounds of all candidates, then of every finalist."""
        left, able = 0, len(self._trials.best_first)
        if not self._search_over:
            left = self.settings.candidates - len(self._trials.over)
        trials = self._search_rounds + left * self.settings.candidate_rounds
        trials -= self._trials.rounds_made
        finalists = min(self.settings.finalists, able + left)
        return int(trials + self.settings.rounds * finalists)

    @property
    def done(self) -> bool:
        """All finalists are trained."""
        return self._final.done

    def setup(self) -> None:
        """There is nothing to prepare: a candidate begins with its first round."""

    def wrap_up(self) -> None:
        """The budget is spent: give the present candidate up and train the best so far.

        As long as none has come to anything, the search goes on.
        """
        self._wrapped_up = True
        if self._search_over:
            self._trials.give_up()

    def step(self) -> Row:
        """One round of a candidate, or of a finalist's training."""
        self.round += 1
        if not self._search_over:
            return {"round": self.round, "phase": "search", **self._search_round()}
        if not self._final.begun:
            self._final.begin(self._finalists())
        return {**self._final.step(), "round": self.round, "phase": "train"}

    def finish(self) -> Outcome:
        """The best finalist's outcome, and the best of the candidates."""
        outcome = self._final.outcome()
        over, best = self._trials.over, self._trials.best_first
        search = {
            "candidates": len(over),
            "diverged": len(over) - len(best),
            "best_score": best[0].loss,
            "top": [trial_json(one) for one in best[:TOP]],
        }
        return replace(outcome, extra={**outcome.extra, **search})

    @property
    def _search_over(self) -> bool:
        if len(self._trials.over) >= self.settings.candidates:
            return True
        return self._wrapped_up and bool(self._trials.best_first)

    def _search_round(self) -> Row:
        if not self._trials.running:
            self._notes = self.notes()
            self._candidate = self.searcher.ask(1)[0]
            recipe = self.recipe(self._candidate)
            self._trials.begin(str(recipe), recipe)
        self._search_rounds += 1
        row = candidate_round(self._trials)
        if not self._trials.running:
            self.searcher.tell([self._candidate], [self._trials.over[-1].loss])
        return {**row, **self._notes}

    def _finalists(self) -> list[Recipe]:
        best = self._trials.best_first[: self.settings.finalists]
        if not best:
            raise AutoFGLError(f"all {len(self._trials.over)} candidates diverged: lower 'lr'")
        return [self.final_recipe(Recipe.parse(one.candidate)) for one in best]

    def _loss(self, best: BestRound) -> float:
        kind = self.settings.fitness
        return float(fitness(best.loss, best.figure(kind), kind))

    def _trial_training(self, number: int, recipe: Recipe) -> RoundEngine:
        settings = self.settings
        return self.engine(
            recipe,
            stage=f"candidate-{number}-",
            rounds=settings.candidate_rounds,
            patience=0,
            select=settings.fitness,
        )


def candidate_round(trials: Trials) -> Row:
    """One round of a candidate for the history; at its end with ``score`` and ``diverged``."""
    number, code = len(trials.over) + 1, trials.candidate
    row, at, over = trials.step()
    row |= {"candidate": number, "candidate_round": at, "code": code}
    if over is not None:
        row |= {"score": over.loss if over.useful else None, "diverged": not over.useful}
    best = trials.best_first
    so_far = (best[0].candidate, best[0].loss) if best else (None, None)
    return {**row, "best_code": so_far[0], "best_score": so_far[1]}


def trial_json(trial: Trial) -> dict[str, Any]:
    """A trial for ``result.json``."""
    return {
        **named(Recipe.parse(trial.candidate)),
        "score": trial.loss,
        "val_accuracy": trial.val_accuracy,
        "val_loss": trial.val_loss,
    }
