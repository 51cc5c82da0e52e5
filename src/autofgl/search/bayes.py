"""Bayesian optimisation over chromosomes of mixed type (ASFGNN, Algorithm 3).

Optuna's Gaussian process does the work: a Matérn kernel of order 5/2 with a length scale for each
gene, fitted to the trials so far, and the logarithm of the expected improvement, which has the same
maximum as the expected improvement itself and is easier to climb. Where trials run in parallel,
open ones are taken into account (a batch criterion, qLogEI). The first trials are a Latin
hypercube.

A proposal is a pure function of the trials so far, of their number and of the seed: the process is
fitted anew each time by a sampler that is seeded by (seed, number). So it makes no difference
whether a search was ever interrupted.
"""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState, create_trial
from scipy.stats import qmc

from autofgl.search.codes import SearchError
from autofgl.search.genes import Chromosome, Float, Gene, Genes, Integer, LogFloat, Ordinal
from autofgl.search.searcher import State
from autofgl.search.study_file import StudyFile
from autofgl.search.tuner import Trial, TrialTuner
from autofgl.seeding import child_seed, numpy_generator

# Optuna reports every trial, and that a faster optimiser is not installed.
logging.getLogger("optuna").setLevel(logging.ERROR)


class Bayes(TrialTuner):
    """Gaussian process and expected improvement.

    Args:
        genes: The space.
        seed: Root of all chance.
        startup: Trials of the space-filling design; the process is used from then on.
        path: SQLite file that keeps the study, so that a search goes on with its trials after a
            crash, and so that Optuna's own tools can read it. In memory without one.

    Raises:
        SearchError: There is no trial to start with, or the file is of another space.
    """

    def __init__(
        self, genes: Genes, seed: int, *, startup: int = 10, path: Path | None = None
    ) -> None:
        super().__init__(genes)
        if startup < 1:
            raise SearchError(f"a Gaussian process needs a trial to start with, not {startup}")
        self._seed = seed
        self._startup = startup
        self._distributions = {gene.name: _distribution(gene) for gene in genes.genes}
        self._file = StudyFile(path) if path is not None else None
        self._again: list[int] = []
        if self._file is not None:
            self._resume(self._from_file())

    def ask(self, n: int = 1) -> list[Chromosome]:
        """See :class:`Tuner`. Trials that were open when the search was killed come first."""
        again, self._again = self._again[:n], self._again[n:]
        lost = [dict(self.trials.all[number].chromosome) for number in again]
        return [*lost, *super().ask(n - len(lost))]

    def propose(self) -> Chromosome:
        """The next point of the design, or where the expected improvement is largest."""
        number = len(self.trials)
        if number < self._startup or not self.trials.told():
            return self._design(number)
        proposal = self._best_expected(number)
        if proposal in self.trials:  # a discrete space, and it is sure
            return self.fresh(numpy_generator(self._seed, "instead", number))
        return proposal

    def load_state(self, state: State) -> None:
        """See :class:`Tuner`. Where the file has trials that the state has not, they count."""
        super().load_state(state)
        self._again = []
        if self._file is None:
            return
        kept, in_file = self.trials.all, self._from_file()
        newer = [
            ours if theirs.status == "open" else theirs
            for ours, theirs in zip(kept, in_file, strict=False)
        ]
        longer = kept if len(kept) > len(in_file) else in_file
        self._resume([*newer, *longer[len(newer) :]])
        # An open trial of the state is in its owner's hands; one of the file alone is in nobody's.
        self._again = [number for number in self._again if number >= len(kept)]
        self._changed(range(len(self.trials)))

    def _resume(self, trials: list[Trial]) -> None:
        self.trials.replace(trials)
        self._again = [number for number, one in enumerate(trials) if one.status == "open"]

    def _changed(self, numbers: Sequence[int]) -> None:
        """Write trials to the file."""
        if self._file is None:
            return
        for number in numbers:
            self._file.write(number, self._frozen(self.trials.all[number]))

    def _design(self, number: int) -> Chromosome:
        """Point ``number`` of a Latin hypercube; a random one beyond its end."""
        if number >= self._startup:
            return self.fresh(numpy_generator(self._seed, "instead", number))
        rng = numpy_generator(self._seed, "design")
        places = qmc.LatinHypercube(len(self.genes.genes), rng=rng).random(self._startup)
        return {
            gene.name: _at(gene, float(place))
            for gene, place in zip(self.genes.genes, places[number], strict=True)
        }

    def _best_expected(self, number: int) -> Chromosome:
        seed = child_seed(self._seed, "trial", number) % 2**32
        sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=0)
        study = optuna.create_study(sampler=sampler)
        worst = max((t.loss for t in self.trials.told() if math.isfinite(t.loss)), default=0.0)
        study.add_trials(
            self._frozen(trial, worst) for trial in self.trials.all if trial.status != "failed"
        )
        asked = study.ask(self._distributions)
        return self.genes.check(
            {gene.name: _value(gene, asked.params[gene.name]) for gene in self.genes.genes}
        )

    def _frozen(self, trial: Trial, worst: float | None = None) -> FrozenTrial:
        """A trial as Optuna has it; a loss that is not finite counts as ``worst`` where given."""
        states = {"open": TrialState.RUNNING, "told": TrialState.COMPLETE}
        state = states.get(trial.status, TrialState.FAIL)
        loss = trial.loss if worst is None or math.isfinite(trial.loss) else worst
        genes = {gene.name: gene for gene in self.genes.genes}
        return create_trial(
            state=state,
            value=loss if state == TrialState.COMPLETE else None,
            params={name: _internal(genes[name], v) for name, v in trial.chromosome.items()},
            distributions=self._distributions,
        )

    def _from_file(self) -> list[Trial]:
        assert self._file is not None
        found = []
        for frozen in self._file.read():
            if frozen.distributions != self._distributions:
                raise SearchError(f"{self._file.path} is a study of another space")
            chromosome = {
                gene.name: _value(gene, frozen.params[gene.name]) for gene in self.genes.genes
            }
            match frozen.state:
                case TrialState.COMPLETE:
                    found.append(Trial(chromosome, "told", float(frozen.values[0])))
                case TrialState.RUNNING:
                    found.append(Trial(chromosome))
                case _:
                    found.append(Trial(chromosome, "failed"))
        return found


def _distribution(gene: Gene) -> BaseDistribution:
    """What Optuna calls a gene. Numbers in order are the places of a list, evenly apart."""
    match gene:
        case Ordinal():
            return IntDistribution(0, len(gene.choices) - 1)
        case Integer():
            return IntDistribution(gene.low, gene.high)
        case LogFloat():
            return FloatDistribution(gene.low, gene.high, log=True)
        case Float():
            return FloatDistribution(gene.low, gene.high)
    if gene.values is None:
        raise SearchError(f"gene '{gene.name}' is of a kind that is not known here")
    return CategoricalDistribution([*gene.values])


def _value(gene: Gene, found: Any) -> Any:
    """The gene's value for a parameter of Optuna."""
    return gene.choices[found] if isinstance(gene, Ordinal) else found


def _internal(gene: Gene, value: Any) -> Any:
    """The parameter of Optuna for a gene's value."""
    return gene.choices.index(value) if isinstance(gene, Ordinal) else value


def _at(gene: Gene, place: float) -> Any:
    """The value at a place in [0, 1) of a gene's range."""
    if gene.values is not None:
        return gene.values[int(place * len(gene.values))]
    assert isinstance(gene, Float)
    if isinstance(gene, LogFloat):
        low, high = np.log([gene.low, gene.high])
        return min(max(math.exp(low + place * (high - low)), gene.low), gene.high)
    return gene.low + place * (gene.high - gene.low)
