"""ASFGNN: SFGNN whose clients' hyper-parameters are tuned together (Algorithm 4).

Zheng et al., 2020. A trial is a training of SFGNN from fresh weights with the hyper-parameters θ of
all clients: dropout, L2, depth and learning rate of each, and the common width. Its value M(θ) is
the best mean of the clients' validation accuracies over its rounds, which the server learns from a
secure sum. Bayesian optimisation (:mod:`autofgl.search.bayes`), random search or grid search
proposes the next θ. The best θ is then trained for ``rounds`` rounds.

Where we differ from the paper: test nodes are not looked at before that last training; the first
trials are a Latin hypercube; ranges are those of :class:`ASFGNNSettings`; hopeless trials can be
ended early (``pruning``).

A trial in which a client is lost is recorded as failed, says nothing about θ, and the next one goes
on with the clients that are left; a client that was only late takes part again. A trial that
diverges counts as worst. The study is in ``study.db`` of the run folder, and every trial ends with
a checkpoint: a killed run goes on with its trials, within one from the last checkpoint.

Who learns what: as in :mod:`autofgl.methods.sfgnn`; the server knows every θ and M(θ).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from autofgl.errors import AutoFGLError
from autofgl.federation.federation import Federation
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.asfgnn_settings import ASFGNNSettings, chosen, space
from autofgl.methods.method import Outcome, Row
from autofgl.methods.sfgnn import SFGNN
from autofgl.methods.sfgnn_trials import SeparatedTrials, Tried
from autofgl.search.genes import Genes
from autofgl.search.grid import GridSearch
from autofgl.search.pruning import MedianRule
from autofgl.search.random import RandomTuner
from autofgl.search.tuner import Tuner
from autofgl.seeding import child_seed

#: The study's file in the run folder.
STUDY_FILE = "study.db"
#: How many of the best trials the result names.
TOP = 10


class ASFGNN(SFGNN):
    """The server: trials, then the training of the best. A round is one of either."""

    summary: ClassVar[str] = "SFGNN with hyper-parameters tuned by Bayesian optimisation"
    Settings: ClassVar[type[ASFGNNSettings]] = ASFGNNSettings
    settings: ASFGNNSettings

    def __init__(
        self, federation: Federation, settings: ASFGNNSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._genes = space(settings, federation.parties)
        self._tuner = make_tuner(settings, self._genes, seed, None)
        rule = MedianRule(settings.startup) if settings.pruning else None
        self._trials = SeparatedTrials(self._trial_training, settings.trial_rounds, rule)
        self._search_rounds = 0
        self._exhausted = False
        self._training_begun = False
        self._trial_just_ended = False

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """See :meth:`Method.check`; the ranges must make sense."""
        super().check(clients, settings, secure)
        space(settings, [graph.name for graph in clients])

    def work_in(self, folder: Path) -> None:
        """Keep the study in a file."""
        self._tuner = make_tuner(self.settings, self._genes, self.seed, folder / STUDY_FILE)

    @property
    def rounds(self) -> int:
        """Rounds of all trials, then of the training."""
        left = 0 if self._search_over else self.settings.trials - len(self._trials.tried)
        trials = self._search_rounds + left * self.settings.trial_rounds - self._trials.rounds_made
        return trials + self.settings.rounds

    @property
    def done(self) -> bool:
        """The training is over."""
        if not self._training_begun:
            return False
        patience, training = self.settings.patience, self._training
        lost = bool(patience and training.best.since_lower_loss >= patience)
        return lost or training.round >= self.settings.rounds

    @property
    def milestone(self) -> bool:
        """A trial has just ended."""
        return self._trial_just_ended

    def setup(self) -> None:
        """There is nothing to prepare: a trial begins with its first round."""

    def wrap_up(self) -> None:
        """The budget is spent: give the present trial up and train the best so far.

        As long as no trial has come to anything, the search goes on.
        """
        self._wrapped_up = True

    def step(self) -> Row:
        """One round of a trial, or of the training of the best."""
        self.round += 1
        self._trial_just_ended = False
        if not self._search_over:
            row = self._search_round()
            if row:
                return {**row, "round": self.round, "phase": "search"}
        if not self._training_begun:
            self._begin_training()
        return {**self._training.step(), "round": self.round, "phase": "train"}

    def finish(self) -> Outcome:
        """The outcome of the training, and what the trials have shown."""
        outcome = super().finish()
        tried = self._trials.tried
        search = {
            "trials": len(tried),
            "failed_trials": sum(one.failed for one in tried),
            "pruned_trials": sum(one.pruned for one in tried),
            "search_rounds": self._search_rounds,
            "best_score": self._trials.best_first[0].score,
            "top": [one.to_json() for one in self._trials.best_first[:TOP]],
        }
        return replace(outcome, extra={**outcome.extra, **search})

    def state(self) -> Payload:
        """Everything between two rounds, those of a half-done trial included."""
        return {
            **super().state(),
            "search_rounds": self._search_rounds,
            "wrapped_up": self._wrapped_up,
            "exhausted": self._exhausted,
            "training_begun": self._training_begun,
            "hyper": self._hyper,
            "tuner": self._tuner.state(),
            "trials": self._trials.state(),
        }

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        super().load_state(state)
        self._search_rounds, self._exhausted = state["search_rounds"], state["exhausted"]
        self._wrapped_up, self._training_begun = state["wrapped_up"], state["training_begun"]
        self._hyper = state["hyper"]
        self._tuner.load_state(state["tuner"])
        self._trials.load_state(state["trials"])

    @property
    def _search_over(self) -> bool:
        if self._training_begun or self._exhausted:
            return True
        if len(self._trials.tried) >= self.settings.trials:
            return True
        return self._wrapped_up and bool(self._trials.best_first)

    def _search_round(self) -> Row:
        """A round of a trial; none if there is nothing left to try."""
        if not self._trials.running:
            asked = self._tuner.ask()
            if not asked:
                self._exhausted = True
                return {}
            self._trials.begin(asked[0], chosen(asked[0], self._hyper))
        self._search_rounds += 1
        row = self._trials.step(self.federation.parties)
        if not self._trials.running:
            self._trial_just_ended = True
            self._tell(self._trials.tried[-1])
        return row

    def _tell(self, tried: Tried) -> None:
        if tried.failed:
            self._tuner.fail(tried.chromosome)
        else:
            self._tuner.tell([tried.chromosome], [1 - tried.score])

    def _begin_training(self) -> None:
        self._trials.give_up()
        best = self._trials.best_first
        if not best:
            raise AutoFGLError(
                f"none of the {len(self._trials.tried)} trials came to anything: {self._reasons()}"
            )
        self._hyper = chosen(best[0].chromosome, self._hyper)
        self._training_begun = True
        self._training.begin(self._hyper, trial=False)

    def _reasons(self) -> str:
        failed = sum(one.failed for one in self._trials.tried)
        return "clients were lost" if failed else "all diverged, lower 'tune_lr'"

    def _trial_training(self, number: int) -> Any:
        return self._fresh_training(f"trial-{number}-")


def make_tuner(settings: ASFGNNSettings, genes: Genes, seed: int, path: Path | None) -> Tuner:
    """Who proposes hyper-parameters."""
    root = child_seed(seed, "tuner")
    if settings.searcher == "bayes":
        from autofgl.search.bayes import Bayes  # Optuna takes a while to import

        return Bayes(genes, root, startup=settings.startup, path=path)
    return GridSearch(genes) if settings.searcher == "grid" else RandomTuner(genes, root)
