"""How a network is trained: the settings that methods share.

Each class here is a group of settings; a method's own class derives from the groups that it reads.
Nothing here needs torch, so that a mistake in the command line is answered at once.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from autofgl import plugins
from autofgl.errors import UserError, unknown_name
from autofgl.search.halving import RUNGS, bracket_rounds
from autofgl.secure.accountant import Releases
from autofgl.tasks.objectives import OBJECTIVES

if TYPE_CHECKING:
    from autofgl.graphs.client_graph import ClientGraph
    from autofgl.nn.models.spec import ModelSpec, OwnSpec

#: What ``protocol=plain`` means: no regularization, features as they are, as in the scripts of
#: FL-AGCNS's authors.
PLAIN = {"dropout": 0.0, "weight_decay": 0.0, "normalize_features": False}

#: Settings that a network from outside is given if it has a parameter of that name.
OWN_OPTIONS = ("hidden", "layers", "dropout", "heads")

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


class ClientsSettings(BaseModel):
    """How many clients it takes, how long the server waits for them, and what noise hides them."""

    model_config = CONFIG

    min_clients: Count = 1
    """the run ends when fewer clients than this are left"""
    secure_threshold: Whole = 0
    """fewest clients whose sum may be revealed, more than half; 0: two thirds and one more"""
    timeout: NonNegative = 0
    """seconds a client may take for a round; 0: no limit"""
    on_bad_client: Literal["drop", "end"] = "drop"
    """what becomes of the run when a client fails, refuses, or sends nonsense: it goes on without
    that client (drop), or ends"""
    combine: Literal["mean", "median", "trimmed"] = "mean"
    """how the clients' updates become one, with secure=none: their weighted mean, or the median or
    trimmed mean of each coordinate, in which every client counts the same"""
    dp_epsilon: NonNegative = 0
    """differential privacy of a whole client over the whole run, searches included: ε; 0: none"""
    dp_delta: float = Field(default=1e-5, gt=0, lt=1)
    """differential privacy: δ, which has to be less than 1 over the number of clients"""
    dp_clip: Positive = 1.0
    """differential privacy: norm that every client's update is brought to, a gradient's or that of
    the change of its weights; no round moves the weights farther than this, but for noise"""
    dp_colluders: Whole = 1
    """differential privacy: clients that may tell the server or each other their own noise"""

    @property
    def releases(self) -> Releases | None:
        """Sums that a whole run releases; none if nothing would say how large their values are."""
        return None

    @property
    def beyond_sums(self) -> str:
        """Where a run has no :attr:`releases`, what clients tell besides sums, and what to do."""
        return "what clients tell besides sums with a bound"


class AveragingSettings(BaseModel):
    """How often and what clients exchange for one common model."""

    model_config = CONFIG

    local_epochs: Count = 3
    """local epochs in a round (aggregate=parameters)"""
    aggregate: Literal["parameters", "gradients"] = "gradients"
    """what is averaged: parameters after the local epochs, or the gradient of every epoch
    (FL-AGCNS, Eq. 2)"""
    participation: float = Field(default=1.0, gt=0, le=1)
    """share of the clients that train in a round"""
    compress: Literal["auto", "none", "half", "int8"] = "auto"
    """how summed gradients travel, both ways: as they are, in about two bytes a value, or in about
    one, rounded at random; what is rounded off goes into the next round. auto: int8 in searches,
    which make many rounds, unless noise of --dp is added; none elsewhere"""
    buffers: Literal["average", "local"] = "average"
    """what becomes of a network's buffers, such as BatchNorm's running statistics: averaged as
    weights are, whole numbers rounded, or kept by each client for itself"""

    #: What ``compress=auto`` is where gradients are summed without noise.
    usual_compress: ClassVar[Literal["none", "int8"]] = "none"

    @property
    def compression(self) -> str:
        """What ``compress`` comes to."""
        if self.compress != "auto":
            return self.compress
        plain = self.aggregate == "gradients" and not getattr(self, "dp_epsilon", False)
        return self.usual_compress if plain else "none"

    @model_validator(mode="after")
    def _check_compress(self) -> Self:
        if self.compression != "none" and self.aggregate != "gradients":
            raise UserError(f"compress={self.compress} is for aggregate=gradients")
        if self.compression != "none" and getattr(self, "dp_epsilon", False):
            raise UserError(f"compress={self.compress} would round off the noise of --dp")
        return self


#: Ways of sharing that average parameters always.
LIKENESS = ("fedgta", "fed-pub")


class SharingSettings(BaseModel):
    """What clients have in common, what each has for itself, and what is evaluated."""

    model_config = CONFIG

    sharing: Literal["common", "personal", "head", "ditto", "across", "fedgta", "fed-pub"] = (
        "common"
    )
    """what clients have in common. common: one model, and edges between clients are dropped;
    personal: it is fine-tuned by each client in the end, where its own validation nodes gain by
    that; head: each client keeps a last layer of its own (FedPer); ditto: each has a model of its
    own, pulled towards the common one; across: networks convolve across clients, which send each
    other embeddings of nodes that they share an edge with; fedgta, fed-pub: each gets an average of
    the models of clients like it, which the server has to see (secure=none, and parameters are
    averaged, whatever aggregate says)"""
    share: Literal["hidden", "all", "none"] = "hidden"
    """sharing=across: whose embeddings cross: those of hidden layers, the first convolution's too,
    which peers can undo into raw features, or none"""
    refresh: Count = 1
    """sharing=across: rounds between two exchanges; more than 1 saves messages, and rounds in
    between use and report on older embeddings"""
    prox: NonNegative = 0.0
    """FedProx's μ: local epochs stay near the global weights (aggregate=parameters)"""
    ditto_pull: NonNegative = 0.1
    """sharing=ditto: how strongly own models are pulled towards the common one, λ"""
    personal_epochs: Whole = 50
    """sharing=personal: most local epochs of each fine-tuning; it ends earlier when the loss on own
    validation nodes has not improved for 10"""
    evaluate: Literal["own", "global", "local", "local-before-averaging"] = "own"
    """what figures are of. own: what the way of sharing gives a client; global: one model on all
    nodes (sharing=common); local: each client's model on its own nodes, which is what own says;
    local-before-averaging: each client's model after its local epochs and before the average, as
    OpenFGL has it (sharing=common, aggregate=parameters)"""
    compare_alone: bool = False
    """in the end every client trains alone as well, and result.json says what it gains by the
    federation; with sharing=personal it may keep that model"""
    collect_models: bool = False
    """put the clients' own models into the run folder; else they stay with the clients"""

    @property
    def way(self) -> str:
        """The way of sharing that all this asks for, by its name among a method's ways."""
        before = self.sharing == "common" and self.evaluate == "local-before-averaging"
        return "before-averaging" if before else self.sharing

    @property
    def plain_ways(self) -> bool:
        """Whether all that clients tell is what one common model takes."""
        return self.sharing == "common" and self.evaluate == "own" and not self.compare_alone


def check_sharing(settings: Any) -> None:
    """Refuse settings of sharing that contradict others.

    Raises:
        UserError: They do; the message says what to set.
    """
    gradients = settings.aggregate == "gradients" and settings.sharing not in LIKENESS
    if settings.prox and gradients:
        raise UserError(f"prox={settings.prox:g} is for local epochs: set aggregate=parameters")
    if settings.evaluate == "global" and settings.sharing != "common":
        raise UserError(
            f"sharing={settings.sharing} has no one model for evaluate=global: set evaluate=local"
        )
    if settings.evaluate == "local-before-averaging" and settings.sharing != "common":
        raise UserError(
            "evaluate=local-before-averaging is for sharing=common: others evaluate own models"
        )
    if settings.evaluate == "local-before-averaging" and gradients:
        raise UserError(
            "evaluate=local-before-averaging is for local epochs: set aggregate=parameters"
        )
    if not settings.plain_ways and getattr(settings, "dp_epsilon", False):
        raise UserError(
            "--dp covers the updates and figures of one common model: leave sharing, evaluate and "
            "compare_alone as they are"
        )


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


class AloneSettings(BatchSettings, ConsistencySettings, TrainSettings, NetworkSettings):
    """A fixed network, trained without a federation."""


class FederatedTraining(
    SharingSettings,
    AveragingSettings,
    BatchSettings,
    ConsistencySettings,
    ClientsSettings,
    TrainSettings,
):
    """Any network, trained by a federation."""

    discloses: ClassVar[dict[str, Any]] = {
        "collect_models": True, "sharing": "across", "share": "all",
    }  # fmt: skip

    dp_clip: Positive = 10.0
    """differential privacy: norm that every client's update is brought to, a gradient's or that of
    the change of its weights; no round moves the weights farther than this, but for noise"""

    @property
    def releases(self) -> Releases | None:
        """An update in every round, and figures once, at the end."""
        return None if self.beyond_sums else Releases(self.rounds, 1)

    @property
    def beyond_sums(self) -> str:
        """Rows of nodes: they are in the updates of others, which no bound on one's own covers."""
        if self.sharing == "across":
            return "the rows that clients show each other: leave sharing=across out"
        return ""

    @model_validator(mode="after")
    def _check_ways(self) -> Self:
        check_sharing(self)
        return self


class FederatedSettings(FederatedTraining, NetworkSettings):
    """A fixed network, trained by a federation."""


def own_code(settings: Any) -> dict[str, str]:
    """Names of what settings ask for from outside the package, and what it is to be."""
    from autofgl.nn.models.spec import FAMILIES

    model = getattr(settings, "model", None)
    models = {model: "model"} if isinstance(model, str) and model not in FAMILIES else {}
    return {**models, **dict.fromkeys((own_layers(settings) or {}).values(), "layer")}


def own_layers(settings: Any) -> dict[str, str] | None:
    """Layers from outside the package in the search space of settings: their homes by name."""
    from autofgl.nn.space import own_types

    types = getattr(settings, "types", None)
    return (own_types(types.split(",")) or None) if isinstance(types, str) else None


def model_spec(graph: "ClientGraph", settings: Any) -> "ModelSpec | OwnSpec":
    """The network that :class:`NetworkSettings` ask for, sized for a graph."""
    from autofgl.nn.models.spec import FAMILIES, OwnSpec

    if settings.model not in FAMILIES:
        options = {name: getattr(settings, name) for name in OWN_OPTIONS}
        fields = type(settings).model_fields
        changed = [name for name, value in options.items() if value != fields[name].default]
        return OwnSpec(settings.model, graph.num_features, graph.classes, options, changed)
    return family_spec(graph, settings)


def family_spec(graph: "ClientGraph", settings: Any) -> "ModelSpec":
    """The same, where it is one of our families."""
    from autofgl.nn.models.spec import ModelSpec

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
