"""The description of a fixed GNN: everything but its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from autofgl.errors import UserError, unknown_name

#: Number of hops of the families that have one, where the spec leaves it open.
DEFAULT_HOPS = {"sgc": 2, "appnp": 10}

#: What may stand between the layers of ``gcn``, ``sage`` and ``appnp``.
ACTIVATIONS = ("relu", "tanh", "elu")

FAMILIES = ("agnn", "appnp", "arma", "gat", "gatedgraph", "gcn", "gin", "sage", "sfgnn", "sgc")


@dataclass(frozen=True)
class ModelSpec:
    """A family and its sizes, from which ``build`` makes a network. Each family reads what it has.

    Attributes:
        family: Name of the architecture.
        in_features: Width of the node features.
        classes: Number of classes.
        hidden: Width of the hidden layers; for ``gat`` that of all heads together.
        layers: Number of convolutions; for ``appnp`` of linear layers, for ``gatedgraph`` of
            recurrent steps, for ``sfgnn`` the depth of its message passing. ``sgc`` always has one.
        dropout: Dropout before every layer, and on the attention coefficients of ``gat``.
        heads: Attention heads of the hidden layers of ``gat``; the last layer has one.
        hops: Propagation steps of ``sgc`` and ``appnp``; None for what their papers use.
        teleport: Probability of going back to the start in ``appnp``.
        stacks: Parallel stacks of ``arma``.
        stack_layers: Steps within each stack of ``arma``, which share their weights.
        root_dropout: Dropout on the skip connections of ``arma``.
        activation: Between the layers of ``gcn``, ``sage`` and ``appnp``; None for relu.
    """

    family: str
    in_features: int
    classes: int
    hidden: int = 64
    layers: int = 2
    dropout: float = 0.5
    heads: int = 8
    hops: int | None = None
    teleport: float = 0.1
    stacks: int = 3
    stack_layers: int = 2
    root_dropout: float = 0.25
    activation: str | None = None

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise unknown_name("model", str(self.family), FAMILIES)
        if self.activation is not None and self.activation not in ACTIVATIONS:
            raise unknown_name("activation", str(self.activation), ACTIVATIONS)
        for name in ("in_features", "classes", "hidden", "layers", "heads", "stacks"):
            self._check_count(name)
        self._check_count("stack_layers")
        if self.hops is not None:
            self._check_count("hops", least=0)
        for name in ("dropout", "teleport", "root_dropout"):
            self._check_probability(name)
        if self.family == "gat" and self.hidden % self.heads:
            raise UserError(
                f"model gat: hidden {self.hidden} must be a multiple of heads {self.heads}"
            )

    @property
    def steps(self) -> int:
        """Number of propagation steps: the spec's own, or the family's usual one."""
        return DEFAULT_HOPS.get(self.family, 1) if self.hops is None else self.hops

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, for files and payloads; what is left open is left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelSpec:
        """The spec that :meth:`to_json` wrote; keys with a default may be missing."""
        names = [field.name for field in fields(cls)]
        for key in data:
            if key not in names:
                raise unknown_name("model option", str(key), names)
        for key in ("family", "in_features", "classes"):
            if key not in data:
                raise UserError(f"model description lacks '{key}'")
        return cls(**data)

    def _check_count(self, name: str, least: int = 1) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UserError(
                f"model {self.family}: {name} must be an integer of at least {least}, not {value!r}"
            )

    def _check_probability(self, name: str) -> None:
        value = getattr(self, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0.0 <= value <= 1.0):
            raise UserError(f"model {self.family}: {name} must lie in [0, 1], not {value!r}")
