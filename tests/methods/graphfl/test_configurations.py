"""What a chromosome means."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from autofgl.errors import AutoFGLError, UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import (
    Configurations,
    Part,
    Shape,
    merge,
    parts_of,
    put,
    take,
)
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.nn.models.networks import build_network
from autofgl.nn.models.spec import ModelSpec
from autofgl.runtime.specs import model_spec
from autofgl.runtime.summing import average, weighted
from autofgl.search.searcher import SearchError
from autofgl.seeding import torch_generator


def space(**settings: Any) -> Configurations:
    checked = GraphFLGASettings(**settings)
    own = {"hidden": checked.hidden, "layers": checked.layers, "hops": checked.hops or None}
    return Configurations(ModelSpec(checked.model, 30, 4, dropout=checked.dropout, **own), checked)


def genes_of(found: Configurations) -> dict[str, Any]:
    """The environment as a chromosome."""
    return {gene.name: found.environment[gene.name] for gene in found.genes.genes}


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
    own = genes_of(found)
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
    own = genes_of(found)
    key = found.genes.key
    assert key({**own, "hidden": 16, "activation": "elu", "layers": 3}) == key(own)
    other = {**own, "model": "appnp"}
    assert key({**other, "hops": 3}) != key(other)
    one = space(model="appnp", layers=1)
    assert one.genes.key({**genes_of(one), "hidden": 32}) == one.genes.key(genes_of(one))
    deep = {**own, "model": "gcn", "layers": 2}
    assert key({**deep, "hops": 5, "teleport": 0.2}) == key(deep)
    assert key({**own, "teleport": 0.2}) != key(own)
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
    found = space(optimizer="adam", lr=0.02, optimizers="adam,sgd", common_rate=False)
    own = genes_of(found)
    assert own["adam_lr"] == 0.02
    assert own["sgd_lr"] == pytest.approx(1.0), "the middle of its range"
    descends = {**own, "optimizer": "sgd", "sgd_lr": 4.0, "adam_lr": 0.1}
    settings = found.settings_of(descends)
    assert (settings.optimizer, settings.lr) == ("sgd", 4.0)
    assert found.full(descends) == {**descends, "adam_lr": 0.02}, "a rate that is not read"
    assert found.settings_of(own).lr == 0.02
    with pytest.raises(SearchError, match=r"'sgd_lr' is 0\.02"):
        found.genes.check({**own, "sgd_lr": 0.02})
    alone = space(optimizers="sgd", common_rate=False)
    names = {gene.name for gene in alone.genes.genes}
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


WIDE = parts_of(Shape("gcn", 2, 4), {"convs.0.lin.weight": (3, 4), "convs.1.lin.weight": (4, 2)})
SLIM = parts_of(Shape("gcn", 2, 2), {"convs.0.lin.weight": (3, 2), "convs.1.lin.weight": (2, 2)})
FLAT = parts_of(Shape("gcn", 1, 4), {"convs.0.lin.weight": (3, 2)})
DEEP = parts_of(
    Shape("gcn", 3, 4),
    {"convs.0.lin.weight": (3, 4), "convs.1.lin.weight": (4, 4), "convs.2.lin.weight": (4, 2)},
)
OTHER = parts_of(Shape("appnp", 2, 4), {"lins.0.weight": (3, 4), "lins.1.weight": (4, 2)})
ALL = (WIDE, SLIM, FLAT, DEEP, OTHER)
SIZES = {
    part.block: max(p.sizes for parts in ALL for p in parts.values() if p.block == part.block)
    for parts in ALL
    for part in parts.values()
}


def drawn(parts: dict[str, Part], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=part.sizes).astype("f4") for name, part in parts.items()}


def blocks(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=size).astype("f4") for name, size in SIZES.items()}


def test_layers_are_known_by_their_place() -> None:
    assert [part.block for part in DEEP.values()] == [
        "gcn/hidden.0.lin.weight", "gcn/hidden.1.lin.weight", "gcn/out.2.lin.weight",
    ]  # fmt: skip
    assert [part.block for part in FLAT.values()] == ["gcn/out.0.lin.weight"]
    assert {part.block for part in WIDE.values()} & {part.block for part in DEEP.values()} == {
        "gcn/hidden.0.lin.weight"
    }, "the last layer after one hidden layer is not that after two"
    assert not {p.block for p in WIDE.values()} & {p.block for p in OTHER.values()}
    with pytest.raises(AutoFGLError, match="'att' of gat is of no layer"):
        parts_of(Shape("gat", 1, 8), {"att": (8,)})


def test_take_undoes_put_and_nothing_else_is_written() -> None:
    weights = drawn(SLIM, 0)
    whole = put(weights, SLIM, SIZES)
    assert {name: value.shape for name, value in whole.items()} == SIZES
    for name, value in take(whole, SLIM).items():
        assert np.array_equal(value, weights[name])
    assert sum(np.count_nonzero(value) for value in whole.values()) == 3 * 2 + 2 * 2


def test_equal_structures_give_fedavg_bit_for_bit() -> None:
    clients, shares = [drawn(WIDE, seed) for seed in range(3)], [0.5, 0.3, 0.2]
    sums = [weighted(client, share) for client, share in zip(clients, shares, strict=True)]
    total = {name: sum(s[name].astype("f8") for s in sums) for name in sums[0]}
    expected = average(total)
    padded = [
        weighted(put(client, WIDE, SIZES), share)
        for client, share in zip(clients, shares, strict=True)
    ]
    blocks_total = {name: sum(s[name].astype("f8") for s in padded) for name in padded[0]}
    before = blocks(9)
    found = merge(blocks_total, [float(blocks_total["share"])], [WIDE], before, 1e-6)
    for name, value in take(found, WIDE).items():
        assert np.array_equal(value, expected[name])
    for name in set(SIZES) - {part.block for part in WIDE.values()}:
        assert np.array_equal(found[name], before[name]), "nobody holds it"


def test_each_entry_is_averaged_over_its_holders() -> None:
    """By hand: entries of the slim network over both, the rest over the wide one alone."""
    wide, slim, other = drawn(WIDE, 0), drawn(SLIM, 1), drawn(OTHER, 2)
    shares = {"wide": 0.25, "slim": 0.5, "other": 0.25}
    total = {name: np.zeros(size) for name, size in SIZES.items()}
    for weights, parts, share in (
        (wide, WIDE, 0.25), (slim, SLIM, 0.5), (other, OTHER, 0.25),
    ):  # fmt: skip
        for name, value in put(weights, parts, SIZES).items():
            total[name] += share * value
    before = blocks(7)
    held = [WIDE, SLIM, FLAT, DEEP, OTHER]
    given = [shares["wide"], shares["slim"], 1e-9, 0.0, shares["other"]]
    found = merge(total, given, held, before, 1e-6)
    first, last = "convs.0.lin.weight", "convs.1.lin.weight"
    for row in range(3):
        for column in range(4):
            expected = wide[first][row, column]
            if column < 2:
                expected = (0.25 * expected + 0.5 * slim[first][row, column]) / 0.75
            assert found["gcn/hidden.0.lin.weight"][row, column] == pytest.approx(expected)
    for row in range(4):
        expected = wide[last][row]
        if row < 2:
            expected = (0.25 * expected + 0.5 * slim[last][row]) / 0.75
        assert found["gcn/out.1.lin.weight"][row] == pytest.approx(expected, rel=1e-5)
    assert found["appnp/hidden.0.weight"] == pytest.approx(other["lins.0.weight"])
    for name in ("gcn/out.0.lin.weight", "gcn/hidden.1.lin.weight", "gcn/out.2.lin.weight"):
        assert np.array_equal(found[name], before[name]), "a share below the least is nobody's"
