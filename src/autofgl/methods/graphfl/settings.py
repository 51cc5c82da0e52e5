"""Settings of GraphFL, and of GraphFL with clients that configure themselves."""

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from autofgl.errors import unknown_name
from autofgl.runtime.settings import ClientsSettings, NetworkSettings, TrainSettings
from autofgl.search.genetic import Breeding

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

    model: str = Field(default="sgc", description="network family, e.g. sgc (the paper's), gcn")
    lr: float = Field(default=0.01, gt=0, description="rate of the outer step")
    normalize_features: bool = Field(
        default=False,
        description="scale every feature row to sum 1; the bias then adapts faster than the rest",
    )
    rounds: int = Field(default=100, ge=0, description="rounds of the federation")
    select: Literal["accuracy", "loss", "last"] = Field(
        default="last",
        description="which round's weights are kept: the last, best validation accuracy "
        "(the loss breaks ties), or lowest validation loss; figures after adaptation",
    )
    tasks: int = Field(default=1, ge=1, description="tasks whose mean makes an outer step")
    outer_steps: int = Field(default=1, ge=1, description="outer steps of a client in a round")
    support: int = Field(
        default=0,
        ge=0,
        description="nodes of a task to adapt to, of a client's labeled ones; 0: half of them",
    )
    query: int = Field(
        default=0, ge=0, description="nodes of a task to judge by; 0: all that are left"
    )
    inner_steps: int = Field(default=10, ge=0, description="steps of the adaptation to a task")
    inner_lr: float = Field(default=0.1, gt=0, description="rate of these steps")
    first_order: bool = Field(
        default=False, description="leave the second derivatives out of the outer step"
    )
    optimizer: Literal["adam", "sgd"] = Field(
        default="adam", description="what takes the outer step"
    )
    adapt_steps: int = Field(
        default=10, ge=0, description="steps of the adaptation before an evaluation"
    )
    adapt_lr: float = Field(default=0.0, ge=0, description="rate of these steps; 0: inner_lr")
    adapt_support: int = Field(
        default=0,
        ge=0,
        description="labeled nodes to adapt to before an evaluation; 0: all training nodes",
    )
    adapt: Literal["always", "if-better"] = Field(
        default="always",
        description="whether clients adapt in the test phase: always, or if the federation's "
        "validation accuracy is no worse with it than without",
    )
    new_clients: int = Field(
        default=0, ge=0, description="so many clients, the last, never train and only adapt"
    )
    unseen_classes: int = Field(
        default=0,
        ge=0,
        description="so many classes, chosen by the seed, are in no task: only the test phase "
        "adapts to them",
    )
    participation: float = Field(
        default=1.0, gt=0, le=1, description="share of the clients that train in a round"
    )


class GraphFLGASettings(GraphFLSettings):
    """GraphFL's settings are the environment that a client begins with (section 4.2).

    It takes its outer steps by plain gradient descent, where GraphFL has Adam: clients choose rates
    of their own, and steps of Adam on a few nodes each, as long in every weight, do not average
    well (docs/results/graphfl-ga.md). ``optimizers=adam,sgd`` leaves the choice to the clients.

    ``hidden`` is the greatest width: a client may choose a half or a quarter of it.
    """

    renamed: ClassVar[dict[str, str]] = {
        "optimiser": "optimizer",
        "optimisers": "optimizers",
    }

    optimizer: Literal["adam", "sgd"] = Field(
        default="sgd", description="what takes the outer step at first"
    )
    lr: float = Field(
        default=1.0, gt=0, description="rate of the outer step at first, of gradient descent's size"
    )
    adapt: Literal["always", "if-better"] = Field(
        default="if-better",
        description="whether clients adapt in the test phase: always, or if the federation's "
        "validation accuracy is no worse with it than without",
    )
    mode: Literal["continuous", "parallel", "threshold"] = Field(
        default="continuous",
        description="when a client evolves: in every round that it trains in, in a process beside "
        "the training, or when it is below the threshold",
    )
    searcher: Literal["genetic", "random"] = Field(
        default="genetic",
        description="how chromosomes come about; random: as many, sampled instead of bred",
    )
    population: int = Field(default=20, ge=2, description="chromosomes in a population")
    iterations: int = Field(default=10, ge=1, description="populations that a client evaluates")
    retention: float = Field(default=0.4, ge=0, le=1, description="share that lives on, the best")
    random_selection: float = Field(
        default=0.1, ge=0, le=1, description="probability with which one of the others lives on"
    )
    crossover: float = Field(
        default=0.5, ge=0, le=1, description="probability that a gene is the father's"
    )
    mutation: float = Field(default=0.2, ge=0, le=1, description="probability of a mutation")
    environment: bool = Field(
        default=True, description="whether the first population has the settings given here"
    )
    evolve_structure: bool = Field(
        default=True, description="whether the network is in the chromosome, or the rates alone"
    )
    structure_after: int = Field(
        default=5,
        ge=0,
        description="for so many rounds clients keep the shape of the environment's network: "
        "before it is trained, any other may seem better",
    )
    structure_margin: float = Field(
        default=1.0,
        ge=0,
        description="standard errors by which a network of another shape than the environment's "
        "must be better on the client's validation nodes",
    )
    equal_steps: bool = Field(
        default=True,
        description="all clients move the average equally far: as far as they wanted to on average "
        "in the last round. Otherwise those with large rates decide where it goes",
    )
    families: str = Field(
        default="sgc,gcn,appnp",
        description=f"networks that a client may choose, besides 'model': {', '.join(SLICED)}",
    )
    optimizers: str = Field(
        default="sgd",
        description=f"what may take a client's outer step, besides 'optimizer': "
        f"{', '.join(OPTIMIZERS)}; Adam's steps on a few nodes do not average well",
    )
    deepest: int = Field(default=2, ge=2, le=8, description="most layers that a client may choose")
    fitness: Literal["both", "trained", "adapted"] = Field(
        default="both",
        description="whose validation accuracy counts: the trained network's, that after "
        "adaptation as in the test phase, or the mean of both",
    )
    measure: Literal["score", "accuracy"] = Field(
        default="score",
        description="what is measured on validation nodes: accuracy, or its mean with 1 - loss / "
        "loss of guessing, which tells smaller differences",
    )
    alone: bool = Field(
        default=False,
        description="judge a trained network as it is, and not as much of its training as an "
        "average leaves",
    )
    time_weight: float = Field(
        default=0.0,
        ge=0,
        description="validation accuracy that a second of an evaluation must be worth; 0: time is "
        "free. Otherwise runs do not repeat exactly",
    )
    threshold: float = Field(
        default=0.7,
        ge=0,
        le=1,
        description="mode=threshold: a client with less validation accuracy evolves",
    )
    adopt_after: int = Field(
        default=0,
        ge=0,
        description="mode=parallel: wait for a result and adopt it so many rounds after its start, "
        "so that a run repeats exactly; 0: adopt it when it is ready",
    )

    @field_validator("model")
    @classmethod
    def _check_model(cls, model: str) -> str:
        if model not in SLICED:
            raise unknown_name("model of graphfl-ga", model, SLICED)
        return model

    @field_validator("families")
    @classmethod
    def _check_families(cls, families: str) -> str:
        for family in families.split(","):
            if family not in SLICED:
                raise unknown_name("model of graphfl-ga", family, SLICED)
        return families

    @field_validator("optimizers")
    @classmethod
    def _check_optimizers(cls, optimizers: str) -> str:
        for optimizer in optimizers.split(","):
            if optimizer not in OPTIMIZERS:
                raise unknown_name("optimizer", optimizer, OPTIMIZERS)
        return optimizers

    @property
    def breeding(self) -> Breeding:
        """How the next population comes about."""
        return Breeding(self.retention, self.random_selection, self.crossover, self.mutation)
