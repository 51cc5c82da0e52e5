"""Attributes to and from a checkpoint."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from autofgl.federation.payload import Payload, decode, encode
from autofgl.runtime.state import moments, restore_state, saved_state


@dataclass
class Best:
    round: int = 0
    loss: float = 1.0


class Inner:
    def __init__(self) -> None:
        self.value = 0

    def state(self) -> Payload:
        return {"value": self.value}

    def load_state(self, state: Payload) -> None:
        self.value = state["value"]


class Owner:
    """One attribute of each kind."""

    saved = ("_round", "_best", "_inner", "_optimizer", "_alpha", "_names", "_nothing")

    def __init__(self) -> None:
        self._round, self._best, self._inner = 0, Best(), Inner()
        self._alpha = torch.zeros(2, requires_grad=True)
        self._optimizer = torch.optim.Adam([self._alpha], lr=0.1)
        self._names: frozenset[str] = frozenset()
        self._nothing: Any = None
        self.left_out = 0

    def go_on(self) -> None:
        self._round, self._best, self._inner.value = 3, Best(2, 0.5), 7
        self._names, self.left_out = frozenset({"b", "a"}), 9
        self.descend()

    def descend(self) -> None:
        self._alpha.grad = torch.tensor([1.0, -2.0])
        self._optimizer.step()


def test_every_kind_of_attribute_comes_back_from_a_file() -> None:
    first, second = Owner(), Owner()
    first.go_on()
    state = decode(encode(saved_state(first, Owner.saved)))
    assert list(state["names"]) == ["a", "b"]
    assert "nothing" not in state
    restore_state(second, Owner.saved, state)
    assert (second._round, second._best, second._inner.value) == (3, Best(2, 0.5), 7)
    assert second._names == frozenset({"a", "b"})
    assert (second._nothing, second.left_out) == (None, 0)
    assert second._alpha.requires_grad
    first.descend()
    second.descend()
    assert torch.equal(first._alpha, second._alpha), "with the moments of the first step"
    assert float(moments(second._optimizer)["0"]["step"]) == 2


def test_what_is_saved_does_not_change_any_more() -> None:
    owner = Owner()
    state = saved_state(owner, Owner.saved)
    before = {"alpha": state["alpha"].copy(), "best": dict(state["best"])}
    owner.go_on()
    assert np.array_equal(state["alpha"], before["alpha"])
    assert (state["best"], state["round"]) == (before["best"], 0)
