"""SFGNN, and ASFGNN: SFGNN whose clients' hyperparameters are tuned together (Algorithm 4).

A trial of ASFGNN is a training of SFGNN from fresh weights with the hyperparameters θ of all
clients. Its value M(θ) is the best mean of the clients' validation accuracies over its rounds, or
the best of another ``objective``, which the server learns from a secure sum. The best θ is then
trained for ``rounds`` rounds.

A trial in which a client is lost is recorded as failed, says nothing about θ, and the next one goes
on with the clients that are left. A trial that diverges counts as worst. The study is in
``study.db`` of the run folder, and every trial ends with a checkpoint: a killed run goes on with
its trials, within one from the last checkpoint. docs/methods.md says where we differ from the
paper.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from autofgl.errors import AutoFGLError
from autofgl.federation import Federation
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.asfgnn.local_tuning import LocalTuning, TuningClient, own_space
from autofgl.methods.asfgnn.settings import (
    ASFGNNSettings,
    SFGNNSettings,
    by_client,
    hyper_parameters,
    joint_space,
    largest_values,
)
from autofgl.nn.models.networks import count_parameters, empty_network
from autofgl.runtime.method import Method, SharedTraining
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.rounds import RoundEngine
from autofgl.runtime.trials import Trials
from autofgl.search.baselines import GridSearch, RandomSearch
from autofgl.search.bayes import MedianRule
from autofgl.search.searcher import Candidate, Searcher, SearchError
from autofgl.search.space import SearchSpace
from autofgl.seeding import child_seed
from autofgl.sharing.own_and_common import OWN_AND_COMMON
from autofgl.sharing.own_encoder import OWN_ENCODER

#: The study's file in the run folder.
STUDY_FILE = "study.db"
#: Without a common network and with one.
WAYS = {"own-encoder": OWN_ENCODER, "own-and-common": OWN_AND_COMMON}
#: How many of the best trials the result names.
TOP = 10


class SFGNN(SharedTraining):
    """Own message passing, one discriminator for all (:mod:`autofgl.sharing.own_encoder`)."""

    Settings = SFGNNSettings
    ways: ClassVar = WAYS

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """``per_client`` must name clients."""
        super().check(clients, settings, secure)
        hyper_parameters(settings, [graph.name for graph in clients])

    @classmethod
    def parameters(cls, graph: ClientGraph, settings: Any) -> int:
        """Those of the network of the settings."""
        return count_parameters(partial(empty_network, cls.network(graph, settings)))

    def __init__(
        self, federation: Federation, settings: SFGNNSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._hyper = hyper_parameters(settings, federation.parties)

    def setup(self) -> None:
        """Have the clients build their networks."""
        self.training.start(each=_recipes(self._hyper))

    def finish(self) -> Outcome:
        """The outcome, with every client's hyperparameters."""
        return with_hyper_parameters(self.training.finish(), self._hyper)


class ASFGNN(Method):
    """The server: trials, then the training of the best. A round is one of either."""

    Settings = ASFGNNSettings
    Client = TuningClient
    ways: ClassVar = WAYS
    saved = (
        "_training", "_search_rounds", "_wrapped_up", "_exhausted", "_training_begun", "_hyper",
        "_tuner", "_trials",
    )  # fmt: skip
    settings: ASFGNNSettings

    def __init__(
        self, federation: Federation, settings: ASFGNNSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._hyper = hyper_parameters(settings, federation.parties)
        self._genes = joint_space(settings, federation.parties)
        self._tuner = self._make_tuner(None)
        rule = MedianRule(settings.startup) if settings.pruning else None
        self._trials = Trials(
            self._trial_training, lambda best: 1 - best.score, rule, needs_all=True
        )
        self._training = Method.engine(self)
        self._search_rounds = 0
        self._exhausted = False
        self._training_begun = False
        self._trial_just_ended = False

    @classmethod
    def parameters(cls, graph: ClientGraph, settings: Any) -> int:
        """Those of the widest and deepest network that is tuned."""
        return SFGNN.parameters(graph, settings.model_copy(update=largest_values(settings)))

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """``per_client`` must name clients, and the ranges must make sense."""
        super().check(clients, settings, secure)
        names = [graph.name for graph in clients]
        hyper_parameters(settings, names)
        joint_space(settings, names)

    def work_in(self, folder: Path) -> None:
        """Keep the study in a file; a damaged one is written anew from the checkpoint."""
        path = folder / STUDY_FILE
        try:
            self._tuner = self._make_tuner(path)
        except SearchError:
            path.unlink()
            self._tuner = self._make_tuner(path)

    @property
    def rounds(self) -> int:
        """Rounds of all trials, then of the training."""
        left = 0 if self._search_over else self.settings.trials - len(self._trials.over)
        trials = self._search_rounds + left * self.settings.trial_rounds - self._trials.rounds_made
        return trials + self.settings.rounds

    @property
    def done(self) -> bool:
        """The training is over."""
        return self._training_begun and self._training.done

    @property
    def milestone(self) -> bool:
        """A trial has just ended."""
        return self._trial_just_ended

    def setup(self) -> None:
        """Begin without trials; one begins with its first round."""
        self._tuner.load_state(self._make_tuner(None).state())

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
        outcome = with_hyper_parameters(self._training.finish(), self._hyper)
        trials, best = self._trials.over, self._trials.best_first
        search = {
            "trials": len(trials),
            "failed_trials": sum(one.ending == "failed" for one in trials),
            "pruned_trials": sum(one.ending == "pruned" for one in trials),
            "search_rounds": self._search_rounds,
            "best_score": best[0].score,
            "top": [
                {
                    "chromosome": one.candidate,
                    "score": one.score,
                    "rounds": one.rounds,
                    "failed": False,
                    "pruned": one.ending == "pruned",
                }
                for one in best[:TOP]
            ],
        }
        return replace(outcome, extra={**outcome.extra, **search})

    @property
    def _search_over(self) -> bool:
        """Whether to train: a spent budget ends the search as soon as a trial has a result."""
        over = self._training_begun or self._exhausted
        over = over or len(self._trials.over) >= self.settings.trials
        return over or (self._wrapped_up and bool(self._trials.best_first))

    def _search_round(self) -> Row:
        """A round of a trial; none if there is nothing left to try."""
        if not self._trials.running:
            asked = self._tuner.ask()
            if not asked:
                self._exhausted = True
                return {}
            self._trials.begin(asked[0], each=self._each(asked[0]))
        self._search_rounds += 1
        number = len(self._trials.over) + 1
        row, at, over = self._trials.step()
        row |= {"trial": number, "trial_round": at}
        if over is not None:
            self._trial_just_ended = True
            if over.ending == "failed":
                self._tuner.fail(over.candidate)
            else:
                self._tuner.tell([over.candidate], [over.loss])
            row |= {"trial_ended": over.ending, "hyper": over.candidate}
            row["score"] = over.score if over.useful else None
        best = self._trials.best_first
        return {**row, "best_score": best[0].score if best else None}

    def _begin_training(self) -> None:
        self._trials.give_up()
        best = self._trials.best_first
        if not best:
            failed = any(one.ending == "failed" for one in self._trials.over)
            reason = "clients were lost" if failed else "all diverged, lower 'tune_lr'"
            raise AutoFGLError(
                f"none of the {len(self._trials.over)} trials has a result: {reason}"
            )
        each = self._each(best[0].candidate, use=True)
        self._hyper = by_client(best[0].candidate, self._hyper)
        self._training_begun = True
        self._training.start(each=each)

    def _each(self, candidate: Candidate, use: bool = False) -> dict[str, Payload]:
        """What each client trains with; which trial's it is to use, where only clients know."""
        each = _recipes(by_client(candidate, self._hyper))
        if not isinstance(self._tuner, LocalTuning):
            return each
        tune = {"use": candidate["trial"]} if use else self._tuner.part(candidate)
        return {name: {**one, "tune": tune} for name, one in each.items()}

    def _make_tuner(self, path: Path | None) -> Searcher:
        """Who proposes hyperparameters; with a file for those who keep one."""
        settings, root = self.settings, child_seed(self.seed, "tuner")
        if settings.searcher == "local":
            about = (settings.trials, settings.startup, root, self.clients)
            return LocalTuning(own_space(settings), *about)
        return make_tuner(settings, self._genes, self.seed, path)

    def _trial_training(self, number: int, recipe: Recipe) -> RoundEngine:
        rounds = self.settings.trial_rounds
        return self.engine(
            recipe, f"trial-{number}-", rounds=rounds, patience=self.settings.trial_patience
        )


def make_tuner(
    settings: ASFGNNSettings, genes: SearchSpace, seed: int, path: Path | None
) -> Searcher:
    """Who proposes hyperparameters."""
    root = child_seed(seed, "tuner")
    if settings.searcher in ("bayes", "tpe"):
        from autofgl.search.bayes import Bayes  # Optuna takes a while to import

        model: Literal["gp", "tpe"] = "tpe" if settings.searcher == "tpe" else "gp"
        return Bayes(genes, root, startup=settings.startup, path=path, model=model)
    return GridSearch(genes) if settings.searcher == "grid" else RandomSearch(genes, root)


def with_hyper_parameters(outcome: Outcome, hyper: dict[str, dict[str, Any]]) -> Outcome:
    """An outcome that names the hyperparameters of every client in it; what clients have told of
    theirs comes first.
    """
    told = outcome.extra.get("client_hyperparameters", {})
    own = {name: {**hyper[name], **told.get(name, {})} for name in outcome.specs}
    return replace(outcome, extra={**outcome.extra, "client_hyperparameters": own})


def _recipes(hyper: dict[str, dict[str, Any]]) -> dict[str, Payload]:
    return {name: Recipe(settings=own).to_payload() for name, own in hyper.items()}
