"""One pass over a plan, forwards and backwards, group by group.

Every group is differentiated by itself: its inputs are copied out of its predecessors' outputs,
its gradient is added to theirs, and its intermediate results are freed at once. Torch's own
backward pass over the whole plan would pad the gradient of each slice to the size of what it was
taken from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autofgl.nn.supernet.field import Field
from autofgl.nn.supernet.plan import Group

#: A group's function ``[nodes, k, C] -> [rows, k, C]`` and the parameters in it.
Run = Callable[[Group, Tensor], Tensor]
Parameters = Callable[[Group], Mapping[str, Tensor]]


@dataclass
class _Block:
    """Outputs of some paths side by side, ``[rows, k, C]``, and what led to them."""

    paths: tuple[int, ...]
    output: Tensor
    inputs: Tensor | None = None
    result: Tensor | None = None
    group: Group | None = None
    gradient: Tensor | None = None


class Sweep:
    """The outputs of all paths of a plan on one field.

    Args:
        start: Outputs of the input stage, ``[nodes, inputs, C]``, detached.
        groups: What to compute, predecessors first.
        field: Where.
        run: A group's function.
        differentiable: Whether :meth:`backward` will follow.
    """

    def __init__(
        self,
        start: Tensor,
        groups: Sequence[Group],
        field: Field,
        run: Run,
        differentiable: bool,
    ) -> None:
        self._field = field
        self._blocks = [_Block(tuple(range(start.shape[1])), start)]
        self._where = {path: (0, path) for path in range(start.shape[1])}
        for group in groups:
            self._append(group, run, differentiable)

    def measured(self) -> Tensor:
        """Outputs at the measured nodes, by path in the order of :attr:`order`, ``[N, T, C]``."""
        rows = self._field.measured
        return torch.cat([block.output[:rows].transpose(0, 1) for block in self._blocks])

    @property
    def order(self) -> list[int]:
        """The paths in the order of :meth:`measured`."""
        return [path for block in self._blocks for path in block.paths]

    def backward(self, upstream: Tensor, parameters: Parameters, into: dict[str, Tensor]) -> Tensor:
        """Add the parameters' gradients to ``into``.

        Args:
            upstream: Gradient of what :meth:`measured` returned.
            parameters: The parameters of a group by name.
            into: Gradients by name; the groups' are added.

        Returns:
            Gradient of ``start``.
        """
        rows = self._field.measured
        pieces = torch.split(upstream, [len(block.paths) for block in self._blocks])
        for block, piece in zip(self._blocks, pieces, strict=True):
            block.gradient = torch.zeros_like(block.output)
            block.gradient[:rows] = piece.transpose(0, 1)
        while len(self._blocks) > 1:
            self._backward_last(parameters, into)
        gradient = self._blocks[0].gradient
        assert gradient is not None
        return gradient

    def _append(self, group: Group, run: Run, differentiable: bool) -> None:
        inputs = self._gathered(group)
        with torch.set_grad_enabled(differentiable):
            result = run(group, inputs.requires_grad_(differentiable))
        block = _Block(group.paths, result.detach())
        if differentiable:
            block.inputs, block.result, block.group = inputs, result, group
        for column, path in enumerate(group.paths):
            self._where[path] = (len(self._blocks), column)
        self._blocks.append(block)

    def _gathered(self, group: Group) -> Tensor:
        """The inputs of a group side by side, ``[nodes, k, C]``."""
        start = self._blocks[0].output
        rows = self._field.size(group.radius + group.hops)
        inputs = start.new_empty(rows, len(group.parents), start.shape[2])
        for column, parent in enumerate(group.parents):
            block, place = self._where[parent]
            inputs[:, column] = self._blocks[block].output[:rows, place]
        return inputs

    def _backward_last(self, parameters: Parameters, into: dict[str, Tensor]) -> None:
        block = self._blocks.pop()
        assert block.group is not None
        assert block.inputs is not None
        assert block.result is not None
        named = parameters(block.group)
        wanted = [block.inputs, *named.values()]
        # An output that does not depend on an input at all has no gradient.
        found = torch.autograd.grad(block.result, wanted, block.gradient, allow_unused=True)
        if found[0] is not None:
            self._hand_down(block.group, found[0])
        for name, gradient in zip(named, found[1:], strict=True):
            if gradient is not None:
                into[name] = into[name] + gradient if name in into else gradient

    def _hand_down(self, group: Group, gradient: Tensor) -> None:
        for column, parent in enumerate(group.parents):
            block, place = self._where[parent]
            target = self._blocks[block].gradient
            assert target is not None
            target[: len(gradient), place] += gradient[:, column]
