"""How clients train together: the settings that federated methods share."""

from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from autofgl.errors import UserError
from autofgl.runtime.settings import (
    CONFIG,
    BatchSettings,
    ConsistencySettings,
    Count,
    NetworkSettings,
    NonNegative,
    Positive,
    TrainSettings,
    Whole,
)
from autofgl.secure.accountant import Releases


class ClientsSettings(BaseModel):
    """How many clients it takes, how long the server waits for them, and what noise hides them."""

    model_config = CONFIG

    min_clients: Count = 1
    """the run ends when fewer clients than this are left"""
    secure_threshold: Whole = 0
    """fewest clients whose sum may be revealed, more than half; 0: two thirds and one more"""
    secure_together: Count = 1
    """secure=shares: clients sum in fixed sets of so many, and no sum is of a part of a set, so
    that no two sums differ by fewer clients, whatever the round; a client that is lost takes its
    set out of the sums until it is back. 1: each may be lost alone"""
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

    sharing: Literal[
        "common", "personal", "head", "encoder", "ditto", "across", "fedgta", "fed-pub"
    ] = "common"
    """what clients have in common. common: one model, and edges between clients are dropped;
    personal: it is fine-tuned by each client in the end, where its own validation nodes gain by
    that; head: each client keeps a last layer of its own (FedPer); encoder: each keeps all layers
    but the last (LG-FedAvg); ditto: each has a model of its own, pulled towards the common one;
    across: networks convolve across clients, which send each other embeddings of nodes that they
    share an edge with; fedgta, fed-pub: each gets an average of the models of clients like it,
    which the server has to see (secure=none, and parameters are averaged, whatever aggregate
    says)"""
    share: Literal["hidden", "all", "none"] = "hidden"
    """sharing=across: whose embeddings cross: those of hidden layers, the first convolution's too,
    which peers can undo into raw features, or none"""
    refresh: Count = 1
    """sharing=across: rounds between two exchanges; more than 1 saves messages, and rounds in
    between use and report on older embeddings"""
    backward: bool = False
    """sharing=across: gradients with respect to embeddings go back to their owners, so that clients
    train as on the uncut graph; owners can tell labels of nodes next to theirs by them, and it
    takes another exchange for every hop"""
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
    OpenFGL has it (sharing=common with aggregate=parameters, fedgta, fed-pub); of the latter two it
    is what a client keeps, as in their papers"""
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
    averaging = settings.sharing in ("common", *LIKENESS)
    if settings.evaluate == "local-before-averaging" and not averaging:
        raise UserError(
            "evaluate=local-before-averaging is for sharing=common, fedgta and fed-pub: others "
            "evaluate own models"
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
        "collect_models": True, "sharing": "across", "share": "all", "backward": True,
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
