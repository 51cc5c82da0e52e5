"""Graph objects in, a model for graph objects out: whole runs on PyG and NetworkX graphs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import autofgl
from autofgl.cli import main
from autofgl.errors import GraphNotice, Interrupted, UserError
from autofgl.graphs.client_graph import Boundary, ClientGraph, to_dense


@pytest.fixture(scope="module")
def objects(small_clients: list[ClientGraph]) -> list[Data]:
    """The small clients as somebody else's data: no names, no masks, no ids."""
    fields = [client.to_pyg() for client in small_clients]
    return [Data(x=one.x, edge_index=one.edge_index, y=one.y) for one in fields]


def as_networkx(data: Data) -> nx.Graph:
    graph = nx.Graph()
    for node in range(len(data.y)):
        graph.add_node(node, x=data.x[node].numpy(), y=int(data.y[node]))
    graph.add_edges_from(data.edge_index.T.tolist())
    return graph


def weights(result: autofgl.Result) -> bytes:
    return (result.folder / "model.safetensors").read_bytes()


def test_objects_files_and_tuples_give_the_same_weights(
    objects: list[Data], tmp_path: Path
) -> None:
    for index, data in enumerate(objects):
        arrays = {key: data[key].numpy() for key in ("x", "edge_index", "y")}
        np.savez(tmp_path / f"client-{index}.npz", **arrays)
    paths = sorted(tmp_path.glob("*.npz"))
    kinds: dict[str, list[Any]] = {
        "data": objects,
        "tuples": [(data.x.numpy(), data.edge_index.numpy(), data.y) for data in objects],
        "files": list(paths),
        "loaded": autofgl.load_graphs(paths, seed=3),
    }
    runs = {name: autofgl.run("fedavg", clients, seed=3, rounds=3, out=tmp_path / name)
            for name, clients in kinds.items()}  # fmt: skip
    assert len({weights(result) for result in runs.values()}) == 1
    assert runs["data"].figures["clients"] == 3
    assert [one["name"] for one in runs["data"].figures["per_client"]] == [
        "client-0", "client-1", "client-2",
    ]  # fmt: skip


def test_networkx_graphs_are_clients_by_name(objects: list[Data], out: Path) -> None:
    clients = {"bank": as_networkx(objects[0]), "shop": as_networkx(objects[1])}
    result = autofgl.run("fedavg", clients, rounds=3, out=out)
    assert [one["name"] for one in result.figures["per_client"]] == ["bank", "shop"]


def test_a_dataset_is_a_client_as_it_is(small_clients: list[ClientGraph], out: Path) -> None:
    """Its name has a colon, as ``planetoid:citeseer``; names of clients have none."""
    dataset = replace(small_clients[0], name="planetoid:citeseer", boundary=Boundary.empty())
    result = autofgl.run("fedavg", [dataset], rounds=2, out=out)
    assert [one["name"] for one in result.figures["per_client"]] == ["planetoid-citeseer"]


def test_the_model_takes_data_as_it_came(objects: list[Data], out: Path) -> None:
    """With features scaled in training, which is the default, and weighted edges."""
    generator = torch.Generator().manual_seed(0)
    given = []
    for data in objects:
        keys = data.edge_index.sort(0).values
        symmetric = torch.rand(1000, generator=generator)[(keys[0] * 31 + keys[1]) % 1000]
        given.append(Data(**data.to_dict(), edge_weight=symmetric))
    result = autofgl.run("fedavg", given, rounds=20, out=out)
    for data in given:
        scores = result.model(data.x, data.edge_index, data.edge_weight)
        predicted = autofgl.predict(out, data)
        np.testing.assert_array_equal(scores.argmax(1).numpy(), predicted.label)
        assert scores.requires_grad  # a plain module, ready to be trained on
        other = result.model(data.x, data.edge_index)
        assert not torch.allclose(scores, other)
    scaled = torch.nn.functional.normalize(given[0].x)
    torch.testing.assert_close(
        result.model(scaled, given[0].edge_index), result.model(given[0].x, given[0].edge_index)
    )


def test_a_graph_object_is_cut(objects: list[Data], tmp_path: Path) -> None:
    clients = autofgl.partition(objects[0], clients=2, method="random", seed=1)
    assert [client.name for client in clients] == ["client-0", "client-1"]
    assert sum(client.num_nodes for client in clients) == len(objects[0].y)
    assert any(client.train_mask.any() for client in clients)
    same = autofgl.partition(as_networkx(objects[0]), clients=2, method="random", seed=1)
    for one, other in zip(clients, same, strict=True):
        np.testing.assert_array_equal(one.node_id, other.node_id)
        np.testing.assert_array_equal(to_dense(one.x), to_dense(other.x))
        np.testing.assert_array_equal(one.train_mask, other.train_mask)
    autofgl.save_graph(tmp_path / "whole.npz", objects[0])
    assert autofgl.load_graph(tmp_path / "whole.npz").num_nodes == len(objects[0].y)


def test_a_run_on_objects_is_resumed_with_them(
    objects: list[Data], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autofgl.methods.baselines import FedAvg

    whole = autofgl.run("fedavg", objects, rounds=6, out=tmp_path / "whole", checkpoint_every=1)
    step = FedAvg.step

    def stopped(self: FedAvg) -> Any:
        if self.round == 3:
            raise Interrupted("stop")
        return step(self)

    monkeypatch.setattr(FedAvg, "step", stopped)
    out = tmp_path / "resumed"
    with pytest.raises(Interrupted):
        autofgl.run("fedavg", objects, rounds=6, out=out, checkpoint_every=1)
    monkeypatch.undo()
    with pytest.raises(UserError, match="are not those that"):
        autofgl.resume(out, list(reversed(objects)))
    assert weights(autofgl.resume(out, objects)) == weights(whole)


def test_directed_objects_are_kept_where_asked(objects: list[Data], tmp_path: Path) -> None:
    forth = [
        Data(x=one.x, edge_index=one.edge_index[:, one.edge_index[0] < one.edge_index[1]], y=one.y)
        for one in objects
    ]
    plain = autofgl.run("fedavg", objects, rounds=3, out=tmp_path / "plain")
    with pytest.warns(GraphNotice, match="client-0, client-1, client-2: .* taken as undirected"):
        made = autofgl.run("fedavg", forth, rounds=3, out=tmp_path / "made")
    # The order of the edges may differ, and with it the last bits.
    ours, theirs = (dict(result.model.named_parameters()) for result in (plain, made))
    torch.testing.assert_close(ours, theirs)
    kept = autofgl.run("fedavg", forth, rounds=3, out=tmp_path / "kept", directed=True)
    assert weights(kept) != weights(made)
    predicted = autofgl.predict(tmp_path / "kept", forth[0])  # without a notice
    scores = kept.model(forth[0].x, forth[0].edge_index)
    np.testing.assert_array_equal(scores.argmax(1).numpy(), predicted.label)


def test_directed_files_on_the_command_line(
    objects: list[Data], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name, data in zip(("bank", "shop"), objects, strict=False):
        edges = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
        paths.append(str(tmp_path / f"{name}.npz"))
        np.savez(paths[-1], x=data.x.numpy(), edge_index=edges.numpy(), y=data.y.numpy())
    notices = []
    for name, more in (("made", []), ("kept", ["directed=true"])):
        words = ["run", "fedavg", "--graphs", *paths, "--out", str(tmp_path / name)]
        with pytest.raises(SystemExit) as ended:
            main([*words, "--set", "rounds=2", *more])
        assert ended.value.code == 0
        notices.append([line for line in capsys.readouterr().err.splitlines() if "edges" in line])
    assert len(notices[0]) == 1
    assert notices[0][0].startswith("autofgl: bank, shop: ")
    assert notices[1] == []


@pytest.mark.parametrize("setting", ["directed=true", "directed=maybe"])
def test_datasets_have_no_direction_to_keep(
    setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "fedavg", "--dataset", "cora", "--set", setting])
    assert ended.value.code == 2
    assert "setting 'directed' has no effect here" in capsys.readouterr().err


def test_directed_and_weighted_graphs_reach_sites_as_files(
    small_graph: ClientGraph, tmp_path: Path
) -> None:
    edges = small_graph.edge_index[:, small_graph.edge_index[0] < small_graph.edge_index[1]]
    weight = np.random.default_rng(0).random(edges.shape[1], np.float32)
    clients = autofgl.partition(
        Data(
            x=torch.tensor(to_dense(small_graph.x)),
            edge_index=torch.tensor(edges),
            y=torch.tensor(small_graph.y),
            edge_weight=torch.tensor(weight),
        ),
        clients=3,
        directed=True,
    )
    paths = autofgl.save_graphs(tmp_path, clients)
    back = autofgl.load_graphs(paths)
    assert [one.fingerprint() for one in back] == [one.fingerprint() for one in clients]
