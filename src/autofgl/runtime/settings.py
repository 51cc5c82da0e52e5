"""How a network is trained: the settings that methods share.

Each class here is a group of settings; a method's own class derives from the groups that it reads.
Nothing here needs torch, so that a mistake in the command line is answered at once.
"""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from autofgl import plugins
from autofgl.errors import UserError, unknown_name
from autofgl.tasks.objectives import OBJECTIVES

#: What ``protocol=plain`` means: no regularization, features as they are, as in the scripts of
#: FL-AGCNS's authors.
PLAIN = {"dropout": 0.0, "weight_decay": 0.0, "normalize_features": False}

Count: TypeAlias = Annotated[int, Field(ge=1)]
Whole: TypeAlias = Annotated[int, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]
NonNegative: TypeAlias = Annotated[float, Field(ge=0)]

#: The text below a setting is its description, in ``autofgl methods NAME`` and in the docs.
CONFIG = ConfigDict(
    frozen=True, extra="forbid", protected_namespaces=(), use_attribute_docstrings=True
)


class NetworkSettings(BaseModel):
    """Which fixed network is trained."""

    model_config = CONFIG

    model: str = "gcn"
    """network family, e.g. gcn, gat, sage, appnp; or your own nn.Module with forward(x, edge_index)
    as file.py:Class, module:Class or the name of a plug-in"""
    layers: int = Field(default=2, ge=1, le=16)
    """number of layers, where the family has a choice"""
    heads: Count = 8
    """attention heads (gat)"""
    hops: Whole = 0
    """propagation steps (sgc, appnp, grand); 0: the family's own"""
    teleport: Share = 0.1
    """APPNP's share of the input, alpha"""

    @field_validator("model")
    @classmethod
    def _check_family(cls, model: str) -> str:
        from autofgl.nn.models.spec import FAMILIES  # here: it takes NumPy

        if model not in FAMILIES and not plugins.is_known("model", model):
            plugins.check_named("model", model)
            raise unknown_name("model", model, [*FAMILIES, *plugins.entry_points("model")])
        return model


class ServerData(NamedTuple):
    """Data that the server itself is to have: a graph file, or else a share of all nodes."""

    share: float = 0.0
    file: str = ""


class TrainSettings(BaseModel):
    """One training protocol for every method: optimizer, regularization, stopping."""

    model_config = CONFIG

    #: Old name of a setting → its present one, and old value → present one by setting.
    renamed: ClassVar[dict[str, str]] = {}
    renamed_values: ClassVar[dict[str, dict[str, str]]] = {
        "protocol": {"regularised": "regularized"}
    }
    #: Settings by which others get to see more of a client than its part of sums, each with the
    #: value that does it: a site's policy must allow them by name.
    discloses: ClassVar[dict[str, Any]] = {}
    #: Settings that a site turns down by itself, the run going on without: what its policy has to
    #: allow for them, and the value that they have otherwise.
    declines: ClassVar[dict[str, tuple[str, Any]]] = {}
    #: Settings that are the server's own affair, such as names of its files: no site reads them.
    server_only: ClassVar[tuple[str, ...]] = ()

    #: What settings are that are not given, with an objective other than accuracy.
    by_objective: ClassVar[dict[str, str]] = {"select": "objective"}

    protocol: Literal["regularized", "plain"] = "regularized"
    """plain: no dropout, no weight decay, features as they are, unless one of them is set"""
    hidden: Count = 64
    """width of the hidden layers"""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """dropout rate"""
    lr: Positive = 0.01
    """learning rate of Adam"""
    weight_decay: NonNegative = 5e-4
    """L2 penalty"""
    decoupled: bool = False
    """decay the weights apart from the gradient, as AdamW does, instead of by an L2 penalty"""
    init: Whole = 0
    """which draw of the initial weights: another number, other weights from the same seed"""
    normalize_features: Literal["unit"] | bool = "unit"
    """unit: scale the features of each node to length 1; true: to sum to 1, which makes rows of
    many entries very small; false: as they are"""
    rounds: Whole = 200
    """rounds of the federation"""
    patience: Whole = 0
    """stop early when validation loss has not improved for this many rounds; 0: never"""
    select: Literal["objective", "accuracy", "loss", "last"] = "loss"
    """which round's weights are kept: best objective or accuracy on validation nodes (the loss
    breaks ties), lowest validation loss, or the last; with an objective other than accuracy, that
    is the default"""
    objective: Literal[
        "accuracy", "balanced_accuracy", "macro_f1", "auroc", "average_precision"
    ] = "accuracy"
    """what rounds and searches are judged by on validation nodes; with two classes, auroc and
    average_precision are those of class 1, with more the mean over classes against the rest"""
    loss: Literal["cross_entropy", "focal"] = "cross_entropy"
    """what is minimized; reported losses are the same"""
    focal_gamma: NonNegative = 2.0
    """loss=focal: how much less nodes count that are classified well"""
    class_weight: Literal["none", "balanced"] = "none"
    """balanced: every class weighs the same in the loss, whatever its share of all clients'
    training nodes, which are counted by a sum"""
    score_bins: int = Field(default=8192, ge=0, le=1 << 20)
    """cells of the histograms of scores, all classes together, from which auroc and
    average_precision follow; 0: no histograms and no such figures"""
    checkpoint_every: Count = 25
    """rounds between checkpoints"""

    @property
    def server_data(self) -> ServerData:
        """Data at the server; most methods have no use for any."""
        return ServerData()

    @property
    def total_rounds(self) -> int:
        """Rounds of a whole run at most, those of its search included."""
        return self.rounds

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
        if given.get("objective", "accuracy") != "accuracy":
            given = {**cls.by_objective, **given}
        return {**PLAIN, **given} if given.get("protocol") == "plain" else given

    @model_validator(mode="after")
    def _check_objective(self) -> Self:
        """Refuse an objective without what it is made of, and what no noise would cover."""
        if OBJECTIVES[self.objective] == "scores" and not self.score_bins:
            raise UserError(f"objective={self.objective} needs score_bins, which is 0")
        if getattr(self, "dp_epsilon", 0):
            for key in ("objective", "class_weight"):
                if getattr(self, key) != type(self).model_fields[key].default:
                    raise UserError(
                        f"{key}={getattr(self, key)} needs counts that differential privacy "
                        "leaves out: run without --dp"
                    )
        return self


class BatchSettings(BaseModel):
    """Mini-batches of nodes, each with a sample of its neighborhood."""

    model_config = CONFIG

    batch: Whole = 0
    """training nodes in a mini-batch; 0: all at once. Local epochs go through all batches; a round
    that averages gradients takes the next one"""
    fanout: str = ""
    """neighbors that a node draws at each hop of a mini-batch, such as 10,10; the last number goes
    on for networks that look farther, and 0 (or none given) stands for all"""

    @field_validator("fanout", mode="before")
    @classmethod
    def _check_fanout(cls, given: Any) -> str:
        parts = given if isinstance(given, list | tuple) else str(given).split(",")
        words = [str(part).strip() for part in parts]
        if words != [""] and not all(word.isascii() and word.isdigit() for word in words):
            raise ValueError("give a number of neighbors for each hop, such as 10,10")
        return ",".join(words)

    @field_validator("fanout")
    @classmethod
    def _check_batch(cls, fanout: str, info: ValidationInfo) -> str:
        if fanout and info.data.get("batch") == 0:
            raise ValueError("it samples the neighbors of mini-batches: give batch=1024, say")
        return fanout

    def fanouts(self, hops: int | None) -> list[int]:
        """Neighbors to draw at each of so many hops, 0 for all; where nobody knows how many hops
        there are, as many as are given, or two.
        """
        given = [int(word) for word in self.fanout.split(",") if word]
        hops = (len(given) or 2) if hops is None else hops
        given = given or [0]
        return (given + given[-1:] * hops)[:hops]


class ConsistencySettings(BaseModel):
    """Unlabeled nodes take part in training: a network is to say the same of a node twice."""

    model_config = CONFIG

    consistency: NonNegative = 0.0
    """weight of the loss by which two passes with unlike dropout are to agree at all own nodes,
    labeled or not (GRAND); helps where few nodes have labels, and takes twice as long; 0: off"""
    node_dropout: float = Field(default=0.5, ge=0, lt=1)
    """consistency: share of the nodes whose features are dropped in a pass, each time others"""


class AloneSettings(BatchSettings, ConsistencySettings, TrainSettings, NetworkSettings):
    """A fixed network, trained without a federation."""
