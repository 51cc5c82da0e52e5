"""Settings of GraphFL, and of GraphFL with clients that configure themselves."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from autofgl.errors import UserError, unknown_name
from autofgl.runtime.federated_settings import ClientsSettings
from autofgl.runtime.settings import (
    Count,
    NetworkSettings,
    NonNegative,
    Positive,
    ServerData,
    Share,
    TrainSettings,
    Whole,
)
from autofgl.search.genetic import Breeding
from autofgl.secure.accountant import Releases

#: Networks whose parameters are slices of a wider one of their kind. Those of gat are not: its
#: width is divided among heads.
SLICED = ("sgc", "gcn", "sage", "appnp")
#: What takes an outer step.
OPTIMIZERS = ("adam", "sgd")


class GraphFLSettings(ClientsSettings, TrainSettings, NetworkSettings):
    """Meta-learning at the clients, averaging, and adaptation in the test phase.

    The rate of the outer step is ``lr``, as the optimizer's rate is in every method.
    """

    renamed: ClassVar[dict[str, str]] = {"optimiser": "optimizer"}
    server_only: ClassVar[tuple[str, ...]] = (
        "test_phase", "server_share", "server_graph", "server_labels",
    )  # fmt: skip

    model: str = "sgc"
    """network family, e.g. sgc (the paper's), gcn"""
    lr: Positive = 0.01
    """rate of the outer step"""
    normalize_features: Literal["unit"] | bool = False
    """scale the features of each node to sum to 1; the bias then adapts faster than the rest"""
    rounds: Whole = 100
    """rounds of the federation"""
    select: Literal["objective", "accuracy", "loss", "last"] = "last"
    """which round's weights are kept: the last, best objective or accuracy on validation nodes (the
    loss breaks ties), or lowest validation loss; figures after adaptation"""
    tasks: Count = 1
    """tasks whose mean makes an outer step"""
    outer_steps: Count = 1
    """outer steps of a client in a round"""
    support: Whole = 0
    """nodes of a task to adapt to, of a client's labeled ones; 0: half of them"""
    query: Whole = 0
    """nodes of a task to judge by; 0: all that are left"""
    inner_steps: Whole = 10
    """steps of the adaptation to a task"""
    inner_lr: Positive = 0.1
    """rate of these steps"""
    first_order: bool = False
    """leave the second derivatives out of the outer step"""
    optimizer: Literal["adam", "sgd"] = "adam"
    """what takes the outer step"""
    adapt_steps: Whole = 10
    """steps of the adaptation before an evaluation"""
    adapt_lr: NonNegative = 0.0
    """rate of these steps; 0: inner_lr"""
    adapt_support: Whole = 0
    """labeled nodes to adapt to before an evaluation; 0: all training nodes"""
    adapt: Literal["always", "if-better"] = "always"
    """whether clients adapt in the test phase: always, or if the federation's validation accuracy
    is no worse with it than without"""
    new_clients: Whole = 0
    """number of clients, the last ones, that never train and only adapt"""
    unseen_classes: Whole = 0
    """number of classes, chosen by the seed, that only the test phase adapts to"""
    participation: float = Field(1.0, gt=0, le=1)
    """share of the clients that train in a round"""
    test_phase: Literal["clients", "server", "both"] = "clients"
    """where the last model is tested: at the clients, which adapt it to their own labels each; at
    the server, which adapts it to a few labels of nodes of its own, as in the papers; or at both.
    test_accuracy is the clients' figure unless it is server"""
    server_share: float = Field(0.0, ge=0, lt=1)
    """test_phase=server, both: share of the nodes that the server keeps from all clients"""
    server_graph: str = ""
    """test_phase=server, both: graph file of the server, where sites have their own"""
    server_labels: Count = 5
    """test_phase=server, both: labeled nodes of each class that the server adapts to; it tests on
    its others"""

    @model_validator(mode="after")
    def _check_test_phase(self) -> Self:
        has, tests = bool(self.server_share or self.server_graph), self.test_phase != "clients"
        if tests and not has:
            raise UserError(
                f"test_phase={self.test_phase} needs nodes that the server has: set server_share "
                "or server_graph"
            )
        if has and not tests:
            raise UserError("server_share and server_graph are for test_phase=server or both")
        return self

    @property
    def server_data(self) -> ServerData:
        """The nodes or the graph that the server tests on."""
        return ServerData(self.server_share, self.server_graph)

    @property
    def releases(self) -> Releases | None:
        """An update in every round, and figures once, at the end."""
        return Releases(self.rounds, 1)


class GraphFLGASettings(GraphFLSettings):
    """GraphFL's settings are the environment that a client begins with (section 4.2).

    It takes its outer steps by plain gradient descent, where GraphFL has Adam: clients choose rates
    of their own, and steps of Adam on a few nodes each, as long in every weight, do not average
    well (docs/results/graphfl-ga.md). ``optimizers=adam,sgd`` leaves the choice to the clients.

    ``hidden`` is the greatest width: a client may choose a half or a quarter of it.
    """

    renamed: ClassVar[dict[str, str]] = {"optimiser": "optimizer", "optimisers": "optimizers"}
    discloses: ClassVar[dict[str, Any]] = {"mode": "threshold"}

    @property
    def releases(self) -> Releases | None:
        """As GraphFL; None if clients say in the clear who is below the threshold."""
        return None if self.beyond_sums else super().releases

    @property
    def beyond_sums(self) -> str:
        """Who is below the threshold."""
        if self.mode == "threshold":
            return "which clients are below the threshold: set mode=continuous or parallel"
        return ""

    optimizer: Literal["adam", "sgd"] = "sgd"
    """what takes the outer step at first"""
    lr: Positive = 3.0
    """rate of the outer step at first, of gradient descent's size"""
    adapt: Literal["always", "if-better"] = "if-better"
    """whether clients adapt in the test phase: always, or if the federation's validation accuracy
    is no worse with it than without"""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """dropout rate, of all clients; with any, trials of linear networks are made one by one"""
    common_rate: bool = True
    """rate and optimizer of the outer step are the same for all: in every round clients vote by the
    loss on validation nodes that the last step would have led to with other rates; false: genes of
    each client"""
    horizon: Count = 3
    """rounds that a chromosome is judged after: its training goes on, and the others move the
    average as they did in the last round"""
    mode: Literal["continuous", "parallel", "threshold"] = "continuous"
    """when a client evolves: in every round that it trains in, in a process beside the training, or
    when it is below the threshold"""
    searcher: Literal["genetic", "random"] = "genetic"
    """how chromosomes come about; random: as many, sampled instead of bred"""
    population: int = Field(20, ge=2)
    """chromosomes in a population"""
    iterations: Count = 10
    """populations that a client evaluates"""
    retention: Share = 0.4
    """share that lives on, the best"""
    random_selection: Share = 0.1
    """probability with which one of the others lives on"""
    crossover: Share = 0.5
    """probability that a gene is the father's"""
    mutation: Share = 0.2
    """probability of a mutation"""
    environment: bool = True
    """whether the first population has the settings given here"""
    evolve_structure: bool = True
    """whether the network is in the chromosome, or the rates alone"""
    structure_after: Whole = 5
    """for this many rounds clients keep the shape of the environment's network: before it is
    trained, any other may seem better"""
    structure_margin: NonNegative = 1.0
    """standard errors by which a network of another shape than the environment's must be better on
    the client's validation nodes"""
    equal_steps: bool = True
    """all clients move the average equally far: as far as they wanted to on average in the last
    round. Otherwise those with large rates decide where it goes"""
    families: str = Field(
        default="sgc",
        description=f"networks that a client may choose, besides 'model': {', '.join(SLICED)}; "
        "sgc,gcn,appnp is the paper's choice, and takes about four times as long",
    )
    optimizers: str = Field(
        default="sgd",
        description=f"what may take a client's outer step, besides 'optimizer': "
        f"{', '.join(OPTIMIZERS)}; Adam's steps on a few nodes do not average well",
    )
    deepest: int = Field(2, ge=2, le=8)
    """most layers that a client may choose"""
    fitness: Literal["both", "trained", "adapted"] = "both"
    """whose validation accuracy counts: the trained network's, that after adaptation as in the test
    phase, or the mean of both"""
    measure: Literal["score", "accuracy"] = "score"
    """what is measured on validation nodes: accuracy, or its mean with 1 - loss / loss of guessing,
    which tells smaller differences"""
    alone: bool = False
    """judge a trained network as it is, and not as much of its training as an average leaves"""
    time_weight: NonNegative = 0.0
    """validation accuracy that a second of an evaluation must be worth; 0: time is free. Otherwise
    runs do not repeat exactly"""
    threshold: Share = 0.7
    """mode=threshold: a client with less validation accuracy evolves"""
    adopt_after: Whole = 0
    """mode=parallel: wait for a result and adopt it this many rounds after its start, so that a run
    repeats exactly; 0: adopt it when it is ready"""

    @field_validator("combine")
    @classmethod
    def _check_combine(cls, combine: str) -> str:
        if combine != "mean":
            raise ValueError("clients' networks differ here, and have no median: use combine=mean")
        return combine

    @field_validator("model", "families", "optimizers")
    @classmethod
    def _check_names(cls, text: str, info: ValidationInfo) -> str:
        optimizers = info.field_name == "optimizers"
        choices = OPTIMIZERS if optimizers else SLICED
        for name in text.split(","):
            if name not in choices:
                what = "optimizer" if optimizers else "model of graphfl-ga"
                raise unknown_name(what, name, choices)
        return text

    @property
    def breeding(self) -> Breeding:
        """How the next population comes about."""
        return Breeding(self.retention, self.random_selection, self.crossover, self.mutation)
