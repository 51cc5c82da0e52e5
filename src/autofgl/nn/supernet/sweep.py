"""One pass over a plan, forward and backward, group by group.

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

from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern
from autofgl.nn.supernet.plan import Group
from autofgl.nn.supernet.receptive_field import ReceptiveField

#: A group's function ``[nodes, k, C] -> [rows, k, C]`` and the parameters in it.
GroupFunction = Callable[[Group, Tensor], Tensor]
Parameters = Callable[[Group], Mapping[str, Tensor]]


@dataclass
class _Block:
    """Outputs of some paths side by side, ``[rows, k, C]``, and what led to them."""

    paths: tuple[int, ...]
    output: Tensor
    origin: tuple[Group, Tensor, Tensor] | None = None  # with its input and differentiable output
    upstream: Tensor | None = None  # gradient at the measured nodes, [k, T, C]
    _gradient: Tensor | None = None

    @property
    def gradient(self) -> Tensor:
        """The gradient so far, laid out when it is first asked for: most blocks wait for long."""
        if self._gradient is None:
            assert self.upstream is not None
            self._gradient = torch.zeros_like(self.output)
            self._gradient[: self.upstream.shape[1]] = self.upstream.transpose(0, 1)
        return self._gradient


class Sweep:
    """The outputs of all paths of a plan on one receptive field.

    ``start`` has the outputs of the input stage, ``[nodes, inputs, C]``, detached; the groups come
    predecessors first. Where :meth:`backward` is to follow, it is ``differentiable``.
    """

    def __init__(
        self,
        start: Tensor,
        groups: Sequence[Group],
        receptive_field: ReceptiveField,
        run: GroupFunction,
        differentiable: bool,
    ) -> None:
        self._receptive_field = receptive_field
        self._blocks = [_Block(tuple(range(start.shape[1])), start)]
        self._where = {path: (0, path) for path in range(start.shape[1])}
        for group in groups:
            self._append(group, run, differentiable)

    def outputs(self) -> Tensor:
        """Outputs at the measured nodes, by path in the order of :attr:`order`, ``[N, T, C]``."""
        rows = self._receptive_field.measured
        return torch.cat([block.output[:rows].transpose(0, 1) for block in self._blocks])

    @property
    def order(self) -> list[int]:
        """The paths in the order of :meth:`outputs`."""
        return [path for block in self._blocks for path in block.paths]

    def backward(self, upstream: Tensor, parameters: Parameters, into: dict[str, Tensor]) -> Tensor:
        """Add the gradients of the groups' parameters to ``into``, by name.

        Args:
            upstream: Gradient of what :meth:`outputs` returned.
            parameters: The parameters of a group by name.
            into: Gradients so far.

        Returns:
            Gradient of ``start``.
        """
        pieces = torch.split(upstream, [len(block.paths) for block in self._blocks])
        for block, piece in zip(self._blocks, pieces, strict=True):
            block.upstream = piece
        while len(self._blocks) > 1:
            self._backward_last(parameters, into)
        return self._blocks[0].gradient

    def _append(self, group: Group, run: GroupFunction, differentiable: bool) -> None:
        inputs = self._gather(group)
        with torch.set_grad_enabled(differentiable):
            result = run(group, inputs.requires_grad_(differentiable))
        origin = (group, inputs, result) if differentiable else None
        for column, path in enumerate(group.paths):
            self._where[path] = (len(self._blocks), column)
        self._blocks.append(_Block(group.paths, result.detach(), origin))

    def _gather(self, group: Group) -> Tensor:
        """The inputs of a group side by side, ``[nodes, k, C]``."""
        start = self._blocks[0].output
        rows = self._receptive_field.size(group.radius + group.hops)
        inputs = start.new_empty(rows, len(group.parents), start.shape[2])
        for column, parent in enumerate(group.parents):
            block, place = self._where[parent]
            inputs[:, column] = self._blocks[block].output[:rows, place]
        return inputs

    def _backward_last(self, parameters: Parameters, into: dict[str, Tensor]) -> None:
        block = self._blocks.pop()
        assert block.origin is not None
        group, inputs, result = block.origin
        named = parameters(group)
        wanted = [inputs, *named.values()]
        # An output that does not depend on an input at all has no gradient.
        upstream, *gradients = torch.autograd.grad(
            result, wanted, block.gradient, allow_unused=True
        )
        if upstream is not None:
            self._hand_down(group, upstream)
        used = {name: g for name, g in zip(named, gradients, strict=True) if g is not None}
        add_gradients(into, used)

    def _hand_down(self, group: Group, gradient: Tensor) -> None:
        for column, parent in enumerate(group.parents):
            block, place = self._where[parent]
            self._blocks[block].gradient[: len(gradient), place] += gradient[:, column]


def fusion_operator(
    members: Sequence[tuple[int, ...]], order: Sequence[int], dtype: torch.dtype
) -> SparseOperator:
    """The matrix ``[networks, paths]`` that takes each network's mean over its paths."""
    column = {path: index for index, path in enumerate(order)}
    row = torch.tensor([index for index, paths in enumerate(members) for _ in paths])
    col = torch.tensor([column[path] for paths in members for path in paths])
    share = torch.tensor([1 / len(paths) for paths in members for _ in paths], dtype=dtype)
    pattern, arranged = SparsePattern.from_coo(row, col, (len(members), len(order)))
    return SparseOperator(pattern, share[arranged])


def add_gradients(total: dict[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
    """Add gradients by name to those that are there already."""
    for name, gradient in gradients.items():
        total[name] = total[name] + gradient if name in total else gradient
