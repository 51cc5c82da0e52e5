"""Settings of the searches that train every candidate from scratch."""

from typing import Literal

from pydantic import Field

from autofgl.methods.search_settings import SpaceSettings


class CandidateSettings(SpaceSettings):
    """How many networks are tried, for how long, and how they are compared.

    ``rounds`` counts the final training only.
    """

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


class RLSettings(CandidateSettings):
    """What the agent of Q-learning remembers, and how fast it learns."""

    memory: int = Field(
        default=1, ge=0, le=3, description="previous genes that a state of the agent holds"
    )
    rate: float = Field(
        default=0.1, gt=0, le=1, description="learning rate of the agent's Bellman updates"
    )
    replay: int = Field(
        default=128, ge=0, description="tried networks that are learned from again after each one"
    )
