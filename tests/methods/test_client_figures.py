"""Single clients' figures in the history: only where the server sees them anyway."""

from pathlib import Path
from typing import Any

import pytest

import autofgl
from autofgl.graphs.client_graph import ClientGraph

METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedgraph": {"evaluate_every": 1},
    "graphfl": {},
    "sfgnn": {},
}


@pytest.mark.parametrize("method", METHODS)
def test_the_clients_figures_make_up_the_federations(
    small_clients: list[ClientGraph], tmp_path: Path, method: str
) -> None:
    result = autofgl.run(
        method, small_clients, secure="none", out=tmp_path / "run", rounds=3, **METHODS[method]
    )
    nodes = {graph.name: int(graph.val_mask.sum()) for graph in small_clients}
    rows = [row for row in result.history if "client_val_accuracy" in row]
    assert rows
    for row in rows:
        own = row["client_val_accuracy"]
        assert list(own) == [name for name in nodes if nodes[name]]
        mean = sum(nodes[name] * value for name, value in own.items()) / sum(nodes.values())
        assert row["val_accuracy"] == pytest.approx(mean)
    assert "Validation accuracy of the clients" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("method", METHODS)
def test_a_protected_sum_shows_no_clients_figures(
    small_clients: list[ClientGraph], tmp_path: Path, method: str
) -> None:
    result = autofgl.run(
        method, small_clients, secure="shares", out=tmp_path / "run", rounds=2, **METHODS[method]
    )
    assert not any("client_val_accuracy" in row for row in result.history)
