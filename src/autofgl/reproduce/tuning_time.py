"""How long a search for hyper-parameters took, from the history of an ``asfgnn`` run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Searched:
    """The trials of a run.

    Attributes:
        scores: Best validation accuracy after each trial; None while no trial had one.
        seconds: When each trial ended, those before it and all proposals included.
    """

    scores: tuple[float | None, ...]
    seconds: tuple[float, ...]

    @property
    def best(self) -> float | None:
        """The best validation accuracy of all."""
        return self.scores[-1] if self.scores else None

    @property
    def seconds_per_trial(self) -> float:
        """Mean over all trials."""
        return self.seconds[-1] / len(self.seconds)

    def reached(self, target: float) -> tuple[int, float] | None:
        """Trials and seconds until a validation accuracy was reached."""
        for number, (score, seconds) in enumerate(zip(self.scores, self.seconds, strict=True), 1):
            if score is not None and score >= target:
                return number, seconds
        return None


def searched(history: Sequence[dict[str, Any]]) -> Searched:
    """The trials in a history."""
    ends = [row for row in history if "trial_ended" in row]
    return Searched(
        tuple(row["best_score"] for row in ends), tuple(float(row["wall_s"]) for row in ends)
    )
