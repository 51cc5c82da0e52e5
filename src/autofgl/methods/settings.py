"""How a network is trained: the settings that every method shares."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.spec import ModelSpec


class NetworkSettings(BaseModel):
    """Which fixed network is trained."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str = Field(default="gcn", description="network family, e.g. gcn, gat, sage, appnp")
    layers: int = Field(
        default=2, ge=1, le=16, description="number of layers, where the family has a choice"
    )
    heads: int = Field(default=8, ge=1, description="attention heads (gat)")
    hops: int = Field(
        default=0, ge=0, description="propagation steps (sgc, appnp); 0: the family's own"
    )
    teleport: float = Field(
        default=0.1, ge=0, le=1, description="APPNP's share of the input, alpha"
    )


#: What ``protocol=plain`` means: no regularisation, features as they are, as in the scripts of
#: FL-AGCNS's authors.
PLAIN = {"dropout": 0.0, "weight_decay": 0.0, "normalize_features": False}


class TrainSettings(BaseModel):
    """One training protocol for every method: optimiser, regularisation, stopping."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    protocol: Literal["regularised", "plain"] = Field(
        default="regularised",
        description="plain: no dropout, no weight decay, features as they are, "
        "unless one of them is set",
    )
    hidden: int = Field(default=64, ge=1, description="width of the hidden layers")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="dropout rate")
    lr: float = Field(default=0.01, gt=0, description="learning rate of Adam")
    weight_decay: float = Field(default=5e-4, ge=0, description="L2 penalty")
    normalize_features: bool = Field(default=True, description="scale every feature row to sum 1")
    rounds: int = Field(default=200, ge=0, description="rounds of the federation")
    patience: int = Field(
        default=0,
        ge=0,
        description="stop after so many rounds without a lower validation loss; 0: never",
    )
    select: Literal["accuracy", "loss", "last"] = Field(
        default="loss",
        description="which round's weights are kept: best validation accuracy "
        "(the loss breaks ties), lowest validation loss, or the last",
    )
    checkpoint_every: int = Field(default=25, ge=1, description="rounds between checkpoints")

    @model_validator(mode="before")
    @classmethod
    def _fill_protocol(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("protocol") == "plain":
            return {**PLAIN, **given}
        return given


class ClientsSettings(BaseModel):
    """How many clients it takes, and for how long one waits for them."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    min_clients: int = Field(default=1, ge=1, description="fewer clients than this end the run")
    secure_threshold: int = Field(
        default=0,
        ge=0,
        description="fewest clients whose sum may be revealed; 0: the secure mode's own choice",
    )
    timeout: float = Field(
        default=0, ge=0, description="seconds that a client may take for a round; 0: no limit"
    )


class FederationSettings(ClientsSettings):
    """How often and what clients exchange."""

    local_epochs: int = Field(
        default=3, ge=1, description="local epochs in a round (aggregate=parameters)"
    )
    aggregate: Literal["parameters", "gradients"] = Field(
        default="gradients",
        description="what is averaged: parameters after the local epochs, or the "
        "gradient of every epoch (FL-AGCNS, Eq. 2)",
    )
    participation: float = Field(
        default=1.0, gt=0, le=1, description="share of the clients that train in a round"
    )


class AloneSettings(TrainSettings, NetworkSettings):
    """A fixed network, trained without a federation."""


class FederatedTraining(FederationSettings, TrainSettings):
    """Any network, trained by a federation."""


class FederatedSettings(FederatedTraining, NetworkSettings):
    """A fixed network, trained by a federation."""


def model_spec(graph: ClientGraph, settings: AloneSettings | FederatedSettings) -> ModelSpec:
    """The network that the settings ask for, sized for a graph's features and classes."""
    return ModelSpec(
        family=settings.model,
        in_features=graph.num_features,
        classes=graph.classes,
        hidden=settings.hidden,
        layers=settings.layers,
        heads=settings.heads,
        hops=settings.hops or None,
        teleport=settings.teleport,
        dropout=settings.dropout,
    )
