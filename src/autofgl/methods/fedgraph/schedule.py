"""Which of its rounds a run of FedGraph spends on what."""

from dataclasses import dataclass
from typing import Literal

from autofgl.methods.fedgraph.settings import FedGraphSettings

Phase = Literal["profile", "episode", "train"]


@dataclass
class Schedule:
    """Rounds from 1 on: profiling, then episodes of learning, then the training.

    Attributes:
        profile: Rounds with random policies.
        learning: Rounds before the training, those included.
        episode_rounds: Rounds of an episode.
        training: Rounds of the training.
    """

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

    @property
    def rounds(self) -> int:
        """All rounds."""
        return self.learning + self.training

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
        if at in (1, self.learning + 1):
            return True
        return self.phase(at) == "episode" and self.episode(at)[1] == 1

    def name(self, at: int) -> str:
        """Names a round for all that is random in it; a training samples the same with or
        without learning before it.
        """
        phase = self.phase(at)
        return f"{phase}-{at - self.learning if phase == 'train' else at}"

    def hurry(self, at: int) -> None:
        """After round ``at``, learn no more than a training needs: profiling ends with its next
        round, and has two at least.
        """
        self.profile = min(self.profile, max(at + 1, 2))
        self.learning = min(self.learning, max(at, self.profile))
