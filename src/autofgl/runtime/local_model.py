"""A network on one client's graph: local epochs, gradients, evaluation, state."""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.networks import build_network, empty_network, receptive_hops
from autofgl.nn.models.spec import NetworkSpec
from autofgl.nn.structure import Structure
from autofgl.runtime.batches import MOST_ENTRIES, Batch, MiniBatches, outputs_in_chunks
from autofgl.runtime.client_data import Inputs
from autofgl.runtime.device import fetch, send
from autofgl.runtime.metrics import SPLITS, MetricSums
from autofgl.runtime.settings import BatchSettings, ConsistencySettings, TrainSettings
from autofgl.runtime.state import restore_state, saved_state
from autofgl.seeding import torch_generator
from autofgl.tasks.counts import Counts, prediction_counts
from autofgl.tasks.losses import (
    NodeLoss,
    calibrated_losses,
    disagreement,
    distance_from,
    tempered_losses,
)

Weights: TypeAlias = dict[str, npt.NDArray[np.float32]]

#: A node's loss counts as no more than this in a trial: secure sums hold numbers of limited size.
WORST_LOSS = 50.0


class LocalModel:
    """The network, its optimizer and everything precomputed about the graph.

    Randomness enters in two places, both by name: the initial weights are the same for every client
    of a run, and dropout depends on client and round only, so that a resumed run draws what an
    undisturbed one would have drawn. It begins with the weights given, or with random ones.
    """

    #: Attributes that a checkpoint has, besides the weights.
    saved: ClassVar[tuple[str, ...]] = ("_optimizer",)

    def __init__(
        self,
        name: str,
        inputs: Inputs,
        spec: NetworkSpec,
        settings: TrainSettings,
        seed: int,
        weights: Weights | None = None,
    ) -> None:
        self.name = name
        self.spec = spec
        self.settings = settings
        self.loss = NodeLoss.of(settings)
        self._seed = seed
        self._features, self._structure = inputs.features, inputs.structure
        self._nodes, self._labels = inputs.nodes, inputs.labels
        self._origin = inputs.origin or inputs
        self.device = inputs.features.device
        if weights is None:
            draw = [settings.init] if settings.init else []
            self.model = build_network(spec, torch_generator(seed, "weights", *draw))
        else:
            self.model = empty_network(spec)
            self.load_weights(weights)
        self.model.to(self.device)  # drawn on the CPU: the same weights on every device
        self._named = tuple(self.model.named_parameters())
        self._optimizer = _new_optimizer(self.model, settings, settings.lr)
        self._batches = self._mini_batches(settings)
        self._val_logits: Tensor | None = None
        self._teacher: Tensor | None = None

    def _mini_batches(self, settings: TrainSettings) -> MiniBatches | None:
        if not isinstance(settings, BatchSettings) or not settings.batch or not self.train_nodes:
            return None
        fanouts = settings.fanouts(receptive_hops(self.spec))
        data = self._origin
        training = (data.features, data.structure, data.nodes[0], data.labels[0])
        return MiniBatches(*training, size=settings.batch, fanouts=fanouts, device=self.device)

    @property
    def parameters(self) -> int:
        """Number of parameters of the network."""
        return sum(value.numel() for value in self.model.parameters())

    @property
    def network_inputs(self) -> tuple[InputFeatures, Structure]:
        """What the network computes on."""
        return self._features, self._structure

    def show_test(self, inputs: Inputs) -> None:
        """From now on figures are of test nodes too."""
        self._nodes, self._labels = inputs.nodes, inputs.labels

    @property
    def train_nodes(self) -> int:
        """Number of labeled training nodes."""
        return len(self._nodes[0])

    @property
    def val_nodes(self) -> int:
        """Number of labeled validation nodes."""
        return len(self._nodes[1])

    def dropout_generator(self, at: int, again: int = 0) -> torch.Generator:
        """The source of this client's dropout in a round, the first time and ``again``."""
        names: list[int | str] = [at, again] if again else [at]
        names += [f"init-{self.settings.init}"] if self.settings.init else []
        return torch_generator(self._seed, "dropout", self.name, *names)

    def train(self, epochs: int, at: int, adjust: Callable[[], None] | None = None) -> None:
        """Local epochs, each a step or one for every mini-batch. A client without training nodes
        leaves its weights alone. ``adjust`` changes the gradients before every step.
        """
        generator = self.dropout_generator(at)
        for epoch in range(epochs if self.train_nodes else 0):
            for batch in self._epoch(at, epoch):
                self.backward(generator, batch)
                if adjust is not None:
                    adjust()
                self._optimizer.step()

    def gradient(self, at: int) -> Weights:
        """Gradient of the mean training loss at the present weights; zero without such nodes.

        With mini-batches it is that of the round's batch, which on average is the same.
        """
        if self.train_nodes:
            batch = self._batches.at(at, self._seed, self.name) if self._batches else None
            self.backward(self.dropout_generator(at), batch)
        else:
            self._optimizer.zero_grad(set_to_none=False)
        return {
            name: np.zeros(value.shape, np.float32) if value.grad is None else fetch(value.grad)
            for name, value in self.trained()
        }

    def bounded(self, gradient: Weights) -> Weights:
        """A gradient as it may be sent."""
        return gradient

    def no_gradient(self) -> Weights:
        """A gradient of zeros."""
        return {name: np.zeros(value.shape, np.float32) for name, value in self.trained()}

    def _epoch(self, at: int, epoch: int) -> Iterator[Batch | None]:
        """The mini-batches of an epoch; one that stands for all nodes where there are none."""
        if self._batches is None:
            return iter([None])
        return self._batches.epoch(self._seed, self.name, at, epoch)

    def teach(self, log_probabilities: Any) -> None:
        """From now on learn from predictions for all own nodes ``[n, C]``, too."""
        self._teacher = send(np.asarray(log_probabilities, np.float32), next(iter(self._named))[1])

    def backward(self, generator: torch.Generator, batch: Batch | None = None) -> None:
        """Gradients of the mean training loss into the parameters' ``grad``, over all training
        nodes or those of a mini-batch; with ``consistency`` also of what two passes disagree on,
        with a teacher of how far they are from it, at all own nodes or those of a mini-batch.
        """
        self.model.train()
        self._optimizer.zero_grad()
        settings = self.settings
        weight = settings.consistency if isinstance(settings, ConsistencySettings) else 0.0
        passes = [self._training_pass(generator, batch) for _ in range(2 if weight else 1)]
        labels = self._labels[0] if batch is None else batch.labels
        nodes = self._nodes[0] if batch is None else slice(len(labels))
        losses = [self.loss.mean(logits[nodes], labels) for logits in passes]
        loss = losses[0] if len(losses) == 1 else torch.stack(losses).mean()
        if weight:
            loss = loss + weight * disagreement(passes)
        if self._teacher is not None:
            taught = self._teacher if batch is None else self._teacher[batch.nodes]
            loss = loss + torch.stack([distance_from(taught, logits) for logits in passes]).mean()
        loss.backward()  # type: ignore[no-untyped-call]

    def _training_pass(self, generator: torch.Generator, batch: Batch | None) -> Tensor:
        """Logits with dropout, of all own nodes, or of the nodes of a mini-batch."""
        features, structure = self._features, self._structure
        if batch is not None:
            features, structure = batch.features, batch.structure
        settings = self.settings
        if isinstance(settings, ConsistencySettings) and settings.consistency:
            features = features.drop_nodes(settings.node_dropout, generator)
        logits: Tensor = self.model(features, structure, generator=generator)
        return logits if batch is None else logits[: len(batch.labels)]

    def step(self) -> None:
        """One optimizer step along the gradients that the parameters hold."""
        self._optimizer.step()

    def apply(self, gradient: Weights) -> None:
        """One optimizer step along a given gradient; parameters without one stay as they are."""
        for name, parameter in self.trained():
            parameter.grad = send(gradient[name], parameter) if name in gradient else None
        self._optimizer.step()

    def restart(self, lr: float) -> None:
        """Forget the optimizer's moments, and go on with a rate."""
        self._optimizer = _new_optimizer(self.model, self.settings, lr)

    def pull(self, center: Mapping[str, Any], strength: float) -> Callable[[], None]:
        """What adds the gradient of ``strength`` / 2 · ‖w − center‖² to that of the loss."""
        anchors = [(value, send(center[name], value)) for name, value in self.trained()]

        def adjust() -> None:
            for value, anchor in anchors:
                if value.grad is not None:
                    value.grad.add_(value.detach() - anchor, alpha=strength)

        return adjust

    def descend(self, gradient: Weights) -> None:
        """One step against a given gradient, as long as it is."""
        with torch.no_grad():
            for name, parameter in self.trained():
                parameter.sub_(send(gradient[name], parameter))

    def evaluate(self) -> MetricSums:
        """Loss sum, correct predictions and count on each mask, ``[9]``.

        Raises:
            AutoFGLError: Training has diverged.
        """
        return self.loss_sums(self.logits())

    def evaluate_counting(
        self, kinds: Sequence[str], splits: Sequence[str]
    ) -> tuple[MetricSums, dict[str, Counts]]:
        """As :meth:`evaluate`, and the predictions on some masks, counted in some ways; the first
        axis of the counts is that of the masks.
        """
        logits = self.logits()
        self._val_logits = logits[self._nodes[1]]
        return self.loss_sums(logits), self.counts_of(logits, kinds, splits)

    def counts_of(
        self, logits: Tensor, kinds: Sequence[str], splits: Sequence[str]
    ) -> dict[str, Counts]:
        """Outputs for all own nodes, counted by mask."""
        masks = [SPLITS.index(split) for split in splits]
        cells = self.settings.score_bins
        rows = [
            prediction_counts(fetch(logits[self._nodes[at]]), fetch(self._labels[at]), kinds, cells)
            for at in masks
        ]
        return {kind: np.stack([row[kind] for row in rows]) for kind in kinds}

    def hits(self) -> list[Any]:
        """Which nodes of each mask are predicted right, ``[3]`` arrays of booleans."""
        predicted = self.logits().argmax(1)
        pairs = zip(self._nodes, self._labels, strict=True)
        return [fetch(predicted[nodes] == labels) for nodes, labels in pairs]

    def loss_sums(self, logits: Tensor) -> MetricSums:
        """What :meth:`evaluate` gives, from the outputs for all own nodes."""
        sums = np.zeros((len(SPLITS), 3))
        for row, nodes, labels in zip(sums, self._nodes, self._labels, strict=True):
            row[:] = count_up(logits[nodes], labels, self.loss)
        if not np.isfinite(sums).all():
            raise AutoFGLError(f"the loss of {self.name} is no longer finite: lower 'lr'")
        return sums.reshape(-1)

    @torch.no_grad()
    def logits(self) -> Tensor:
        """Outputs for all own nodes, without dropout, ``[n, classes]``.

        Where training goes by mini-batches, a graph too large for one pass is taken in chunks.
        """
        self.model.eval()
        hops = receptive_hops(self.spec)
        most = MOST_ENTRIES // max(getattr(self.spec, "hidden", 1), self.spec.classes)
        if self._batches and hops is not None and self._structure.num_nodes > most:
            data, device = self._origin, self.device
            return outputs_in_chunks(self.model, data.features, data.structure, hops, most, device)
        output: Tensor = self.model(self._features, self._structure)
        return output

    def inference_seconds(self) -> float:
        """Median time of one pass over all own nodes."""
        return median_seconds(self.logits)

    def weights(self) -> Weights:
        """A copy of the network's weights."""
        return {name: _as_floats(value) for name, value in self.model.state_dict().items()}

    def load_weights(self, weights: Weights) -> None:
        """Overwrite the network's weights; whole numbers, as a mean has them, are rounded."""
        with torch.no_grad():
            for name, parameter in self.model.state_dict().items():
                whole = not parameter.is_floating_point()
                value = np.asarray(np.rint(weights[name]), np.int64) if whole else weights[name]
                parameter.copy_(send(value, parameter))

    def buffers(self) -> Weights:
        """A copy of what a training pass changes besides the parameters."""
        names = self.model.tracked_buffers
        state = self.model.state_dict() if names else {}
        return {name: _as_floats(state[name]) for name in names}

    def load_buffers(self, buffers: Weights) -> None:
        """Overwrite them."""
        if buffers:
            self.load_weights(self.weights() | buffers)

    def trained(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Parameters by name, without those that are fixed."""
        return ((name, parameter) for name, parameter in self._named if parameter.requires_grad)

    def flags(self) -> dict[str, Any]:
        """What the figures of an evaluation say besides."""
        return {}

    def tempered(self) -> Any:
        """Losses on validation nodes at several temperatures, ``[T]``, as a sum over the nodes, of
        the weights that were evaluated last.
        """
        assert self._val_logits is not None
        return tempered_losses(self._val_logits, self._labels[1], WORST_LOSS)

    def calibrated_losses(self) -> Any:
        """Losses of the validation nodes after temperature scaling, ``[n]``, of those weights."""
        assert self._val_logits is not None
        return calibrated_losses(self._val_logits, self._labels[1], WORST_LOSS)

    def state(self) -> Payload:
        """Weights and the optimizer's moments."""
        return {"weights": self.weights(), **saved_state(self, self.saved)}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.load_weights(state["weights"])
        restore_state(self, self.saved, state)


def _new_optimizer(
    model: torch.nn.Module, settings: TrainSettings, lr: float
) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if settings.decoupled else torch.optim.Adam
    return kind(model.parameters(), lr=lr, weight_decay=settings.weight_decay)


def count_up(
    logits: Tensor, labels: Tensor, loss_of: NodeLoss | None = None
) -> tuple[float, int, int]:
    """Loss sum, correct predictions and number of some labeled nodes."""
    if not len(labels):
        return 0.0, 0, 0
    loss = float((loss_of or NodeLoss()).total(logits, labels))
    return loss, int((logits.argmax(1) == labels).sum()), len(labels)


def median_seconds(run: Any, repeats: int = 5) -> float:
    """Median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def all_finite(arrays: Iterable[Any]) -> bool:
    """Whether every entry of every array is a finite number."""
    return all(bool(np.isfinite(array).all()) for array in arrays)


def _as_floats(tensor: Tensor) -> Any:
    """The values as floats: whole numbers, such as BatchNorm's count, are averaged too."""
    array = fetch(tensor)
    return array if array.dtype.kind == "f" else array.astype(np.float32)
