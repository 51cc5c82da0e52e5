"""Search by trial: the baselines FL-Random and FL-RL of FL-AGCNS (Wang et al., 2021, section 4.1).

A searcher asks for one code after the other. Each is trained from scratch under federation, as the
chosen one will be in the end, but for ``candidate_rounds`` (the paper's 50 epochs) only, and its
best federated validation figure is told to the searcher. The best by this figure are then trained
to the end, and federated validation picks one.

Where we differ from the paper: it does not say which figure it compares candidates by; ours is
``fitness``. It gives all searches the same time; ours end after ``candidates`` or when the time
budget is spent, whichever comes first. A network that diverges counts as worst, and its training is
not continued.

Who learns what: the server learns every candidate and its federated training and validation
figures, and whether it has diverged anywhere; no test figures before the final training. Of a
single client it learns what it learns in federated averaging (:mod:`autofgl.methods.fedavg`), with
a secure mode thus nothing. Clients learn the candidates, the averages and the final weights.
"""

from abc import abstractmethod
from dataclasses import asdict, replace
from typing import Any, ClassVar

from autofgl.errors import AutoFGLError
from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.architecture_search import ArchitectureSearch
from autofgl.methods.candidate_client import CandidateClient
from autofgl.methods.candidate_settings import CandidateSettings
from autofgl.methods.method import Outcome, Row
from autofgl.methods.search_space import make_codes, make_space
from autofgl.methods.trials import Trials
from autofgl.search import Searcher

#: How many of the best codes the result names.
TOP = 10


class CandidateSearch(ArchitectureSearch):
    """The server: trials, then the training of the finalists.

    A round is one of the network whose turn it is, so that a run can be stopped at any of them.
    A method of this kind says which :meth:`searcher` proposes the candidates.
    """

    Settings: ClassVar[type[CandidateSettings]] = CandidateSettings
    settings: CandidateSettings

    def __init__(
        self, federation: Federation, settings: CandidateSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._space = make_space(settings)
        self.codes = make_codes(self._space)
        self._searcher = self.searcher()
        length, kind = settings.candidate_rounds, settings.fitness
        self._trials = Trials(
            federation, settings, length, kind, seed, secure, self.sums, self._call
        )
        self._search_rounds = 0
        self._code: Any = None
        self._notes: dict[str, float] = {}

    @abstractmethod
    def searcher(self) -> Searcher:
        """Who proposes the candidates, out of ``self.codes``."""

    def notes(self) -> dict[str, float]:
        """What the history tells of the searcher when it is about to be asked."""
        return {}

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: CandidateSettings, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        return lambda context: CandidateClient(context, graph, settings, seed, secure)

    @property
    def rounds(self) -> int:
        """Rounds of all candidates, then of every finalist."""
        untried, able = 0, len(self._trials.best_first)
        if not self._search_over:
            untried = self.settings.candidates - len(self._trials.tried)
        trials = self._search_rounds + untried * self.settings.candidate_rounds
        trials -= self._trials.rounds_made
        return trials + self.settings.rounds * min(self.settings.finalists, able + untried)

    def setup(self) -> None:
        """There is nothing to prepare: a candidate begins with its first round."""

    def wrap_up(self) -> None:
        """The budget is spent: give the present candidate up and train the best so far.

        As long as none has come to anything, the search goes on.
        """
        self._wrapped_up = True
        if self._search_over:
            self._trials.give_up()

    def step(self) -> Row:
        """One round of a candidate, or of a finalist's training."""
        self.round += 1
        if not self._search_over:
            return {"round": self.round, "phase": "search", **self._search_round()}
        if not self._final.begun:
            self._final.begin(self._finalists())
        return {**self._final.step(), "round": self.round, "phase": "train"}

    def finish(self) -> Outcome:
        """The best finalist's outcome, and the best of the candidates."""
        outcome = self._final.outcome()
        tried, best = self._trials.tried, self._trials.best_first
        search = {
            "candidates": len(tried),
            "diverged": len(tried) - len(best),
            "best_score": best[0].score,
            "top": [asdict(one) for one in best[:TOP]],
        }
        return replace(outcome, extra={**outcome.extra, **search})

    def before_checkpoint(self) -> None:
        """See :class:`~autofgl.methods.fedavg.FedAvg`."""
        self._trials.before_checkpoint()
        self._final.before_checkpoint()

    def state(self) -> Payload:
        """Everything between two rounds."""
        state: Payload = {
            "round": self.round,
            "search_rounds": self._search_rounds,
            "wrapped_up": self._wrapped_up,
            "notes": self._notes,
            "searcher": self._searcher.state(),
            "trials": self._trials.state(),
            "final": self._final.state(),
        }
        return state if self._code is None else {**state, "code": self._code}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.round, self._search_rounds = state["round"], state["search_rounds"]
        self._wrapped_up, self._notes = state["wrapped_up"], state["notes"]
        self._searcher.load_state(state["searcher"])
        self._trials.load_state(state["trials"])
        self._final.load_state(state["final"])
        self._code = state.get("code")

    @property
    def _search_over(self) -> bool:
        if len(self._trials.tried) >= self.settings.candidates:
            return True
        return self._wrapped_up and bool(self._trials.best_first)

    def _search_round(self) -> Row:
        if not self._trials.running:
            self._notes = self.notes()
            self._code = self._searcher.ask(1)[0]
            self._trials.begin(str(self._space.decode(self._code)))
        self._search_rounds += 1
        row = self._trials.step()
        if not self._trials.running:
            self._searcher.tell([self._code], [self._trials.tried[-1].score])
        return {**row, **self._notes}

    def _finalists(self) -> list[str]:
        best = self._trials.best_first[: self.settings.finalists]
        if not best:
            raise AutoFGLError(f"all {len(self._trials.tried)} candidates diverged: lower 'lr'")
        return [tried.genotype for tried in best]
