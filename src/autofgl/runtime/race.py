"""A race: many recipes train a little, the better half goes on, until few have all their rounds.

This is successive halving (Jamieson and Talwalkar, "Non-stochastic best arm identification and
hyperparameter optimization", 2016). A recipe's training is parked at the clients between two rungs
and goes on when it is promoted, so that nothing is trained twice; the others are forgotten. What
recipes compete by is the calibrated loss of the best round so far on the federation's validation
nodes; test nodes are left alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from autofgl.federation.payload import Payload
from autofgl.runtime.outcome import Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.rounds import RoundEngine
from autofgl.runtime.state import restore_state, saved_state
from autofgl.runtime.trials import fitness, told_of_trial
from autofgl.search.halving import rungs_of


@dataclass
class Entry:
    """A recipe in a race, and the figures of its best round so far.

    ``ending``: running (it has its turn, or waits for it), done (it has had all rounds), pruned,
    or diverged.
    """

    number: int
    recipe: str
    rung: int = 0
    rounds: int = 0
    ending: str = "running"
    val_accuracy: float = 0.0
    val_loss: float = math.inf
    score: float = 0.0  # the objective on validation nodes
    loss: float = math.inf  # what is minimized; infinite without a result
    parameters: int = 0


def rank(training: RoundEngine) -> float:
    """What recipes compete by, the less the better: the calibrated validation loss of their best
    round; with another objective than accuracy, or with differential privacy, the objective.
    """
    best = training.best
    if training.calibrates:
        return best.loss
    return float(fitness(best.loss, best.score, "objective"))


def calibrate(training: RoundEngine) -> RoundEngine:
    """The same training, to be compared by its calibrated loss if that makes sense; else its best
    round is that of the best objective, so that more rounds do not make it worse.
    """
    settings = training.sharing.settings
    private = training.sharing.clients.private
    training.calibrates = settings.objective == "accuracy" and not private
    if not training.calibrates:
        training.best.select = "objective"
    return training


class Race:
    """Races brackets of recipes, one after the other, and keeps the best trainings parked.

    ``make`` makes the training of an entry from its number, from 1 on, and its recipe; ``rounds``
    are those of an entry that comes to the end; ``kept`` stay parked, the first of what ``order``
    makes of the best ones. Entries compete by :func:`rank`.
    """

    def __init__(
        self,
        make: Callable[[int, Recipe], RoundEngine],
        rounds: int,
        kept: int = 1,
        order: Callable[[Sequence[Entry]], Sequence[Entry]] = tuple,
    ) -> None:
        self._make = make
        self._rungs = rungs_of(rounds)
        self._kept = kept
        self._order = order
        self.entries: list[Entry] = []
        self._bracket: list[int] = []  # of entries by number - 1, all on one rung
        self._turn: list[int] = []  # those that still have rounds to make on it
        self._trainings: dict[int, RoundEngine] = {}
        self._present = -1  # whose training the clients have now
        self._forget: list[str] = []

    @property
    def running(self) -> bool:
        """Whether a bracket has begun and is not over."""
        return bool(self._turn)

    @property
    def best_first(self) -> list[Entry]:
        """Those with a result, also if they had fewer rounds than others: the loss of a best round
        so far can only fall with more.
        """
        useful = [one for one in self.entries if one.rounds and math.isfinite(one.loss)]
        return sorted(useful, key=lambda one: one.loss)

    @property
    def planned(self) -> int:
        """Rounds that the present bracket has left at most."""
        if not self._turn:
            return 0
        count, rung = len(self._bracket), self.entries[self._bracket[0]].rung
        made = sum(self.entries[one].rounds for one in self._turn)
        total, before = len(self._turn) * self._rungs[rung] - made, self._rungs[rung]
        for end in self._rungs[rung + 1 :]:
            count = math.ceil(count / 2)
            total, before = total + count * (end - before), end
        return total

    def begin(self, recipes: Sequence[Recipe]) -> None:
        """Let these compete, and then with the best so far."""
        first = len(self.entries)
        self.entries += [Entry(first + at + 1, str(one)) for at, one in enumerate(recipes)]
        self._bracket = list(range(first, len(self.entries)))
        self._turn = list(self._bracket)

    def step(self) -> tuple[Row, Entry]:
        """One round of the entry whose turn it is: columns for the history, and the entry."""
        at = self._turn[0]
        entry, training = self.entries[at], self._take_turn(at)
        row, rung = training.step(), entry.rung
        entry.rounds += 1
        entry.parameters = training.parameters
        over = entry.rounds >= self._rungs[rung]
        if over and training.sharing.clients.private:
            training.evaluate()
        self._note(entry, training)
        if over or training.diverged:
            self._turn.pop(0)
        if not self._turn:
            self._end_rung()
        return {**told_of_trial(row), "rung": rung, "parameters": entry.parameters}, entry

    def narrow(self, count: int) -> None:
        """There is little time: only so many of the present bracket go on, the best so far."""
        running = [at for at in self._bracket if self.entries[at].ending == "running"]
        begun = sorted((at for at in running if self.entries[at].rounds), key=self._loss_of)
        for at in running:
            self.entries[at].ending = "running" if at in begun[:count] else "pruned"
        self._bracket = sorted(begun[:count])
        self._turn = [at for at in self._turn if at in self._bracket]
        if self._bracket and not self._turn:
            self._end_rung(everyone=True)
        self._forget_all_but_the_best()

    def _loss_of(self, at: int) -> float:
        return self.entries[at].loss

    def wrap_up(self) -> None:
        """End the present bracket where it is; what was trained so far can go on."""
        for at in self._bracket:
            entry = self.entries[at]
            if entry.ending == "running":
                entry.ending = "done" if entry.rounds else "pruned"
        self._turn, self._bracket = [], []
        self._forget_all_but_the_best()

    def training(self, entry: Entry) -> RoundEngine | None:
        """What an entry can go on with, if it is still there."""
        return self._trainings.get(entry.number - 1)

    def room(self) -> Payload:
        """What clients are told before another training has its turn."""
        park, forget = self._present in self._trainings, list(self._forget)
        if park:
            self._trainings[self._present].before_checkpoint()
        self._present, self._forget = -1, []
        return {"park": park, **({"forget": forget} if forget else {})}

    def before_checkpoint(self) -> None:
        """Let the clients take in what only the present keys can open."""
        if self._present in self._trainings:
            self._trainings[self._present].before_checkpoint()

    def catch_up(self, names: Sequence[str]) -> None:
        """Bring clients up to date that missed rounds; of parked trainings when they go on."""
        if self._present in self._trainings:
            self._trainings[self._present].catch_up(names)

    def state(self) -> Payload:
        """Everything between two rounds."""
        trainings = {str(at): one.state() for at, one in self._trainings.items()}
        entries = [asdict(one) for one in self.entries]
        names = ("_bracket", "_turn", "_present", "_forget")
        return {"entries": entries, "trainings": trainings, **saved_state(self, names)}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; the clients know which networks are theirs."""
        self.entries = [Entry(**one) for one in state["entries"]]
        restore_state(self, ("_bracket", "_turn", "_present", "_forget"), state)
        self._trainings = {int(at): self._made(int(at)) for at in state["trainings"]}
        for at, one in self._trainings.items():
            one.load_state(state["trainings"][str(at)])

    def _made(self, at: int) -> RoundEngine:
        return calibrate(self._make(at + 1, Recipe.parse(self.entries[at].recipe)))

    def _note(self, entry: Entry, training: RoundEngine) -> None:
        """The figures of an entry's best round so far."""
        best = training.best
        entry.val_accuracy, entry.val_loss = best.accuracy, best.loss
        entry.score, entry.loss = best.score, rank(training)
        if training.diverged:
            entry.ending, entry.loss = "diverged", math.inf

    def _take_turn(self, at: int) -> RoundEngine:
        """The training of an entry, which the clients have now."""
        if at == self._present:
            return self._trainings[at]
        room = self.room()
        if at in self._trainings:
            self._trainings[at].go_on(room=room)
        else:
            self._trainings[at] = self._made(at)
            recipe = Recipe.parse(self.entries[at].recipe)
            self._trainings[at].start(recipe, trial=True, room=room)
        self._present = at
        return self._trainings[at]

    def _end_rung(self, everyone: bool = False) -> None:
        """The better half goes on, or everyone; at the end of the last rung, all left are done."""
        able = [at for at in self._bracket if self.entries[at].ending == "running"]
        able.sort(key=self._loss_of)
        last = bool(able) and self.entries[able[0]].rung == len(self._rungs) - 1
        ahead = able if last or everyone else able[: math.ceil(len(able) / 2)]
        for at in able:
            self.entries[at].ending = "running" if at in ahead else "pruned"
        if able and not last:
            for at in ahead:
                self.entries[at].rung += 1
            self._bracket, self._turn = sorted(ahead), sorted(ahead)
        else:
            for at in ahead:
                self.entries[at].ending = "done"
            self._bracket, self._turn = [], []
        self._forget_all_but_the_best()

    def _forget_all_but_the_best(self) -> None:
        best = self._order(self.best_first)[: self._kept]
        kept = {one.number - 1 for one in best} | set(self._turn)
        for at in sorted(self._trainings.keys() - kept):
            if at == self._present:
                self._present = -1
            else:
                self._forget.append(self._trainings[at].stage)
            del self._trainings[at]
