"""Model-agnostic meta-learning (Finn et al., 2017), and a network that a client so learns.

Notation: θ are parameters by name, L_S and L_Q the losses of a support and of a query set, α the
inner rate. A loss is a function of parameters; what it is a loss of is its own affair. It may draw
dropout as it is called.

Derivatives are autograd's. ``torch.func.grad`` gives the same ones bit for bit, but looks every
operation of ours up anew: on a client of Cora that made a step five times slower.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from autofgl.errors import AutoFGLError
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.spec import NetworkSpec
from autofgl.nn.structure import Structure
from autofgl.runtime.client_data import Inputs
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.metrics import MetricSums
from autofgl.seeding import numpy_generator

Parameters: TypeAlias = dict[str, Tensor]
Loss: TypeAlias = Callable[[Parameters], Tensor]


def adapt(loss: Loss, parameters: Parameters, steps: int, rate: float) -> Parameters:
    """Inner steps of gradient descent: θ' ← θ' - α ∇L(θ'), ``steps`` times from θ' = θ (Eq. 1)."""
    for _ in range(steps):
        parameters = _descend(loss, _leaves(parameters), rate, keep_graph=False)
    return {name: value.detach() for name, value in parameters.items()}


def meta_gradient(
    support: Loss,
    query: Loss,
    parameters: Parameters,
    *,
    steps: int,
    rate: float,
    first_order: bool = False,
) -> tuple[Parameters, Tensor]:
    """Gradient in θ of the query loss after adaptation, L_Q(θ'(θ)), and that loss.

    θ' descends L_S. ``first_order`` takes dθ'/dθ for the identity (section 5.2 there): the gradient
    of L_Q at θ'.
    """
    if first_order:
        start = adapted = _leaves(adapt(support, parameters, steps, rate))
    else:
        start = adapted = _leaves(parameters)
        for _ in range(steps):
            adapted = _descend(support, adapted, rate, keep_graph=True)
    with torch.enable_grad():
        loss = query(adapted)
    return _slopes(loss, start, keep_graph=False), loss.detach()


def mean_gradient(tasks: Iterable[tuple[Parameters, Tensor]]) -> tuple[Parameters, Tensor]:
    """Mean over tasks of their gradients, and of their losses; there is at least one task.

    Eq. 2 sums instead: with the mean, a rate does not depend on the number of tasks.
    """
    gradients, losses = zip(*tasks, strict=True)
    total = {name: sum(each[name] for each in gradients) / len(losses) for name in gradients[0]}
    return total, sum(losses) / len(losses)


def _descend(loss: Loss, parameters: Parameters, rate: float, *, keep_graph: bool) -> Parameters:
    with torch.enable_grad():
        slopes = _slopes(loss(parameters), parameters, keep_graph=keep_graph)
        return {name: value - rate * slopes[name] for name, value in parameters.items()}


def _slopes(loss: Tensor, parameters: Parameters, *, keep_graph: bool) -> Parameters:
    """Gradient of a loss; zero for parameters that it does not depend on."""
    gradients = torch.autograd.grad(
        loss, [*parameters.values()], create_graph=keep_graph, materialize_grads=True
    )
    return dict(zip(parameters, gradients, strict=True))


def _leaves(parameters: Parameters) -> Parameters:
    return {name: value.detach().requires_grad_() for name, value in parameters.items()}


@dataclass(frozen=True)
class Task:
    """Positions among the training nodes to adapt to and to judge by; disjoint if there are two."""

    support: Tensor
    query: Tensor


def draw_task(nodes: int, support: int, query: int, rng: np.random.Generator) -> Task:
    """A random task; ``support`` 0 stands for half of the nodes, ``query`` 0 for all that are left.

    Sizes are those of the whole task, not of each class: the paper counts "support sets" and
    "target sets" of a client, and a client of fifty often has one node of a class. Where there are
    too few nodes both sizes shrink in proportion, but each keeps one; a single node is both.
    """
    order = torch.from_numpy(rng.permutation(nodes))
    adapting, judging = task_places(nodes, support, query)
    return Task(order[adapting], order[judging])


def task_places(nodes: int, support: int, query: int) -> tuple[slice, slice]:
    """Where the two sets of a task lie in a random order of the nodes."""
    if nodes == 1:
        return slice(1), slice(1)
    adapting = min(support or nodes // 2, nodes - 1)
    judging = query or nodes - adapting
    if adapting + judging > nodes:
        adapting = min(max(round(nodes * adapting / (adapting + judging)), 1), nodes - 1)
        judging = nodes - adapting
    return slice(adapting), slice(adapting, adapting + judging)


def adapted_to(settings: Any, nodes: int, seed: int, name: str) -> Tensor:
    """Which of a client's training nodes an adaptation before an evaluation may see."""
    rng = numpy_generator(seed, "adaptation", name)
    return torch.from_numpy(np.sort(rng.permutation(nodes)[: settings.adapt_support or nodes]))


def unseen(classes: int, count: int, seed: int) -> npt.NDArray[np.int64]:
    """The classes that no task has, drawn by the seed: the same at all clients."""
    return numpy_generator(seed, "unseen classes").permutation(classes)[:count].astype(np.int64)


class MetaModel(LocalModel):
    """A network that meta-learns; a resumed run draws the tasks that an undisturbed one would."""

    settings: Any

    def __init__(
        self,
        name: str,
        inputs: Inputs,
        spec: NetworkSpec,
        settings: Any,
        seed: int,
        weights: Weights | None = None,
    ) -> None:
        super().__init__(name, inputs, spec, settings, seed, weights)
        hidden = torch.from_numpy(unseen(spec.classes, settings.unseen_classes, seed))
        self._slots: dict[
            str, tuple[dict[str, Any], str]
        ] = {}  # where modules keep their parameters
        for name, _ in self.model.named_parameters():
            path, _, key = name.rpartition(".")
            self._slots[name] = self.model.get_submodule(path)._parameters, key
        labels = self._origin.labels[0]
        self._taught = torch.nonzero(~torch.isin(labels, hidden)).reshape(-1)
        kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.SGD
        self._optimizer = kind(
            self.model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
        )

    @property
    def taught_nodes(self) -> int:
        """Number of training nodes that tasks are made of: those of classes that are not unseen."""
        return len(self._taught)

    def learn(self, at: int, again: int = 0) -> float:
        """Outer steps of a round, if there are nodes; the mean query loss before the last of them.

        ``again`` says how often it was called for this round before: every time has its own tasks.
        """
        if not self.taught_nodes:
            return 0.0
        generator = self.dropout_generator(at, again)
        self.model.train()
        begin = again * self.settings.outer_steps
        for step in range(begin, begin + self.settings.outer_steps):
            gradient, loss = mean_gradient(
                meta_gradient(
                    self._loss(task.support, generator),
                    self._loss(task.query, generator),
                    self._parameters(),
                    steps=self.settings.inner_steps,
                    rate=self.settings.inner_lr,
                    first_order=self.settings.first_order,
                )
                for task in self.tasks(at, step)
            )
            for name, parameter in self.model.named_parameters():
                parameter.grad = gradient[name]
            self._optimizer.step()
        if not torch.isfinite(loss):
            raise AutoFGLError(f"the loss of {self.name} is not finite: lower 'inner_lr' or 'lr'")
        return float(loss)

    def tasks(self, at: int, step: int) -> list[Task]:
        """The tasks of an outer step; without inner steps there is nothing to support."""
        settings, nodes = self.settings, self.taught_nodes
        rng = numpy_generator(self._seed, "tasks", self.name, at, step)
        if settings.inner_steps:
            tasks = [
                draw_task(nodes, settings.support, settings.query, rng)
                for _ in range(settings.tasks)
            ]
            return [Task(self._taught[task.support], self._taught[task.query]) for task in tasks]
        count = min(settings.query or nodes, nodes)
        queries = [np.sort(rng.permutation(nodes)[:count]) for _ in range(settings.tasks)]
        none = torch.zeros(0, dtype=torch.int64)
        return [Task(none, self._taught[torch.from_numpy(query)]) for query in queries]

    def adapted(self) -> Parameters:
        """The weights after adaptation to the own training nodes, without dropout."""
        settings, parameters = self.settings, self._parameters()
        if not self.train_nodes:
            return parameters
        self.model.eval()
        rate = settings.adapt_lr or settings.inner_lr
        adapted = adapt(self._loss(self._adapted_to()), parameters, settings.adapt_steps, rate)
        if not all(bool(value.isfinite().all()) for value in adapted.values()):
            raise AutoFGLError(f"{self.name} diverges as it adapts: lower 'adapt_lr' or 'inner_lr'")
        return adapted

    def evaluate_adapted(self) -> MetricSums:
        """As :meth:`evaluate`, after adaptation; the present weights stay as they are."""
        return self.loss_sums(self.adapted_logits())

    def adapted_logits(self) -> Tensor:
        """As :meth:`logits`, after adaptation; the present weights stay as they are."""
        before = self._parameters()
        self._set(self.adapted())
        try:
            return self.logits()
        finally:
            self._set(before)

    def outputs(self, inputs: Inputs) -> Tensor:
        """Outputs for all nodes of some inputs, without dropout."""
        self.model.eval()
        return self._outputs(self._parameters(), inputs.features, inputs.structure, None)

    def adapted_outputs(self, inputs: Inputs) -> Tensor:
        """Outputs for all nodes of some inputs, after adaptation to the own training nodes."""
        adapted = self.adapted()
        self.model.eval()
        return self._outputs(adapted, inputs.features, inputs.structure, None)

    def _loss(self, chosen: Tensor, generator: torch.Generator | None = None) -> Loss:
        """Mean loss of some training nodes as a function of the parameters."""
        chosen = chosen.to(self.device)
        nodes, labels = self._nodes[0][chosen], self._labels[0][chosen]

        def loss(parameters: Parameters) -> Tensor:
            logits = self._outputs(parameters, self._features, self._structure, generator)
            return self.loss.mean(logits[nodes], labels)

        return loss

    def _outputs(
        self,
        parameters: Parameters,
        features: InputFeatures,
        structure: Structure,
        generator: torch.Generator | None,
    ) -> Tensor:
        """The network's outputs with other parameters.

        ``torch.func.functional_call`` gives the same, but its checks take as long as a step on a
        client with few nodes.
        """
        before = [slot[key] for slot, key in self._slots.values()]
        for name, (slot, key) in self._slots.items():
            slot[key] = parameters[name]
        try:
            outputs: Tensor = self.model(features, structure, generator=generator)
        finally:
            for (slot, key), value in zip(self._slots.values(), before, strict=True):
                slot[key] = value
        return outputs

    def _adapted_to(self) -> Tensor:
        """Positions of the training nodes that an adaptation may see, always the same."""
        return adapted_to(self.settings, self.train_nodes, self._seed, self.name)

    def _parameters(self) -> Parameters:
        return {name: value.detach().clone() for name, value in self.model.named_parameters()}

    def _set(self, parameters: Parameters) -> None:
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(parameters[name])
