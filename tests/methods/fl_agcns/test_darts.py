"""FL-Gradient: both steps of DARTS by hand, secure modes, clients that do not count."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import autofgl
from autofgl.errors import UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.client import SharedSuperNet
from autofgl.methods.fl_agcns.darts import LARGEST, SEARCH_UNTIL, bounded
from autofgl.methods.fl_agcns.settings import DartsSettings, make_space
from autofgl.nn.structure import Structure
from autofgl.nn.supernet.relaxed import RelaxedNetwork, initial_logits
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.local_model import WORST_LOSS
from autofgl.runtime.selection import FINALS_FROM
from autofgl.runtime.state import moments
from autofgl.secure import MODES, make_client
from families import family
from federations import leaves, make, parties, rounds, to_the_end, without

SMALL: dict[str, Any] = {
    "layers": 1, "generations": 3, "rounds": 6, "hidden": 8, "trials": 3, "trial_rounds": 4,
    "tune": 0, "finalists": 1, "inits": 1,
}  # fmt: skip
#: Three networks: rungs after 1, 2 and 4 rounds.
RACED = 3 + 2 + 2


def search(clients: list[ClientGraph], count: int, **settings: Any) -> Any:
    """A method after so many generations, and their rows."""
    method = make("fl-darts", clients, **{**SMALL, **settings})
    return method, rounds(method, count)


@pytest.fixture(scope="module")
def plain(small_clients: list[ClientGraph]) -> list[dict[str, Any]]:
    """Three generations without a secure mode."""
    return list(search(small_clients, 3)[1])


def by_hand(clients: list[ClientGraph], mask: str, settings: DartsSettings) -> Any:
    """Loss and accuracy on a mask's nodes of all clients together, and both gradients."""
    space = make_space(settings)
    logits = torch.tensor(initial_logits(space), dtype=torch.float32, requires_grad=True)
    net = SharedSuperNet(ClientData(clients[0], 0), settings).network
    network, scores, labels = RelaxedNetwork(net), [], []
    for client in clients:
        data = client.to_pyg()
        x = functional.normalize(data.x)
        structure = Structure(data.edge_index, len(data.y))
        scores.append(network(logits, x, structure)[data[mask]])
        labels.append(data.y[data[mask]])
    wanted, found = torch.cat(labels), torch.cat(scores)
    loss = functional.cross_entropy(found, wanted)
    loss.backward()
    accuracy = float((found.argmax(1) == wanted).double().mean())
    return loss.item(), accuracy, logits.grad, dict(net.named_parameters())


def test_an_architecture_step_is_one_on_the_union(small_clients: list[ClientGraph]) -> None:
    """Σ_i |val_i| / Σ|val_j| · ∇_α L_val_i is the gradient of all validation nodes together."""
    settings = DartsSettings(**SMALL, dropout=0.0)
    method = make("fl-darts", small_clients, **SMALL, dropout=0.0)
    method.setup()
    replies = method.federation.call("architecture", {**method._message()}).ok
    figures = method.clients.total("architecture-0", replies, "figures")
    loss, accuracy, gradient, _ = by_hand(small_clients, "val_mask", settings)
    assert figures["share"] == pytest.approx(1)
    assert float(gradient.abs().max()) > 1e-3
    np.testing.assert_allclose(figures["logits"], gradient, atol=1e-6)
    np.testing.assert_allclose(figures["val"], [loss, accuracy, 1], atol=1e-5)


def test_a_weights_step_is_one_on_the_union(small_clients: list[ClientGraph]) -> None:
    settings = DartsSettings(**SMALL, dropout=0.0)
    method = make("fl-darts", small_clients, **SMALL, dropout=0.0)
    method.setup()
    replies = method.federation.call("weights", {"step": 0, **method._message()}).ok
    sealed = method.clients.seal("gradient-0-0", replies, "gradient")
    reader = make_client("none", name="client-0", parties=list(method.federation.parties))
    found = reader.open(sealed)
    *_, named = by_hand(small_clients, "train_mask", settings)
    assert float(found.pop("share")) == pytest.approx(1)
    assert found.keys() == named.keys()
    for name, parameter in named.items():
        want = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        np.testing.assert_allclose(found[name], want, atol=1e-6, err_msg=name)


def test_the_first_architecture_step_by_hand(small_clients: list[ClientGraph]) -> None:
    """Adam's first step is lr · g / (|g| + eps), whatever its betas."""
    method = make("fl-darts", small_clients, **SMALL, arch_lr=0.25, arch_weight_decay=0.0)
    method.setup()
    replies = method.federation.call("architecture", {**method._message()}).ok
    gradient = method.clients.total("architecture-0", replies, "figures")["logits"]
    method._generation = 1
    row = method._architecture_step({})
    alpha = method._alpha.detach().numpy()
    expected = -0.25 * gradient / (np.abs(gradient) + 1e-8)
    np.testing.assert_allclose(alpha, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(method._logits(), method._prior + alpha)
    assert row["val_loss"] > 0


def test_all_clients_hold_the_same_weights_and_they_move(
    small_clients: list[ClientGraph],
) -> None:
    method, _ = search(small_clients, 2, weight_steps=2)
    shared = [party._supernet for party in parties(method).values()]
    first, *others = (one.network.state_dict() for one in shared)
    initial = SharedSuperNet(
        ClientData(small_clients[0], 0), DartsSettings(**SMALL)
    ).network.state_dict()
    for name, value in first.items():
        assert all(value.equal(other[name]) for other in others)
    assert np.mean([not first[name].equal(initial[name]) for name in initial]) > 0.9
    assert float(moments(shared[0]._optimizer)["0"]["step"]) == 4


def test_both_levels_learn(small_clients: list[ClientGraph]) -> None:
    _, rows = search(small_clients, 16, generations=16, lr=0.05, arch_lr=0.2)
    assert rows[-1]["val_loss"] < rows[0]["val_loss"] - 0.2
    assert rows[-1]["train_loss"] < rows[0]["train_loss"] - 0.2
    assert rows[-1]["val_accuracy"] > rows[0]["val_accuracy"]
    assert rows[-1]["entropy"] < rows[0]["entropy"] - 0.1


def test_the_architecture_learns_on_its_own(small_clients: list[ClientGraph]) -> None:
    """With weights that stand still, only α can lower the loss."""
    still = {"search_lr": 1e-12, "arch_lr": 0.1, "arch_weight_decay": 0.0}
    _, rows = search(small_clients, 6, generations=6, **still)
    losses = [row["val_loss"] for row in rows]
    assert losses[-1] < losses[0] - 5e-4
    assert all(after < before for before, after in pairwise(losses))


@pytest.mark.parametrize("secure", family(MODES, ["shares", "ckks"]))
def test_a_run_ends_with_a_trained_network(
    small_clients: list[ClientGraph], plain: list[dict[str, Any]], tmp_path: Path, secure: str
) -> None:
    result = autofgl.run("fl-darts", small_clients, secure=secure, out=tmp_path / "run", **SMALL)
    figures = result.figures
    assert figures["rounds"] == 3 + RACED + 2
    phases = ["search"] * 3 + ["trial"] * RACED + ["train"] * 2
    assert [row["phase"] for row in result.history] == phases
    raced = list(dict.fromkeys(row["code"] for row in result.history if "code" in row))
    assert raced[0] == result.history[2]["best_code"], "the most likely network comes first"
    assert len(raced) == 3
    assert figures["architecture"] == figures["trials"][0]["genotype"]
    assert len(figures["confidence"]) == 4
    data = small_clients[0].to_pyg()
    assert result.model(data.x, data.edge_index).shape == (len(data.y), 3)
    for row, other in zip(result.history[:3], plain, strict=True):
        assert row["val_loss"] == pytest.approx(other["val_loss"], abs=1e-4)
        assert row["entropy"] == pytest.approx(other["entropy"], abs=1e-3)


@pytest.mark.parametrize("secure", ["ckks", "shares"])
def test_the_server_sees_no_clients_gradient_or_loss(
    small_clients: list[ClientGraph], secure: str
) -> None:
    arrays: list[Any] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        if way == "up" and op in ("weights", "architecture"):
            arrays.extend(leaves(payload))

    search(small_clients, 1, secure=secure, observer=watch)
    assert any(isinstance(value, np.ndarray | bytes) for value in arrays)
    floats = [v for v in arrays if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    assert not floats, "gradients and losses travel as masked integers or ciphertexts only"


def test_a_spent_budget_ends_the_search_and_trains_what_was_found(
    small_clients: list[ClientGraph],
) -> None:
    method, rows = search(small_clients, 2, generations=10**6)
    method.wrap_up()
    phases = [row["phase"] for row in to_the_end(method)]
    assert phases == ["trial"] + ["train"] * 5, "the most likely network"
    extra = method.finish().extra
    assert extra["generations"] == 2
    assert extra["recipe"] == rows[-1]["best_code"]


def test_every_part_has_its_share_of_a_budget(small_clients: list[ClientGraph]) -> None:
    method, _ = search(small_clients, 1, generations=10**6, tune=8)
    assert not method.pace(0.4)
    assert method.step()["phase"] == "search"
    assert method.pace(SEARCH_UNTIL)
    assert [method.step()["phase"] for _ in range(3)] == ["trial"] * 3
    assert method.pace(FINALS_FROM)
    assert {row["phase"] for row in to_the_end(method)} == {"train"}


def test_clients_without_validation_or_training_nodes_take_part(
    small_clients: list[ClientGraph],
) -> None:
    empty = without(small_clients[1], "train_mask", "val_mask", "test_mask")
    _, rows = search([small_clients[0], empty, small_clients[2]], 2, compress="none")
    _, others = search([small_clients[0], small_clients[2]], 2, compress="none")
    for row, other in zip(rows, others, strict=True):
        assert row["val_loss"] == pytest.approx(other["val_loss"], abs=1e-5)


def test_nobody_with_validation_nodes_leaves_the_architecture_alone(
    small_clients: list[ClientGraph],
) -> None:
    method, rows = search([without(client, "val_mask") for client in small_clients], 2)
    assert not method._alpha.detach().numpy().any()
    assert rows[-1]["val_loss"] == 0


def test_a_lost_client_is_dropped(small_clients: list[ClientGraph]) -> None:
    method, _ = search(small_clients, 1)
    method.federation.drop("client-1")
    assert np.isfinite(method.step()["val_loss"])


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_a_diverged_client_does_not_count(small_clients: list[ClientGraph], secure: str) -> None:
    features = np.asarray(small_clients[1].to_pyg().x).copy()
    features[:] = 3e38
    wild = replace(small_clients[1], x=features)
    clients = [small_clients[0], wild, small_clients[2]]
    # the wild one contributes zeros: two are left
    about = {"normalize_features": False, "secure_threshold": 2}
    method, rows = search(clients, 2, secure=secure, **about)
    assert all(np.isfinite(row["val_loss"]) and np.isfinite(row["train_loss"]) for row in rows)
    assert np.isfinite(method._alpha.detach().numpy()).all()
    assert method._alpha.detach().numpy().any()
    sane = sum(int(client.val_mask.sum()) for client in clients if client is not wild)
    nodes = sum(int(client.val_mask.sum()) for client in clients)
    assert rows[0]["val_accuracy"] <= sane / nodes
    assert rows[0]["val_loss"] > WORST_LOSS * (1 - sane / nodes)


def test_gradients_are_bounded() -> None:
    small = {"a": np.array([1.0, -2.0], np.float32), "b": np.zeros((0, 3), np.float32)}
    kept, counts = bounded(small)
    assert counts == 1
    assert np.array_equal(kept["a"], small["a"])
    scaled, counts = bounded({"a": np.array([4e6, -1e6], np.float32), "b": np.float32([2e6])})
    assert counts == 1
    np.testing.assert_allclose(scaled["a"], [LARGEST, -LARGEST / 4], rtol=1e-6)
    np.testing.assert_allclose(scaled["b"], [LARGEST / 2], rtol=1e-6)
    for bad in (np.nan, np.inf, -np.inf):
        zeros, counts = bounded({"a": np.array([1.0], np.float32), "b": np.array([bad])})
        assert counts == 0
        assert not any(value.any() for value in zeros.values())


def test_bad_settings_are_named(small_clients: list[ClientGraph], out: Path) -> None:
    with pytest.raises(UserError, match="did you mean arch_lr"):
        autofgl.run("fl-darts", small_clients, out=out, arch_rl=3)
    with pytest.raises(UserError, match="weight_steps=0"):
        autofgl.run("fl-darts", small_clients, out=out, weight_steps=0)
