"""Federated averaging through secure sums."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.errors import FederationError, UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.secure import MODES, SecureSumError
from families import family
from federations import leaves, local_model, make, rounds

SECURE = [mode for mode in MODES if mode != "none"]
AGGREGATES = ["parameters", "gradients"]
#: Every secure mode, and both aggregates.
SOME = [("parameters", "shares"), ("gradients", "ckks"), ("gradients", "shares-additive")]
WAYS = family(itertools.product(AGGREGATES, SECURE), SOME)


@pytest.mark.parametrize(("aggregate", "secure"), WAYS)
def test_the_run_is_the_plain_run(
    small_clients: list[ClientGraph], tmp_path: Path, secure: str, aggregate: str
) -> None:
    runs = {
        mode: autofgl.run(
            "fedavg", small_clients, secure=mode, out=tmp_path / mode, rounds=12,
            aggregate=aggregate, checkpoint_every=5,
        )
        for mode in ("none", secure)
    }  # fmt: skip
    plain, other = runs["none"], runs[secure]
    assert other.test_accuracy == plain.test_accuracy
    assert other.val_accuracy == plain.val_accuracy
    for client in small_clients:
        ours, theirs = (autofgl.predict(run.folder, client) for run in (other, plain))
        assert np.array_equal(ours.label, theirs.label)
    assert other.figures["per_client"] == [{"name": client.name} for client in small_clients]
    assert all(row["bytes_secure"] > 0 for row in other.history)
    assert all("bytes_secure" not in row for row in plain.history)


@pytest.mark.parametrize(("aggregate", "secure"), WAYS)
def test_a_resumed_run_makes_new_keys_and_equals_an_undisturbed_one(
    small_clients: list[ClientGraph], tmp_path: Path, secure: str, aggregate: str
) -> None:
    settings: dict[str, Any] = {"secure": secure, "rounds": 9, "aggregate": aggregate}
    settings |= {"compress": "int8"} if aggregate == "gradients" else {}
    expected = autofgl.run(
        "fedavg", small_clients, out=tmp_path / "whole", checkpoint_every=4, **settings
    )
    cut = autofgl.run("fedavg", small_clients, out=tmp_path / "cut", checkpoint_every=4, **settings)
    (cut.folder / "result.json").unlink()  # as if killed after the checkpoint of round 8
    resumed = autofgl.resume(cut.folder, small_clients)
    weights = [(run.folder / "model.safetensors").read_bytes() for run in (expected, resumed)]
    assert weights[0] == weights[1]
    assert resumed.test_accuracy == expected.test_accuracy


def seen_by_the_server(
    clients: list[ClientGraph], secure: str, aggregate: str
) -> tuple[list[Any], list[int]]:
    """All arrays and byte strings, as numbers, and all integers of one round's messages."""
    arrays: list[Any] = []
    integers: list[int] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        for value in leaves(payload) if op != "export" else ():
            if isinstance(value, np.ndarray):
                arrays.append(value.reshape(-1))
            elif isinstance(value, bytes):
                arrays.append(np.frombuffer(value[len(value) % 8 :], np.uint64))
            elif type(value) is int and way == "up":
                integers.append(value)

    method = make("fedavg", clients, secure=secure, aggregate=aggregate, rounds=1, observer=watch)
    rounds(method, 1)
    return arrays, integers


def shows(array: Any, secret: Any) -> bool:
    """Whether an array holds a client's largest values, as they are or as fixed-point numbers."""
    readings = [array.astype(np.float64)]
    if array.dtype == np.uint64:
        readings += [array.view(np.int64) * 2.0**-bits for bits in (28, 32, 40, 48)]
        readings += [array.view(np.float64)]
    largest = secret[np.argsort(np.abs(secret))[-20:]]
    return any(
        np.isclose(reading[:, None], largest, rtol=1e-6, atol=0).any(0).sum() > 5
        for reading in readings
    )


@pytest.mark.parametrize("secure", MODES)
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_the_server_never_sees_a_clients_update_or_counts(
    small_clients: list[ClientGraph], secure: str, aggregate: str
) -> None:
    arrays, integers = seen_by_the_server(small_clients, secure, aggregate)
    total = sum(int(client.train_mask.sum()) for client in small_clients)
    for client in small_clients:
        secret = private_update(client, aggregate, total)
        found = any(shows(array, secret) for array in arrays)
        assert found == (secure == "none"), "plain sums show it, and so the test can fail"
        if secure != "none":
            assert int(client.train_mask.sum()) not in integers


def private_update(client: ClientGraph, aggregate: str, total: int) -> Any:
    """The weighted vector of a client in the first round."""
    local = local_model(client, FederatedSettings())
    if aggregate == "gradients":
        update = local.gradient(1)
    else:
        local.train(3, 1)
        update = local.weights()
    share = client.train_mask.sum() / total
    return np.concatenate([(share * value).reshape(-1) for value in update.values()])


@pytest.mark.parametrize("secure", ["ckks", "shares"])
def test_partial_participation_hides_who_trains(
    small_clients: list[ClientGraph], secure: str
) -> None:
    outcomes = []
    for mode in ("none", secure):
        about = {"participation": 0.67, "secure_threshold": 2}  # two of three
        method = make("fedavg", small_clients, secure=mode, **about, rounds=6)
        rounds(method, 6)
        outcomes.append(method.finish())
    plain, other = outcomes
    for name, value in plain.models["model"].items():
        assert np.allclose(
            other.models["model"][name], value, atol=1e-4 if secure == "ckks" else 1e-5
        )


def test_below_the_threshold_the_run_ends_and_says_so(small_clients: list[ClientGraph]) -> None:
    method = make("fedavg", small_clients, secure="shares", secure_threshold=3, rounds=5)
    rounds(method, 2)
    method.federation.drop("client-2")
    with pytest.raises(SecureSumError, match="3"):
        method.step()


def test_shares_survive_a_lost_client(small_clients: list[ClientGraph]) -> None:
    method = make("fedavg", small_clients, secure="shares", secure_threshold=2, rounds=5)
    rounds(method, 2)
    method.federation.drop("client-2")
    plain = make("fedavg", small_clients, rounds=5)
    rounds(plain, 2)
    plain.federation.drop("client-2")
    for _ in range(3):
        assert method.step()["val_loss"] == pytest.approx(plain.step()["val_loss"], rel=1e-4)
    assert method.finish().test_accuracy == plain.finish().test_accuracy


def test_mistakes_are_named_before_the_run(
    small_graph: ClientGraph, small_clients: list[ClientGraph], out: Path
) -> None:
    with pytest.raises(UserError, match="at least two parties"):
        autofgl.run("fedavg", [small_graph], secure="ckks", out=out)
    with pytest.raises(UserError, match="threshold"):
        autofgl.run("fedavg", small_clients, secure="shares", secure_threshold=9, out=out)
    four = autofgl.partition(small_graph, clients=4, method="random", seed=0)
    with pytest.raises(UserError, match="set secure_threshold between 3 and 4, not 2"):
        autofgl.run("fedavg", four, secure="shares", secure_threshold=2, out=out)
    with pytest.raises(UserError, match="sums nothing"):
        autofgl.run("separate", small_clients, secure="ckks", out=out)
    with pytest.raises(UserError, match="unknown secure mode 'sharse': did you mean shares"):
        autofgl.run("fedavg", small_clients, secure="sharse", out=out)
    assert not out.exists()


def test_a_diverging_client_is_named_under_encryption_too(
    small_clients: list[ClientGraph],
) -> None:
    method = make("fedavg", small_clients, secure="shares", lr=1e30, rounds=5)
    with pytest.raises(FederationError, match="client-"):
        rounds(method, 5)
