"""FL-RL: Q-learning over the genes, every candidate trained under federation.

The baseline of FL-AGCNS (Wang et al., 2021, section 4.1): BlockQNN (Zhong et al., 2018) with the
search space A(L) and federated evaluation. :mod:`autofgl.search.q_learning` is the agent,
:mod:`autofgl.methods.candidates` says how candidates are tried and who learns what. BlockQNN's
ε-schedule is stretched over ``candidates``; where a time budget ends the search before, it has
explored more and learned less. The agent explores with uniform genes: ``stop`` has no effect here.
"""

from typing import ClassVar

from autofgl.methods.candidate_settings import RLSettings
from autofgl.methods.candidates import CandidateSearch
from autofgl.search import QLearning, scaled_schedule
from autofgl.search.q_learning import likelihood
from autofgl.seeding import numpy_generator


class FLRL(CandidateSearch):
    """Q-learning."""

    summary: ClassVar[str] = "federated architecture search by Q-learning, as BlockQNN"
    Settings: ClassVar[type[RLSettings]] = RLSettings
    settings: RLSettings
    _searcher: QLearning

    def searcher(self) -> QLearning:
        """The agent; accuracy is its reward as in BlockQNN, or the likelihood of the labels."""
        settings = self.settings
        return QLearning(
            self.codes,
            numpy_generator(self.seed, "candidates"),
            scaled_schedule(settings.candidates),
            memory=settings.memory,
            rate=settings.rate,
            replay=settings.replay,
            reward=_accuracy if settings.fitness == "accuracy" else likelihood,
        )

    def notes(self) -> dict[str, float]:
        """The probability of a random gene."""
        return {"epsilon": self._searcher.epsilon}


def _accuracy(score: float) -> float:
    return 1.0 - score
