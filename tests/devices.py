"""A stand-in for a graphics card, and a watch over what is computed on it.

There is no card here, and torch's fake CUDA tensors have no gradients where torch is built without
CUDA. The device ``meta`` computes shapes only, through torch's own autograd, and it is not the CPU.
A mode watches every operation and fails as soon as one has tensors on two devices, as a card would.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CARD = torch.device("meta")


class OneDevice(TorchDispatchMode):
    """Fails where an operation mixes devices; moving a tensor and lone numbers are allowed."""

    _moves = ("aten::_to_copy", "aten::copy_")

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._schema.name not in self._moves:
            leaves = tree_leaves((args, kwargs, out))
            sized = [one for one in leaves if isinstance(one, Tensor) and one.dim()]
            devices = {one.device for one in sized}
            assert len(devices) <= 1, f"{func} has tensors on {devices}"
        return out
