"""How a search tries candidates, and gets from the best of them to one network."""

from typing import ClassVar, Literal

from pydantic import BaseModel

from autofgl.runtime.settings import CONFIG, Count, Whole
from autofgl.search.halving import RUNGS, bracket_rounds
from autofgl.secure.accountant import Releases


class SelectionSettings(BaseModel):
    """How a search gets from its best recipes to one trained network."""

    model_config = CONFIG
    usual_compress: ClassVar[Literal["none", "int8"]] = "int8"

    tune: Whole = 16
    """recipes to race with other settings (feature scaling, learning rate, weight decay, dropout,
    width) than the best ones have"""
    finalists: Count = 3
    """number of best recipes to train fully; federated validation picks one"""
    inits: Count = 2
    """draws of the initial weights from which each finalist is trained, as long as validation
    cannot tell it from the best"""

    def selection_rounds(self, trial: int, rounds: int) -> int:
        """Rounds of all this at most, with so many for a trial and for a finalist."""
        return bracket_rounds(self.tune, trial) + self.finalists * self.inits * rounds

    @property
    def selection_figures(self) -> int:
        """How often figures are told at most: at every rung, and of all finalists."""
        return len(RUNGS) * self.tune + self.finalists * self.inits + 1


class TrialSettings(SelectionSettings):
    """How many candidates are tried, for how long, and how they are compared.

    ``rounds`` counts the final training only.
    """

    model_config = CONFIG

    by_objective: ClassVar[dict[str, str]] = {"select": "objective", "fitness": "objective"}

    candidates: Count = 200
    """networks to try"""
    candidate_rounds: Count = 50
    """training rounds of each"""
    fitness: Literal["objective", "accuracy", "loss"] = "accuracy"
    """what networks are compared by on validation nodes; of equals the lower loss is better"""

    @property
    def releases(self) -> Releases | None:
        """Those of every candidate, and of every finalist as if it were trained alone."""
        alone: Releases | None = getattr(super(), "releases", None)
        if alone is None:
            return None
        figures = len(RUNGS) * self.candidates + self.selection_figures
        return Releases(self.trial_rounds_with(alone.updates), figures)

    def trial_rounds_with(self, rounds: int) -> int:
        """Rounds of all candidates and of the finalists, each of which has so many."""
        candidates = self.candidates * self.candidate_rounds
        return candidates + self.selection_rounds(self.candidate_rounds, rounds)
