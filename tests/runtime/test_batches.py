"""Mini-batches of a client's training nodes, in every way of sharing, and evaluation in chunks."""

from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from autofgl.config import check_config, sort_settings
from autofgl.errors import UserError
from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph, symmetric_edges
from autofgl.graphs.datasets import load
from autofgl.graphs.partition import partition
from autofgl.nn.models.spec import FAMILIES
from autofgl.runtime import batches, local_model
from autofgl.runtime.client_data import Inputs
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.local_model import LocalModel
from autofgl.runtime.settings import AloneSettings
from autofgl.runtime.specs import model_spec
from federations import make, rounds


def model_on(client: ClientGraph, **settings: Any) -> LocalModel:
    checked = FederatedSettings(hidden=16, **settings)
    inputs = Inputs.of(client, checked.normalize_features)
    return LocalModel(client.name, inputs, model_spec(client, checked), checked, 0)


def batches_of(model: LocalModel) -> batches.MiniBatches:
    assert model._batches is not None
    return model._batches


def targets(model: LocalModel, batch: batches.Batch) -> list[int]:
    """The nodes that a batch learns from."""
    nodes: Any = batch.structure
    return list(nodes.nodes[: len(batch.labels)].tolist())


def test_an_epoch_has_every_training_node_once(small_clients: list[ClientGraph]) -> None:
    client = small_clients[0]
    model = model_on(client, batch=7, fanout="3,2")
    drawn = [targets(model, batch) for batch in batches_of(model).epoch(0, "client", 1, 0)]
    train = np.flatnonzero(client.train_mask).tolist()
    together = list(chain(*drawn))
    assert sorted(together) == train != together
    assert [len(part) for part in drawn[:-1]] == [7] * (len(drawn) - 1)
    assert len(drawn) == len(batches_of(model))
    batch = next(batches_of(model).epoch(0, "client", 1, 0))
    assert batch.labels.tolist() == client.y[targets(model, batch)].tolist()


def test_rounds_go_through_the_batches_of_an_epoch(small_clients: list[ClientGraph]) -> None:
    client = small_clients[0]
    model = model_on(client, batch=7, fanout="3,2")
    source = batches_of(model)
    count = len(source)
    drawn = [targets(model, source.at(at, 0, "client")) for at in range(1, 2 * count + 1)]
    train = np.flatnonzero(client.train_mask).tolist()
    assert sorted(chain(*drawn[:count])) == train == sorted(chain(*drawn[count:]))
    assert drawn[:count] != drawn[count:], "shuffled anew"
    assert targets(model, source.at(2, 0, "client")) == drawn[1]


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "arma"])
def test_batches_with_all_neighbors_add_up_to_the_full_gradient(
    family: str, small_clients: list[ClientGraph]
) -> None:
    client = small_clients[0]
    expected = model_on(client, model=family, dropout=0.0).gradient(1)
    model = model_on(client, model=family, dropout=0.0, batch=16)
    total = {name: np.zeros_like(value) for name, value in expected.items()}
    for at in range(1, len(batches_of(model)) + 1):
        share = len(batches_of(model).at(at, 0, client.name).labels) / model.train_nodes
        for name, value in model.gradient(at).items():
            total[name] += share * value
    for name, value in expected.items():
        np.testing.assert_allclose(total[name], value, rtol=1e-4, atol=1e-6)


def test_one_batch_of_all_nodes_trains_as_without(small_clients: list[ClientGraph]) -> None:
    ours, plain = (model_on(small_clients[0], dropout=0.0, **how) for how in ({"batch": 9999}, {}))
    for model in (ours, plain):
        model.train(3, at=1)
    for name, value in plain.weights().items():
        np.testing.assert_allclose(ours.weights()[name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_give_what_one_pass_gives(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_on(ring(200), model=family, batch=16)
    whole = model.logits()
    sizes: list[int] = []
    forward = type(model.model).forward

    def counted(self: Any, x: Any, *args: Any) -> Any:
        sizes.append(x.shape[0])
        return forward(self, x, *args)

    monkeypatch.setattr(type(model.model), "forward", counted)
    monkeypatch.setattr(local_model, "MOST_ENTRIES", 16 * 50)
    monkeypatch.setattr(batches, "_CHUNK", 64)
    monkeypatch.setattr(batches, "_SMALLEST_CHUNK", 4)
    torch.testing.assert_close(model.logits(), whole, rtol=1e-5, atol=1e-5)
    assert max(sizes) <= 50, "a chunk of 64 was halved"
    assert len(sizes) == 200 // 16 + 1 if family == "appnp" else 200 // 32 + 1


def ring(nodes: int) -> ClientGraph:
    """A graph in which neighborhoods are small."""
    at, rng = np.arange(nodes), np.random.default_rng(0)
    x, y = rng.random((nodes, 12), np.float32), rng.integers(0, 3, nodes)
    edges = symmetric_edges(at, (at + 1) % nodes, nodes)
    masks = (at % 2 == 0, at % 4 == 1, at % 4 == 3)
    return ClientGraph.unsplit("ring", x, edges, y, 3).with_masks(*masks)


@pytest.fixture(scope="module")
def clients() -> list[ClientGraph]:
    settings = DataSettings(nodes=900, classes=3, features=60, degree=6, topic_strength=0.5)
    graph = load("synthetic", seed=2, settings=settings)
    return partition(graph, clients=3, seed=0)


WAYS: list[tuple[str, dict[str, Any]]] = [
    ("fedavg", {"aggregate": "gradients"}),
    ("fedavg", {"aggregate": "parameters", "local_epochs": 2}),
    ("separate", {}),
    ("centralized", {}),
    ("sfgnn", {}),
]


@pytest.mark.parametrize(("name", "settings"), WAYS)
def test_every_way_of_sharing_learns_from_batches(
    name: str, settings: dict[str, Any], clients: list[ClientGraph]
) -> None:
    figures = {"rounds": 15, "hidden": 16, "lr": 0.05, **settings}
    full = rounds(make(name, clients, **figures), 15)[-1]
    sampled = rounds(make(name, clients, batch=64, fanout="10,10", **figures), 15)[-1]
    assert sampled["val_accuracy"] > full["val_accuracy"] - 0.03


def test_a_client_without_training_nodes_has_no_batches(small_clients: list[ClientGraph]) -> None:
    client = small_clients[0]
    none = np.zeros_like(client.train_mask)
    model = model_on(client.with_masks(none, client.val_mask, client.test_mask), batch=4)
    model.train(2, at=1)
    assert not any(value.any() for value in model.gradient(1).values())


def test_fanouts_go_on_to_farther_hops() -> None:
    settings = AloneSettings(batch=8, fanout="10,5")
    assert settings.fanouts(1) == [10]
    assert settings.fanouts(4) == [10, 5, 5, 5]
    assert AloneSettings(batch=8).fanouts(2) == AloneSettings(batch=8).fanouts(None) == [0, 0]
    assert AloneSettings(batch=8, fanout="9,8,7").fanouts(None) == [9, 8, 7]
    assert AloneSettings(batch=8, fanout=3).fanouts(2) == [3, 3]  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"fanout": "10,10"}, {"batch": 8, "fanout": "a"}, {"batch": -1}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FederatedSettings(**wrong)


@pytest.mark.parametrize(
    ("method", "key", "line"),
    [("graphfl", "batch", "support=512"), ("fedgraph", "fanout", "sampler=sage fanouts=10,25")],
)
def test_methods_without_batches_say_what_to_give(method: str, key: str, line: str) -> None:
    config = check_config({"method": method, "dataset": "cora", "settings": {key: 4}})
    with pytest.raises(UserError, match=line):
        sort_settings(config)


def test_a_list_is_what_the_command_line_writes() -> None:
    settings = {"batch": 64, "fanout": [10, 5]}
    config = check_config({"method": "fedavg", "dataset": "cora", "settings": settings})
    assert sort_settings(config).method.fanout == "10,5"
