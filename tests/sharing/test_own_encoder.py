"""SFGNN: a round of Algorithm 2 recomputed, what the server sees, lost clients."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

import autofgl
from autofgl.errors import UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.catalog import PartitionSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.asfgnn.settings import SFGNNSettings
from autofgl.nn.models.sfgnn import DISCRIMINATOR
from autofgl.runtime.local_model import LocalModel
from autofgl.runtime.method import Method
from autofgl.runtime.recipe import changed
from autofgl.runtime.summing import COUNT_UNIT
from autofgl.secure import MODES, SecureSumError
from autofgl.sharing.mixing import class_wise, columns_by_class, distribution, divergence, mix
from autofgl.sharing.own_encoder import own_encoder_spec
from federations import leaves, local_model, make, parties, rounds, without


@pytest.fixture(scope="module")
def skewed(small_graph: ClientGraph) -> list[ClientGraph]:
    """Three clients, each with most of one class."""
    settings = PartitionSettings(label_alpha=0.8)
    return autofgl.partition(small_graph, clients=3, method="labels", seed=0, settings=settings)


def models(method: Method) -> dict[str, LocalModel]:
    """The networks that the clients hold now."""
    return {name: party.sharing.local for name, party in parties(method).items()}


def alone(client: ClientGraph, settings: SFGNNSettings) -> Any:
    return local_model(client, settings, own_encoder_spec(client, settings))


@pytest.mark.parametrize("secure", MODES)
@pytest.mark.parametrize("mixing", ["js", "none", "constant", "class", "both"])
def test_two_rounds_of_algorithm_2_in_numpy(
    skewed: list[ClientGraph], mixing: str, secure: str
) -> None:
    method = make(
        "sfgnn", skewed, secure=secure, mixing=mixing, keep=0.7, rounds=5, hidden=8,
        per_client="client-1 layers=3 lr=0.02 dropout=0",
    )  # fmt: skip
    rounds(method, 2)
    # In round 2 every client mixes, then takes its second step: do the same by hand.
    base = SFGNNSettings(hidden=8)
    special = changed(base, {"layers": 3, "lr": 0.02, "dropout": 0.0}, "test")
    locals_ = [alone(skewed[0], base), alone(skewed[1], special), alone(skewed[2], base)]
    for local in locals_:
        local.train(1, at=1)
    counts = [np.bincount(client.y[client.train_mask], minlength=3) for client in skewed]
    everyone_has = sum(counts)
    everyone = everyone_has / everyone_has.sum()
    trained = [local.weights() for local in locals_]
    shared = [name for name in trained[0] if name.startswith(DISCRIMINATOR)]
    mean = {name: sum(weights[name] for weights in trained) / 3 for name in shared}
    if mixing in (
        "class",
        "both",
    ):  # W_sj = Σ_i N_ij W_ij / Σ_i N_ij, for the output layer's columns
        for name in ("second.weight", "second.bias"):
            key, each = f"{DISCRIMINATOR}{name}", list(zip(counts, trained, strict=True))
            mean[key] = np.stack(
                [sum(c[j] * w[key][..., j] for c, w in each) / everyone_has[j] for j in range(3)],
                axis=-1,
            )
    for local, weights, count in zip(locals_, trained, counts, strict=True):
        js = _js(count / count.sum(), everyone)
        keep = {"constant": 0.7, "none": 0.0, "class": 0.0}.get(mixing, js)
        assert 0.01 < js < 0.6
        merged = {name: keep * weights[name] + (1 - keep) * mean[name] for name in shared}
        local.load_weights({**weights, **merged})
        local.train(1, at=2)
    for local, found in zip(locals_, models(method).values(), strict=True):
        for name, value in local.weights().items():
            # CKKS adds an error to the mean, which one step of Adam may turn into more.
            atol = 2e-3 if secure == "ckks" else 1e-5
            np.testing.assert_allclose(found.weights()[name], value, atol=atol)


def _js(p: Any, q: Any) -> float:
    middle = (p + q) / 2
    bits = [np.where(one > 0, one * np.log2(np.maximum(one, 1e-300) / middle), 0) for one in (p, q)]
    return float(sum(value.sum() for value in bits) / 2)


def test_who_never_saw_a_class_does_not_move_its_column() -> None:
    rng = np.random.default_rng(0)
    second = f"{DISCRIMINATOR}second."
    nets = [
        {f"{second}weight": rng.normal(size=(2, 3)), f"{second}bias": rng.normal(size=3)}
        for _ in range(2)
    ]
    labels = np.array([[4, 0, 0], [1, 6, 0]])  # nobody has the third class
    mean = {name: (nets[0][name] + nets[1][name]) / 2 for name in nets[0]}
    columns = sum(columns_by_class(net, own) for net, own in zip(nets, labels, strict=True))
    found = class_wise(mean, columns, labels.sum(0) / COUNT_UNIT)
    for name in mean:
        (a, b, _), (c, d, _) = (net[name].T for net in nets)
        np.testing.assert_allclose(found[name].T[0], (4 * a + c) / 5, rtol=1e-6)
        np.testing.assert_allclose(found[name].T[1], (0 * b + 6 * d) / 6, rtol=1e-6)
        np.testing.assert_allclose(found[name].T[2], mean[name].T[2], rtol=1e-6)


def test_who_keeps_all_of_its_own_is_alone(skewed: list[ClientGraph]) -> None:
    method = make("sfgnn", skewed, mixing="constant", keep=1, rounds=5)
    rounds(method, 3)
    for client, found in zip(skewed, models(method).values(), strict=True):
        local = alone(client, SFGNNSettings())
        for at in (1, 2, 3):
            local.train(1, at)
        for name, value in local.weights().items():
            np.testing.assert_allclose(found.weights()[name], value, atol=1e-6)


def test_the_figures_of_a_round_are_those_of_the_mixed_weights(skewed: list[ClientGraph]) -> None:
    method = make("sfgnn", skewed, rounds=5)
    method.setup()
    row = method.step()
    locals_ = [alone(client, SFGNNSettings()) for client in skewed]
    sums = np.array([local.evaluate().reshape(3, 3) for local in locals_])
    right, count = sums[:, 1, 1], sums[:, 1, 2]
    assert row["val_accuracy"] == pytest.approx(right.sum() / count.sum())
    assert row["mean_val_accuracy"] == pytest.approx((right / count).mean())
    assert row["mean_val_accuracy"] != pytest.approx(row["val_accuracy"], abs=1e-6)


def test_the_best_round_is_kept_at_the_clients(skewed: list[ClientGraph]) -> None:
    method = make("sfgnn", skewed, rounds=12, lr=0.1)
    rows = rounds(method, 12)
    outcome = method.finish()
    means = [row["mean_val_accuracy"] for row in rows]
    best = outcome.extra["best_round"]
    assert best < 12, "else this test shows nothing"
    assert outcome.extra["mean_val_accuracy"] == pytest.approx(max(means))
    assert means[best] == max(means)
    assert outcome.test_accuracy == pytest.approx(rows[best]["test_accuracy"])


def test_a_client_may_choose_its_best_round_itself(skewed: list[ClientGraph]) -> None:
    method = make("sfgnn", skewed, rounds=12, lr=0.03, chosen_by="client")
    rows = rounds(method, 12)
    outcome = method.finish()
    own = {client["name"]: client["val_accuracy"] for client in outcome.per_client}
    best = {name: max(row["client_val_accuracy"][name] for row in rows) for name in own}
    assert all(own[name] > best[name] - 1e-9 for name in own)
    assert outcome.extra["mean_val_accuracy"] == pytest.approx(sum(own.values()) / len(own))
    common = max(row["mean_val_accuracy"] for row in rows)
    assert outcome.extra["mean_val_accuracy"] > common, "else this test shows nothing"


def test_it_learns_more_than_nothing(skewed: list[ClientGraph], out: Path) -> None:
    result = autofgl.run("sfgnn", skewed, out=out, rounds=40)
    assert result.figures["secure"] == "shares", "the method's own choice"
    assert result.test_accuracy > 0.6
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]


def seen_by_the_server(clients: list[ClientGraph], secure: str) -> tuple[list[Any], list[int]]:
    """Arrays and byte strings, as numbers, and integers of all messages to the server."""
    arrays: list[Any] = []
    numbers: list[int] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        for value in leaves(payload) if way == "up" else ():
            if isinstance(value, np.ndarray):
                arrays.append(value.reshape(-1))
            elif isinstance(value, bytes):
                arrays.append(np.frombuffer(value[len(value) % 8 :], np.uint64))
            elif type(value) is int and op != "conclude":  # that has the sizes of the network
                numbers.append(value)

    method = make("sfgnn", clients, secure=secure, rounds=2, observer=watch)
    rounds(method, 2)
    method.finish()
    return arrays, numbers


#: Lengths of the vectors that are summed, widths of the discriminator, bits of a fixed point.
SIZES = {3, 4, 9, 64, 0, 28, 30, 40, 2, 15, 8192 // 3}


def readings(array: Any) -> list[Any]:
    """The numbers that a message may stand for, as they are or in fixed point."""
    found = [array.astype(np.float64)]
    if array.dtype == np.uint64:
        found += [array.view(np.int64) * 2.0**-bits for bits in (28, 32, 40, 48)]
        found.append(array.view(np.float64))
    return found


def shows(arrays: list[Any], secret: Any) -> bool:
    """Whether all the values of a secret are together in one message."""
    secret = np.asarray(secret, np.float64)
    secret = secret[np.abs(secret) > 0]
    return any(
        all(np.isclose(reading, value, rtol=1e-6, atol=0).any() for value in secret)
        for array in arrays
        for reading in readings(array)
    )


@pytest.mark.parametrize("secure", MODES)
def test_the_server_never_sees_counts_metric_or_weights(
    skewed: list[ClientGraph], secure: str
) -> None:
    arrays, numbers = seen_by_the_server(skewed, secure)
    # The sum of all counted predictions is the server's to read, and holds every small number.
    arrays = [
        one for one in arrays if secure == "none" or one.dtype != np.float64 or one.size < 30000
    ]
    for client in skewed:
        local = alone(client, SFGNNSettings())
        sums = local.evaluate().reshape(3, 3)
        local.train(1, at=1)
        own = local.weights()
        discriminator = np.concatenate(
            [value.reshape(-1) for name, value in own.items() if name.startswith(DISCRIMINATOR)]
        )
        labels = np.bincount(client.y[client.train_mask], minlength=3)
        secrets = {
            "weights": np.sort(discriminator)[-30:],
            "label counts": labels / 4096,
            "metric": [sums[1, 1] / sums[1, 2], sums[2, 1] / sums[2, 2]],
            "node counts": sums[:, 2] / 4096,
        }
        for what, secret in secrets.items():
            assert shows(arrays, secret) == (secure == "none"), f"{what}; plain sums show it"
        embedding = np.sort(own["input.weight"].reshape(-1))[-30:]
        assert not shows(arrays, embedding), "message passing is shown to nobody"
        assert set(numbers) <= SIZES


def test_networks_stay_with_their_clients_unless_collected(
    skewed: list[ClientGraph], tmp_path: Path
) -> None:
    own = "client-1 layers=3"
    stays = autofgl.run("sfgnn", skewed, out=tmp_path / "a", rounds=3, per_client=own)
    with pytest.raises(UserError, match="collect_models"):
        autofgl.predict(stays.folder, skewed[0])
    taken = autofgl.run(
        "sfgnn", skewed, out=tmp_path / "b", rounds=3, per_client=own, collect_models=True
    )
    right = sum(
        np.count_nonzero(
            autofgl.predict(taken.folder, client, client.name).label[client.test_mask]
            == client.y[client.test_mask]
        )
        for client in skewed
    )
    assert right / sum(client.test_mask.sum() for client in skewed) == pytest.approx(
        taken.test_accuracy
    )
    assert taken.test_accuracy == stays.test_accuracy


def test_two_clients_work_in_every_mode(small_graph: ClientGraph, tmp_path: Path) -> None:
    clients = autofgl.partition(small_graph, clients=2, method="labels", seed=0)
    found = {
        mode: autofgl.run("sfgnn", clients, secure=mode, out=tmp_path / mode, rounds=3)
        for mode in MODES
    }
    assert len({result.test_accuracy for result in found.values()}) == 1


def test_a_lost_client_does_not_end_the_training(skewed: list[ClientGraph]) -> None:
    method = make("sfgnn", skewed, secure="shares", secure_threshold=2, rounds=5)
    rounds(method, 2)
    method.federation.drop("client-1")
    assert method.step()["clients"] == 2
    assert method.finish().test_accuracy > 0
    method = make("sfgnn", skewed[:2], secure="shares", rounds=5)
    rounds(method, 2)
    method.federation.drop("client-1")
    with pytest.raises(SecureSumError):
        method.step()


@pytest.mark.parametrize("mixing", ["js", "constant"])
def test_a_client_without_training_nodes_takes_the_mean(
    skewed: list[ClientGraph], mixing: str
) -> None:
    clients = [*skewed[:2], without(skewed[2], "train_mask")]
    method = make("sfgnn", clients, rounds=3, mixing=mixing)
    rounds(method, 2)
    mean = method.training.sharing.handout()["mean"]
    one, other, _ = [local.weights() for local in models(method).values()]
    for name, value in mean.items():
        np.testing.assert_allclose(value, (one[name] + other[name]) / 2, atol=1e-6)
    method.step()
    *_, blind = [local.weights() for local in models(method).values()]
    for name, value in mean.items():
        np.testing.assert_array_equal(blind[name], value)


def test_counts_become_shares() -> None:
    np.testing.assert_allclose(distribution([1, 3, 0]), [0.25, 0.75, 0])
    np.testing.assert_array_equal(distribution([0, 0]), [0, 0])


def test_divergences_between_0_and_1() -> None:
    one, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert divergence(one, one) == 0
    assert divergence(one, other) == 1  # base 2: the largest value there is


def test_half_of_the_labels_by_hand() -> None:
    # P = (1, 0), Q = (1/2, 1/2), middle (3/4, 1/4):
    # KL(P|M) = log2(4/3); KL(Q|M) = 1/2 log2(2/3) + 1/2 log2(2)
    expected = (math.log2(4 / 3) + 0.5 * math.log2(2 / 3) + 0.5) / 2
    assert divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == pytest.approx(expected)
    assert expected == pytest.approx(0.3112781)


def test_as_scipy_has_it() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        p, q = (distribution(rng.integers(0, 6, 7) + (rng.random(7) < 0.2)) for _ in range(2))
        if p.any() and q.any():
            assert divergence(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-12)


def test_without_labels_nothing_is_kept() -> None:
    assert divergence(np.zeros(2), np.array([0.5, 0.5])) == 0


def test_mixing_by_hand() -> None:
    own, mean = {"w": np.array([4.0, 0.0]), "h": np.ones(2)}, {"w": np.array([0.0, 8.0])}
    found = mix(own, mean, 0.25)
    assert list(found) == ["w"]  # what is not shared is not mix
    np.testing.assert_allclose(found["w"], [1.0, 6.0])
