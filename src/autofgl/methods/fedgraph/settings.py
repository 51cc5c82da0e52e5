"""Settings of FedGraph, and which of its rounds they spend on what."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from autofgl.runtime.federated_settings import ClientsSettings
from autofgl.runtime.settings import (
    Count,
    NonNegative,
    Positive,
    ServerData,
    Share,
    TrainSettings,
    Whole,
)
from autofgl.secure.accountant import Releases

Phase = Literal["profile", "episode", "train"]


class FedGraphSettings(ClientsSettings, TrainSettings):
    """The paper's training (section 5.1), its sampling, and the learning of the latter."""

    discloses: ClassVar[dict[str, Any]] = {"share": "all"}
    server_only: ClassVar[tuple[str, ...]] = ("policy", "server_graph", "server_share")

    hidden: Count = 16
    """width of the hidden layers"""
    weight_decay: NonNegative = 0.0
    """L2 penalty; Adam makes a full step of it wherever a client's own gradient is zero, as with
    features that none of its nodes has"""
    normalize_features: Literal["unit"] | bool = False
    """scale the features of each node to length 1 (unit) or to sum to 1 (true); a word that few
    clients have moves by a fraction of 'lr' in a round, and small features then take thousands of
    rounds"""
    layers: int = Field(2, ge=1, le=8)
    """number K of graph convolutions"""
    rounds: Whole = 300
    """rounds of the federation"""
    iterations: Count = 1
    """mini-batches of a client in a round, each with an exchange"""
    evaluate_every: Count = 1
    """rounds between two evaluations of the clients' nodes"""
    share: Literal["hidden", "all", "none"] = "hidden"
    """whose embeddings count across clients: those of hidden layers (the paper's), the first
    convolution's too, or none; with 'all' peers rebuild the raw features of nodes that they share
    an edge with, with 'hidden' a part of them (see autofgl audit)"""
    sampler: Literal["ddpg", "full", "sage", "fastgcn", "fixed"] = "full"
    """who says what is sampled: a learned policy, nobody (full batch), GraphSAGE, FastGCN, or
    'keep'"""
    batch: Count = 256
    """labeled nodes in a client's mini-batch"""
    keep: str = "0.5"
    """fixed: probability to keep a neighbor, one for all convolutions or one each"""
    fanouts: str = "10,25"
    """sage: neighbors of a node in each convolution, first to last"""
    layer_size: Count = 256
    """fastgcn: nodes sampled per convolution"""
    policy: str = ""
    """ddpg: file with a policy that was learned before; else it is learned"""
    episodes: Count = 12
    """ddpg: trainings to learn from"""
    episode_rounds: Count = 40
    """ddpg: rounds of each of them"""
    profile_rounds: int = Field(40, ge=2)
    """ddpg: rounds before the first of them, from which scales of state and reward are taken"""
    profile: Literal["full", "random"] = "full"
    """ddpg: policies of these rounds. full: the largest samples; the reward is relative to them, Λ
    in each round to their accuracy in the same round, the penalty to their cost; random: as in the
    paper, where the target accuracy is given and the penalty is that of random policies"""
    warm_up: Whole = 4
    """ddpg: first episodes, each with a random policy of its own; half of all at most"""
    judged: Whole = 4
    """ddpg: last episodes, which play without noise what is to be kept: the best random policy of
    the warm-up, the actor of the best episode, the last actor, the largest samples; 0: the actor of
    the best episode is kept, by a return with noise"""
    horizon: bool = True
    """ddpg: episodes end, and the state says how much of one is over; false: as in the paper, where
    every round is followed by another"""
    target_accuracy: Share = 0.9
    """ddpg: accuracy Λ that the reward aims at (Eq. 9), with profile=random"""
    omega: float = Field(128.0, gt=1)
    """ddpg: base Ω of the reward (Eq. 9)"""
    penalty: Positive = 0.5
    """ddpg: penalty α(δ-β) of the largest samples, or with profile=random of a random policy on
    average; the paper has about 1 for the latter"""
    delta: Literal["cost", "time"] = "cost"
    """ddpg: δ of the reward: sampled edges times width, the same in every run, or seconds"""
    noise: float = Field(0.3, ge=0.02)
    """ddpg: exploration in the first episode"""
    noise_decay: float = Field(0.93, gt=0, le=1)
    """ddpg: factor of the exploration from one to the next"""
    learn_steps: Count = 2
    """ddpg: mini-batches learned in a round"""
    actor_lr: Positive = 3e-4
    """ddpg: learning rate of the actor"""
    soft_update: float = Field(0.02, gt=0, le=1)
    """ddpg: φ, how fast the target networks follow"""
    critic_weight_decay: NonNegative = 0.0
    """ddpg: L2 penalty of the critic; with the 0.01 of the authors' code it barely tells actions
    apart"""
    server_share: float = Field(0.0, ge=0, lt=1)
    """share of the nodes that the server keeps from all clients to judge by; 0: federated
    validation"""
    server_graph: str = ""
    """graph file of the server to judge by, where sites have their own"""

    dp_rows_epsilon: NonNegative = 0
    """differential privacy of each row that a peer is shown, over the whole run: ε; 0: none"""
    dp_rows_clip: Positive = 1.0
    """differential privacy: longer rows are scaled down to this norm"""

    @property
    def releases(self) -> Releases | None:
        """An update in every round, and figures once, at the end.

        None if rows are shared: a client's rows are in the updates of others, which no bound on its
        own covers; nor with a learned policy, which asks for more than sums of updates.
        """
        alone = self.share == "none" and self.sampler != "ddpg" and not self.server_share
        return Releases(self.rounds, 1) if alone else None

    @property
    def rows_of_a_node(self) -> int:
        """How often a run shows a row of a node to peers at most."""
        shared = {"all": self.layers, "hidden": self.layers - 1, "none": 0}[self.share]
        schedule = Schedule.of(self)
        passes = (schedule.learning + schedule.training) * self.iterations
        evaluations = schedule.learning + -(-self.rounds // self.evaluate_every) + 2
        return max(shared * (passes + evaluations), 1)

    @field_validator("keep", "fanouts", mode="before")
    @classmethod
    def _one_number(cls, given: Any) -> Any:
        """One number for all convolutions need not be in quotes."""
        return str(given) if isinstance(given, int | float) else given

    @field_validator("keep", "fanouts")
    @classmethod
    def _check_numbers(cls, text: str, info: ValidationInfo) -> str:
        values = _numbers(text)
        if info.field_name == "keep" and not all(0 < value <= 1 for value in values):
            raise ValueError("probabilities lie in (0, 1]")
        if info.field_name == "fanouts" and not all(v >= 1 and v == int(v) for v in values):
            raise ValueError("fanouts are whole numbers from 1 on")
        return text

    @property
    def server_data(self) -> ServerData:
        """The nodes or the graph that the server judges by."""
        return ServerData(self.server_share, self.server_graph)

    @property
    def total_rounds(self) -> int:
        """Rounds of learning to sample, then those of the training."""
        schedule = Schedule.of(self)
        return schedule.learning + schedule.training

    @property
    def keep_by_layer(self) -> list[float]:
        """Probability of each convolution; the last one given stands for those that follow."""
        return _one_each(_numbers(self.keep), self.layers)

    @property
    def fanout_by_layer(self) -> list[int]:
        """Neighbors in each convolution; the last number given stands for those that follow."""
        return [int(value) for value in _one_each(_numbers(self.fanouts), self.layers)]


@dataclass
class Schedule:
    """Rounds from 1 on: ``learning``, of which the first ``profile``, and then ``training``."""

    profile: int
    learning: int
    episode_rounds: int
    training: int

    @classmethod
    def of(cls, settings: FedGraphSettings) -> "Schedule":
        """What the settings ask for; only a policy that is not given has to be learned."""
        learns = settings.sampler == "ddpg" and not settings.policy
        profile = settings.profile_rounds if learns else 0
        learning = profile + settings.episodes * settings.episode_rounds if learns else 0
        return cls(profile, learning, settings.episode_rounds, settings.rounds)

    def phase(self, at: int) -> Phase:
        """What a round is for."""
        if at <= self.profile:
            return "profile"
        return "episode" if at <= self.learning else "train"

    def episode(self, at: int) -> tuple[int, int]:
        """Number of a round's episode and of the round in it, both from 1 on."""
        before, within = divmod(at - self.profile - 1, self.episode_rounds)
        return before + 1, within + 1

    def begins_afresh(self, at: int) -> bool:
        """Whether a round starts from the initial weights."""
        begins_episode = self.phase(at) == "episode" and self.episode(at)[1] == 1
        return begins_episode or at in (1, self.learning + 1)

    def name(self, at: int) -> str:
        """Names a round for its random draws: the same with or without learning before it."""
        phase = self.phase(at)
        return f"{phase}-{at - self.learning if phase == 'train' else at}"

    def hurry(self, at: int) -> None:
        """After round ``at``, learn no more than a training needs, which is two rounds at least."""
        self.profile = min(self.profile, max(at + 1, 2))
        self.learning = min(self.learning, max(at, self.profile))


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"'{text}' is not a list of numbers such as 0.2,0.5") from None


def _one_each(values: list[float], count: int) -> list[float]:
    return [*values, *[values[-1]] * count][:count]
