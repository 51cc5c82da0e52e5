"""FedGraph's server: samplers, phases, whom it judges by, secure modes, settings."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.api import load_clients, load_server_graph, start_run
from autofgl.config import check_config, sort_settings
from autofgl.errors import AutoFGLError, UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.cut import withhold
from autofgl.methods.fedgraph.server import FedGraph, ServerTest
from autofgl.methods.fedgraph.settings import FedGraphSettings
from autofgl.nn.models.networks import GCN
from autofgl.nn.models.spec import ModelSpec
from autofgl.runtime.bounds import SumOutOfBounds
from autofgl.secure import MODES
from autofgl.seeding import torch_generator
from federations import make, rounds, to_the_end

SMALL: dict[str, Any] = {"hidden": 8, "rounds": 6, "batch": 8, "normalize_features": True}
LEARNED: dict[str, Any] = {
    "sampler": "ddpg", "hidden": 8, "batch": 16, "rounds": 3, "profile_rounds": 3, "episodes": 2,
    "episode_rounds": 2,
}  # fmt: skip


def test_a_run_ends_with_a_plain_network(small_clients: list[ClientGraph], out: Path) -> None:
    result = autofgl.run("fedgraph", small_clients, out=out, **SMALL)
    assert result.figures["architecture"].startswith("gcn, 2 layers")
    assert len(result.history) == 6
    assert [row["round"] for row in result.history] == list(range(1, 7))
    assert {one["name"] for one in result.figures["per_client"]} == {c.name for c in small_clients}
    data = small_clients[0].to_pyg()
    assert result.model(data.x, data.edge_index).shape == (small_clients[0].num_nodes, 3)


def test_a_refused_round_ends_a_profile_or_an_episode_too(small_clients: list[ClientGraph]) -> None:
    method = make("fedgraph", small_clients, **LEARNED)
    train = method._train

    def refuse(*args: Any) -> Any:
        if method.round in (3, 5, 7):  # the last of the profile, and of both episodes
            raise SumOutOfBounds("update", "not finite", [])
        return train(*args)

    method._train = refuse
    rows = rounds(method, method.rounds)
    assert [row["round"] for row in rows if "refused" in row] == [3, 5, 7]
    assert [row["phase"] for row in rows][:4] == ["profile"] * 3 + ["episode"]
    assert rows[-1]["phase"] == "train"
    assert method._policy.axes is not None


def test_a_profile_without_any_usable_round_is_an_error(small_clients: list[ClientGraph]) -> None:
    method = make("fedgraph", small_clients, **LEARNED)

    def refuse(*_: Any) -> Any:
        raise SumOutOfBounds("update", "not finite", [])

    method._train = refuse
    with pytest.raises(AutoFGLError, match="every round of the profile was refused"):
        rounds(method, 3)


@pytest.mark.parametrize(
    "settings", [{"keep": "0.5,x"}, {"keep": "0"}, {"fanouts": "2.5"}, {"share": "some"}]
)
def test_wrong_settings_are_refused(
    settings: dict[str, Any], small_clients: list[ClientGraph], out: Path
) -> None:
    with pytest.raises(UserError):
        autofgl.run("fedgraph", small_clients, out=out, **settings)


def test_one_number_stands_for_all_convolutions() -> None:
    settings = FedGraphSettings(layers=3, keep="0.2,0.5", fanouts="10")
    assert settings.keep_by_layer == [0.2, 0.5, 0.5]
    assert settings.fanout_by_layer == [10, 10, 10]


def test_one_number_needs_no_quotes() -> None:
    settings = FedGraphSettings(keep=0.25, fanouts=4, layers=3)  # type: ignore[arg-type]
    assert settings.keep_by_layer == [0.25, 0.25, 0.25]
    assert settings.fanout_by_layer == [4, 4, 4]


@pytest.mark.parametrize("sampler", ["full", "sage", "fastgcn", "fixed"])
def test_every_sampler_learns(sampler: str, small_graph: ClientGraph) -> None:
    clients = autofgl.partition(small_graph, clients=3, method="random", seed=0)
    method = make(
        "fedgraph", clients, sampler=sampler, rounds=40, hidden=8, batch=16, layer_size=40,
        keep="0.6,0.4", evaluate_every=40, lr=0.05, dropout=0.2,
    )  # fmt: skip
    history = rounds(method, 40)
    assert history[-1]["val_accuracy"] > 0.6
    assert np.mean([row["train_loss"] for row in history[-5:]]) < history[0]["train_loss"]
    assert all(row["cost"] > 0 for row in history)
    assert history[0]["val_accuracy"] is None
    method.federation.close()


def test_sampling_costs_less_than_the_full_batch(small_clients: list[ClientGraph]) -> None:
    costs = {}
    for sampler in ("full", "fixed"):
        method = make("fedgraph", small_clients, sampler=sampler, keep="0.3", **SMALL)
        costs[sampler] = rounds(method, 1)[0]["cost"]
        method.federation.close()
    assert costs["fixed"] < costs["full"] / 3


@pytest.mark.parametrize("secure", MODES)
def test_secure_modes_give_the_same_weights(secure: str, small_clients: list[ClientGraph]) -> None:
    plain = make("fedgraph", small_clients, sampler="fixed", **SMALL)
    rounds(plain, 2)
    method = make("fedgraph", small_clients, sampler="fixed", secure=secure, **SMALL)
    rounds(method, 2)
    for key, value in plain._weights.items():
        np.testing.assert_allclose(method._weights[key], value, atol=2e-3)
    plain.federation.close()
    method.federation.close()


def test_every_episode_starts_from_the_same_weights(small_clients: list[ClientGraph]) -> None:
    method = make("fedgraph", small_clients, **LEARNED)
    method.setup()
    seen = []
    train = method._train

    def watched(policies: Any, fresh: bool) -> Any:
        seen.append((fresh, {key: value.copy() for key, value in method._weights.items()}))
        return train(policies, fresh)

    method._train = watched
    to_the_end(method)
    assert [fresh for fresh, _ in seen] == [
        True, False, False, True, False, True, False, True, False, False,
    ]  # fmt: skip
    for fresh, weights in seen:
        same = all(np.array_equal(weights[key], seen[0][1][key]) for key in weights)
        assert same == fresh
    method.federation.close()


def test_a_policy_is_judged_by_all_validation_nodes_and_no_others(
    small_clients: list[ClientGraph],
) -> None:
    method = make("fedgraph", small_clients, **LEARNED, profile="random")
    rounds(method, 1)
    whole = method._metrics(method._evaluate(method._weights, "all"), "all")
    alone = method._metrics(method._evaluate(method._weights, "val", "judge"), "val")
    assert (alone.val_accuracy, alone.val_nodes) == (whole.val_accuracy, whole.val_nodes)
    np.testing.assert_allclose(alone.val_loss, whole.val_loss, rtol=1e-6)
    assert (alone.test_accuracy, alone.train_accuracy) == (0, 0)
    assert method._score() == whole.val_accuracy
    method.federation.close()


@pytest.mark.parametrize(("made", "left"), [
    (1, ["profile", "train"]), (3, ["profile", "train"]), (4, ["train"]), (6, ["train"]),
])  # fmt: skip
def test_without_time_it_learns_no_more_but_trains(
    made: int, left: list[str], small_clients: list[ClientGraph]
) -> None:
    settings = {**LEARNED, "profile_rounds": 4, "rounds": 1}
    method = make("fedgraph", small_clients, **settings)
    rounds(method, made)
    method.wrap_up()
    assert [row["phase"] for row in to_the_end(method)] == left
    assert method.finish().files["policy.afp"]
    method.federation.close()


def test_a_spent_budget_ends_a_training(small_clients: list[ClientGraph]) -> None:
    method = make("fedgraph", small_clients, **{**LEARNED, "sampler": "full"})
    rounds(method, 1)
    method.wrap_up()
    assert method.done
    method.federation.close()


def test_the_server_judges_by_nodes_that_no_client_has(out: Path) -> None:
    size = {"nodes": 90, "classes": 3, "features": 12}
    config = check_config(
        {
            "method": "fedgraph", "dataset": "synthetic", "clients": 3, "partition": "random",
            "settings": {**size, **LEARNED, "server_share": 0.2},
        }
    )  # fmt: skip
    layers = sort_settings(config, FedGraph.Settings)
    clients, held = load_clients(config, layers), load_server_graph(config, layers)
    assert held is not None
    assert held.num_nodes == 18
    ids = np.concatenate([client.node_id for client in clients])
    assert not np.isin(held.node_id, ids).any()
    assert len(ids) == 72
    result = start_run(config, clients, out, None)
    episode = [row for row in result.history if row["phase"] == "episode"]
    nodes = [row["accuracy"] * 18 for row in episode]
    np.testing.assert_allclose(nodes, np.round(nodes))
    meter = json.loads((out / "result.json").read_text())["traffic"]
    assert meter["begin"]["messages_down"] == 3 * (10 + 3 + 1)  # training, evaluation, final


def test_kept_nodes_need_a_graph_to_be_kept_from(
    small_clients: list[ClientGraph], out: Path
) -> None:
    with pytest.raises(UserError, match="server_graph=FILE"):
        autofgl.run("fedgraph", small_clients, out=out, **{**LEARNED, "server_share": 0.2})


def test_the_servers_accuracy_is_that_of_the_network_on_its_graph(
    small_graph: ClientGraph,
) -> None:
    spec = ModelSpec(family="gcn", in_features=36, classes=3, hidden=8)
    model = GCN(spec)
    model.reset_parameters(torch_generator(0, "weights"))
    data = small_graph.to_pyg()
    chosen = model.eval()(data.x, data.edge_index).argmax(1).numpy()
    expected = float((chosen == small_graph.y).mean())
    weights = {key: value.detach().numpy() for key, value in model.state_dict().items()}
    test = ServerTest(small_graph, spec, scaling=False)
    np.testing.assert_allclose(test.score(weights, FedGraphSettings()), expected)


def test_withholding_cuts_the_edges_and_leaves_test_nodes(small_graph: ClientGraph) -> None:
    rest, kept = withhold(small_graph, 0.25, np.random.default_rng(0))
    assert (rest.num_nodes, kept.num_nodes) == (90, 30)
    assert not kept.test_mask.any()
    assert rest.test_mask.sum() == small_graph.test_mask.sum()
    assert len(rest.boundary) == len(kept.boundary) == 0
    edges = {tuple(edge) for edge in kept.node_id[kept.edge_index].T.tolist()}
    own = set(kept.node_id.tolist())
    assert edges == {(s, t) for s, t in small_graph.edge_index.T.tolist() if s in own and t in own}
