"""Short trainings of networks from scratch, one after the other, to see what they are worth.

A trial is federated averaging of one network for some rounds, exactly as it would be trained to
stay, with two differences: test nodes are not looked at, and a network may diverge. Its figure is
that of its best round on the federation's validation nodes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autofgl.federation.federation import Federation
from autofgl.federation.payload import Payload
from autofgl.methods.fedavg import FedAvg
from autofgl.methods.method import Row
from autofgl.methods.objectives import fitness
from autofgl.methods.settings import FederatedTraining
from autofgl.methods.sums import FederatedSums


@dataclass(frozen=True)
class Tried:
    """A network whose trial is over.

    Attributes:
        genotype: The network as text.
        score: What is minimised; infinite if it diverged.
        val_accuracy, val_loss: Federated figures of its best round.
    """

    genotype: str
    score: float
    val_accuracy: float
    val_loss: float

    @property
    def diverged(self) -> bool:
        """Whether it came to nothing."""
        return math.isinf(self.score)


def distinct(tried: Sequence[Tried]) -> list[Tried]:
    """Without those whose figures an earlier one has: two parallel APPNP layers, say, are one."""
    first: dict[tuple[float, float], Tried] = {}
    for one in tried:
        first.setdefault((one.val_accuracy, round(one.val_loss, 5)), one)
    return list(first.values())


class Trials:
    """Tries networks, and remembers what became of them.

    Args:
        federation: Its parties are :class:`~autofgl.methods.candidate_client.CandidateClient`.
        settings: How to train.
        rounds: For how long.
        kind: What networks are compared by, ``loss`` or ``accuracy``.
        seed: Root seed.
        secure: How sums are protected.
        sums: Those of the method that owns this, which makes the keys.
        call: How that method calls its clients.
    """

    def __init__(
        self,
        federation: Federation,
        settings: FederatedTraining,
        rounds: int,
        kind: str,
        seed: int,
        secure: str,
        sums: FederatedSums,
        call: Callable[[str, Payload], Any],
    ) -> None:
        self._federation = federation
        changed = {"rounds": rounds, "patience": 0, "select": kind}
        self._settings = settings.model_copy(update=changed)
        self._kind = kind
        self._seed = seed
        self._secure = secure
        self._sums = sums
        self._call = call
        self._genotype = ""
        self._training: FedAvg | None = None
        self.tried: list[Tried] = []

    @property
    def running(self) -> bool:
        """Whether a trial has begun and is not over."""
        return self._training is not None

    @property
    def rounds_made(self) -> int:
        """Rounds of the present trial."""
        return 0 if self._training is None else self._training.round

    @property
    def best_first(self) -> list[Tried]:
        """Those that did not diverge; of equals the earlier first."""
        return sorted((one for one in self.tried if not one.diverged), key=lambda one: one.score)

    def begin(self, genotype: str) -> None:
        """Have every client build a network."""
        self._genotype = genotype
        self._call("try_out", {"genotype": genotype})
        self._training = self._stage()
        self._training.setup()

    def give_up(self) -> None:
        """Leave the present trial without a result."""
        self._training = None

    def step(self) -> Row:
        """One round; after the last one ``score`` and ``diverged`` are in the row too."""
        assert self._training is not None
        training = self._training
        row = training.step()
        diverged = _diverged(row["test_loss"])
        if not diverged and training.done:
            diverged = _diverged(training.evaluate_last().test_loss)
        about = self._about(row, training.round)
        if diverged or training.done:
            self._conclude(training, diverged)
            score = self.tried[-1].score
            about |= {"score": None if diverged else score, "diverged": diverged}
        return {**about, **self._so_far()}

    def before_checkpoint(self) -> None:
        """See :class:`~autofgl.methods.fedavg.FedAvg`."""
        if self._training is not None:
            self._training.before_checkpoint()

    def state(self) -> Payload:
        """Everything between two rounds."""
        state: Payload = {"tried": [asdict(tried) for tried in self.tried]}
        if self._training is None:
            return state
        return {**state, "genotype": self._genotype, "training": self._training.state()}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; the clients know which network is theirs."""
        self.tried = [Tried(**tried) for tried in state["tried"]]
        if "training" in state:
            self._genotype = state["genotype"]
            self._training = self._stage()
            self._training.load_state(state["training"])

    def _stage(self) -> FedAvg:
        """Federated averaging of the present network, with the owner's keys."""
        stage = f"candidate-{len(self.tried) + 1}-"
        settings, sums = self._settings, self._sums
        return FedAvg(self._federation, settings, self._seed, self._secure, stage, sums)

    def _conclude(self, training: FedAvg, diverged: bool) -> None:
        best = training.best
        score = float(fitness(best.loss, best.accuracy, self._kind))
        tried = Tried(
            genotype=self._genotype,
            score=math.inf if diverged else score,
            val_accuracy=best.accuracy,
            val_loss=best.loss,
        )
        self.tried.append(tried)
        self._training = None

    def _about(self, row: Row, at: int) -> Row:
        """The round's figures; those of test nodes are none of a trial's business."""
        kept = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "clients", "failed")
        return {
            **{key: row[key] for key in kept if key in row},
            "test_accuracy": None,
            "candidate": len(self.tried) + 1,
            "candidate_round": at,
            "code": self._genotype,
        }

    def _so_far(self) -> Row:
        """The best network whose trial is over."""
        best: Sequence[Tried] = self.best_first
        if not best:
            return {"best_code": None, "best_score": None}
        return {"best_code": best[0].genotype, "best_score": best[0].score}


def _diverged(test_loss: float) -> bool:
    """Whether any client says so; see :class:`~autofgl.methods.candidate_client.TrialModel`."""
    return test_loss > 0.5
