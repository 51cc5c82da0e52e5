r"""Trials of a population of linear networks, all at once.

SGC's outputs are :math:`\hat{X} W + b`, where :math:`\hat{X}` are features averaged over some hops.
A gradient in W is :math:`\hat{X}_T^\top V`, T being the training nodes, so that gradient descent
never leaves

.. math::
    W = s W_0 + e D + \hat{X}_T^\top C, \quad
    \hat{X} W = s \hat{X} W_0 + e \hat{X} D + (\hat{X} \hat{X}_T^\top) C

with numbers s and e, :math:`C` of a row for each training node, and :math:`D` the last move of the
federation's average. A trial therefore works on matrices as large as a client's labeled nodes are
many, whatever the number of features, and a whole population is one batch of such products.

Notation: P chromosomes, R tasks of all of them, t training and v validation nodes, m = t + v, C
classes, K the largest number of hops.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import HOPS, Arrays
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.structure import Structure
from autofgl.runtime.client_data import input_features
from autofgl.runtime.details import objective_of
from autofgl.seeding import numpy_generator
from autofgl.sharing.meta.model import adapted_to, task_places
from autofgl.tasks.losses import NodeLoss

#: Numbers that may be laid out for a client: beyond that its trials are made one by one.
_MOST = 1 << 25
_WEIGHT, _BIAS = "sgc/out.0.lin.weight", "sgc/out.0.lin.bias"


class Propagated:
    """Features of a client's training and validation nodes, averaged over any number of hops."""

    def __init__(self, graph: ClientGraph, settings: GraphFLGASettings) -> None:
        self._graph = graph
        self._settings = settings
        self._nodes = np.concatenate(
            [np.flatnonzero(graph.train_mask), np.flatnonzero(graph.val_mask)]
        )
        self._train = int(graph.train_mask.sum())
        self._grams: dict[tuple[int, float], Tensor] = {}
        self.most = max(*HOPS, settings.hops)

    @property
    def fits(self) -> bool:
        """Whether all that is laid out is small enough."""
        graph, rows = self._graph, len(self._nodes)
        return rows * max(graph.num_nodes, graph.num_features * (self.most + 1)) <= _MOST

    @cached_property
    def powers(self) -> Tensor:
        """The nodes' rows of :math:`\\tilde{A}^k X` for k from 0 to K, ``[K + 1, m, F]``."""
        operator = Structure.from_client(self._graph).gcn.T
        matrix = input_features(self._graph, self._settings.normalize_features).matrix.T
        column = torch.arange(len(self._nodes))
        rows = torch.zeros(self._graph.num_nodes, len(self._nodes))
        rows[torch.from_numpy(self._nodes), column] = 1.0
        powers = []
        for hop in range(self.most + 1):
            rows = operator @ rows if hop else rows
            powers.append((matrix @ rows).T)
        return torch.stack(powers)

    def gram(self, hops: int, teleport: float) -> Tensor:
        """Products of all rows with those of the training nodes, ``[m, t]``."""
        key = (hops, teleport)
        if key not in self._grams:
            rows = torch.tensordot(self.parts(hops, teleport), self.powers, 1)
            self._grams[key] = rows @ rows[: self._train].T
        return self._grams[key]

    def parts(self, hops: int, teleport: float) -> Tensor:
        """Weight of each power in a propagation, ``[K + 1]``: α(1 - α)^k; the last has the rest."""
        parts = torch.zeros(self.most + 1)
        parts[:hops] = torch.tensor([teleport * (1 - teleport) ** hop for hop in range(hops)])
        parts[hops] = (1 - teleport) ** hops
        return parts


@dataclass
class _State:
    """Networks on their way: s and e ``[P, 1, 1]``, C ``[P, t, C]``, bias ``[P, 1, C]``."""

    scale: Tensor
    drift: Tensor
    rows: Tensor
    bias: Tensor

    def step(self, rate: Tensor, decay: Tensor, slope: Tensor) -> "_State":
        """After a step of gradient descent with weight decay; ``slope`` is that of the outputs."""
        keep = 1 - rate * decay
        rows, bias = keep * self.rows - rate * slope, keep * self.bias - rate * slope.sum(1, True)
        return _State(keep * self.scale, keep * self.drift, rows, bias)

    def toward(self, other: "_State", weight: float) -> "_State":
        """At ``weight`` of the way to another state; the average's move makes up the rest."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        moved = _State(*(own + weight * (its - own) for own, its in pairs))
        return _State(moved.scale, moved.drift + (1 - weight), moved.rows, moved.bias)


class LinearTrials:
    """Judges chromosomes whose networks are linear, as :meth:`Configurator.trial` does."""

    def __init__(self, graph: ClientGraph, settings: GraphFLGASettings, seed: int) -> None:
        self._name, self._seed, self._settings = graph.name, seed, settings
        self._propagated = Propagated(graph, settings)
        self._classes = graph.classes
        labels = [torch.from_numpy(graph.y[mask]) for mask in (graph.train_mask, graph.val_mask)]
        self._labels, self._val_labels = labels
        self._right = torch.nn.functional.one_hot(labels[0], graph.classes).float()

    @property
    def possible(self) -> bool:
        """Whether trials of this client can be made here at all."""
        return bool(len(self._labels) and len(self._val_labels)) and self._propagated.fits

    def suits(self, spec: ModelSpec, settings: GraphFLGASettings, loss: NodeLoss) -> bool:
        """Whether a network is linear, and trained in a way that leaves it in the span above."""
        plain = settings.optimizer == "sgd" and loss.kind == "cross_entropy"
        return spec.family == "sgc" and not spec.dropout and plain and not settings.time_weight

    def scores(
        self,
        population: Sequence[tuple[ModelSpec, GraphFLGASettings]],
        at: int,
        blocks: Arrays,
        weight: float,
        loss: NodeLoss,
        drift: Arrays | None = None,
    ) -> list[tuple[float, float]]:
        """What is measured of each network, and its loss; see :func:`vicinity.judge`."""
        batch = _Batch(self, population, blocks, loss, drift)
        state = batch.start()
        for again in range(self._settings.horizon):
            before = state
            for step in range(self._settings.outer_steps):
                tasks = self._tasks(population, at, again * self._settings.outer_steps + step)
                slope = batch.meta_gradient(state, tasks)
                state = state.step(batch.rate, batch.decay, slope)
            state = before.toward(state, weight)
        outputs = []
        if self._settings.fitness != "adapted":
            outputs.append(batch.outputs(state)[:, self._train :])
        if self._settings.fitness != "trained":
            outputs.append(batch.adapted(state, self._adapted_to())[:, self._train :])
        return self._judge(outputs, loss)

    @property
    def _train(self) -> int:
        return len(self._labels)

    def _adapted_to(self) -> Tensor:
        """Weight of each training node in an adaptation, ``[t]``."""
        chosen = adapted_to(self._settings, self._train, self._seed, self._name)
        weights = torch.zeros(self._train)
        weights[chosen] = 1 / len(chosen)
        return weights

    def _tasks(
        self, population: Sequence[tuple[ModelSpec, GraphFLGASettings]], at: int, step: int
    ) -> "_Tasks":
        """The tasks that each network would draw for itself (:meth:`MetaModel.tasks`)."""
        nodes = self._train
        rng = numpy_generator(self._seed, "tasks", self._name, at, step)
        orders = [rng.permutation(nodes) for _ in range(max(own.tasks for _, own in population))]
        owner, sets = [], []
        for index, (_, own) in enumerate(population):
            places = task_places(nodes, own.support, own.query)
            if not own.inner_steps:
                places = slice(0), slice(own.query or nodes)
            for order in orders[: own.tasks]:
                rows = np.zeros((2, nodes), np.float32)
                for row, place in zip(rows, places, strict=True):
                    row[order[place]] = 1 / max(len(order[place]), 1)
                owner.append(index)
                sets.append(rows)
        masks = torch.from_numpy(np.stack(sets, axis=1))
        return _Tasks(torch.tensor(owner), masks[0], masks[1])

    def _judge(self, outputs: Sequence[Tensor], loss: NodeLoss) -> list[tuple[float, float]]:
        """Mean over the ways of evaluation of what is measured, and of the loss."""
        labels, settings = self._val_labels, self._settings
        guess = math.log(max(self._classes, 2))
        scores, losses = [], []
        for logits in outputs:
            right = labels.expand(len(logits), -1)[..., None]
            each = -logits.log_softmax(2).gather(2, right)[..., 0]
            measured = (logits.argmax(2) == labels).float().mean(1)
            if settings.objective != "accuracy":
                pairs = zip(logits, measured.tolist(), strict=True)
                values = [objective_of(settings, one, labels, other) for one, other in pairs]
                measured = torch.tensor(values)
            if settings.measure == "score":
                measured = (measured + 1 - each.mean(1) / guess) / 2
            scores.append(measured)
            weights = loss.class_weights
            losses.append((each * each.new_tensor(weights)[labels] if weights else each).mean(1))
        means = (torch.stack(values).mean(0).tolist() for values in (scores, losses))
        return list(zip(*means, strict=True))


@dataclass(frozen=True)
class _Tasks:
    """Whose tasks they are ``[R]``, and weights of nodes to adapt to and to judge by ``[R, t]``."""

    owner: Tensor
    support: Tensor
    query: Tensor


class _Batch:
    """The networks of a population on one client's nodes."""

    def __init__(
        self,
        trials: LinearTrials,
        population: Sequence[tuple[ModelSpec, GraphFLGASettings]],
        blocks: Arrays,
        loss: NodeLoss,
        drift: Arrays | None,
    ) -> None:
        propagated, settings = trials._propagated, trials._settings
        ways = [(spec.steps, spec.sgc_teleport or 0.0) for spec, _ in population]
        parts = torch.stack([propagated.parts(*way) for way in ways])
        self._gram = torch.stack([propagated.gram(*way) for way in ways])
        self._train = trials._train
        self._inner = self._gram[:, : self._train]
        self._base = _products(propagated, parts, blocks)
        self._drift = torch.zeros(1) if drift is None else _products(propagated, parts, drift)
        self._right = trials._right
        own = [each for _, each in population]
        self.rate, self.decay, self._inner_rate, self._steps = (
            torch.tensor([float(getattr(one, name)) for one in own])[:, None, None]
            for name in ("lr", "weight_decay", "inner_lr", "inner_steps")
        )
        self._counts = torch.tensor([float(one.tasks) for one in own])[:, None, None]
        self._settings = settings
        weights = loss.class_weights
        self._weights = (
            torch.tensor(weights)[trials._labels] if weights else torch.ones(self._train)
        )

    def start(self) -> _State:
        """All at the federation's weights."""
        count, classes = len(self._gram), self._right.shape[1]
        zero = torch.zeros(count, 1, 1)
        rows, bias = torch.zeros(count, self._train, classes), torch.zeros(count, 1, classes)
        return _State(zero + 1, zero, rows, bias)

    def outputs(self, state: _State) -> Tensor:
        """Outputs for all nodes, ``[P, m, C]``."""
        moved = state.scale * self._base + state.drift * self._drift
        return moved + torch.baddbmm(state.bias, self._gram, state.rows)

    def meta_gradient(self, state: _State, tasks: _Tasks) -> Tensor:
        """Gradient in the training nodes' outputs of the mean query loss, ``[P, t, C]``."""
        first_order = self._settings.first_order
        start = self.outputs(state)[:, : self._train].requires_grad_(not first_order)
        owner = tasks.owner
        with torch.set_grad_enabled(not first_order):
            adapted = self._adapt(
                start[owner],
                self._inner[owner],
                tasks.support,
                self._inner_rate[owner],
                self._steps[owner],
            )
            query = (tasks.query * self._weights)[..., None] / self._counts[owner]
            if first_order:
                return torch.zeros_like(start).index_add_(0, owner, self._slope(adapted, query))
            losses = -(adapted.log_softmax(2) * self._right * query).sum()
        return torch.autograd.grad(losses, start)[0]

    def adapted(self, state: _State, support: Tensor) -> Tensor:
        """Outputs for all nodes after adaptation to some training nodes, ``[P, m, C]``."""
        settings = self._settings
        rate = self._inner_rate
        if settings.adapt_lr:
            rate = torch.full_like(rate, settings.adapt_lr)
        steps = torch.full_like(self._steps, settings.adapt_steps)
        return self._adapt(self.outputs(state), self._gram, support[None], rate, steps)

    def _adapt(
        self, start: Tensor, gram: Tensor, support: Tensor, rate: Tensor, steps: Tensor
    ) -> Tensor:
        """Outputs after inner steps (Eq. 1); ``support`` are the nodes' weights, ``[·, t]``."""
        outputs, train = start, self._train
        weights = (support * self._weights)[..., None]
        rows = torch.zeros(len(start), train, start.shape[2])
        bias = torch.zeros(len(start), 1, start.shape[2])
        for step in range(int(steps.max())):
            slope = rate * (step < steps) * self._slope(outputs[:, :train], weights)
            rows, bias = rows - slope, bias - slope.sum(1, True)
            outputs = start + torch.baddbmm(bias, gram, rows)
        return outputs

    def _slope(self, outputs: Tensor, weights: Tensor) -> Tensor:
        """Gradient of the cross-entropy, summed by weights, in the training nodes' outputs."""
        return (outputs.softmax(2) - self._right) * weights


def _products(propagated: Propagated, parts: Tensor, blocks: Mapping[str, Any]) -> Tensor:
    """A network's outputs for all nodes by each way of propagation, ``[P, m, C]``."""
    weight = torch.tensor(np.asarray(blocks[_WEIGHT], np.float32))
    bias = torch.tensor(np.asarray(blocks[_BIAS], np.float32))
    outputs: Tensor = torch.tensordot(parts, propagated.powers @ weight, 1) + bias
    return outputs
