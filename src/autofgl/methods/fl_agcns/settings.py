"""Settings of FL-AGCNS and its rivals, and the search space that they span."""

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationInfo, field_validator

from autofgl.methods.fl_agcns.portfolio import KNOWN
from autofgl.nn.space import LAYER_TYPES, PAPER_TYPES, Genotype, Space
from autofgl.runtime.federated_settings import FederatedTraining
from autofgl.runtime.settings import CONFIG, Count, NonNegative, Positive, Share, Whole
from autofgl.runtime.trial_settings import SelectionSettings, TrialSettings
from autofgl.search.halving import RUNGS, bracket_rounds
from autofgl.search.space import Codes
from autofgl.secure.accountant import Releases


class SpaceSettings(BaseModel):
    """The search space A(L), and how a searched network is trained from scratch afterwards.

    Searched networks converge at different speeds: 200 rounds end the training of many APPNP layers
    while their validation loss still falls, so that they train until it does not.
    """

    model_config = CONFIG

    rounds: Whole = 600
    """maximum number of rounds of the final training"""
    patience: Whole = 100
    """stop early when validation loss has not improved for this many rounds; 0: never"""
    layers: int = Field(6, ge=1, le=12)
    """maximum number of layers of a network, L"""
    types: str = Field(
        default=",".join(PAPER_TYPES),
        description="layer types to choose from, separated by commas: the paper's twelve, or also "
        f"{', '.join(kind for kind in LAYER_TYPES if kind not in PAPER_TYPES)}, and layers from "
        "outside as module:Class or file.py:Class, e.g. torch_geometric.nn:TransformerConv",
    )
    layer_dropout: float = Field(0.0, ge=0, lt=1)
    """dropout before every convolution"""
    fusion: Literal["all", "leaves"] = "all"
    """whose outputs are averaged: all layers, or only those that no other layer uses"""
    stop: Share = 0.3
    """probability that a random network ends before a given layer; with the paper's uniform genes,
    every second network would have no layers"""

    @field_validator("types")
    @classmethod
    def _check_types(cls, text: str) -> str:
        names = [name.strip() for name in text.split(",")]
        Space(1, names)  # refuses what is no layer type
        return ",".join(names)


class FLAGCNSSettings(SelectionSettings, SpaceSettings, FederatedTraining):
    """FL-AGCNS: SuperNet, federated evolution, final training."""

    @property
    def releases(self) -> Releases | None:
        """Steps on the SuperNet, rounds of trials and finalists; figures of the population and of
        its children in every generation (none in the warm-up, which a time budget may cut short),
        of the last population, of trials and finalists. None if clients tell more than sums.
        """
        if self.beyond_sums:
            return None
        raced = len(RUNGS) * (self.trials + self._known_trials)
        figures = 2 * self.generations + 1 + raced + self.selection_figures
        return Releases(self.total_rounds, figures)

    @property
    def beyond_sums(self) -> str:
        """Rows of nodes, codes that a client prefers, or the times of its machine."""
        if self.sharing == "across":
            return super().beyond_sums
        if self.optimizers != "controller":
            return "the codes that clients prefer by their own data: set optimizers=controller"
        if "latency" in self.objective_names:
            return "times that clients measure: leave latency out of objectives"
        return ""

    renamed: ClassVar[dict[str, str]] = {"optimisers": "optimizers"}
    by_objective: ClassVar[dict[str, str]] = {
        "select": "objective", "objectives": "objective,params",
    }  # fmt: skip

    batch: Whole = 0
    """training nodes in a mini-batch of the SuperNet, of trials and of final training; 0: all at
    once, but for the SuperNet of a client that is too large for search_memory: it takes 128, and
    fanout=5,5. The SuperNet looks as many hops far as fanout has numbers"""
    val_sample: Whole = 0
    """validation nodes of a client that codes are compared on until the finalists, a random sample
    that stays the same; 0: all, or twice as many as batch has if the SuperNet takes mini-batches"""
    search_memory: Count = 160
    """megabytes that the SuperNet of a client may hold at a time: a population that takes more is
    computed in parts"""
    population: int = Field(60, ge=2)
    """number of codes (encoded architectures) in the population, |P|"""
    generations: Count = 250
    """number of generations, E_evo"""
    weight_steps: Count = 5
    """training steps of the SuperNet in a generation, E_weight"""
    warmup: Whole = 25
    """first generations, which only train the SuperNet, on random codes; none in the paper"""
    codes_per_step: Whole = 20
    """codes sampled for each SuperNet step; 0: the whole population, as in the paper"""
    optimizers: Literal["both", "controller", "clients"] = "both"
    """who evolves the population (the paper's ablation)"""
    objectives: str = "loss,params"
    """what codes are ranked by, separated by commas: first loss, accuracy or the objective on
    validation nodes, then params, latency or both; trials and finalists go by the objective"""
    start: str = ""
    """architectures to start from, separated by ';', such as 'relu | gcn<0 gcn<1 | identity'"""
    per_predecessor: bool = False
    """a convolution for each predecessor, as in the authors' code"""
    search_lr: NonNegative = 0.005
    """learning rate of the SuperNet; 0: lr"""
    search_weight_decay: NonNegative = 0
    """L2 penalty on the SuperNet; the mean gradient of many networks is small, so the usual penalty
    would dominate it"""
    known: bool = True
    """race well-known networks before the search, unless trials is 0, and have them in the first
    population: what is best then goes on with the best of the search"""
    trials: Whole = 24
    """networks to race on their own after the search: its best, then their offspring; 0: choose by
    shared weights only"""
    search_share: float = Field(0.4, gt=0, le=1)
    """share of the time budget after which trials begin, even if generations remain"""
    trial_rounds: Count = 100
    """training rounds of a network in a race; half of them end after a quarter"""
    tournament: Count = 3
    """size of a selection tournament"""
    crossover: Share = 0.5
    """share of genes swapped in a crossover"""
    mutation: Share = 0.125
    """probability that a gene mutates"""

    @field_validator("objectives")
    @classmethod
    def _check_objectives(cls, text: str) -> str:
        first, *more = names = [name.strip() for name in text.split(",")]
        ranks = ("loss", "accuracy", "objective")
        if first not in ranks or not set(more) <= {"params", "latency"}:
            raise ValueError(
                "loss, accuracy or objective comes first, then params, latency or both"
            )
        if len(set(names)) < len(names):
            raise ValueError("name every objective once")
        return ",".join(names)

    @field_validator("start")
    @classmethod
    def _check_start(cls, text: str, info: ValidationInfo) -> str:
        if not {"layers", "types"} <= info.data.keys():
            return text  # another setting is wrong, and its message comes first
        space = Space(info.data["layers"], info.data["types"].split(","))
        return "; ".join(str(space.parse(code)) for code in text.split(";") if code.strip())

    @property
    def objective_names(self) -> list[str]:
        """The validation objective, then the others."""
        return self.objectives.split(",")

    @property
    def total_rounds(self) -> int:
        """Steps of the SuperNet, rounds of the trials and of the finalists."""
        search = self.generations * self.weight_steps
        raced = bracket_rounds(self.trials + self._known_trials, self.trial_rounds)
        return search + raced + self.selection_rounds(self.trial_rounds, self.rounds)

    @property
    def _known_trials(self) -> int:
        """Well-known networks that race."""
        return len(KNOWN) if self.known and self.trials else 0


class CandidateSettings(TrialSettings, SpaceSettings, FederatedTraining):
    """FL-Random: every candidate is trained from scratch."""

    @property
    def total_rounds(self) -> int:
        """Rounds of the candidates and of the finalists."""
        return self.trial_rounds_with(self.rounds)


class RLSettings(TrialSettings, SpaceSettings, FederatedTraining):
    """FL-RL: what the agent of Q-learning remembers, and how fast it learns."""

    memory: int = Field(1, ge=0, le=3)
    """previous genes that a state of the agent holds"""
    rate: float = Field(0.1, gt=0, le=1)
    """learning rate of the agent's Bellman updates"""
    replay: Whole = 128
    """past networks that are learned from again after each one"""

    @property
    def total_rounds(self) -> int:
        """Rounds of the candidates and of the finalists."""
        return self.trial_rounds_with(self.rounds)


class DartsSettings(SelectionSettings, SpaceSettings, FederatedTraining):
    """FL-Gradient: first-order DARTS over the SuperNet, then the final training."""

    @property
    def releases(self) -> Releases | None:
        """Steps on SuperNet and architecture, then races and the final training."""
        if self.beyond_sums:
            return None
        return Releases(self.total_rounds, len(RUNGS) * self.trials + self.selection_figures)

    batch: Whole = 0
    """training nodes in a mini-batch of the final training; 0: all at once, as the SuperNet always
    takes them"""
    generations: Count = 250
    """architecture steps"""
    weight_steps: Count = 1
    """SuperNet steps before each architecture step"""
    search_weight_decay: NonNegative = 0
    """L2 penalty on the SuperNet's weights in the search"""
    search_lr: NonNegative = 0
    """learning rate of the SuperNet; 0: lr"""
    arch_lr: Positive = 0.01
    """learning rate of the architecture parameters; DARTS has 3e-4 for many more steps, which a few
    hundred would hardly move"""
    arch_weight_decay: NonNegative = 1e-3
    """L2 penalty on the architecture parameters"""
    trials: Count = 8
    """networks to race on their own after the search, the most likely one and samples of α"""
    trial_rounds: Count = 100
    """training rounds of a network in a race; half of them end after a quarter"""

    @field_validator("objective")
    @classmethod
    def _check_gradient(cls, objective: str) -> str:
        if objective != "accuracy":
            raise ValueError(
                "fl-darts descends the validation loss and cannot follow another objective: "
                "take fl-agcns, fl-random or fl-rl"
            )
        return objective

    @property
    def total_rounds(self) -> int:
        """Steps on the SuperNet and on its architecture, then the training."""
        search = self.generations * (self.weight_steps + 1)
        raced = bracket_rounds(self.trials, self.trial_rounds)
        return search + raced + self.selection_rounds(self.trial_rounds, self.rounds)


def make_space(settings: SpaceSettings) -> Space:
    """A(L) of the settings' kinds of layers, and their probability of ending a random network."""
    return Space(settings.layers, settings.types.split(","), stop=settings.stop)


def make_codes(space: Space) -> Codes:
    """The space's codes; two that build the same SuperNet path are one."""
    return Codes(
        tuple(int(count) for count in space.cardinalities),
        canonical=lambda code: space.encode(space.canonical(space.decode(code))),
        sample=lambda rng: space.encode(space.random(rng)),
    )


def genotypes(space: Space, codes: Any) -> list[Genotype]:
    """The architectures of codes ``[n, genes]``."""
    return [space.decode(code) for code in np.asarray(codes)]
