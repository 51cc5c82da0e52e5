"""FL-Gradient, a baseline of FL-AGCNS: DARTS (Liu et al., ICLR 2019) under federation.

The networks of the search space are relaxed into one (:mod:`autofgl.nn.supernet.relaxed`), whose
mixture is set by the architecture parameters α. A generation is a step of DARTS' Algorithm 1, of
first order (ξ = 0): ``weight_steps`` steps on the weights W along the gradient of the training
loss, then one on α along that of the validation loss. Both gradients are sums over the clients, by
their shares of the training or validation nodes, and equal those of the union of all graphs. At
the end the most likely choice of every gene makes the code, which is trained from scratch.

Where we differ from DARTS: W goes first; W is stepped by Adam, with the same settings as in all
our methods; the validation pass has no dropout; None is the probability of ending and may win, but
for the first layer; and α is an offset to the logits of the random codes' distribution (``stop``),
so that at α = 0 deep networks are as likely as they are for fl-agcns, and the weight decay pulls
there.

A generation takes ``weight_steps`` + 1 calls to every client.

Who learns what: the server holds α and is sent, summed over the clients, their gradients with
respect to α, the loss and accuracy of the relaxed network on validation nodes and the training
loss; with a secure mode nothing else of a client. Clients learn α, the summed gradients of W and
the final weights; the server does not read the gradients of W. Nobody sees features, labels or
edges of another.
"""

import time
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.architecture_search import ArchitectureSearch
from autofgl.methods.darts_settings import DartsSettings
from autofgl.methods.fedavg_client import COUNT_UNIT
from autofgl.methods.fl_darts_client import DartsClient
from autofgl.methods.method import Outcome, Row
from autofgl.methods.optimiser_state import load_optimiser_state, optimiser_state
from autofgl.methods.search_space import make_space
from autofgl.methods.sums import average
from autofgl.nn.supernet.relaxed import Logits, confidence, decided, entropy, initial_logits

#: Of Adam on α, as in DARTS.
BETAS = (0.5, 0.999)


class FLDarts(ArchitectureSearch):
    """Holds α: generations of the search, then the training of the most likely network."""

    summary: ClassVar[str] = "federated architecture search by gradients (DARTS) in a SuperNet"
    Settings: ClassVar[type[DartsSettings]] = DartsSettings
    settings: DartsSettings

    def __init__(
        self, federation: Federation, settings: DartsSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._space = make_space(settings)
        self._prior = initial_logits(self._space)
        self._alpha = torch.zeros(len(self._prior), dtype=torch.float64, requires_grad=True)
        self._optimiser = torch.optim.Adam(
            [self._alpha],
            lr=settings.arch_lr,
            betas=BETAS,
            weight_decay=settings.arch_weight_decay,
        )
        self._generations = settings.generations
        self._generation = 0
        self._totals = [0, 0, 0]

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: DartsSettings, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        return lambda context: DartsClient(context, graph, settings, seed, secure)

    @property
    def rounds(self) -> int:
        """Generations, then the rounds of the final training."""
        return self._generations + self.settings.rounds

    def setup(self) -> None:
        """Count the nodes."""
        replies = self._call("start", {"stage": "search-"}).ok
        total = self.sums.total("search-start", replies, "counts")["counts"] * COUNT_UNIT
        self._totals = [round(float(count)) for count in total]

    def wrap_up(self) -> None:
        """The budget is spent: end the search and train what was found."""
        self._generations = min(self._generations, max(self._generation, 1))

    def step(self) -> Row:
        """One generation, or one round of the final training."""
        self.round += 1
        if self._generation < self._generations:
            return {"round": self.round, "phase": "search", **self._one_generation()}
        if not self._final.begun:
            self._final.begin([str(decided(self._space, self._logits()))])
        return {**self._final.step(), "round": self.round, "phase": "train"}

    def finish(self) -> Outcome:
        """The outcome of the final training, and how sure the search was of every gene."""
        outcome = self._final.outcome()
        sure = confidence(self._space, self._logits())
        extra = {"generations": self._generation, "confidence": sure}
        return replace(outcome, extra={**outcome.extra, **extra})

    def before_checkpoint(self) -> None:
        """See :class:`~autofgl.methods.fedavg.FedAvg`."""
        self._final.before_checkpoint()

    def state(self) -> Payload:
        """Everything between two rounds."""
        return {
            "round": self.round,
            "generation": self._generation,
            "generations": self._generations,
            "totals": self._totals,
            "alpha": self._alpha.detach().numpy().copy(),
            "moments": optimiser_state(self._optimiser),
            "final": self._final.state(),
        }

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.round, self._generation = state["round"], state["generation"]
        self._generations, self._totals = state["generations"], state["totals"]
        with torch.no_grad():
            self._alpha.copy_(torch.from_numpy(state["alpha"].copy()))
        load_optimiser_state(self._optimiser, state["moments"])
        self._final.load_state(state["final"])

    def _one_generation(self) -> dict[str, Any]:
        self._generation += 1
        start = time.perf_counter()
        news = self._weight_steps()
        between = time.perf_counter()
        row = self._architecture_step(news)
        seconds = {"weights_s": between - start, "architecture_s": time.perf_counter() - between}
        return {**row, **{name: round(value, 6) for name, value in seconds.items()}}

    def _weight_steps(self) -> Payload:
        """DARTS' Algorithm 1, line 2; what is left is the last step's gradient, to be taken in."""
        news: Payload = {}
        for step in range(self.settings.weight_steps):
            replies = self._call("weights", {"step": step, **self._message(), **news})
            tag = f"gradient-{self._generation}-{step}"
            news = {"gradient": self.sums.seal(tag, replies.ok, "gradient")}
        return news

    def _architecture_step(self, news: Payload) -> dict[str, Any]:
        """DARTS' Algorithm 1, line 1, with ξ = 0: descend the federated ∇_α L_val(W, α)."""
        replies = self._call("architecture", {**self._message(), **news})
        figures = self.sums.total(f"architecture-{self._generation}", replies.ok, "figures")
        gradient = average({name: figures[name] for name in ("share", "logits")})
        if gradient:
            self._alpha.grad = torch.from_numpy(gradient["logits"].astype(np.float64))
            self._optimiser.step()
        return self._row(figures["train"], figures["val"])

    def _row(self, train: Any, val: Any) -> dict[str, Any]:
        """Figures of the relaxed network before the step on α, and α after it."""
        logits = self._logits()
        return {
            "train_loss": _ratio(train[0], train[1]),
            "val_loss": _ratio(val[0], val[2]),
            "val_accuracy": _ratio(val[1], val[2]),
            "test_accuracy": None,
            "generation": self._generation,
            "entropy": entropy(self._space, logits),
            "best_code": str(decided(self._space, logits)),
        }

    def _logits(self) -> Logits:
        found: Logits = self._prior + self._alpha.detach().numpy()
        return found

    def _message(self) -> Payload:
        return {
            "generation": self._generation,
            "totals": self._totals,
            "logits": self._logits(),
        }


def _ratio(total: float, share: float) -> float:
    """A mean over the clients that answered; zero where none has such nodes."""
    return float(total / share) if share else 0.0
