"""The finals of ``auto``: leaders and baselines are trained to the end, and clients keep them all.

One after the other, with every one given its share of the time that is left. A finalist that was
raced goes on where it was; its test nodes stay hidden. When it ends, the clients keep its weights
and its predictions, and the server the common weights, if it has such.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from autofgl.federation.payload import Payload
from autofgl.runtime.local_model import Weights
from autofgl.runtime.outcome import Row
from autofgl.runtime.race import calibrate
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.rounds import RoundEngine
from autofgl.runtime.state import restore_state, saved_state
from autofgl.runtime.trials import told_of_trial


@dataclass
class FinalModel:
    """What a training has left at the server; no weights where clients have their own."""

    weights: Weights
    spec: dict[str, Any]
    parameters: int
    architecture: str
    inference_s: float
    best_round: int
    scaling: str | bool
    across: bool = False  # whether it takes in neighbors at other clients


@dataclass
class Entrant:
    """A training of the finals, what it is for, and what came of it.

    ``roles`` are ``leader``, ``taught`` and the names of baselines; ``ending``: waiting, running,
    done, diverged, or skipped for want of time; ``cut_short`` if it had no time to come to its own
    end. ``teacher``, if any, are members of a mean on the clients' shelves that it learns from.
    """

    recipe: str
    roles: list[str] = field(default_factory=list)
    init: int = 0
    stage: str = ""
    ending: str = "waiting"
    rounds: int = 0
    val_loss: float = math.inf
    cut_short: bool = False
    result: dict[str, Any] = field(default_factory=dict)
    teacher: list[list[Any]] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What it is called."""
        return self.recipe + (f", taught by a mean of {len(self.teacher)}" if self.teacher else "")

    @property
    def over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.ending not in ("waiting", "running")

    @property
    def model(self) -> FinalModel:
        """What is left of it."""
        return FinalModel(**self.result)


class Bench:
    """Trains entrants in turn; ``make`` makes a training from its stage and recipe, and ``ended``
    is called with the number of an entrant whose training has just been concluded.
    """

    def __init__(
        self, make: Callable[[str, Recipe], RoundEngine], ended: Callable[[int], None]
    ) -> None:
        self._make = make
        self._ended = ended
        self.entrants: list[Entrant] = []
        self.totals = [0, 0, 0]
        self._trainings: dict[int, RoundEngine] = {}
        self._at = -1  # whose training the clients have now
        self._room: Payload = {}

    @property
    def begun(self) -> bool:
        """Whether there are any."""
        return bool(self.entrants)

    @property
    def done(self) -> bool:
        """Whether nothing is left to train."""
        return self.begun and all(one.over for one in self.entrants)

    @property
    def present(self) -> int:
        """The number of the entrant that has its turn; -1 between two of them."""
        return self._at

    @property
    def left(self) -> int:
        """How many are not over."""
        return sum(not one.over for one in self.entrants)

    @property
    def planned(self) -> int:
        """Rounds that are left at most."""
        limit = (
            next(iter(self._trainings.values())).sharing.settings.rounds if self._trainings else 0
        )
        return int(sum(max(limit - one.rounds, 1) for one in self.entrants if not one.over))

    def begin(self, entrants: Sequence[tuple[Entrant, RoundEngine | None]], room: Payload) -> None:
        """Train these, going on with what is there; ``room`` is what clients are told first."""
        for at, (one, training) in enumerate(entrants):
            if training is not None:
                one.stage, one.rounds = training.stage, training.round
                self._trainings[at] = training
            self.entrants.append(one)
        self._room = room

    def add(self, entrant: Entrant) -> None:
        """Train another one, when the others are over."""
        self.entrants.append(entrant)

    def step(self) -> Row:
        """One round of the entrant whose turn it is."""
        if self._at < 0:
            self._take_turn(next(at for at, one in enumerate(self.entrants) if not one.over))
        at, one, training = self._at, self.entrants[self._at], self._trainings[self._at]
        row = told_of_trial(training.step())
        one.rounds = training.round
        if training.done or training.diverged:
            self._end()
        return {**row, "finalist": at, "code": one.label}

    def end_present(self) -> None:
        """Conclude the present training where it is: its time is up."""
        if self._at >= 0:
            self._end()

    def wrap_up(self) -> None:
        """No time is left: conclude the present training, and others as far as they were raced."""
        self.end_present()
        for at, one in enumerate(self.entrants):
            if not one.over and at in self._trainings:
                self._take_turn(at)
                self._end()
            elif not one.over and any(other.ending == "done" for other in self.entrants):
                one.ending = "skipped"

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
        entrants = [asdict(one) for one in self.entrants]
        names = ("_at", "_room", "totals")
        return {"entrants": entrants, "trainings": trainings, **saved_state(self, names)}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; the clients know which networks are theirs."""
        self.entrants = [Entrant(**one) for one in state["entrants"]]
        restore_state(self, ("_at", "_room", "totals"), state)
        self._trainings = {int(at): self._made(int(at)) for at in state["trainings"]}
        for at, one in self._trainings.items():
            one.load_state(state["trainings"][str(at)])

    def _recipe(self, at: int) -> Recipe:
        recipe, init = Recipe.parse(self.entrants[at].recipe), self.entrants[at].init
        if not init:
            return recipe
        return recipe.model_copy(update={"settings": {**recipe.settings, "init": init}})

    def _made(self, at: int) -> RoundEngine:
        return calibrate(self._make(self.entrants[at].stage or f"final-{at}-", self._recipe(at)))

    def _take_turn(self, at: int) -> None:
        room, self._room, self._at = self._room, {}, at
        one = self.entrants[at]
        if at in self._trainings:
            self._trainings[at].go_on(room=room)
        else:
            one.stage = f"final-{at}-"
            self._trainings[at] = self._made(at)
            about = {"teacher": one.teacher} if one.teacher else None
            self._trainings[at].start(self._recipe(at), trial=True, room=room, about=about)
        one.ending = "running"

    def _end(self) -> None:
        """Conclude the present training, unless it has come to nothing."""
        at, one, training = self._at, self.entrants[self._at], self._trainings[self._at]
        if training.diverged:
            one.ending = "diverged"
        else:
            one.cut_short = not training.done
            outcome = training.finish()
            one.val_loss, one.ending, self.totals = training.best.loss, "done", training.totals
            one.result = asdict(
                FinalModel(
                    outcome.models.get("model", {}),
                    outcome.spec,
                    outcome.parameters,
                    outcome.architecture,
                    outcome.inference_s,
                    training.best.round,
                    training.sharing.settings.normalize_features,
                    Recipe.parse(one.recipe).sharing == "across",
                )
            )
            self._ended(at)
        del self._trainings[at]
        self._at, self._room = -1, {"park": False}
