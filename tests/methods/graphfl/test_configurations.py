"""What a chromosome means."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import Configurations, Shape, take
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.nn.models.networks import build_network
from autofgl.nn.models.spec import ModelSpec
from autofgl.runtime.settings import model_spec
from autofgl.search.searcher import SearchError
from autofgl.seeding import torch_generator


def space(**settings: Any) -> Configurations:
    checked = GraphFLGASettings(**settings)
    own = {"hidden": checked.hidden, "layers": checked.layers, "hops": checked.hops or None}
    return Configurations(ModelSpec(checked.model, 30, 4, dropout=checked.dropout, **own), checked)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"model": "gcn", "layers": 4, "hidden": 10, "dropout": 0.33},
        {"model": "appnp", "hops": 7, "inner_lr": 5.0, "lr": 1e-5, "support": 3, "query": 7},
        {"inner_steps": 0, "tasks": 9, "hidden": 1},
        {"evolve_structure": False, "model": "sage"},
    ],
)
def test_the_environment_is_of_the_space_and_means_itself(settings: dict[str, Any]) -> None:
    found = space(**settings)
    own = {gene.name: found.environment[gene.name] for gene in found.genes.genes}
    assert found.genes.check(own) == own
    environment = GraphFLGASettings(**settings)
    assert found.settings_of(own) == environment
    spec = found.spec_of(own)
    assert (spec.family, spec.hidden, spec.dropout) == (
        environment.model, environment.hidden, environment.dropout,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for _ in range(50):
        sampled = found.genes.draw(rng)
        assert found.shape_of(sampled) in found.shapes
        network = build_network(found.spec_of(sampled), torch_generator(0, "x"))
        parts = found.parts_of(sampled)
        weights = {name: tuple(value.shape) for name, value in network.named_parameters()}
        assert {name: part.sizes for name, part in parts.items()} == weights
        assert all(part.block in found.sizes for part in parts.values())


def test_genes_that_are_not_read_make_no_difference() -> None:
    found = space(families="sgc,gcn,appnp", deepest=3)
    own = found.environment
    key = found.genes.key
    assert key({**own, "hidden": 16, "activation": "elu", "layers": 3}) == key(own)
    other = {**own, "model": "appnp"}
    assert key({**other, "hops": 3}) != key(other)
    one = space(model="appnp", layers=1)
    assert one.genes.key({**one.environment, "hidden": 32}) == one.genes.key(one.environment)
    deep = {**own, "model": "gcn", "layers": 2}
    assert key({**deep, "hops": 5}) == key(deep)
    assert key({**deep, "hidden": 32}) != key(deep)
    assert key({**own, "inner_lr": 0.3}) != key(own)


def test_shapes_and_blocks() -> None:
    found = space(families="sgc,gcn", hidden=8, deepest=3)
    assert set(found.shapes) == {
        Shape("sgc", 1, 8),
        *(Shape("gcn", layers, hidden) for layers in (2, 3) for hidden in (2, 4, 8)),
    }  # fmt: skip
    assert Shape("gcn", 1, 8) in space(model="gcn", layers=1, hidden=8).shapes
    assert found.sizes["gcn/hidden.0.lin.weight"] == (30, 8)
    assert found.sizes["gcn/hidden.1.lin.weight"] == (8, 8)
    assert found.sizes["gcn/out.2.lin.weight"] == (8, 4)
    assert found.sizes["sgc/out.0.lin.weight"] == (30, 4)
    whole = found.initial(3)
    assert {name: value.shape for name, value in whole.items()} == found.sizes
    fixed = space(evolve_structure=False, model="gcn")
    assert fixed.shapes == (Shape("gcn", 2, 64),)


@pytest.mark.parametrize("model", ["sgc", "gcn", "sage", "appnp"])
def test_the_environment_begins_as_in_graphfl(model: str) -> None:
    found = space(model=model)
    expected = build_network(found.spec_of(found.environment), torch_generator(3, "weights"))
    weights = take(found.initial(3), found.parts_of(found.environment))
    for name, value in expected.state_dict().items():
        assert np.array_equal(weights[name], value.numpy())


@pytest.mark.parametrize("settings", [{"model": "gat"}, {"families": "sgc,arma"}, {"mode": "x"}])
def test_wrong_settings(settings: dict[str, Any]) -> None:
    with pytest.raises((UserError, ValueError)):
        GraphFLGASettings(**settings)


def test_each_optimizer_has_a_rate_of_its_own() -> None:
    found = space(optimizer="adam", lr=0.02, optimizers="adam,sgd")
    own = found.environment
    assert own["adam_lr"] == 0.02
    assert own["sgd_lr"] == pytest.approx(1.0), "the middle of its range"
    descends = {**own, "optimizer": "sgd", "sgd_lr": 4.0, "adam_lr": 0.1}
    settings = found.settings_of(descends)
    assert (settings.optimizer, settings.lr) == ("sgd", 4.0)
    assert found.full(descends) == {**descends, "adam_lr": 0.02}, "a rate that is not read"
    assert found.settings_of(own).lr == 0.02
    with pytest.raises(SearchError, match=r"'sgd_lr' is 0\.02"):
        found.genes.check({**own, "sgd_lr": 0.02})
    names = {gene.name for gene in space(optimizers="sgd").genes.genes}
    assert "sgd_lr" in names
    assert "adam_lr" not in names
    with pytest.raises(UserError, match="unknown optimizer 'rmsprop'"):
        GraphFLGASettings(optimizers="sgd,rmsprop")


def test_activations_differ(small_clients: list[ClientGraph]) -> None:
    client = small_clients[0]
    data = client.to_pyg()
    outputs = []
    for activation in ("relu", "tanh", "elu"):
        spec = replace(model_spec(client, GraphFLGASettings(model="gcn")), activation=activation)
        outputs.append(build_network(spec, torch_generator(0, "x")).eval()(data.x, data.edge_index))
    assert not torch.allclose(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])
    with pytest.raises(UserError, match="unknown activation"):
        replace(spec, activation="relo")
