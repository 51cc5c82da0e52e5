"""FedGraph with a policy that is learnt."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.cut import withhold
from autofgl.methods.fedgraph.policy import LEAST_KEPT, SamplingPolicy
from autofgl.methods.fedgraph.server import ServerTest
from autofgl.methods.fedgraph.settings import FedGraphSettings
from autofgl.nn.models.networks import GCN
from autofgl.nn.models.spec import ModelSpec
from autofgl.seeding import torch_generator
from federations import make

LEARNT: dict[str, Any] = {
    "sampler": "ddpg", "hidden": 8, "batch": 16, "rounds": 3, "profile_rounds": 3, "episodes": 2,
    "episode_rounds": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def clients() -> list[ClientGraph]:
    settings = autofgl.graphs.datasets.DataSettings(nodes=60, classes=3, features=12, degree=4)
    graph = autofgl.load("synthetic", seed=1, settings=settings)
    return autofgl.partition(graph, clients=3, method="random", seed=0)


@pytest.fixture(scope="module")
def learnt(clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return autofgl.run("fedgraph", clients, out=tmp_path_factory.mktemp("learnt") / "run", **LEARNT)


def test_a_run_profiles_learns_and_trains(learnt: Any) -> None:
    rows = learnt.history
    assert [row["phase"] for row in rows] == ["profile"] * 3 + ["episode"] * 4 + ["train"] * 3
    assert [row["episode"] for row in rows[3:7]] == [1, 1, 2, 2]
    assert all(row["test_accuracy"] is None for row in rows[:7])
    assert all(row["test_accuracy"] is not None for row in rows[7:])
    for row in rows:
        assert set(row["policies"]) == {"client-0", "client-1", "client-2"}
        for batch, *kept in row["policies"].values():
            assert 1 <= batch <= 16
            assert all(LEAST_KEPT <= probability <= 1 for probability in kept)
    first, second = rows[3], rows[4]
    np.testing.assert_allclose(second["return"], first["reward"] + 0.99 * second["reward"])


def test_every_episode_starts_from_the_same_weights(clients: list[ClientGraph]) -> None:
    method: Any = make("fedgraph", clients, **LEARNT)
    method.setup()
    seen = []
    train = method._train

    def watched(policies: Any, fresh: bool) -> Any:
        seen.append((fresh, {key: value.copy() for key, value in method._weights.items()}))
        return train(policies, fresh)

    method._train = watched
    while not method.done:
        method.step()
    assert [fresh for fresh, _ in seen] == [
        True, False, False, True, False, True, False, True, False, False,
    ]  # fmt: skip
    for fresh, weights in seen:
        same = all(np.array_equal(weights[key], seen[0][1][key]) for key in weights)
        assert same == fresh
    method.federation.close()


def test_a_policy_is_judged_by_all_validation_nodes_and_no_others(
    clients: list[ClientGraph],
) -> None:
    method: Any = make("fedgraph", clients, **LEARNT)
    method.setup()
    method.step()
    whole = method._metrics(method._evaluate(method._weights, "all"), "all")
    alone = method._metrics(method._evaluate(method._weights, "val", "judge"), "val")
    assert (alone.val_accuracy, alone.val_nodes) == (whole.val_accuracy, whole.val_nodes)
    np.testing.assert_allclose(alone.val_loss, whole.val_loss, rtol=1e-6)
    assert (alone.test_accuracy, alone.train_accuracy) == (0, 0)
    assert method._accuracy() == whole.val_accuracy
    method.federation.close()


def test_a_learnt_policy_is_kept_and_used_again(
    learnt: Any, clients: list[ClientGraph], out: Path
) -> None:
    path = learnt.folder / "policy.afp"
    settings = {**LEARNT, "policy": str(path)}
    again = autofgl.run("fedgraph", clients, out=out, **settings)
    assert [row["phase"] for row in again.history] == ["train"] * 3
    before = [row["policies"] for row in learnt.history[-3:]]
    assert [row["policies"] for row in again.history] == before
    assert again.figures["test_accuracy"] == learnt.figures["test_accuracy"]


def test_a_policy_for_another_federation_is_refused(
    learnt: Any, clients: list[ClientGraph], out: Path, tmp_path: Path
) -> None:
    path = learnt.folder / "policy.afp"
    settings = {**LEARNT, "policy": str(path)}
    two = autofgl.partition(autofgl.graphs.cut.pool(clients), clients=2, method="random", seed=0)
    with pytest.raises(UserError, match="learnt with 3 clients"):
        autofgl.run("fedgraph", two, out=out, **settings)
    with pytest.raises(UserError, match="2 convolutions, this run has 3 and 3"):
        autofgl.run("fedgraph", clients, out=out, **{**settings, "layers": 3})
    with pytest.raises(UserError, match="cannot read the policy"):
        autofgl.run("fedgraph", clients, out=out, **{**settings, "policy": "nowhere.afp"})
    cut = tmp_path / "cut.afp"
    cut.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UserError, match="damaged"):
        autofgl.run("fedgraph", clients, out=out, **{**settings, "policy": str(cut)})
    assert not out.exists()
    with pytest.raises(UserError, match="network of"):
        autofgl.run("fedgraph", clients, out=out, **{**settings, "hidden": 9})


@pytest.mark.parametrize(("made", "left"), [
    (1, ["profile", "train"]), (3, ["profile", "train"]), (4, ["train"]), (6, ["train"]),
])  # fmt: skip
def test_without_time_it_learns_no_more_but_trains(
    made: int, left: list[str], clients: list[ClientGraph]
) -> None:
    settings = {**LEARNT, "profile_rounds": 4, "rounds": 1}
    method: Any = make("fedgraph", clients, **settings)
    method.setup()
    for _ in range(made):
        method.step()
    method.wrap_up()
    phases = []
    while not method.done:
        phases.append(method.step()["phase"])
    assert phases == left
    assert method.finish().files["policy.afp"]
    method.federation.close()


def test_a_spent_budget_ends_a_training(clients: list[ClientGraph]) -> None:
    method: Any = make("fedgraph", clients, **{**LEARNT, "sampler": "full"})
    method.setup()
    method.step()
    method.wrap_up()
    assert method.done
    method.federation.close()


def test_it_learns_what_is_cheap() -> None:
    """A federation of numbers: accuracy is always the same, so small batches pay."""
    settings = FedGraphSettings(
        sampler="ddpg", batch=100, layers=1, target_accuracy=0.5, learn_steps=1, warm_up=2
    )
    policy = SamplingPolicy(["a", "b"], settings, seed=0)
    rng = np.random.default_rng(0)

    def round_of(policies: dict[str, Any]) -> float:
        return sum(one["batch"] / 100 + one["keep"][0] for one in policies.values())

    for at in range(20):
        policy.profiled({"w": rng.normal(size=30)}, round_of(policy.random(at)))
    policy.end_profile()
    weights = {"w": np.zeros(30)}
    costs = []
    for _ in range(8):
        policy.begin_episode(weights)
        for _ in range(25):
            costs.append(round_of(policy.choose(explore=True)))
            policy.observe(weights, policy.axes.told(weights), 1)  # type: ignore[union-attr]
            policy.learn(0.5, costs[-1])
        policy.end_episode()
    policy.begin_episode(weights)
    assert round_of(policy.choose(explore=False)) < 1.0  # half of what a random policy costs


def test_the_actor_of_the_best_episode_is_kept() -> None:
    settings = FedGraphSettings(sampler="ddpg", batch=100, layers=1, warm_up=1, noise=0.02)
    policy: Any = SamplingPolicy(["a", "b"], settings, seed=0)
    rng = np.random.default_rng(0)
    for at in range(12):
        policy.profiled({"w": rng.normal(size=30)}, float(at))
    policy.end_profile()
    weights = {"w": np.zeros(30)}
    actors = []
    for accuracy in (1.0, 0.3, 0.8, 0.5):  # the first is drawn and counts for nothing
        policy.begin_episode(weights)
        for _ in range(20):
            policy.choose(explore=True)
            policy.observe(weights, policy.axes.told(weights), 1)
            policy.learn(accuracy, 1.0)
        policy.end_episode()
        actors.append(policy._agent.policy()["actor"]["4.bias"])
    assert not np.array_equal(actors[2], actors[3])
    saved = autofgl.federation.payload.decode(policy.to_bytes())
    np.testing.assert_array_equal(saved["actor"]["actor"]["4.bias"], actors[2])


def test_while_drawn_policies_are_played_only_the_critic_learns() -> None:
    settings = FedGraphSettings(sampler="ddpg", batch=100, layers=1, warm_up=1)
    policy: Any = SamplingPolicy(["a", "b"], settings, seed=0)
    rng = np.random.default_rng(0)
    for at in range(12):
        policy.profiled({"w": rng.normal(size=30)}, float(at))
    policy.end_profile()
    weights = {"w": np.zeros(30)}
    networks = policy._agent._networks
    before = [network[4].bias.detach().clone() for network in (networks.actor, networks.critic)]
    policy.begin_episode(weights)
    for _ in range(40):
        policy.choose(explore=True)
        policy.observe(weights, policy.axes.told(weights), 1)
        policy.learn(0.5, 1.0)
    assert before[0].equal(networks.actor[4].bias)
    assert not before[1].equal(networks.critic[4].bias)


def test_profiling_goes_from_cheap_to_dear() -> None:
    """Clients are drawn together: twenty drawn apart would cost about the same in every round."""
    names = [f"client-{index:02}" for index in range(20)]
    policy = SamplingPolicy(names, FedGraphSettings(sampler="ddpg", batch=100), seed=0)
    costs = [sum(one["batch"] for one in policy.random(at).values()) / 20 for at in range(40)]
    assert min(costs) < 15
    assert max(costs) > 85
    for at in range(5):
        assert np.std([one["batch"] for one in policy.random(at).values()]) < 15


def test_the_first_episodes_keep_to_a_drawn_policy_each() -> None:
    settings = FedGraphSettings(sampler="ddpg", batch=1000, layers=1, warm_up=2)
    policy: Any = SamplingPolicy(["a", "b"], settings, seed=0)
    rng = np.random.default_rng(0)
    for at in range(12):
        policy.profiled({"w": rng.normal(size=30)}, float(at))
    policy.end_profile()
    weights = {"w": np.zeros(30)}
    batches, noise = [], []
    for _ in range(4):
        policy.begin_episode(weights)
        rows = []
        for _ in range(20):
            rows.append(policy.choose(explore=True)["a"]["batch"])
            policy.observe(weights, policy.axes.told(weights), 1)
            policy.learn(0.5, 1.0)
        policy.end_episode()
        batches.append(rows)
        noise.append(policy._agent.noise)
    drawn = [policy._drawn("warm-up", episode)[0] * 1000 for episode in range(2)]
    for rows, centre in zip(batches, drawn, strict=False):
        assert abs(np.median(rows) - centre) < 80
        assert 0 < np.std(rows) < 150
    np.testing.assert_allclose(noise, [0.3, 0.3, 0.3 * 0.93, 0.3 * 0.93**2])


def test_the_server_judges_by_nodes_that_no_client_has(out: Path) -> None:
    from autofgl.api import load_clients, load_server_graph, start_run
    from autofgl.config import check_config, sort_settings
    from autofgl.methods.fedgraph.server import FedGraph

    size = {"nodes": 90, "classes": 3, "features": 12}
    config = check_config(
        {
            "method": "fedgraph", "dataset": "synthetic", "clients": 3, "partition": "random",
            "settings": {**size, **LEARNT, "server_share": 0.2},
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


def test_kept_nodes_need_a_graph_to_be_kept_from(clients: list[ClientGraph], out: Path) -> None:
    with pytest.raises(UserError, match="server_graph=FILE"):
        autofgl.run("fedgraph", clients, out=out, **{**LEARNT, "server_share": 0.2})


def test_withholding_cuts_the_edges_and_leaves_test_nodes(small_graph: ClientGraph) -> None:
    rest, held = withhold(small_graph, 0.25, np.random.default_rng(0))
    assert (rest.num_nodes, held.num_nodes) == (90, 30)
    assert not held.test_mask.any()
    assert rest.test_mask.sum() == small_graph.test_mask.sum()
    assert len(rest.boundary) == len(held.boundary) == 0
    kept = {tuple(edge) for edge in held.node_id[held.edge_index].T.tolist()}
    own = set(held.node_id.tolist())
    assert kept == {(s, t) for s, t in small_graph.edge_index.T.tolist() if s in own and t in own}


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
    test = ServerTest(small_graph, spec, normalise=False)
    np.testing.assert_allclose(test.accuracy(weights), expected)
