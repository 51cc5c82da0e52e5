"""What a server gets to see, written down by itself, and clients enough for a sum without one."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.method import Method


class Notebook:
    """The sums of a server: whose vectors are in each, over all its sessions."""

    def __init__(self) -> None:
        self.contributors: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        self.sums: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def watch(self, method: Method) -> None:
        """Write down all sums of a method's server from now on."""
        self.watch_server(method.clients._server)

    def watch_server(self, server: Any) -> None:
        """Write down all sums of a server from now on."""
        total, seal = server.total, server.seal

        def watched_total(tag: str, contributions: Mapping[str, Any], ask: Any) -> Any:
            found = total(tag, contributions, ask)
            self.contributors[tag].add(tuple(found.contributors))
            self.sums[tag].append(found.vectors)
            return found

        def watched_seal(tag: str, contributions: Mapping[str, Any], ask: Any) -> Any:
            sealed = seal(tag, contributions, ask)
            self.contributors[tag].add(tuple(sealed["contributors"]))
            return sealed

        server.total, server.seal = watched_total, watched_seal


def clients_of(graph: ClientGraph, count: int) -> list[ClientGraph]:
    """A graph cut into so many clients."""
    return autofgl.partition(graph, clients=count, method="metis", seed=0)
