"""How a network is trained: the settings that methods share.

Each class here is a group of settings; a method's own class derives from the groups that it reads.
Nothing here needs torch, so that a mistake in the command line is answered at once.
"""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.spec import ModelSpec

#: What ``protocol=plain`` means: no regularization, features as they are, as in the scripts of
#: FL-AGCNS's authors.
PLAIN = {"dropout": 0.0, "weight_decay": 0.0, "normalize_features": False}

_CONFIG = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class NetworkSettings(BaseModel):
    """Which fixed network is trained."""

    model_config = _CONFIG

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


class TrainSettings(BaseModel):
    """One training protocol for every method: optimizer, regularization, stopping."""

    model_config = _CONFIG

    #: Old name of a setting → its present one, and old value → present one by setting.
    renamed: ClassVar[dict[str, str]] = {}
    renamed_values: ClassVar[dict[str, dict[str, str]]] = {
        "protocol": {"regularised": "regularized"}
    }

    protocol: Literal["regularized", "plain"] = Field(
        default="regularized",
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
        description="stop early when the validation loss has not improved for so many rounds; "
        "0: never",
    )
    select: Literal["accuracy", "loss", "last"] = Field(
        default="loss",
        description="which round's weights are kept: best validation accuracy "
        "(the loss breaks ties), lowest validation loss, or the last",
    )
    checkpoint_every: int = Field(default=25, ge=1, description="rounds between checkpoints")

    @model_validator(mode="before")
    @classmethod
    def _present_names(cls, given: Any) -> Any:
        """Old names and values, then what the protocol says of settings that are not given."""
        if not isinstance(given, dict):
            return given
        given = {cls.renamed.get(key, key): value for key, value in given.items()}
        for key, values in cls.renamed_values.items():
            if isinstance(given.get(key), str):
                given[key] = values.get(given[key], given[key])
        return {**PLAIN, **given} if given.get("protocol") == "plain" else given


class ClientsSettings(BaseModel):
    """How many clients it takes, and for how long the server waits for them."""

    model_config = _CONFIG

    min_clients: int = Field(default=1, ge=1, description="fewer clients than this end the run")
    secure_threshold: int = Field(
        default=0,
        ge=0,
        description="fewest clients whose sum may be revealed; 0: the secure mode's own choice",
    )
    timeout: float = Field(
        default=0, ge=0, description="seconds that a client may take for a round; 0: no limit"
    )


class AveragingSettings(BaseModel):
    """How often and what clients exchange for one common model."""

    model_config = _CONFIG

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


class TrialSettings(BaseModel):
    """How many candidates are tried, for how long, and how they are compared.

    ``rounds`` counts the final training only.
    """

    model_config = _CONFIG

    candidates: int = Field(default=200, ge=1, description="networks that are tried")
    candidate_rounds: int = Field(
        default=50, ge=1, description="rounds that each of them is trained for"
    )
    finalists: int = Field(
        default=3,
        ge=1,
        description="best networks that are trained to the end; federated validation picks one",
    )
    fitness: Literal["loss", "accuracy"] = Field(
        default="accuracy",
        description="what networks are compared by on validation nodes; of equally accurate "
        "ones the lower loss is better",
    )


class AloneSettings(TrainSettings, NetworkSettings):
    """A fixed network, trained without a federation."""


class FederatedTraining(AveragingSettings, ClientsSettings, TrainSettings):
    """Any network, trained by a federation."""


class FederatedSettings(FederatedTraining, NetworkSettings):
    """A fixed network, trained by a federation."""


def model_spec(graph: ClientGraph, settings: Any) -> ModelSpec:
    """The network that :class:`NetworkSettings` ask for, sized for a graph."""
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
