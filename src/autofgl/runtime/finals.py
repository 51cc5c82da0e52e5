"""The finals: the best recipes of a search are trained to the end, and validation chooses one.

Five hundred validation nodes cannot tell two good networks apart by one training each. So every
finalist is trained from several draws of the initial weights, and recipes are compared by the mean
of their calibrated losses. After two passes those are left out that are worse than the best by more
than two standard errors. Of recipes within one standard error of the best the one with the fewest
parameters is chosen (the one-standard-error rule: Breiman et al., Classification and Regression
Trees, 1984), and of its trainings the best.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.race import calibrate, rank
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.rounds import RoundEngine
from autofgl.runtime.state import restore_state, saved_state


@dataclass
class Finalist:
    """One training of a recipe, and the figures of its best round."""

    recipe: str
    init: int
    stage: str = ""  # of a training that was begun before
    begun: bool = False
    over: bool = False
    rounds: int = 0
    val_accuracy: float = 0.0
    val_loss: float = math.inf
    loss: float = math.inf  # what recipes compete by
    parameters: int = 0


@dataclass(frozen=True)
class Standing:
    """What the trainings of one recipe came to: mean loss and its standard error."""

    recipe: str
    loss: float
    error: float
    parameters: int
    inits: int


def standings(finalists: Sequence[Finalist]) -> list[Standing]:
    """The recipes by their mean loss, best first; the spread over initial weights is pooled."""
    losses: dict[str, list[float]] = {}
    for one in finalists:
        if one.over and math.isfinite(one.loss):
            losses.setdefault(one.recipe, []).append(one.loss)
    spread = [statistics.variance(many) for many in losses.values() if len(many) > 1]
    deviation = math.sqrt(statistics.fmean(spread)) if spread else 0.0
    sizes = {one.recipe: one.parameters for one in finalists if one.over}
    ranked = [
        Standing(
            recipe,
            statistics.fmean(many),
            deviation / math.sqrt(len(many)),
            sizes[recipe],
            len(many),
        )
        for recipe, many in losses.items()
    ]
    return sorted(ranked, key=lambda one: one.loss)


def choose(finalists: Sequence[Finalist]) -> int:
    """Which training is kept: the simplest recipe within a standard error of the best, and of its
    trainings the best.
    """
    ranked = standings(finalists)
    if not ranked:
        raise AutoFGLError("all finalists diverged: lower 'lr'")
    most = ranked[0].loss + ranked[0].error
    alike = [one for one in ranked if one.loss <= most]
    recipe = min(alike, key=lambda one: (one.parameters, one.loss)).recipe
    own = [at for at, one in enumerate(finalists) if one.recipe == recipe and one.over]
    return min(own, key=lambda at: finalists[at].loss)


class Finals:
    """Trains the finalists to the end, pass by pass over the draws of their initial weights.

    ``make`` makes a training from its stage and recipe.
    """

    def __init__(self, make: Callable[[str, Recipe], RoundEngine], inits: int = 1) -> None:
        self._make = make
        self._inits = inits
        self.finalists: list[Finalist] = []
        self._trainings: dict[int, RoundEngine] = {}
        self._at = -1  # whose training the clients have now
        self._room: Payload = {}
        self._wrapped_up = False

    @property
    def begun(self) -> bool:
        """Whether the finalists are chosen."""
        return bool(self.finalists)

    @property
    def done(self) -> bool:
        """Whether all are trained."""
        return self.begun and all(one.over for one in self.finalists)

    @property
    def planned(self) -> int:
        """Rounds that are left at most."""
        if self._at < 0:
            return 0
        limit = self._trainings[self._at].sharing.settings.rounds if self._trainings else 0
        return int(sum(limit - one.rounds for one in self.finalists if not one.over))

    def begin(
        self, recipes: Sequence[tuple[Recipe, RoundEngine | None]], room: Payload | None = None
    ) -> None:
        """Train these, going on with what is there; ``room`` is what clients are told first."""
        for recipe, training in recipes:
            stage = "" if training is None else training.stage
            rounds = 0 if training is None else training.round
            if training is not None:
                self._trainings[len(self.finalists)] = training
            self.finalists.append(
                Finalist(str(recipe), 0, stage, begun=training is not None, rounds=rounds)
            )
        self._room = room or {}
        self._take_turn(0)

    def step(self) -> Row:
        """One round of the training whose turn it is."""
        at, training = self._at, self._trainings[self._at]
        row = {**training.step(), "finalist": at}
        self._note(at)
        if training.done or training.diverged:
            self._end(at)
        return row

    def wrap_up(self) -> None:
        """No time is left: choose among what is trained, or what is being trained if nothing is."""
        self._wrapped_up = True
        unfinished = self._at >= 0 and not self.finalists[self._at].over
        if unfinished and any(one.over for one in self.finalists):
            del self._trainings[self._at]
            self._at, self._room = -1, {"park": False}
        elif unfinished:
            self._note(self._at)
            self._end(self._at)
        self.finalists = [one for one in self.finalists if one.over]
        for at in [at for at in self._trainings if at >= len(self.finalists)]:
            del self._trainings[at]

    def outcome(self) -> Outcome:
        """The outcome of the training that is kept, with the figures of all."""
        chosen = choose(self.finalists)
        training = self._trainings[chosen]
        if chosen != self._at:
            training.go_on(test=True, room=self._leave())
        outcome = training.finish()
        init, parameters = self.finalists[chosen].init, self.finalists[chosen].parameters
        recipe = Recipe.parse(self.finalists[chosen].recipe)
        scaling = training.sharing.settings.normalize_features
        extra = {
            **outcome.extra,
            "recipe": str(recipe),
            "init": init,
            "finalists": [self._json(one) for one in standings(self.finalists)],
        }
        return replace(
            outcome, extra=extra, features=scaling, parameters=parameters or outcome.parameters
        )

    def before_checkpoint(self) -> None:
        """Let the clients take in what only the present keys can open."""
        if self._at in self._trainings:
            self._trainings[self._at].before_checkpoint()

    def catch_up(self, names: Sequence[str]) -> None:
        """Bring clients up to date that missed rounds; of parked trainings when they go on."""
        if self._at in self._trainings:
            self._trainings[self._at].catch_up(names)

    def state(self) -> Payload:
        """Everything between two rounds."""
        trainings = {str(at): one.state() for at, one in self._trainings.items()}
        finalists = [asdict(one) for one in self.finalists]
        names = ("_at", "_room", "_wrapped_up")
        return {"finalists": finalists, "trainings": trainings, **saved_state(self, names)}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; the clients know which networks are theirs."""
        self.finalists = [Finalist(**one) for one in state["finalists"]]
        restore_state(self, ("_at", "_room", "_wrapped_up"), state)
        self._trainings = {int(at): self._made(int(at)) for at in state["trainings"]}
        for at, one in self._trainings.items():
            one.load_state(state["trainings"][str(at)])

    def _recipe(self, at: int) -> Recipe:
        """A finalist's recipe, with the number of its initial weights."""
        recipe, init = Recipe.parse(self.finalists[at].recipe), self.finalists[at].init
        if not init:
            return recipe
        return recipe.model_copy(update={"settings": {**recipe.settings, "init": init}})

    def _made(self, at: int) -> RoundEngine:
        stage = self.finalists[at].stage or f"final-{at}-"
        return calibrate(self._make(stage, self._recipe(at)))

    def _take_turn(self, at: int) -> None:
        room, self._at = self._leave(), at
        finalist = self.finalists[at]
        if at in self._trainings:
            self._trainings[at].go_on(test=True, room=room)
        else:
            finalist.stage, finalist.begun = f"final-{at}-", True
            self._trainings[at] = self._made(at)
            self._trainings[at].start(self._recipe(at), trial=True, room=room)
            self._trainings[at].go_on(test=True)

    def _leave(self) -> Payload:
        """What clients are told before another training has its turn."""
        if self._at < 0:
            room, self._room = self._room, {}
            return room
        self._trainings[self._at].before_checkpoint()
        return {"park": True}

    def _note(self, at: int) -> None:
        one, training = self.finalists[at], self._trainings[at]
        best = training.best
        one.rounds, one.parameters = training.round, training.parameters
        one.val_accuracy, one.val_loss, one.loss = best.accuracy, best.loss, rank(training)

    def _end(self, at: int) -> None:
        """A training is over; the next one has its turn, of the next pass after the last."""
        one, training = self.finalists[at], self._trainings[at]
        if training.sharing.clients.private and not training.diverged:
            training.evaluate()
            self._note(at)
        one.over = True
        if training.diverged:
            one.loss = math.inf
        if not self._wrapped_up and self.done:
            self._next_pass()
        waiting = [n for n, other in enumerate(self.finalists) if not other.over]
        if waiting and not self._wrapped_up:
            self._take_turn(waiting[0])

    def _next_pass(self) -> None:
        """Another draw of the initial weights for those that cannot be told from the best, which
        takes two draws at least; nothing for a single recipe.
        """
        ranked = standings(self.finalists)
        if not ranked or ranked[0].inits >= self._inits:
            return
        inits, most = ranked[0].inits, ranked[0].loss + 2 * ranked[0].error
        alike = [one for one in ranked if inits < 2 or one.loss <= most]
        if len(alike) > 1:
            self.finalists += [Finalist(one.recipe, inits) for one in alike]

    def _json(self, one: Standing) -> dict[str, Any]:
        own = [f for f in self.finalists if f.recipe == one.recipe and f.over]
        recipe = Recipe.parse(one.recipe)
        return {
            **named(recipe),
            "val_accuracy": statistics.fmean(f.val_accuracy for f in own),
            "score": one.loss,
            "standard_error": one.error,
            "inits": one.inits,
            "val_loss": statistics.fmean(f.val_loss for f in own),
            "parameters": one.parameters,
        }


def named(recipe: Recipe) -> dict[str, str]:
    """How a result names a recipe: a searched network alone by its code."""
    alone = "|" in recipe.network and not (recipe.sharing or recipe.settings)
    return {"genotype": recipe.network} if alone else {"recipe": str(recipe)}
