"""Backpropagation through the rows that clients send each other.

The loss of all clients is F(w) = Σ_i s_i F_i(w, r_i(w)), with r_i the rows that client i was sent,
which their owners computed from the same weights. The gradient that a client has by itself is
s_i ∂F_i/∂w with r_i held constant. The rest,

.. math::
    \\sum_i s_i \\frac{\\partial F_i}{\\partial r_i} \\frac{\\partial r_i}{\\partial w},

is made of what the receivers say of the first factor and of what the owners do with it. Rows of a
hop depend on those of earlier hops, so it goes from the last hop to the first: receivers send the
owners ∂F/∂r of a hop, the owners add up what they are sent and carry it back to the rows that they
were sent themselves in the hops before. In the end every owner has its part of ∂F/∂w.

Rows are those of a pass without dropout, and so is this pass; each client's own loss F_i may be
that of a pass with dropout. Without dropout the clients' gradients add up to that of the uncut
graph, where all hops are shared.
"""

from collections.abc import Callable, Iterable
from types import TracebackType

import torch
from torch import Tensor

from autofgl.nn.cross_client import CrossClientStructure


class LeafRows:
    """While it lasts, received rows are variables: gradients with respect to them are kept."""

    def __init__(self, structure: CrossClientStructure) -> None:
        self._structure = structure
        self._kept = structure.rows
        self.rows = {hop: rows.detach().requires_grad_() for hop, rows in self._kept.items()}

    def __enter__(self) -> "LeafRows":
        self._structure.rows = self.rows
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._structure.rows = self._kept

    def gradients(self) -> dict[int, Tensor]:
        """By hop, of what was differentiated meanwhile, ``[m, width]``."""
        return {
            hop: torch.zeros_like(rows) if rows.grad is None else rows.grad
            for hop, rows in self.rows.items()
        }


class BackwardPass:
    """One client's part of a backward pass over all clients, from the last hop to the first.

    ``run`` makes a pass of the network. For each hop, last to first: :meth:`to_owners`, then
    :meth:`add` for what each peer sent; in the end :meth:`parameter_gradients`.
    """

    def __init__(self, structure: CrossClientStructure, run: Callable[[], object]) -> None:
        #: By hop, what own nodes fed into it, and the same as the hop's input, cut off behind.
        self._outputs: dict[int, Tensor] = {}
        self._inputs: dict[int, Tensor] = {}
        with torch.enable_grad(), LeafRows(structure) as leaves:
            structure.watch = self._cut
            try:
                run()
            finally:
                structure.watch = None
        self._rows = leaves.rows
        self._seeds: dict[int, Tensor] = {}

    @property
    def hops(self) -> list[int]:
        """Those that take in rows, last to first."""
        return sorted(self._inputs, reverse=True)

    def to_owners(self, hop: int) -> Tensor:
        """What later hops' rows owe to those received in this one, ``[m, width]``.

        Peers have told by now what they owe to own rows of later hops.
        """
        own, rows = self._gradients([self._inputs[hop], self._rows[hop]])
        self._seeds[hop] = own
        return rows

    def add(self, hop: int, nodes: Tensor, gradient: Tensor) -> None:
        """Take in what a peer's loss owes to the rows of some own nodes."""
        self._seeds[hop].index_add_(0, nodes, gradient)

    def parameter_gradients(self, parameters: Iterable[Tensor]) -> list[Tensor]:
        """What all peers' losses owe to parameters through own rows."""
        return self._gradients(list(parameters))

    def _cut(self, hop: int, x: Tensor) -> Tensor:
        self._outputs[hop] = x
        self._inputs[hop] = x.detach().requires_grad_()
        return self._inputs[hop]

    def _gradients(self, inputs: list[Tensor]) -> list[Tensor]:
        hops = [hop for hop in self._seeds if self._outputs[hop].requires_grad]
        if not hops:
            return [torch.zeros_like(value) for value in inputs]
        outputs, seeds = [self._outputs[hop] for hop in hops], [self._seeds[hop] for hop in hops]
        gradients = torch.autograd.grad(
            outputs, inputs, seeds, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return list(gradients)
