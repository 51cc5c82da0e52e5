"""Edges of a site's table that end at a node which the table of nodes lacks.

In a federation such a node may be another site's: an account at another bank. Until
``autofgl match`` has found out whose it is, the edge waits beside the graph, in keys of the graph
file that no network sees: ``external_local`` int64 [k], ``external_name`` str [k], ``external_out``
bool [k] and, where edges have weights, ``external_weight`` float32 [k].
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofgl.errors import GraphError
from autofgl.graphs.client_graph import Bools, Floats, Ints

EXTERNAL_KEYS = ("external_local", "external_name", "external_out", "external_weight")
_WEIGHT = EXTERNAL_KEYS[-1]
_KINDS = dict(zip(EXTERNAL_KEYS, ("iu", "U", "b", "f"), strict=True))


@dataclass(frozen=True)
class ExternalEdges:
    """Row k is an edge between an own node and a node of the given name, which is not here.

    Attributes:
        local: The own end, as an index into the own nodes, ``[k]``.
        name: The name of the other end, ``[k]``.
        out: Whether the edge leads from the own end to the other, ``[k]``.
        weight: Its weight ``[k]``; None where edges have none.
    """

    local: Ints
    name: tuple[str, ...]
    out: Bools
    weight: Floats | None = None

    @classmethod
    def none(cls) -> "ExternalEdges":
        """No such edge."""
        return cls(np.zeros(0, np.int64), (), np.zeros(0, np.bool_))

    def __len__(self) -> int:
        return len(self.local)

    def arrays(self) -> dict[str, Any]:
        """What a graph file keeps; nothing if there are none."""
        if not len(self):
            return {}
        parts = (self.local, np.array(self.name, np.str_), self.out, self.weight)
        pairs = zip(EXTERNAL_KEYS, parts, strict=True)
        return {key: part for key, part in pairs if part is not None}

    @classmethod
    def of_arrays(cls, where: str, arrays: Mapping[str, Any], nodes: int) -> "ExternalEdges":
        """:meth:`arrays` again.

        Raises:
            GraphError: They are no such edges of a graph with so many nodes.
        """
        given = [key for key in EXTERNAL_KEYS if key in arrays]
        if not given:
            return cls.none()
        right = set(given) >= {*EXTERNAL_KEYS} - {_WEIGHT} and all(
            arrays[key].ndim == 1
            and arrays[key].dtype.kind in _KINDS[key]
            and len(arrays[key]) == len(arrays[given[0]])
            for key in given
        )
        local = arrays.get(EXTERNAL_KEYS[0], np.zeros(0))
        if not right or (len(local) and not 0 <= local.min() <= local.max() < nodes):
            keys = ", ".join(EXTERNAL_KEYS)
            raise GraphError(f"{where}: {keys} are no edges of its nodes: import the tables again")
        weight = arrays[_WEIGHT].astype(np.float32) if _WEIGHT in arrays else None
        names = tuple(arrays["external_name"].tolist())
        return cls(local.astype(np.int64), names, arrays["external_out"], weight)
