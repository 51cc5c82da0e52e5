"""Model-agnostic meta-learning on any loss (Finn et al., 2017).

Notation: θ are parameters by name, L_S and L_Q the losses of a support and of a query set, α the
inner rate. A loss is a function of parameters; what it is a loss of is its own affair. It may draw
dropout as it is called.

Derivatives are autograd's. ``torch.func.grad`` gives the same ones bit for bit, but looks every
operation of ours up anew: on a client of Cora that made a step five times slower.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import torch
from torch import Tensor

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
