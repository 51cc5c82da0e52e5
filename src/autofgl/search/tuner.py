"""What every searcher over chromosomes of mixed type offers, and what it remembers."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import numpy as np

from autofgl.search.codes import SearchError, worst_if_diverged
from autofgl.search.genes import Chromosome, Genes
from autofgl.search.searcher import State

#: ``open``: asked and not told. ``failed``: measured without a result, which says nothing about it.
Status = Literal["open", "told", "failed"]


class Tuner(Protocol):
    """Proposes chromosomes and learns from their losses; **lower is better**.

    A tuner that has loaded a state asks exactly what the one that gave it would have asked.
    """

    def ask(self, n: int = 1) -> list[Chromosome]:
        """Chromosomes to measure; fewer, or none, when there is nothing left to ask."""
        ...

    def tell(self, chromosomes: Sequence[Mapping[str, Any]], losses: Any) -> None:
        """Losses of chromosomes, asked or not; NaN and inf count as worst."""
        ...

    def fail(self, chromosome: Mapping[str, Any]) -> None:
        """A chromosome was asked, and could not be measured for reasons that are not its own."""
        ...

    def state(self) -> State:
        """All that :meth:`load_state` needs to go on exactly here."""
        ...

    def load_state(self, state: State) -> None:
        """Take up where :meth:`state` was taken."""
        ...


@dataclass
class Trial:
    """A chromosome that was asked or told.

    Attributes:
        chromosome: The chromosome.
        status: What became of it.
        loss: Its loss once it is told; infinite if it diverged.
    """

    chromosome: Chromosome
    status: Status = "open"
    loss: float = math.inf


class Trials:
    """All trials of a search, in the order in which they were asked.

    Args:
        genes: The space.
    """

    def __init__(self, genes: Genes) -> None:
        self.genes = genes
        self.all: list[Trial] = []
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.all)

    def __contains__(self, chromosome: Chromosome) -> bool:
        """Whether a chromosome is open or told; what failed may be asked again."""
        number = self._numbers.get(self.genes.key(chromosome))
        return number is not None and self.all[number].status != "failed"

    def told(self) -> list[Trial]:
        """Those with a loss."""
        return [trial for trial in self.all if trial.status == "told"]

    def open(self, chromosome: Chromosome) -> int:
        """Note a chromosome as asked; its number."""
        self._add(Trial(chromosome))
        return len(self.all) - 1

    def settle(self, chromosomes: Sequence[Mapping[str, Any]], losses: Any) -> list[int]:
        """Note losses; numbers of the trials that have changed. What is told twice stays as it is.

        Raises:
            SearchError: A chromosome is not of the space, or there are not as many losses.
        """
        checked = [self.genes.check(one) for one in chromosomes]
        changed = []
        for one, loss in zip(checked, worst_if_diverged(losses, len(checked)), strict=True):
            number = self._find(one, "open")
            if number is None and self._find(one, "told") is not None:
                continue
            number = self.open(one) if number is None else number
            self.all[number].status, self.all[number].loss = "told", float(loss)
            changed.append(number)
        return changed

    def fail(self, chromosome: Mapping[str, Any]) -> int:
        """Note that a trial has failed; its number.

        Raises:
            SearchError: It was not asked.
        """
        number = self._find(self.genes.check(chromosome), "open")
        if number is None:
            raise SearchError("only a chromosome that was asked can fail")
        self.all[number].status = "failed"
        return number

    def state(self) -> list[State]:
        """For a checkpoint."""
        return [asdict(trial) for trial in self.all]

    def load_state(self, state: Sequence[State]) -> None:
        """Take up where :meth:`state` was taken.

        Raises:
            SearchError: A chromosome is of another space.
        """
        self.replace(
            [
                Trial(self.genes.check(one["chromosome"]), one["status"], one["loss"])
                for one in state
            ]
        )

    def replace(self, trials: Sequence[Trial]) -> None:
        """Have these trials instead."""
        self.all, self._numbers = [], {}
        for trial in trials:
            self._add(trial)

    def _add(self, trial: Trial) -> None:
        self._numbers[self.genes.key(trial.chromosome)] = len(self.all)
        self.all.append(trial)

    def _find(self, chromosome: Chromosome, status: Status) -> int | None:
        """Number of the last trial of a chromosome, if it is in this status."""
        number = self._numbers.get(self.genes.key(chromosome))
        return number if number is not None and self.all[number].status == status else None


class TrialTuner(ABC):
    """A tuner whose proposals depend on the trials so far and their number alone.

    Args:
        genes: The space.
    """

    def __init__(self, genes: Genes) -> None:
        self.trials = Trials(genes)

    @property
    def genes(self) -> Genes:
        """The space."""
        return self.trials.genes

    @abstractmethod
    def propose(self) -> Chromosome | None:
        """The next chromosome; None when there is nothing left to ask."""

    def ask(self, n: int = 1) -> list[Chromosome]:
        """See :class:`Tuner`."""
        asked = []
        for _ in range(n):
            proposal = self.propose()
            if proposal is None:
                break
            self._changed([self.trials.open(proposal)])
            asked.append(dict(proposal))
        return asked

    def tell(self, chromosomes: Sequence[Mapping[str, Any]], losses: Any) -> None:
        """See :class:`Tuner`."""
        self._changed(self.trials.settle(chromosomes, losses))

    def fail(self, chromosome: Mapping[str, Any]) -> None:
        """See :class:`Tuner`."""
        self._changed([self.trials.fail(chromosome)])

    def state(self) -> State:
        """See :class:`Tuner`."""
        return {"trials": self.trials.state()}

    def load_state(self, state: State) -> None:
        """See :class:`Tuner`."""
        self.trials.load_state(state["trials"])

    def fresh(self, rng: np.random.Generator, tries: int = 64) -> Chromosome:
        """A random chromosome, a new one if one is found soon."""
        for _ in range(tries):
            drawn = self.genes.draw(rng)
            if drawn not in self.trials:
                break
        return drawn

    def _changed(self, numbers: Sequence[int]) -> None:  # noqa: B027
        """Called with the numbers of trials that are new or have changed."""
