"""Bayesian optimization (ASFGNN, Algorithm 3) and the median rule, both kept as Optuna studies.

Optuna's Gaussian process does the work: a Matérn kernel of order 5/2 with a length scale for each
gene, fitted to the trials so far, and the logarithm of the expected improvement, which has the same
maximum as the expected improvement itself and is easier to climb. Where trials run in parallel,
open ones are taken into account (a batch criterion, qLogEI). The first trials are a Latin
hypercube. To compare, Optuna's tree-structured Parzen estimator can take its place.

A proposal is a pure function of the trials so far, of their number and of the seed: the process is
fitted anew each time by a sampler that is seeded by (seed, number). So it makes no difference
whether a search was ever interrupted.
"""

import logging
import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import optuna
from optuna import distributions as optuna_genes
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.exc import SQLAlchemyError

from autofgl.search.genes import Categorical, Float, Gene, Integer, LogFloat, Ordinal, plain_value
from autofgl.search.searcher import Candidate, Candidates, SearchError, State, as_losses
from autofgl.search.space import SearchSpace
from autofgl.seeding import child_seed, numpy_generator

# Optuna reports every trial, and that a faster optimizer is not installed.
logging.getLogger("optuna").setLevel(logging.ERROR)

_RUNNING, _COMPLETE, _FAIL = TrialState.RUNNING, TrialState.COMPLETE, TrialState.FAIL


class Bayes:
    """Gaussian process and expected improvement; or ``model="tpe"`` (Bergstra et al., 2011).

    The first ``startup`` trials are of the space-filling design. The study is kept in memory, or in
    an SQLite file at ``path``, so that a search goes on with its trials after a crash, and so that
    Optuna's own tools can read it.
    """

    def __init__(
        self,
        space: SearchSpace,
        seed: int,
        *,
        startup: int = 10,
        path: Path | None = None,
        model: Literal["gp", "tpe"] = "gp",
    ) -> None:
        if startup < 1:
            raise SearchError(f"a Gaussian process needs a trial to start with, not {startup}")
        self.space = space
        self._seed = seed
        self._startup = startup
        self._path = path
        self._model = model
        self._distributions = {gene.name: _distribution(gene) for gene in space.genes}
        with _speaking(path):
            self._study = _open_study(path)
        if any(trial.distributions != self._distributions for trial in self.trials):
            raise SearchError(f"{path} is a study of another space")
        self._again = [trial.number for trial in self.trials if trial.state == _RUNNING]

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials as they were asked: RUNNING, COMPLETE with a loss, or FAIL."""
        with _speaking(self._path):
            return self._study.get_trials(deepcopy=False)

    def ask(self, n: int = 1) -> Candidates:
        """Trials that were open when the search was killed come first."""
        again, self._again = self._again[:n], self._again[n:]
        asked = [self._candidate(self.trials[number]) for number in again]
        while len(asked) < n:
            asked.append(self._propose(self.trials))
            with _speaking(self._path):
                self._study.add_trial(self._trial(self._params(asked[-1]), _RUNNING))
        return self.space.candidates(asked)

    def proposal(self) -> Candidate:
        """What :meth:`ask` would ask, without a record of it: for who may try something else."""
        return self.space.check(self._propose(self.trials))

    def tell(self, candidates: Candidates, losses: npt.ArrayLike) -> None:
        """See :class:`~autofgl.search.searcher.Searcher`. What is told twice stays as it is."""
        checked = self.space.checked(candidates)
        for one, loss in zip(checked, as_losses(losses, len(checked)), strict=True):
            running = self._latest(one, _RUNNING)
            with _speaking(self._path):
                if running is not None:
                    self._study.tell(running, float(loss))
                elif self._latest(one, _COMPLETE) is None:
                    self._study.add_trial(self._trial(self._params(one), _COMPLETE, float(loss)))

    def fail(self, candidate: Candidate) -> None:
        """Record that a trial has failed."""
        running = self._latest(self.space.check(candidate), _RUNNING)
        if running is None:
            raise SearchError("only a candidate that was asked can fail")
        with _speaking(self._path):
            self._study.tell(running, state=_FAIL)

    def state(self) -> State:
        """All trials, as Optuna names their parameters and states."""
        trials = [
            {"params": trial.params, "state": trial.state.name, "values": trial.values or []}
            for trial in self.trials
        ]
        return {"trials": trials}

    def load_state(self, state: State) -> None:
        """Continue where :meth:`state` was taken. The file is written anew: it may be damaged, or
        have trials that were made after the state and are made again.
        """
        try:
            saved = [
                self._trial(one["params"], TrialState[one["state"]], *one["values"])
                for one in state["trials"]
            ]
        except (KeyError, ValueError) as error:
            raise SearchError(f"the saved trials are of another space: {error}") from error
        with _speaking(self._path):
            if self._path is not None:
                self._path.unlink(missing_ok=True)
            self._study = _open_study(self._path)
            self._study.add_trials(saved)
        self._again = []  # an open trial is in the hands of whoever asked for it

    def _propose(self, trials: list[FrozenTrial]) -> Candidate:
        """The next point of the design, or where the expected improvement is largest."""
        number = len(trials)
        if number < self._startup:
            return self._design(number)
        taken = {self._key(trial) for trial in trials if trial.state != _FAIL}
        if any(trial.state == _COMPLETE for trial in trials):
            proposal = self._best_expected(trials)
            if self.space.key(proposal) not in taken:
                return proposal
        # Nothing is measured yet, or the space is discrete and the process is sure.
        return self.space.fresh(taken, numpy_generator(self._seed, "instead", number))

    def _design(self, number: int) -> Candidate:
        """Point ``number`` of a Latin hypercube."""
        from scipy.stats import qmc

        rng = numpy_generator(self._seed, "design")
        places = qmc.LatinHypercube(len(self.space.genes), rng=rng).random(self._startup)
        return self.space.build(map(_at, self.space.genes, places[number].tolist()))

    def _best_expected(self, trials: list[FrozenTrial]) -> Candidate:
        seed = child_seed(self._seed, "trial", len(trials)) % 2**32
        kind = optuna.samplers.GPSampler if self._model == "gp" else optuna.samplers.TPESampler
        sampler = kind(seed=seed, n_startup_trials=0)
        study = optuna.create_study(sampler=sampler)
        losses = [trial.value for trial in trials if trial.value is not None]
        worst = max(filter(math.isfinite, losses), default=0.0)
        for trial in trials:
            if trial.state != _FAIL:
                loss = None if trial.value is None else min(trial.value, worst)
                study.add_trial(self._trial(trial.params, trial.state, loss))
        return self._candidate(study.ask(self._distributions))

    def _trial(self, params: Any, state: TrialState, loss: float | None = None) -> FrozenTrial:
        of_space = self._distributions
        return create_trial(state=state, value=loss, params=params, distributions=of_space)

    def _params(self, candidate: Candidate) -> dict[str, Any]:
        """Optuna's parameters of a candidate; of an ordinal gene it is the place of the value."""
        params = {}
        for gene, label in zip(self.space.genes, self.space.labels, strict=True):
            value = plain_value(candidate[label])
            params[gene.name] = gene.choices.index(value) if isinstance(gene, Ordinal) else value
        return params

    def _candidate(self, trial: FrozenTrial | optuna.Trial) -> Candidate:
        """The candidate of which :meth:`_params` gives these parameters."""
        pairs = [(gene, trial.params[gene.name]) for gene in self.space.genes]
        values = (gene.choices[at] if isinstance(gene, Ordinal) else at for gene, at in pairs)
        return self.space.check(self.space.build(values))

    def _key(self, trial: FrozenTrial) -> Hashable:
        return self.space.key(self._candidate(trial))

    def _latest(self, candidate: Candidate, state: TrialState) -> int | None:
        """Number of the last trial of a candidate that is in this state."""
        key = self.space.key(candidate)
        for trial in reversed(self.trials):
            if trial.state == state and self._key(trial) == key:
                return trial.number
        return None


class MedianRule:
    """Ends hopeless trials early (Golovin et al., Google Vizier, 2017): Optuna's ``MedianPruner``.

    A trial is hopeless if its best loss so far is above the median of what earlier trials had; not
    one of the first ``startup`` trials, and none in its first ``warmup`` steps.
    """

    def __init__(self, startup: int = 5, warmup: int = 10) -> None:
        self._pruner = optuna.pruners.MedianPruner(startup, warmup)
        self._study = optuna.create_study(pruner=self._pruner)
        self.begin()

    def begin(self) -> None:
        """A new trial begins; one that is not ended by :meth:`end` is forgotten."""
        self._trial = self._study.ask()
        self._curve: list[float] = []

    def hopeless(self, loss: float) -> bool:
        """Add the loss of the next step; whether to go no further."""
        self._curve.append(min([loss, *self._curve[-1:]]))
        self._trial.report(self._curve[-1], len(self._curve))
        return self._trial.should_prune()

    def end(self) -> None:
        """The present trial has a result, at its end or before."""
        self._study.tell(self._trial, min(self._curve, default=math.inf))
        self.begin()

    def state(self) -> State:
        """The best losses so far after each step, of all trials and of the present one."""
        ended = self._study.get_trials(deepcopy=False, states=[_COMPLETE])
        curves = [[*trial.intermediate_values.values()] for trial in ended]
        return {"curves": curves, "best": list(self._curve)}

    def load_state(self, state: State) -> None:
        """Continue where :meth:`state` was taken."""
        self._study = optuna.create_study(pruner=self._pruner)
        self.begin()
        for number, curve in enumerate([*state["curves"], state["best"]], 1):
            for loss in curve:
                self.hopeless(loss)
            if number <= len(state["curves"]):
                self.end()


def _open_study(path: Path | None) -> optuna.Study:
    """A study in memory, or in a file that is made if there is none.

    Optuna's journal file would do as well until a process is killed while it writes: half a line
    makes it unreadable, and a lock that nobody holds makes the next one wait. SQLite has
    transactions.
    """
    if path is None:
        return optuna.create_study()
    from sqlalchemy.pool import NullPool

    storage = optuna.storages.RDBStorage(
        f"sqlite:///{path.absolute()}",
        # Connections are closed after use; a busy file is waited for.
        engine_kwargs={"poolclass": NullPool, "connect_args": {"timeout": 30}},
    )
    return optuna.create_study(storage=storage, study_name="autofgl", load_if_exists=True)


@contextmanager
def _speaking(path: Path | None) -> Iterator[None]:
    """Say in one line what is wrong with a study's file."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError, ValueError, LookupError) as error:
        reason = " ".join(str(error.__cause__ or error).split())[:200]
        raise SearchError(f"cannot use the study in {path}: {reason}") from error


def _distribution(gene: Gene) -> optuna_genes.BaseDistribution:
    """What Optuna calls a gene. Numbers in order are the places of a list, evenly apart."""
    match gene:
        case Ordinal():
            return optuna_genes.IntDistribution(0, len(gene.choices) - 1)
        case Integer():
            return optuna_genes.IntDistribution(gene.low, gene.high)
        case Float():
            log = isinstance(gene, LogFloat)
            return optuna_genes.FloatDistribution(gene.low, gene.high, log=log)
        case Categorical():
            return optuna_genes.CategoricalDistribution([*gene.choices])
    raise SearchError(f"gene '{gene.name}' is of a kind that Optuna has no name for")


def _at(gene: Gene, place: float) -> Any:
    """The value at a place in [0, 1) of a gene's range."""
    if gene.values is not None:
        return gene.values[int(place * len(gene.values))]
    assert isinstance(gene, Float)
    if isinstance(gene, LogFloat):
        low, high = np.log([gene.low, gene.high])
        return min(max(math.exp(low + place * (high - low)), gene.low), gene.high)
    return gene.low + place * (gene.high - gene.low)
