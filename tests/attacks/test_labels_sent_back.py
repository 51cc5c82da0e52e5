"""What gradients that go back (``backward=true``) tell the owner of a node about its neighbors."""

from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.sharing.across.common import AcrossCommonClient
from federations import make, rounds


def labels_around(clients: list[ClientGraph], owner: ClientGraph, node: int) -> set[int]:
    """Labels of a node's neighbors at other clients that are trained on."""
    found = set()
    for peer in clients:
        if peer is owner:
            continue
        ends = peer.boundary
        mine = (ends.owner == ends.owners.index(owner.name)) & (ends.remote == node)
        near = ends.local[mine]
        found |= set(peer.y[near[peer.train_mask[near]]].tolist())
    return found


@pytest.mark.parametrize("model", ["gcn", "appnp"])
def test_an_owner_reads_labels_of_training_nodes_next_to_its_own(
    small_graph: ClientGraph, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A last hop's gradient is Σ_v Q_vu (p_v - y_v): only the label's entry is negative."""
    clients = autofgl.partition(small_graph, clients=3, method="random", seed=0)
    graphs = {graph.name: graph for graph in clients}
    seen: list[tuple[ClientGraph, int, set[int], np.ndarray]] = []
    take = AcrossCommonClient.take_rows

    def watch(self: AcrossCommonClient, exchange: int, place: Any, rows: Any) -> None:
        if exchange == self.exchanges:
            owner = graphs[self.local.name]
            for node, row in zip(place, rows, strict=True):
                seen.append((owner, int(node), labels_around(clients, owner, int(node)), row))
        take(self, exchange, place, rows)

    monkeypatch.setattr(AcrossCommonClient, "take_rows", watch)
    method = make("fedavg", clients, sharing="across", hidden=8, model=model, backward=True)
    rounds(method, 1)
    method.federation.close()
    told = [(labels, row) for _, _, labels, row in seen if row.any() and len(labels) == 1]
    assert len(told) > 20
    assert all(int(row.argmin()) in labels for labels, row in told)
    assert not any(row.any() for _, _, labels, row in seen if not labels)
