"""Trials of SFGNN, one after the other, and what became of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autofgl.federation.payload import Payload
from autofgl.methods.method import Row
from autofgl.methods.separated_training import SeparatedTraining
from autofgl.search.pruning import MedianRule


@dataclass(frozen=True)
class Tried:
    """A trial that is over.

    Attributes:
        chromosome: The hyper-parameters that were tried.
        score: M(θ), the best mean of the clients' validation accuracies; minus infinity if the
            networks diverged or the trial failed.
        rounds: For how many rounds.
        failed: Whether a client was lost, so that it says nothing.
        pruned: Whether it was ended early.
    """

    chromosome: dict[str, Any]
    score: float
    rounds: int
    failed: bool = False
    pruned: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


class SeparatedTrials:
    """Runs a trial at a time.

    Args:
        training: Makes the training of the trial with a number.
        rounds: Rounds of a trial.
        rule: Which trials are hopeless; None: all go on to their end.
    """

    def __init__(
        self, training: Callable[[int], SeparatedTraining], rounds: int, rule: MedianRule | None
    ) -> None:
        self._make = training
        self._rounds = rounds
        self._rule = rule
        self._training: SeparatedTraining | None = None
        self._chromosome: dict[str, Any] = {}
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
        """Those with a result; of equals the earlier first."""
        useful = [one for one in self.tried if math.isfinite(one.score)]
        return sorted(useful, key=lambda one: -one.score)

    def begin(self, chromosome: dict[str, Any], hyper: Mapping[str, Payload]) -> None:
        """Have every client begin with its hyper-parameters."""
        self._chromosome = chromosome
        self._training = self._make(len(self.tried) + 1)
        self._training.begin(hyper, trial=True)
        if self._rule is not None:
            self._rule.begin()

    def give_up(self) -> None:
        """Leave the present trial without a result."""
        self._training = None

    def step(self, parties: Sequence[str]) -> Row:
        """One round; after the last one ``score`` is in the row too.

        Args:
            parties: Who is part of the federation now.
        """
        assert self._training is not None
        training = self._training
        if set(training.parties) - set(parties):
            return self._about({}, "failed")  # lost between two rounds
        row = training.step()
        if row["clients"] < len(training.parties):
            return self._about(row, "failed")
        if row["test_loss"] > 0.5:  # see TrialModel: at somebody's place it has diverged
            return self._about(row, "diverged")
        if self._hopeless(row):
            return self._about(row, "pruned")
        if training.round < self._rounds:
            return self._about(row, "")
        last = training.evaluate_last()
        return self._about(row, "diverged" if last["test_loss"] > 0.5 else "done")

    def state(self) -> Payload:
        """Everything between two rounds."""
        state: Payload = {"tried": [one.to_json() for one in self.tried]}
        if self._rule is not None:
            state["rule"] = self._rule.state()
        if self._training is not None:
            state |= {"chromosome": self._chromosome, "training": self._training.state()}
        return state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; the clients know which networks are theirs."""
        self.tried = [Tried(**one) for one in state["tried"]]
        if self._rule is not None:
            self._rule.load_state(state["rule"])
        if "training" in state:
            self._chromosome = dict(state["chromosome"])
            self._training = self._make(len(self.tried) + 1)
            self._training.load_state(state["training"])

    def _hopeless(self, row: Row) -> bool:
        return self._rule is not None and self._rule.hopeless(1 - row["mean_val_accuracy"])

    def _about(self, row: Row, ending: str) -> Row:
        """The round's figures; those of test nodes are none of a trial's business."""
        kept = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "mean_val_accuracy")
        about: Row = {
            **{key: row[key] for key in (*kept, "clients", "failed") if key in row},
            "test_accuracy": None,
            "trial": len(self.tried) + 1,
            "trial_round": self.rounds_made,
        }
        if ending:
            self._conclude(ending)
            score = self.tried[-1].score
            about |= {"trial_ended": ending, "score": score if math.isfinite(score) else None}
            about["hyper"] = self.tried[-1].chromosome
        best = self.best_first
        return {**about, "best_score": best[0].score if best else None}

    def _conclude(self, ending: str) -> None:
        assert self._training is not None
        training, useful = self._training, ending in ("done", "pruned")
        if useful and self._rule is not None:
            self._rule.end()
        self.tried.append(
            Tried(
                chromosome=self._chromosome,
                score=training.best.accuracy if useful else -math.inf,
                rounds=training.round,
                failed=ending == "failed",
                pruned=ending == "pruned",
            )
        )
        self._training = None
