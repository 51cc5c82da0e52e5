"""Attributes to and from a checkpoint, by name.

A class says in ``saved`` which of its attributes a resumed run needs. One with a state of its own
is stored by it, a dataclass by its fields, an optimizer by its moments, and None not at all.
"""

from dataclasses import asdict, is_dataclass
from typing import Any, ClassVar

import torch

from autofgl.federation.payload import Payload
from autofgl.runtime.device import fetch


class Saved:
    """Has a state by the names in ``saved``."""

    saved: ClassVar[tuple[str, ...]] = ()

    def state(self) -> Payload:
        """Everything between two rounds."""
        return saved_state(self, self.saved)

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        restore_state(self, self.saved, state)


def saved_state(owner: Any, names: tuple[str, ...]) -> Payload:
    """The named attributes as a payload."""
    values = {name.lstrip("_"): getattr(owner, name) for name in names}
    return {name: _packed(value) for name, value in values.items() if value is not None}


def restore_state(owner: Any, names: tuple[str, ...], state: Payload) -> None:
    """Set the named attributes as :func:`saved_state` had them; those that were None stay."""
    for name in names:
        if name.lstrip("_") not in state:
            continue
        now, stored = getattr(owner, name), state[name.lstrip("_")]
        if hasattr(now, "load_state"):
            now.load_state(stored)
        elif isinstance(now, torch.optim.Optimizer):
            _load_moments(now, stored)
        else:
            setattr(owner, name, _unpacked(now, stored))


def moments(optimizer: torch.optim.Optimizer) -> Payload:
    """Copies of an optimizer's moments, by the number of their parameter."""
    return {
        str(index): {key: fetch(value) for key, value in entry.items()}
        for index, entry in optimizer.state_dict()["state"].items()
    }


def _load_moments(optimizer: torch.optim.Optimizer, state: Payload) -> None:
    """Take up where :func:`moments` was taken; the settings stay as they are."""
    stored = {
        int(index): {key: torch.from_numpy(value.copy()) for key, value in entry.items()}
        for index, entry in state.items()
    }
    optimizer.load_state_dict({**optimizer.state_dict(), "state": stored})


def _packed(value: Any) -> Any:
    if hasattr(value, "load_state"):
        return value.state()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, torch.optim.Optimizer):
        return moments(value)
    if isinstance(value, torch.Tensor):
        return fetch(value)
    return sorted(value) if isinstance(value, set | frozenset) else value


def _unpacked(now: Any, stored: Any) -> Any:
    if is_dataclass(now) and not isinstance(now, type):
        return type(now)(**stored)
    if isinstance(now, torch.Tensor):
        with torch.no_grad():
            return now.copy_(torch.from_numpy(stored.copy()))
    return type(now)(stored) if isinstance(now, set | frozenset) else stored
