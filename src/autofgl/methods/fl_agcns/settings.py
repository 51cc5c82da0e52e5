"""Settings of FL-AGCNS and its rivals, and the search space that they span."""

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationInfo, field_validator

from autofgl.nn.space import LAYER_TYPES, PAPER_TYPES, Genotype, Space
from autofgl.runtime.settings import (
    CONFIG,
    Count,
    FederatedTraining,
    NonNegative,
    Positive,
    Share,
    TrialSettings,
    Whole,
)
from autofgl.search.space import Codes


class SpaceSettings(BaseModel):
    """The search space A(L), and how a searched network is trained from scratch afterwards.

    Searched networks converge at different speeds: 200 rounds end the training of many APPNP layers
    while their validation loss still falls, so that they train until it does not.
    """

    model_config = CONFIG

    rounds: Whole = 600
    """rounds of the federation, at most"""
    patience: Whole = 100
    """stop early when the validation loss has not improved for so many rounds; 0: never"""
    layers: int = Field(6, ge=1, le=12)
    """most layers of a network, L"""
    types: str = Field(
        default=",".join(PAPER_TYPES),
        description="kinds of layers to choose from, separated by commas: the paper's twelve, and "
        f"beyond it {', '.join(kind for kind in LAYER_TYPES if kind not in PAPER_TYPES)}",
    )
    layer_dropout: float = Field(0.0, ge=0, lt=1)
    """dropout before every convolution"""
    fusion: Literal["all", "leaves"] = "all"
    """which layers' outputs are averaged"""
    stop: Share = 0.3
    """probability that a random network ends before a given layer; the paper's uniform genes would
    end every second one before its first"""

    @field_validator("types")
    @classmethod
    def _check_types(cls, text: str) -> str:
        return ",".join(Space(1, [name.strip() for name in text.split(",")]).types)


class FLAGCNSSettings(SpaceSettings, FederatedTraining):
    """FL-AGCNS: SuperNet, federated evolution, final training."""

    renamed: ClassVar[dict[str, str]] = {"optimisers": "optimizers"}

    population: int = Field(60, ge=2)
    """number of codes, |P|"""
    generations: Count = 250
    """generations, E_evo"""
    weight_steps: Count = 5
    """SuperNet steps in a generation, E_weight"""
    warmup: Whole = 25
    """first generations that train the SuperNet on random codes and do not evolve; the paper has
    none"""
    codes_per_step: Whole = 20
    """codes of P that a SuperNet step samples; 0: all, as in the paper"""
    optimizers: Literal["both", "controller", "clients"] = "both"
    """who evolves (the paper's ablation)"""
    objectives: str = "loss,params"
    """what codes are compared by: loss or accuracy on validation nodes, and, separated by commas,
    params and latency"""
    start: str = ""
    """known architectures to begin with, separated by ';', as in 'relu | gcn<0 gcn<1 | identity'"""
    per_predecessor: bool = False
    """a convolution for each predecessor, as in the authors' code"""
    search_lr: NonNegative = 0.005
    """learning rate of the SuperNet; 0: that of the training"""
    search_weight_decay: NonNegative = 0
    """L2 penalty on the SuperNet; the mean gradient of many networks is small, and a usual penalty
    would outweigh it"""
    trials: Whole = 40
    """codes that are trained briefly on their own, to choose the finalists: the best of the search,
    then their offspring; 0: shared weights alone choose"""
    search_share: float = Field(0.5, gt=0, le=1)
    """share of a time budget after which trials begin, all generations made or not"""
    trial_rounds: Count = 100
    """rounds of such a training; after 50 networks that learn fast look best"""
    finalists: Count = 3
    """best codes that are trained; federated validation picks one"""
    tournament: Count = 3
    """size of the tournaments"""
    crossover: Share = 0.5
    """share of genes that are swapped"""
    mutation: Share = 0.125
    """mutation rate of each gene"""

    @field_validator("objectives")
    @classmethod
    def _check_objectives(cls, text: str) -> str:
        first, *more = names = [name.strip() for name in text.split(",")]
        if first not in ("loss", "accuracy") or not set(more) <= {"params", "latency"}:
            raise ValueError("loss or accuracy comes first, then params, latency or both")
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


class CandidateSettings(TrialSettings, SpaceSettings, FederatedTraining):
    """FL-Random: every candidate is trained from scratch."""


class RLSettings(TrialSettings, SpaceSettings, FederatedTraining):
    """FL-RL: what the agent of Q-learning remembers, and how fast it learns."""

    memory: int = Field(1, ge=0, le=3)
    """previous genes that a state of the agent holds"""
    rate: float = Field(0.1, gt=0, le=1)
    """learning rate of the agent's Bellman updates"""
    replay: Whole = 128
    """past networks that are learned from again after each one"""


class DartsSettings(SpaceSettings, FederatedTraining):
    """FL-Gradient: first-order DARTS over the SuperNet, then the final training."""

    generations: Count = 250
    """architecture steps"""
    weight_steps: Count = 1
    """SuperNet steps before each architecture step"""
    search_weight_decay: NonNegative = 0
    """L2 penalty on the SuperNet's weights in the search"""
    search_lr: NonNegative = 0
    """learning rate of the SuperNet; 0: that of the training"""
    arch_lr: Positive = 0.01
    """learning rate of the architecture parameters; DARTS has 3e-4 for many more steps, which a few
    hundred would hardly move"""
    arch_weight_decay: NonNegative = 1e-3
    """L2 penalty on the architecture parameters"""


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
