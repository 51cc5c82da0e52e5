"""Short trainings to see what recipes are worth, and the full training of the best of them.

A trial trains one recipe for some rounds, exactly as it would be trained to stay, with two
differences: test nodes are left alone, and a network may diverge. Its figure is that of its best
round on the federation's validation nodes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.runtime.metrics import BestRound
from autofgl.runtime.outcome import Outcome, Row
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


def distinct(trials: Sequence[Trial]) -> list[Trial]:
    """Without those whose figures an earlier one has: two parallel APPNP layers, say, are one."""
    first: dict[tuple[float, float], Trial] = {}
    for one in trials:
        first.setdefault((one.val_accuracy, round(one.val_loss, 5)), one)
    return list(first.values())


def fitness(losses: Any, scores: Any, kind: str) -> Any:
    """A validation figure, ``loss`` or another that is at most 1, as something to be minimized.

    Of networks that are equal in the latter the one with the lower loss is better.
    """
    return losses if kind == "loss" else 1 - scores + 1e-6 * losses


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
        about = {key: row[key] for key in _COLUMNS if key in row}
        about["test_accuracy"] = None
        return about, training.round, self._end(training, ending) if ending else None

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
        told = row.get(column) is not None  # unless the round was refused
        if told and self._rule is not None and self._rule.hopeless(1 - row[column]):
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


class FinalTraining:
    """Full training of several recipes, one after the other, and the choice among them.

    ``make`` makes the training of a finalist from its number, from 0 on, and its recipe.
    """

    def __init__(
        self,
        make: Callable[[int, Recipe], RoundEngine],
        choose: Callable[[list[Outcome]], int],
    ) -> None:
        self._make = make
        self._choose = choose
        self._recipes: list[Recipe] = []
        self._at = 0
        self._training: RoundEngine | None = None
        self._outcomes: list[Outcome] = []

    @property
    def begun(self) -> bool:
        """Whether the finalists are chosen."""
        return bool(self._recipes)

    @property
    def done(self) -> bool:
        """Whether all are trained."""
        return self.begun and self._at >= len(self._recipes)

    def begin(self, recipes: list[Recipe]) -> None:
        """Train these."""
        self._recipes = recipes
        self._start()

    def step(self) -> Row:
        """One round of the recipe whose turn it is."""
        training = self._current()
        row = {**training.step(), "finalist": self._at}
        if training.done:
            self._conclude(training)
        return row

    def outcome(self) -> Outcome:
        """The winner's outcome, with the validation figures of all."""
        if not self._outcomes:
            self._conclude(self._current())
        best = self._outcomes[self._choose(self._outcomes)]
        scores = [
            {
                **named(recipe),
                "val_accuracy": outcome.val_accuracy,
                f"val_{outcome.objective}": outcome.score,
                "val_loss": outcome.extra["val_loss"],
                "parameters": outcome.parameters,
            }
            for recipe, outcome in zip(self._recipes, self._outcomes, strict=False)
        ]
        return replace(best, extra={**best.extra, "finalists": scores})

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
        recipes = [recipe.to_payload() for recipe in self._recipes]
        outcomes = [asdict(outcome) for outcome in self._outcomes]
        return {"recipes": recipes, "outcomes": outcomes, **saved_state(self, ("_at", "_training"))}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; the clients know which network is theirs."""
        self._recipes = [Recipe(**recipe) for recipe in state["recipes"]]
        self._outcomes = [Outcome(**outcome) for outcome in state["outcomes"]]
        if "training" in state:
            self._training = self._make(state["at"], self._recipes[state["at"]])
        restore_state(self, ("_at", "_training"), state)

    def _start(self) -> None:
        recipe = self._recipes[self._at]
        self._training = self._make(self._at, recipe)
        self._training.start(recipe)

    def _conclude(self, training: RoundEngine) -> None:
        self._outcomes.append(training.finish())
        self._at += 1
        self._training = None
        if not self.done:
            self._start()

    def _current(self) -> RoundEngine:
        if self._training is None:
            raise AutoFGLError("no network is being trained")
        return self._training


@dataclass(frozen=True)
class Score:
    """A trained network: its validation figures and its size.

    In place of the accuracy stands whatever the objective is.
    """

    accuracy: float
    loss: float
    parameters: int = 0


def most_accurate_first(networks: Sequence[Score]) -> list[int]:
    """Indices by accuracy, and of equals by loss.

    Losses alone would not do: output activations bound them differently.
    """
    return sorted(range(len(networks)), key=lambda i: (-networks[i].accuracy, networks[i].loss))


def most_accurate(outcomes: list[Outcome]) -> int:
    """Which of several trained networks is the best by federated validation."""
    networks = [Score(one.score, one.extra["val_loss"]) for one in outcomes]
    return most_accurate_first(networks)[0]


def smallest_of_the_best_first(networks: Sequence[Score], nodes: int) -> list[int]:
    """Indices of networks that validation cannot tell from the best, the smallest first; then the
    others by accuracy.

    The one-standard-error rule (Breiman et al., Classification and Regression Trees, 1984): the
    accuracy a on ``nodes`` nodes has a standard error of sqrt(a (1 - a) / nodes), and another
    objective is taken to have the same.
    """
    order = most_accurate_first(networks)
    if not order:
        return []
    best = networks[order[0]].accuracy
    floor = best - math.sqrt(best * (1 - best) / max(nodes, 1))
    alike = [i for i in order if networks[i].accuracy >= floor]
    rest = [i for i in order if networks[i].accuracy < floor]
    return [*sorted(alike, key=lambda i: networks[i].parameters), *rest]


def named(recipe: Recipe) -> dict[str, str]:
    """How a result names a recipe: a searched network alone by its code."""
    alone = recipe.network and not (recipe.sharing or recipe.settings)
    return {"genotype": recipe.network} if alone else {"recipe": str(recipe)}
