"""Settings of the architecture searches."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from autofgl.methods.settings import FederatedTraining
from autofgl.nn.choices import CONVOLUTIONS, PAPER_TYPES
from autofgl.nn.space import Space


class SpaceSettings(FederatedTraining):
    """The search space A(L), and how a found network is trained from scratch afterwards.

    Found networks converge at different speeds: 200 rounds end the training of many APPNP layers
    while their validation loss still falls, so that they train until it does not.
    """

    rounds: int = Field(default=600, ge=0, description="rounds of the federation, at most")
    patience: int = Field(
        default=100,
        ge=0,
        description="stop after so many rounds without a lower validation loss; 0: never",
    )
    layers: int = Field(default=6, ge=1, le=12, description="most layers of a network, L")
    types: str = Field(
        default=",".join(PAPER_TYPES),
        description="kinds of layers to choose from, separated by commas: the paper's twelve, and "
        f"beyond it {', '.join(kind for kind in CONVOLUTIONS if kind not in PAPER_TYPES)}",
    )
    layer_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="dropout before every convolution"
    )
    fusion: Literal["all", "leaves"] = Field(
        default="all", description="which layers' outputs are averaged"
    )
    stop: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="probability that a random network ends before a given layer; the paper's "
        "uniform genes would end every second one before its first",
    )

    @field_validator("types")
    @classmethod
    def _known_types(cls, text: str) -> str:
        return ",".join(Space(1, [name.strip() for name in text.split(",")]).types)

    @property
    def type_names(self) -> list[str]:
        """The kinds of layers."""
        return self.types.split(",")


class SearchSettings(SpaceSettings):
    """FL-AGCNS: SuperNet, federated evolution, final training."""

    population: int = Field(default=60, ge=2, description="number of codes, |P|")
    generations: int = Field(default=250, ge=1, description="generations, E_evo")
    weight_steps: int = Field(
        default=5, ge=1, description="SuperNet steps in a generation, E_weight"
    )
    warmup: int = Field(
        default=25,
        ge=0,
        description="first generations that train the SuperNet on random codes and do not evolve; "
        "the paper has none",
    )
    codes_per_step: int = Field(
        default=20,
        ge=0,
        description="codes that a SuperNet step is made of, drawn of P; 0: all, as in the paper",
    )
    optimisers: Literal["both", "controller", "clients"] = Field(
        default="both", description="who evolves (the paper's ablation)"
    )
    objectives: str = Field(
        default="loss,params",
        description="what codes are compared by: loss or accuracy on validation nodes, and, "
        "separated by commas, params and latency",
    )
    start: str = Field(
        default="",
        description="known architectures to begin with, separated by ';', as in "
        "'relu | gcn<0 gcn<1 | identity'",
    )
    per_predecessor: bool = Field(
        default=False, description="a convolution for each predecessor, as in the authors' code"
    )
    search_lr: float = Field(
        default=0.005, ge=0, description="learning rate of the SuperNet; 0: that of the training"
    )
    search_weight_decay: float = Field(
        default=0,
        ge=0,
        description="L2 penalty on the SuperNet; the mean gradient of many networks is small, and "
        "a usual penalty would outweigh it",
    )
    trials: int = Field(
        default=40,
        ge=0,
        description="codes that are trained briefly on their own, to choose the finalists: the "
        "best of the search, then their offspring; 0: shared weights alone choose",
    )
    search_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="share of a time budget after which trials begin, all generations made or not",
    )
    trial_rounds: int = Field(
        default=100,
        ge=1,
        description="rounds of such a training; after 50 networks that learn fast look best",
    )
    finalists: int = Field(
        default=3, ge=1, description="best codes that are trained; federated validation picks one"
    )
    tournament: int = Field(default=3, ge=1, description="size of the tournaments")
    crossover: float = Field(default=0.5, ge=0, le=1, description="share of genes that are swapped")
    mutation: float = Field(default=0.125, ge=0, le=1, description="mutation rate of each gene")

    @field_validator("objectives")
    @classmethod
    def _known_objectives(cls, text: str) -> str:
        first, *more = names = [name.strip() for name in text.split(",")]
        if first not in ("loss", "accuracy") or not set(more) <= {"params", "latency"}:
            raise ValueError("loss or accuracy comes first, then params, latency or both")
        if len(set(names)) < len(names):
            raise ValueError("name every objective once")
        return ",".join(names)

    @field_validator("start")
    @classmethod
    def _known_start(cls, text: str, info: ValidationInfo) -> str:
        if not {"layers", "types"} <= info.data.keys():
            return text  # another setting is wrong, and that will be told
        space = Space(info.data["layers"], info.data["types"].split(","))
        return "; ".join(str(space.parse(code)) for code in text.split(";") if code.strip())

    @property
    def objective_names(self) -> list[str]:
        """The validation objective, then the others."""
        return self.objectives.split(",")

    @property
    def start_codes(self) -> list[str]:
        """The known architectures."""
        return [code.strip() for code in self.start.split(";") if code.strip()]
