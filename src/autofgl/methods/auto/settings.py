"""Settings of ``auto``. All of them have defaults that need no thought."""

from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from autofgl.errors import UserError
from autofgl.methods.fl_agcns.settings import SpaceSettings
from autofgl.runtime.federated_settings import FederatedTraining
from autofgl.runtime.settings import Count, Whole
from autofgl.runtime.trial_settings import SelectionSettings
from autofgl.search.halving import bracket_rounds
from autofgl.secure.accountant import Releases

#: Most recipes that the portfolio has for any federation, and other ways of sharing in which the
#: best of them is tried; finalists besides the leaders.
MOST_RECIPES, MOST_WAYS, BASELINES = 16, 5, 3
#: What may count besides the objective.
COSTS = ("size", "latency", "bytes")


class AutoSettings(SelectionSettings, SpaceSettings, FederatedTraining):
    """How much is tried, and for how long; the data and the race decide the rest."""

    discloses: ClassVar[dict[str, Any]] = {"collect_models": True, "share": "all"}
    declines: ClassVar[dict[str, tuple[str, Any]]] = {"across": ("sharing=across", False)}

    rounds: Whole = 400
    """maximum number of rounds of a finalist"""
    patience: Whole = 60
    """stop a training early when validation loss has not improved for this many rounds; 0: never"""
    trial_rounds: Count = 60
    """rounds of a recipe in a race; half of them end after a quarter"""
    recipes: int = Field(12, ge=4, le=MOST_RECIPES)
    """recipes of the first race, cheap and likely ones first"""
    ways: bool = True
    """race the best network in other ways of sharing, too, as long as it pays"""
    tune: Whole = 16
    """recipes to race with other settings (feature scaling, learning rate, weight decay, dropout,
    width) than the leaders have, as long as it pays"""
    trials: Whole = 16
    """networks to race beyond the portfolio, offspring of the leaders, as long as it pays"""
    finalists: Count = 3
    """leaders to train fully, besides the baselines of the proof"""
    inits: Count = 1
    """draws of the initial weights from which each leader is trained in the finals"""
    ensemble: Whole = 3
    """most finalists whose predictions may be averaged where validation says that it helps; 0 or 1:
    one network only"""
    distill: bool = False
    """train one more network, which learns from the mean of the best finalists as well as from
    labels: clients then take one network, never a mean of several"""
    costs: str = ""
    """what counts besides the objective: some of size, latency and bytes, such as size,latency. Of
    what is as good as the best within a standard error, clients then take what costs least"""
    across: bool = True
    """race networks that convolve across clients, where enough edges run between them and all allow
    it: clients that share an edge then show each other embeddings of its ends, as with
    sharing=across. A site whose policy does not allow sharing=across turns this down, for all"""
    collect_models: bool = False
    """hand every client's own model to the server, so that all of them are in the run folder"""

    @model_validator(mode="before")
    @classmethod
    def _split_objective(cls, given: Any) -> Any:
        """``objective=accuracy,size`` is short for ``objective=accuracy costs=size``."""
        if not isinstance(given, dict) or "," not in str(given.get("objective", "")):
            return given
        objective, costs = str(given["objective"]).split(",", 1)
        return {"costs": costs, **given, "objective": objective.strip()}

    @model_validator(mode="after")
    def _check_distill(self) -> Self:
        if self.distill and self.ensemble < 2:
            raise UserError("distill=true learns from a mean of finalists: set ensemble=2 or more")
        return self

    @field_validator("costs", mode="before")
    @classmethod
    def _check_costs(cls, given: Any) -> str:
        parts = given if isinstance(given, list | tuple) else str(given).split(",")
        words = [str(part).strip() for part in parts if str(part).strip()]
        if unknown := [word for word in words if word not in COSTS]:
            raise ValueError(f"unknown cost '{unknown[0]}', choose from {', '.join(COSTS)}")
        return ",".join(dict.fromkeys(words))

    @property
    def counted_costs(self) -> list[str]:
        """Those of the costs that count."""
        return self.costs.split(",") if self.costs else []

    @property
    def releases(self) -> Releases | None:
        """None: what clients choose for themselves has no bound on what it tells."""
        return None

    @property
    def beyond_sums(self) -> str:
        """What no noise would cover."""
        return "the choice of each client's own model: run fedavg or fl-agcns with --dp"

    @property
    def total_rounds(self) -> int:
        """Rounds of races and finals at most."""
        raced = sum(
            bracket_rounds(count, self.trial_rounds)
            for count in (self.recipes, MOST_WAYS * self.ways, self.tune, self.trials)
        )
        return raced + (self.finalists * self.inits + BASELINES + self.distill) * self.rounds
