"""Training of found networks from scratch, one after the other, and the choice among them."""

from collections.abc import Callable
from dataclasses import asdict, replace

from autofgl.errors import AutoFGLError
from autofgl.federation.federation import Federation
from autofgl.federation.payload import Payload
from autofgl.methods.fedavg import FedAvg
from autofgl.methods.method import Outcome, Row
from autofgl.methods.settings import FederatedTraining
from autofgl.methods.sums import FederatedSums


class FinalTraining:
    """Federated averaging of each of several networks.

    Args:
        federation: Its parties are :class:`~autofgl.methods.found_client.FoundClient`.
        settings: How to train; all networks alike.
        seed: Root seed.
        secure: How sums are protected.
        sums: Those of the method that owns this, which makes the keys.
        choose: Which of the outcomes is the best.
    """

    def __init__(
        self,
        federation: Federation,
        settings: FederatedTraining,
        seed: int,
        secure: str,
        sums: FederatedSums,
        choose: Callable[[list[Outcome]], int],
    ) -> None:
        self._federation = federation
        self._settings = settings
        self._seed = seed
        self._secure = secure
        self._sums = sums
        self._codes: list[str] = []
        self._at = 0
        self._training: FedAvg | None = None
        self._choose = choose
        self._outcomes: list[Outcome] = []

    @property
    def begun(self) -> bool:
        """Whether the networks are known."""
        return bool(self._codes)

    @property
    def done(self) -> bool:
        """Whether all networks are trained."""
        return self.begun and self._at >= len(self._codes)

    def begin(self, codes: list[str]) -> None:
        """Train these networks, given as text."""
        self._codes = codes
        self._start()

    def step(self) -> Row:
        """One round of the network whose turn it is."""
        training = self._current()
        row = {**training.step(), "finalist": self._at}
        if training.done:
            self._conclude(training)
        return row

    def outcome(self) -> Outcome:
        """The winner's outcome, with the validation figures of all."""
        if not self._outcomes:
            self._conclude(self._current())
        best = self._outcomes[self._choose(self._outcomes)]
        scores = [
            {
                "genotype": code,
                "val_accuracy": outcome.val_accuracy,
                "val_loss": outcome.extra["val_loss"],
                "parameters": outcome.parameters,
            }
            for code, outcome in zip(self._codes, self._outcomes, strict=False)
        ]
        return replace(best, extra={**best.extra, "finalists": scores})

    def before_checkpoint(self) -> None:
        """See :class:`~autofgl.methods.fedavg.FedAvg`."""
        if self._training is not None:
            self._training.before_checkpoint()

    def state(self) -> Payload:
        """Everything between two rounds."""
        outcomes = [asdict(outcome) for outcome in self._outcomes]
        state: Payload = {"codes": self._codes, "at": self._at, "outcomes": outcomes}
        if self._training is not None:
            state["training"] = self._training.state()
        return state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; the clients know which network is theirs."""
        self._codes, self._at = state["codes"], state["at"]
        self._outcomes = [Outcome(**outcome) for outcome in state["outcomes"]]
        if "training" in state:
            self._training = self._stage()
            self._training.load_state(state["training"])

    def _start(self) -> None:
        self._federation.call("adopt", {"genotype": self._codes[self._at]}, min_ok=1)
        self._training = self._stage()
        self._training.setup()

    def _stage(self) -> FedAvg:
        stage = f"final-{self._at}-"
        settings, sums = self._settings, self._sums
        return FedAvg(self._federation, settings, self._seed, self._secure, stage, sums)

    def _conclude(self, training: FedAvg) -> None:
        self._outcomes.append(training.finish())
        self._at += 1
        self._training = None
        if not self.done:
            self._start()

    def _current(self) -> FedAvg:
        if self._training is None:
            raise AutoFGLError("no network is being trained")
        return self._training
