"""Tuning at home: every client proposes its own hyperparameters, and judges them by its own M_i.

Algorithm 4 has the server propose the hyperparameters of all clients in one space, which grows with
the number of clients. Their objective is the mean of the clients' accuracies M_i, and M_i depends
on the client's own hyperparameters and on the common width, and hardly on those of others: only by
the mean of the discriminators. So with ``searcher=local`` each client optimizes its own part at
home (:mod:`autofgl.search.own_part`), all of them in the same trials; the server sums their votes
for the width of a trial, compares trials by M, and never sees hyperparameters before the end.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.methods.asfgnn.settings import COMMON, ASFGNNSettings, joint_space
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.clients import Clients
from autofgl.runtime.replies import SUM, Array, Record
from autofgl.runtime.round_client import RoundClient
from autofgl.runtime.sharing import Sharing
from autofgl.runtime.state import Saved
from autofgl.search.own_part import OwnPart, common_values, elected, explores
from autofgl.search.searcher import Candidate, Candidates, SearchError
from autofgl.search.space import SearchSpace
from autofgl.seeding import child_seed, numpy_generator
from autofgl.sharing.own_encoder import OwnEncoderClient

#: A trial of which nothing is told.
_NOTHING = "failed"


class TuningClient(RoundClient):
    """A client of ASFGNN; with ``searcher=local`` it tunes its own hyperparameters."""

    operations: ClassVar[frozenset[str]] = RoundClient.operations | {"vote"}
    phases: ClassVar[Mapping[str, Mapping[str, str]]] = {
        phase: {**then, "vote": phase} for phase, then in RoundClient.phases.items()
    }
    saved: ClassVar[tuple[str, ...]] = ("_part", "_tried", "_open")

    def __init__(
        self,
        context: Context,
        data: ClientData,
        ways: Mapping[str, Sharing],
        settings: ASFGNNSettings,
        secure: str,
    ) -> None:
        super().__init__(context, data, ways, settings, secure)
        self._part: OwnPart | None = None
        if settings.searcher == "local":
            seed = child_seed(data.seed, "tuner", data.graph.name)
            space = own_space(settings)
            self._part = OwnPart(space, COMMON, seed, startup=settings.startup)
        #: What was tried here, by the trial's number, and the trial that nothing was told of yet.
        self._tried: dict[str, Candidate] = {}
        self._open = 0

    def vote(self, payload: Payload) -> Payload:
        """How good each width would be for this client.

        Payload: number of the ``trial``; whether to ``explore`` in it; how the last one ``ended``.
        """
        assert self._part is not None
        self._learn(payload["ended"])
        votes = self._part.votes(payload["explore"])
        return {"votes": self.contribute(f"votes-{payload['trial']}", {"votes": votes})}

    def conclude(self, payload: Payload) -> Payload:
        """With the own hyperparameters, which the server does not know otherwise."""
        reply = super().conclude(payload)
        own = (
            {} if self._part is None else {"hyper": dict(self.trainings.recipe.get("settings", {}))}
        )
        return {**reply, **own}

    def _enter(self, payload: Payload) -> None:
        """Train with the own hyperparameters of a trial.

        Payload besides: ``tune`` with what :meth:`vote` is told, and the elected ``value``; or the
        trial to ``use``.
        """
        tune = payload.get("tune")
        if tune:
            own = self._tried[str(tune["use"])] if "use" in tune else self._own(tune)
            payload = {**payload, "settings": {**payload.get("settings", {}), **own}}
        super()._enter(payload)

    def _own(self, tune: Payload) -> Candidate:
        """What to try in a trial."""
        assert self._part is not None
        self._learn(tune["ended"])
        candidate = self._part.candidate(tune["explore"], tune.get("value"))
        self._tried[str(tune["trial"])], self._open = candidate, tune["trial"]
        return candidate

    def _learn(self, ended: str) -> None:
        """Take in what the last trial was worth here. One that diverged elsewhere says nothing."""
        assert self._part is not None
        number, self._open = self._open, 0
        if not number or ended == _NOTHING:
            return
        assert isinstance(self.sharing, OwnEncoderClient)
        best = self.sharing.own_best
        loss = 1 - best.score + 1e-6 * best.loss if math.isfinite(best.loss) else 1.0
        if self.sharing.diverged:
            self._part.tell(self._tried[str(number)], math.inf)
        elif ended != "diverged":
            self._part.tell(self._tried[str(number)], loss)


class LocalTuning(Saved):
    """The server half, as a searcher: its candidates are the numbers of trials, and the width."""

    saved = ("_asked", "_ended")

    def __init__(
        self, space: SearchSpace, trials: int, startup: int, seed: int, clients: Clients
    ) -> None:
        self._values = common_values(space, COMMON)
        self._trials, self._startup, self._seed = trials, startup, seed
        self._clients = clients
        self._asked = 0
        self._ended = ""

    def ask(self, n: int = 1) -> Candidates:
        """The next trial."""
        if n != 1:
            raise SearchError("clients tune their own hyperparameters in one trial at a time")
        self._asked += 1
        value = {COMMON: self._vote()} if self._values else {}
        return [{"trial": self._asked, **value}]

    def tell(self, candidates: Candidates, losses: npt.ArrayLike) -> None:
        """The trial has a result, which each client knows for itself."""
        del candidates
        self._ended = "done" if np.isfinite(losses).all() else "diverged"

    def fail(self, candidate: Candidate) -> None:
        """The trial says nothing."""
        del candidate
        self._ended = _NOTHING

    def part(self, candidate: Candidate) -> Payload:
        """What clients are told of a trial."""
        value = {"value": candidate[COMMON]} if COMMON in candidate else {}
        return {**self._about(candidate["trial"]), **value}

    def _about(self, number: int) -> Payload:
        explore = explores(number, self._trials, self._startup)
        return {"trial": number, "explore": explore, "ended": self._ended}

    def _vote(self) -> Any:
        """The width of the present trial, by a secure sum of the clients' votes."""
        form = Array((len(self._values),), 0)
        about = self._about(self._asked)
        replies = self._clients.call("vote", about, reply=Record({"votes": SUM})).ok
        total = self._clients.total(f"votes-{self._asked}", replies, "votes", {"votes": form})
        rng = numpy_generator(self._seed, "election", self._asked)
        return self._values[elected(total["votes"], rng)]


def own_space(settings: ASFGNNSettings) -> SearchSpace:
    """A client's own hyperparameters and the common width."""
    return joint_space(settings.model_copy(update={"joint": False}), [])
