"""What a client trains: one network after the other, of which some are parked and go on later."""

from collections.abc import Callable
from dataclasses import dataclass

from autofgl.federation.payload import Payload
from autofgl.runtime.compression import UpdateCoder
from autofgl.runtime.sharing import SharingClient
from autofgl.runtime.state import restore_state, saved_state

#: Where a client is: the stages that it had, the present one, and its last round.
_PLACE = ("stages", "stage", "round")


@dataclass
class Parked:
    """A training that a client can go on with: its recipe, what it has, and its last round."""

    recipe: Payload
    sharing: SharingClient
    coder: UpdateCoder
    round: int

    def state(self) -> Payload:
        """Everything between two rounds."""
        coder = {"coder": self.coder.state()} if self.coder.active else {}
        sharing = self.sharing.state()
        return {"recipe": self.recipe, "round": self.round, "sharing": sharing, **coder}


class Trainings:
    """The present training of a client, and those that it has parked.

    Each has a ``stage``, put before the names of all its sums, which is never used again; its
    rounds follow each other. ``build`` makes what a client has for a recipe, ``new_coder`` what
    makes updates smaller on their way.
    """

    def __init__(
        self, build: Callable[[Payload], SharingClient], new_coder: Callable[[], UpdateCoder]
    ) -> None:
        self._build = build
        self._new_coder = new_coder
        self._sharing: SharingClient | None = None
        self.recipe: Payload = {}
        self.coder = new_coder()
        self.stages: list[str] = []
        self.stage = ""
        self.round = 0
        self.parked: dict[str, Parked] = {}

    @property
    def sharing(self) -> SharingClient:
        """The client half of the present way of sharing; the run's own before any recipe."""
        if self._sharing is None:
            self._sharing = self._build(self.recipe)
        return self._sharing

    @property
    def present(self) -> bool:
        """Whether there is a training that is not parked."""
        return self._sharing is not None

    def last_round(self, stage: str) -> int | None:
        """The last round of a training that is here, present or parked."""
        if stage == self.stage and self.present:
            return self.round
        return self.parked[stage].round if stage in self.parked else None

    def enter(self, stage: str) -> None:
        """Begin a stage: the names of its sums are its own, and its rounds begin anew."""
        self.stage, self.round = stage, 0
        self.stages.append(stage)
        self.coder = self._new_coder()

    def begin(self, stage: str, recipe: Payload) -> None:
        """Begin a stage with a network of its own, whatever was before."""
        self.enter(stage)
        self.recipe, self._sharing = recipe, None
        self._sharing = self._build(recipe)

    def take_up(self, stage: str) -> None:
        """Go on with a training, if it is parked."""
        if stage in self.parked:
            parked = self.parked.pop(stage)
            self.recipe, self._sharing, self.coder = parked.recipe, parked.sharing, parked.coder
            self.stage, self.round = stage, parked.round

    def make_room(self, payload: Payload) -> None:
        """Before another training has its turn: keep the present one or not, and forget others."""
        if payload.get("park") and self._sharing is not None:
            parked = Parked(self.recipe, self._sharing, self.coder, self.round)
            self.parked[self.stage] = parked
        if "park" in payload:
            self.recipe, self._sharing = {}, None
        for stage in payload.get("forget", ()):
            self.parked.pop(stage, None)

    def state(self) -> Payload:
        """Everything between two rounds."""
        state = saved_state(self, (*_PLACE, "recipe", "_sharing"))
        state |= {"coder": self.coder.state()} if self.coder.active else {}
        if self.parked:
            state["parked"] = {stage: one.state() for stage, one in self.parked.items()}
        return state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        restore_state(self, _PLACE, state)
        self.recipe, self._sharing = state["recipe"], None
        if "sharing" in state:
            self.sharing.load_state(state["sharing"])
        restore_state(self, ("coder",), state)
        self.parked = {}
        for stage, one in state.get("parked", {}).items():
            sharing = self._build(one["recipe"])
            parked = Parked(one["recipe"], sharing, self._new_coder(), one["round"])
            parked.sharing.load_state(one["sharing"])
            restore_state(parked, ("coder",), one)
            self.parked[stage] = parked

    def common_state(self) -> Payload:
        """What all clients have alike of the present training."""
        coder = {"coder": self.coder.common_state()} if self.coder.active else {}
        sharing = {} if self._sharing is None else {"sharing": self._sharing.common_state()}
        return {**coder, **sharing}

    def load_common(self, state: Payload) -> None:
        """Take up where another client is."""
        if "sharing" in state:
            self.sharing.load_common(state["sharing"])
        restore_state(self, ("coder",), state)
