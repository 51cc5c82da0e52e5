"""The step of a gated recurrent unit, with a gradient of its own.

Torch's cell keeps some twenty numbers for each one of the state until its backward pass, and its
``tanh`` costs more than its sigmoids together. Here a step keeps six, and adds in place.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from autofgl.nn.kernels.dense import multiply

_aten = torch.ops.aten


def gated_update(cell: nn.GRUCell, inputs: Tensor, weight: Tensor, state: Tensor) -> Tensor:
    """``cell(inputs @ weight, state)`` with one product instead of two, differentiable once.

    Shapes: inputs ``[n, D]``, weight ``[D, C]``, state ``[n, C]`` → ``[n, C]``.
    """
    weight_in = cell.weight_ih @ weight.t()
    out: Tensor = _GatedUpdate.apply(  # type: ignore[no-untyped-call]
        inputs, state, weight_in, cell.weight_hh, cell.bias_ih, cell.bias_hh
    )
    return out


class _GatedUpdate(Function):
    r"""Reset gate r, update gate z and candidate n of the inputs :math:`\mathbf{X}` and the state
    :math:`\mathbf{H}`, in torch's order:

    .. math::
        \mathbf{r}, \mathbf{z} = \sigma(\mathbf{X} \mathbf{W}_{r,z} + \mathbf{H} \mathbf{U}_{r,z} +
        \mathbf{b}), \quad \mathbf{n} = \tanh(\mathbf{X} \mathbf{W}_n + \mathbf{r} \odot
        \mathbf{u}), \quad \mathbf{u} = \mathbf{H} \mathbf{U}_n + \mathbf{c}, \quad
        \mathbf{H}^{\prime} = \mathbf{n} + \mathbf{z} \odot (\mathbf{H} - \mathbf{n})
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        state: Tensor,
        weight_in: Tensor,  # [3C, D]
        weight_state: Tensor,  # [3C, C]
        bias_in: Tensor,
        bias_state: Tensor,
    ) -> Tensor:
        gates = 2 * state.shape[1]
        both = multiply(inputs, weight_in[:gates].t(), bias_in[:gates] + bias_state[:gates])
        both.add_(multiply(state, weight_state[:gates].t())).sigmoid_()
        reset, update = both.chunk(2, dim=1)
        inner = multiply(state, weight_state[gates:].t(), bias_state[gates:])
        candidate = multiply(inputs, weight_in[gates:].t(), bias_in[gates:])
        _tanh(candidate.addcmul_(reset, inner))
        ctx.save_for_backward(inputs, state, weight_in, weight_state, both, inner, candidate)
        return torch.lerp(candidate, state, update)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        inputs, state, weight_in, weight_state, both, inner, candidate = ctx.saved_tensors
        reset, update = both.chunk(2, dim=1)
        # Gradients of what enters r, z and n, from the inputs and from the state.
        by_inputs = state.new_empty(len(state), 3 * state.shape[1])
        of_reset, of_update, of_candidate = by_inputs.chunk(3, dim=1)
        kept = grads[0] * update
        _aten.tanh_backward.grad_input(grads[0] - kept, candidate, grad_input=of_candidate)
        _aten.sigmoid_backward.grad_input(of_candidate * inner, reset, grad_input=of_reset)
        difference = (state - candidate).mul_(grads[0])
        _aten.sigmoid_backward.grad_input(difference, update, grad_input=of_update)
        by_state = torch.cat([of_reset, of_update, of_candidate * reset], dim=1)
        return (
            multiply(by_inputs, weight_in),
            kept.add_(multiply(by_state, weight_state)),
            multiply(inputs.t(), by_inputs).t(),
            multiply(state.t(), by_state).t(),
            by_inputs.sum(0),
            by_state.sum(0),
        )


def _tanh(x: Tensor) -> Tensor:
    """In place, by the sigmoid: ten times as fast as torch's, and off by one rounding of 1."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)
