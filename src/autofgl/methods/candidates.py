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

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from autofgl.errors import AutoFGLError
from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.candidate_client import CandidateClient
from autofgl.methods.candidate_settings import CandidateSettings
from autofgl.methods.fedavg import FedAvg
from autofgl.methods.final_training import FinalTraining
from autofgl.methods.found_client import found_spec
from autofgl.methods.method import Method, Outcome, Row
from autofgl.methods.objectives import fitness
from autofgl.methods.search_space import make_codes, make_space
from autofgl.methods.sums import FederatedSums
from autofgl.search import Searcher

#: How many of the best codes the result names.
TOP = 10


@dataclass(frozen=True)
class Tried:
    """A candidate whose trial is over.

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


class CandidateSearch(Method):
    """The server: trials, then the training of the finalists.

    A round is one of the network whose turn it is, so that a run can be stopped at any of them.
    A method of this kind says which :meth:`searcher` proposes the candidates.
    """

    Settings: ClassVar[type[CandidateSettings]] = CandidateSettings
    sums_securely: ClassVar[bool] = True
    settings: CandidateSettings

    def __init__(
        self, federation: Federation, settings: CandidateSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._sums = FederatedSums(federation, secure, settings.secure_threshold)
        self._space = make_space(settings)
        self.codes = make_codes(self._space)
        self._searcher = self.searcher()
        self._final = FinalTraining(federation, settings, seed, secure, self._sums)
        self._trial_settings = settings.model_copy(
            update={
                "rounds": settings.candidate_rounds,
                "patience": 0,
                "select": settings.fitness,
            }
        )
        self._tried: list[Tried] = []
        self._search_rounds = 0
        self._code: Any = None
        self._trial: FedAvg | None = None
        self._notes: dict[str, float] = {}

    @abstractmethod
    def searcher(self) -> Searcher:
        """Who proposes the candidates, out of ``self.codes``."""

    def notes(self) -> dict[str, float]:
        """What the history tells of the searcher when it is about to be asked."""
        return {}

    @classmethod
    def check_network(cls, graph: ClientGraph, settings: CandidateSettings) -> None:
        """Refuse a training protocol that no network of the space can have."""
        found_spec(graph, settings, "identity | - | identity")

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: CandidateSettings, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        return lambda context: CandidateClient(context, graph, settings, seed, secure)

    @property
    def rounds(self) -> int:
        """Rounds of all candidates, then of every finalist."""
        untried, able = 0, len(_best_first(self._tried))
        if not self._search_over:
            untried = self.settings.candidates - len(self._tried)
        made = self._trial.round if self._trial is not None else 0
        trials = self._search_rounds + untried * self.settings.candidate_rounds - made
        return trials + self.settings.rounds * min(self.settings.finalists, able + untried)

    @property
    def done(self) -> bool:
        """All finalists are trained."""
        return self._final.done

    def connect(self) -> None:
        """Agree on keys, for all candidates."""
        self._sums.setup()

    def setup(self) -> None:
        """There is nothing to prepare: a candidate begins with its first round."""

    def wrap_up(self) -> None:
        """The budget is spent: give the present candidate up and train the best so far.

        As long as none has come to anything, the search goes on.
        """
        self._wrapped_up = True
        if self._search_over:
            self._trial = None

    def step(self) -> Row:
        """One round of a candidate, or of a finalist's training."""
        self.round += 1
        if not self._search_over:
            return {"round": self.round, "phase": "search", **self._search_round()}
        if not self._final.begun:
            self._final.begin([tried.genotype for tried in self._finalists()])
        return {**self._final.step(), "round": self.round, "phase": "train"}

    def finish(self) -> Outcome:
        """The best finalist's outcome, and the best of the candidates."""
        outcome = self._final.outcome()
        best = _best_first(self._tried)
        search = {
            "candidates": len(self._tried),
            "diverged": len(self._tried) - len(best),
            "best_score": best[0].score,
            "top": [asdict(tried) for tried in best[:TOP]],
        }
        return replace(outcome, extra={**outcome.extra, **search})

    def before_checkpoint(self) -> None:
        """See :class:`~autofgl.methods.fedavg.FedAvg`."""
        if self._trial is not None:
            self._trial.before_checkpoint()
        self._final.before_checkpoint()

    def state(self) -> Payload:
        """Everything between two rounds."""
        state: Payload = {
            "round": self.round,
            "search_rounds": self._search_rounds,
            "wrapped_up": self._wrapped_up,
            "tried": [asdict(tried) for tried in self._tried],
            "notes": self._notes,
            "searcher": self._searcher.state(),
            "final": self._final.state(),
        }
        if self._trial is not None:
            state |= {"code": self._code, "trial": self._trial.state()}
        return state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.round, self._search_rounds = state["round"], state["search_rounds"]
        self._wrapped_up, self._notes = state["wrapped_up"], state["notes"]
        self._tried = [Tried(**tried) for tried in state["tried"]]
        self._searcher.load_state(state["searcher"])
        self._final.load_state(state["final"])
        if "trial" in state:
            self._code = state["code"]
            self._trial = self._stage()
            self._trial.load_state(state["trial"])

    @property
    def _search_over(self) -> bool:
        if len(self._tried) >= self.settings.candidates:
            return True
        return self._wrapped_up and not all(tried.diverged for tried in self._tried)

    def _search_round(self) -> dict[str, Any]:
        trial = self._trial or self._begin()
        self._search_rounds += 1
        row = trial.step()
        diverged = _diverged(row["test_loss"])
        if not diverged and trial.done:
            diverged = _diverged(trial.evaluate_last().test_loss)
        about = self._about(row, trial.round)
        if diverged or trial.done:
            about["score"] = self._conclude(trial, diverged)
            about["diverged"] = diverged
        return {**about, **self._so_far()}

    def _begin(self) -> FedAvg:
        """Ask for the next candidate and have every client build it."""
        self._notes = self.notes()
        self._code = self._searcher.ask(1)[0]
        least, timeout = self.settings.min_clients, self.settings.timeout
        message = {"genotype": str(self._space.decode(self._code))}
        self.call_clients("try_out", message, min_ok=least, timeout=timeout)
        self._trial = self._stage()
        self._trial.setup()
        return self._trial

    def _stage(self) -> FedAvg:
        """Federated averaging of the present candidate, with this method's keys."""
        stage = f"candidate-{len(self._tried) + 1}-"
        settings = self._trial_settings
        return FedAvg(self.federation, settings, self.seed, self.secure, stage, self._sums)

    def _conclude(self, trial: FedAvg, diverged: bool) -> float | None:
        """Tell the searcher; the candidate's score, if it has one."""
        best = trial.best
        score = float(fitness(best.loss, best.accuracy, self.settings.fitness))
        tried = Tried(
            genotype=str(self._space.decode(self._code)),
            score=math.inf if diverged else score,
            val_accuracy=best.accuracy,
            val_loss=best.loss,
        )
        self._searcher.tell([self._code], [tried.score])
        self._tried.append(tried)
        self._trial = None
        return None if diverged else score

    def _about(self, row: Row, at: int) -> dict[str, Any]:
        """The round's figures; those of test nodes are none of the search's business."""
        kept = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "clients", "failed")
        return {
            **{key: row[key] for key in kept if key in row},
            "test_accuracy": None,
            "candidate": len(self._tried) + 1,
            "candidate_round": at,
            "code": str(self._space.decode(self._code)),
            **self._notes,
        }

    def _so_far(self) -> dict[str, Any]:
        """The best candidate whose trial is over."""
        best = _best_first(self._tried)
        if not best:
            return {"best_code": None, "best_score": None}
        return {"best_code": best[0].genotype, "best_score": best[0].score}

    def _finalists(self) -> list[Tried]:
        best = _best_first(self._tried)
        if not best:
            raise AutoFGLError(f"all {len(self._tried)} candidates diverged: lower 'lr'")
        return best[: self.settings.finalists]


def _best_first(tried: Sequence[Tried]) -> list[Tried]:
    """Those that did not diverge; of equals the earlier first."""
    return sorted((one for one in tried if not one.diverged), key=lambda one: one.score)


def _diverged(test_loss: float) -> bool:
    """Whether any client says so; see :class:`~autofgl.methods.candidate_client.TrialModel`."""
    return test_loss > 0.5
