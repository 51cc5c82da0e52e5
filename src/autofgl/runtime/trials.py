"""Short trainings to see what recipes are worth, one at a time.

A trial trains one recipe for some rounds, exactly as it would be trained to stay, with two
differences: test nodes are left alone, and a network may diverge. Its figure is that of its best
round on the federation's validation nodes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autofgl.federation.payload import Payload
from autofgl.runtime.metrics import BestRound
from autofgl.runtime.outcome import Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.rounds import RoundEngine
from autofgl.runtime.state import restore_state, saved_state
from autofgl.search.bayes import MedianRule
from autofgl.tasks.objectives import OBJECTIVES

#: Columns of a trial's round that go into the history; those of test nodes are none of them.
_COLUMNS = (
    "train_loss", "train_accuracy", "val_loss", *(f"val_{name}" for name in OBJECTIVES),
    "mean_val_accuracy", "clients", "failed",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """A trial that is over, with the federated figures of its best round."""

    candidate: Any  # a recipe as text, or hyperparameters by name
    loss: float  # what a search minimizes; infinite without a result
    val_accuracy: float
    val_loss: float
    rounds: int
    ending: str  # done, pruned (ended early), diverged, or failed (a client was lost)
    score: float = 0.0  # the objective on validation nodes

    @property
    def useful(self) -> bool:
        """Whether it came to a result."""
        return math.isfinite(self.loss)


def fitness(losses: Any, scores: Any, kind: str) -> Any:
    """A validation figure, ``loss`` or another that is at most 1, as something to be minimized.

    Of networks that are equal in the latter the one with the lower loss is better.
    """
    return losses if kind == "loss" else 1 - scores + 1e-6 * losses


def told_of_trial(row: Row) -> Row:
    """Columns of a trial's round for the history; those of test nodes are none of them."""
    return {**{key: row[key] for key in _COLUMNS if key in row}, "test_accuracy": None}


class Trials:
    """Runs one trial at a time, and remembers what became of them.

    ``make`` makes the training of a trial from its number, from 1 on, and its recipe; ``loss`` is
    what a search minimizes, from the best round; ``rule`` says which trials are hopeless; with
    ``needs_all`` a trial fails when it loses a client.
    """

    def __init__(
        self,
        make: Callable[[int, Recipe], RoundEngine],
        loss: Callable[[BestRound], float],
        rule: MedianRule | None = None,
        needs_all: bool = False,
    ) -> None:
        self._make = make
        self._loss = loss
        self._rule = rule
        self._needs_all = needs_all
        self._candidate: Any = None
        self._recipe = Recipe()
        self._training: RoundEngine | None = None
        self.over: list[Trial] = []

    @property
    def running(self) -> bool:
        """Whether a trial has begun and is not over."""
        return self._training is not None

    @property
    def candidate(self) -> Any:
        """What is tried now."""
        return self._candidate

    @property
    def rounds_made(self) -> int:
        """Rounds of the present trial."""
        return 0 if self._training is None else self._training.round

    @property
    def best_first(self) -> list[Trial]:
        """Those with a result; of equals the earlier first."""
        return sorted((one for one in self.over if one.useful), key=lambda one: one.loss)

    def begin(
        self,
        candidate: Any,
        recipe: Recipe | None = None,
        each: Mapping[str, Payload] | None = None,
    ) -> None:
        """Have every client build a network on trial."""
        self._candidate, self._recipe = candidate, recipe or Recipe()
        self._training = self._make(len(self.over) + 1, self._recipe)
        self._training.start(self._recipe, trial=True, each=each)
        if self._rule is not None:
            self._rule.begin()

    def give_up(self) -> None:
        """Leave the present trial without a result."""
        self._training = None

    def step(self) -> tuple[Row, int, Trial | None]:
        """One round: its columns, how many the trial has made, and the trial if it is over."""
        assert self._training is not None
        training = self._training
        row, ending = self._round(training)
        return told_of_trial(row), training.round, self._end(training, ending) if ending else None

    def before_checkpoint(self) -> None:
        """Let the clients take in what only the present keys can open."""
        if self._training is not None:
            self._training.before_checkpoint()

    def catch_up(self, names: Sequence[str]) -> None:
        """Bring clients up to date that missed rounds; without a training they wait for one."""
        if self._training is not None:
            self._training.catch_up(names)

    def state(self) -> Payload:
        """Everything between two rounds."""
        over = [asdict(one) for one in self.over]
        recipe = self._recipe.to_payload()
        return {
            "over": over,
            "recipe": recipe,
            **saved_state(self, ("_candidate", "_rule", "_training")),
        }

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; the clients know which network is theirs."""
        self.over = [Trial(**one) for one in state["over"]]
        self._recipe = Recipe(**state["recipe"])
        if "training" in state:
            self._training = self._make(len(self.over) + 1, self._recipe)
        restore_state(self, ("_candidate", "_rule", "_training"), state)

    def _round(self, training: RoundEngine) -> tuple[Row, str]:
        """A round's row, and how the trial has ended, if it has."""
        if self._needs_all and set(training.parties) - set(training.sharing.clients.names):
            return {}, "failed"  # a client was lost between two rounds
        row = training.step()
        if self._needs_all and row["clients"] < len(training.parties):
            return row, "failed"
        if training.diverged:
            return row, "diverged"
        objective = training.sharing.settings.objective
        column = "mean_val_accuracy" if objective == "accuracy" else f"val_{objective}"
        reported = row.get(column) is not None  # unless the round was refused
        if reported and self._rule is not None and self._rule.hopeless(1 - row[column]):
            return row, "pruned"
        if not training.done:
            return row, ""
        training.evaluate_last()
        return row, "diverged" if training.diverged else "done"

    def _end(self, training: RoundEngine, ending: str) -> Trial:
        useful = ending in ("done", "pruned")
        if useful and self._rule is not None:
            self._rule.end()
        best = training.best
        loss = float(self._loss(best)) if useful else math.inf
        figures = (best.accuracy, best.loss, training.round)
        trial = Trial(self._candidate, loss, *figures, ending, best.score)
        self.over.append(trial)
        self._training = None
        return trial
