"""All graphs in one place: the upper line that federated methods are measured against.

The clients' graphs are pooled, cross-client edges included, and one network is trained on the
whole. Nothing is private here.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.cut import pool
from autofgl.methods.separate import Separate


class Centralized(Separate):
    """Training on the pooled graph: what :class:`Separate` does, with a single client."""

    summary: ClassVar[str] = "one network on the pooled graph; not private"

    @classmethod
    def arrange(cls, clients: Sequence[ClientGraph]) -> list[ClientGraph]:
        """One client that holds everything, named as a federation of one names its client."""
        return [replace(pool(clients), name="client-0")]
