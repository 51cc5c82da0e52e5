"""FL-Gradient, a baseline of FL-AGCNS: DARTS (Liu et al., ICLR 2019) under federation.

The networks of the search space are relaxed into one (:mod:`autofgl.nn.supernet.relaxed`), whose
mixture is set by the architecture parameters α. A generation is a step of DARTS' Algorithm 1, of
first order (ξ = 0): ``weight_steps`` steps on the weights W along the gradient of the training
loss, then one on α along that of the validation loss. Both gradients are sums over the clients, by
their shares of the training or validation nodes, and equal those of the union of all graphs. At the
end the most likely choice of every gene makes a code; it races with codes sampled from α.

α is an offset to the logits of the random codes' distribution (``stop``), so that at α = 0 deep
networks are as likely as they are for fl-agcns, and the weight decay pulls there.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from autofgl.federation import Federation
from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.client import (
    SEARCH_OPERATIONS,
    SharedSuperNet,
    make_supernet,
    own_vote,
    search_phases,
)
from autofgl.methods.fl_agcns.generations import rejoin_search, weight_steps
from autofgl.methods.fl_agcns.settings import DartsSettings, make_space
from autofgl.nn.models.networks import count_parameters
from autofgl.nn.supernet.relaxed import (
    Logits,
    RelaxedNetwork,
    confidence,
    entropy,
    initial_logits,
    likely_genotypes,
    most_likely_genotype,
)
from autofgl.runtime.bounds import ROUNDING, share_form
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.device import fetch
from autofgl.runtime.local_model import WORST_LOSS, all_finite
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import START, SUM, TAKE, Array, Form
from autofgl.runtime.round_client import RoundClient
from autofgl.runtime.selection import FINALS_FROM, Selection
from autofgl.runtime.sharing import Sharing
from autofgl.runtime.summing import average, weighted
from autofgl.seeding import numpy_generator, torch_generator
from autofgl.sharing.ways import WAYS
from autofgl.tasks.losses import balanced_weights

#: Share of a time budget after which the search ends.
SEARCH_UNTIL = 0.5
#: Of Adam on α, as in DARTS.
BETAS = (0.5, 0.999)
#: No entry of a contributed gradient is larger: secure sums have a limited range.
LARGEST = 100.0


class DartsClient(RoundClient):
    """Holds the SuperNet and differentiates its relaxation; later it trains the searched network.
    The search is a stage of its own.
    """

    operations: ClassVar[frozenset[str]] = RoundClient.operations | SEARCH_OPERATIONS | {
        "architecture",
    }  # fmt: skip
    phases: ClassVar = search_phases("architecture")
    saved = ("_supernet",)
    common = ("_supernet",)

    def __init__(
        self,
        context: Context,
        data: ClientData,
        ways: Mapping[str, Sharing],
        settings: DartsSettings,
        secure: str,
    ) -> None:
        super().__init__(context, data, ways, settings, secure)
        self._supernet = SharedSuperNet(data, settings)
        self._relaxed = RelaxedNetwork(self._supernet.network)
        self._inputs = data.inputs(settings.normalize_features)
        self._labels = torch.from_numpy(data.graph.y.copy()).to(data.device)
        self._train, self._val, _ = self._inputs.nodes
        self._train_loss = 0.0

    def permit(self, op: str, payload: Payload) -> None:
        """Refuse a step that was made before."""
        super().permit(op, payload)
        if op == "weights":
            self._supernet.require_new(payload)

    def begin_search(self, payload: Payload) -> Payload:
        """Node counts."""
        self.trainings.enter(payload["stage"])
        self._supernet.begin()
        labels = self.label_counts()
        return {"counts": self.count(f"{self.stage}start", self.data.counts(), labels)}

    def join_search(self, payload: Payload) -> Payload:
        """Take up the search where the others are; payload: ``stage``, ``round``, ``state``."""
        self.join_stage(payload)
        return {}

    def weights(self, payload: Payload) -> Payload:
        """One weights step: contribute the gradient of the mean training loss with respect to W."""
        self._supernet.weigh(payload)
        refused = self._take_gradient(payload)
        at = self._supernet.enter_step(payload)
        self.trainings.round = at[0]
        generator = torch_generator(self.data.seed, "relaxed-dropout", self.data.graph.name, *at)
        named = dict(self._supernet.network.named_parameters())
        self._supernet.network.train()
        scores = self._scores(self._logits(payload), self._train, generator)
        self._train_loss, slopes = self._differentiated(scores, self._train, list(named.values()))
        gradient, counts = bounded(dict(zip(named, slopes, strict=True)))
        share = self._counted(counts) * len(self._train) / max(payload["totals"][0], 1)
        tag = f"gradient-{at[0]}-{at[1]}"
        update = weighted(gradient, share) | own_vote(gradient, self._secure)
        broadcast = {"totals": payload["totals"], "logits": payload["logits"]}
        return {**refused, "gradient": self.contribute_for_clients(tag, update, broadcast)}

    def architecture(self, payload: Payload) -> Payload:
        """Contribute the gradient of the mean validation loss, without dropout, in the logits; with
        differential privacy it alone, without figures.
        """
        self._supernet.weigh(payload)
        refused = self._take_gradient(payload)
        totals = payload["totals"]
        share = len(self._val) / max(totals[1], 1)
        self._supernet.network.eval()
        logits = self._logits(payload).requires_grad_()
        scores = self._scores(logits, self._val)
        loss, (slope,) = self._differentiated(scores, self._val, [logits])
        gradient, counts = bounded({"logits": slope})
        right = (scores.argmax(1) == self._labels[self._val]) & scores.isfinite().all(1)
        correct = int(right.sum()) / max(len(self._val), 1)
        train_share = len(self._train) / max(totals[0], 1)
        figures = {
            "val": share * np.array([loss, correct, 1.0]),
            "train": train_share * np.array([self._train_loss, 1.0]),
        }
        update = weighted(gradient, self._counted(counts) * share)
        sent = update if self.private else {**figures, **update}
        tag = f"architecture-{payload['generation']}"
        broadcast = {"totals": totals, "logits": payload["logits"]}
        return {**refused, "figures": self.contribute(tag, sent, broadcast=broadcast)}

    def _counted(self, counts: float) -> float:
        """What a gradient counts; with differential privacy nobody is told that there is none."""
        return 1.0 if self.private else counts

    def _take_gradient(self, payload: Payload) -> Payload:
        return self._supernet.take(payload, self.coder, self._secure != "none")

    def _scores(
        self, logits: Tensor, nodes: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Scores of the relaxed network at some nodes, ``[nodes, classes]``."""
        if not len(nodes):
            return torch.zeros(0, self._supernet.network.classes, device=self.data.device)
        inputs = self._inputs
        return self._relaxed(logits, inputs.features, inputs.structure, generator)[nodes]

    def _logits(self, payload: Payload) -> Tensor:
        return torch.tensor(payload["logits"], dtype=torch.float32, device=self.data.device)

    def _differentiated(
        self, scores: Tensor, nodes: Tensor, wanted: list[Tensor]
    ) -> tuple[float, list[Any]]:
        """Mean loss, capped and finite, and its gradients; all zero without nodes."""
        if not len(nodes):
            return 0.0, [np.zeros(tuple(value.shape), np.float32) for value in wanted]
        loss = self._supernet.loss.mean(scores, self._labels[nodes])
        # A convolution may have parameters that its output does not depend on.
        slopes = torch.autograd.grad(loss, wanted, materialize_grads=True, allow_unused=True)
        value = float(np.nan_to_num(loss.item(), nan=WORST_LOSS, posinf=WORST_LOSS))
        return min(value, WORST_LOSS), [fetch(gradient) for gradient in slopes]


class FLDarts(Method):
    """Holds α: generations of the search, then races of likely networks, and the finals."""

    Settings = DartsSettings
    ways: ClassVar = WAYS
    Client = DartsClient
    saved = (
        "_generation", "_generations", "_totals", "_class_weights", "_alpha", "_optimizer",
        "_selection",
    )  # fmt: skip
    settings: DartsSettings

    @classmethod
    def parameters(cls, graph: ClientGraph, settings: Any) -> int:
        """Those of the SuperNet, which has every searched network in it."""
        return count_parameters(partial(make_supernet, graph, settings))

    def __init__(
        self, federation: Federation, settings: DartsSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._space = make_space(settings)
        self._prior = initial_logits(self._space)
        self._alpha = torch.zeros(len(self._prior), dtype=torch.float64, requires_grad=True)
        self._optimizer = torch.optim.Adam(
            [self._alpha], lr=settings.arch_lr, betas=BETAS, weight_decay=settings.arch_weight_decay
        )
        self._selection = Selection(self, settings.trial_rounds, settings.tune)
        self._generations = settings.generations
        self._generation = 0
        self._totals = [0, 0, 0]
        self._class_weights: list[float] = []

    @property
    def done(self) -> bool:
        """The searched network is trained."""
        return self._selection.done

    @property
    def rounds(self) -> int:
        """Rounds so far, and generations, trials and finals that are left at most."""
        left = self._generations - self._generation
        return self.round + left + self._selection.planned

    def setup(self) -> None:
        """Count the nodes."""
        replies = self.clients.call("begin_search", {"stage": "search-"}, reply=START).ok
        if self.settings.class_weight == "balanced":
            self._totals, labels = self.clients.count_labels("search-start", replies)
            self._class_weights = balanced_weights(labels)
        else:
            self._totals = self.clients.count_nodes("search-start", replies)

    def pace(self, spent: float) -> bool:
        """Leave time for races and finals."""
        before = self._generations
        if spent >= SEARCH_UNTIL:
            self._end_generations()
        changed = before != self._generations
        if spent >= FINALS_FROM and self._selection.race.best_first:
            changed = self._selection.hurry() or changed
        return changed

    def wrap_up(self) -> None:
        """The budget is spent: the best so far is what there is."""
        self._end_generations()
        self._selection.wrap_up()

    def _end_generations(self) -> None:
        self._generations = min(self._generations, max(self._generation, 1))

    def step(self) -> Row:
        """One generation, or one round of a race or of the finals."""
        self.round += 1
        if self._generation < self._generations:
            return {"round": self.round, "phase": "search", **self._one_generation()}
        if not self._selection.race.entries:
            rng = numpy_generator(self.seed, "sampled-networks")
            likely = likely_genotypes(self._space, self._logits(), self.settings.trials, rng)
            self._selection.race.begin([Recipe(network=str(one)) for one in likely])
        phase, row = self._selection.step()
        return {**row, "round": self.round, "phase": phase}

    def catch_up(self, names: Sequence[str]) -> None:
        """In the search with the SuperNet of another client."""
        super().catch_up(names)
        if not self._selection.race.entries:
            rejoin_search(self.clients, self._generation)

    def finish(self) -> Outcome:
        """The outcome of the final training, and how sure the search was of every gene."""
        outcome = self._selection.outcome()
        sure = confidence(self._space, self._logits())
        extra = {
            "generations": self._generation,
            "confidence": sure,
            "trials": self._selection.trials(),
        }
        return replace(outcome, extra={**outcome.extra, **extra})

    def _one_generation(self) -> dict[str, Any]:
        self._generation += 1
        start = time.perf_counter()
        messages = [self._message()] * self.settings.weight_steps
        update = weight_steps(self.clients, self._generation, messages)
        between = time.perf_counter()
        row = self._architecture_step(update)
        seconds = {"weights_s": between - start, "architecture_s": time.perf_counter() - between}
        return {**row, **{name: round(value, 6) for name, value in seconds.items()}}

    def _architecture_step(self, update: Payload) -> dict[str, Any]:
        """DARTS' Algorithm 1, line 1, with ξ = 0: descend the federated ∇_α L_val(W, α).

        The figures are those of the relaxed network before the step on α, and α after it.
        """
        message, form = {**self._message(), **update}, TAKE.having(figures=SUM)
        replies = self.clients.call("architecture", message, reply=form)
        self.clients.require_taken(replies.ok)
        tag, forms = f"architecture-{self._generation}", relaxed_forms(len(self._prior))
        figures = self.clients.total(tag, replies.ok, "figures", forms, ("train", "val"))
        gradient = average({name: figures[name] for name in ("share", "logits")})
        if gradient:
            self._alpha.grad = torch.from_numpy(gradient["logits"].astype(np.float64))
            self._optimizer.step()
        logits = self._logits()
        return {
            **figure_columns(figures),
            "generation": self._generation,
            "entropy": entropy(self._space, logits),
            "best_code": str(most_likely_genotype(self._space, logits)),
        }

    def _message(self) -> Payload:
        weights = {"class_weights": self._class_weights} if self._class_weights else {}
        about = {"generation": self._generation, "totals": self._totals, **weights}
        return {**about, "logits": self._logits()}

    def _logits(self) -> Logits:
        logits: Logits = self._prior + self._alpha.detach().numpy()
        return logits


def relaxed_forms(logits: int) -> dict[str, Form]:
    """What the summed figures can be: of shares, losses and correct predictions, and a gradient."""
    most = 1 + ROUNDING

    def train_fault(train: Any) -> str:
        return "is out of bounds" if train[1] > most else ""

    def val_fault(val: Any) -> str:
        return "is out of bounds" if val[1] > val[2] + ROUNDING or val[2] > most else ""

    return {
        "share": share_form(),
        "logits": Array((logits,), -LARGEST * most, LARGEST * most),
        "train": Array((2,), -ROUNDING, also=train_fault),
        "val": Array((3,), -ROUNDING, also=val_fault),
    }


def figure_columns(figures: Mapping[str, Any]) -> Row:
    """Columns of the relaxed network's figures, where clients tell them."""
    row: Row = dict.fromkeys(("train_loss", "val_loss", "val_accuracy", "test_accuracy"))
    if "val" in figures:
        train, val = figures["train"], figures["val"]
        row["train_loss"] = _ratio(train[0], train[1])
        row |= {"val_loss": _ratio(val[0], val[2]), "val_accuracy": _ratio(val[1], val[2])}
    return row


def _ratio(total: float, share: float) -> float:
    """A mean over the clients that answered; zero where none has such nodes."""
    return float(total / share) if share else 0.0


def bounded(gradient: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """A gradient that every secure sum can take, and what it counts.

    One that is not finite becomes zero and does not count; one with an entry beyond
    :data:`LARGEST` is scaled down as a whole, so that its direction stays.
    """
    if not all_finite(gradient.values()):
        return {name: np.zeros_like(value) for name, value in gradient.items()}, 0.0
    largest = max(float(np.abs(value).max(initial=0.0)) for value in gradient.values())
    scale = np.float32(LARGEST / max(largest, LARGEST))
    return {name: scale * value for name, value in gradient.items()}, 1.0
