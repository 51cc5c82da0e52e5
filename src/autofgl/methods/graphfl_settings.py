"""Settings of GraphFL."""

from typing import Literal

from pydantic import Field

from autofgl.methods.settings import AloneSettings, ClientsSettings


class GraphFLSettings(ClientsSettings, AloneSettings):
    """Meta-learning at the clients, averaging, and adaptation in the test phase.

    The rate of the outer step is ``lr``, as the optimiser's rate is in every method.
    """

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
        description="nodes of a task to adapt to, of a client's labelled ones; 0: half of them",
    )
    query: int = Field(
        default=0, ge=0, description="nodes of a task to judge by; 0: all that are left"
    )
    inner_steps: int = Field(default=10, ge=0, description="steps of the adaptation to a task")
    inner_lr: float = Field(default=0.1, gt=0, description="rate of these steps")
    first_order: bool = Field(
        default=False, description="leave the second derivatives out of the outer step"
    )
    optimiser: Literal["adam", "sgd"] = Field(
        default="adam", description="what takes the outer step"
    )
    adapt_steps: int = Field(
        default=10, ge=0, description="steps of the adaptation before an evaluation"
    )
    adapt_lr: float = Field(default=0.0, ge=0, description="rate of these steps; 0: inner_lr")
    adapt_support: int = Field(
        default=0,
        ge=0,
        description="labelled nodes to adapt to before an evaluation; 0: all training nodes",
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
        description="so many classes, drawn by the seed, are in no task: only the test phase "
        "adapts to them",
    )
    participation: float = Field(
        default=1.0, gt=0, le=1, description="share of the clients that train in a round"
    )
