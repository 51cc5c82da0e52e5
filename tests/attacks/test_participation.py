"""Finding 3: with ``participation=0.2`` of five clients a "sum" was one client's weights."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federations import close, make, parties, rounds

sys.path.insert(0, str(Path(__file__).parent))
from watching import Notebook, clients_of

from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method
from autofgl.runtime.summing import has_weight
from autofgl.secure import SecureSumError

SMALL = {"rounds": 3, "hidden": 4, "aggregate": "parameters", "participation": 0.2}


def trained_weights(method: Any) -> dict[str, list[dict[str, Any]]]:
    """What every client's local epochs lead to, as they happen."""
    truth: dict[str, list[dict[str, Any]]] = {name: [] for name in method.federation.parties}
    for name, party in parties(method).items():
        local = party.sharing.local
        train = local.train

        def watched(
            epochs: int, at: int, *about: Any, local: Any = local, train: Any = train
        ) -> None:
            train(epochs, at, *about)
            truth[local.name].append(local.weights())

        local.train = watched
        assert name == local.name
    return truth


@pytest.mark.parametrize(("secure", "fewest"), [("shares", 4), ("ckks", 4), ("none", 1)])
def test_an_honest_server_sums_enough_clients(
    small_graph: ClientGraph, secure: str, fewest: int
) -> None:
    method = make("fedavg", clients_of(small_graph, 5), secure=secure, **SMALL)
    method.setup()
    truth = trained_weights(method)
    for _ in range(3):
        row = method.step()
        assert row["clients"] == fewest
        held = method.training.sharing.handout()["weights"]
        one = [name for name, own in truth.items() if own and close(own[-1], held, 1e-5)]
        assert len(one) == (secure == "none"), "the server holds one client's weights"


@pytest.mark.parametrize("secure", ["shares", "shares-additive", "ckks"])
@pytest.mark.parametrize("threshold", [0, 3])
def test_a_server_that_lets_one_client_train_learns_nothing(
    small_graph: ClientGraph, secure: str, threshold: int
) -> None:
    """The flags go to clients one by one: all but the victim are told not to train."""
    about = {**SMALL, "participation": 1.0, "secure_threshold": threshold}
    method = make("fedavg", clients_of(small_graph, 4), secure=secure, **about)
    method.setup()
    book = Notebook()
    book.watch(method)
    method.training.sharing.handout_each = lambda chosen: {
        name: {"train": name == "client-1"} for name in method.clients.names
    }
    try:
        said = method.step()["refused"]
    except SecureSumError as error:  # nobody can be spared
        said = str(error)
    assert "cannot be opened" in said or "more than zeros" in said
    assert not book.sums


@pytest.mark.parametrize("name", ["graphfl", "graphfl-ga"])
def test_new_clients_hide_nobody(small_graph: ClientGraph, name: str) -> None:
    clients = clients_of(small_graph, 4)
    kind = find_method(name)
    settings = kind.Settings(new_clients=2, select="last")
    with pytest.raises(UserError, match=r"new_clients=2 leaves 2 .* 3"):
        kind.check(clients, settings, "shares")
    kind.check(clients, settings, "none")
    kind.check(clients, kind.Settings(new_clients=1, select="last"), "shares")


def test_graphfl_rounds_up_among_those_that_train(small_graph: ClientGraph) -> None:
    about = {"inner_steps": 1, "adapt_steps": 1, "participation": 0.2, "new_clients": 1}
    clients = clients_of(small_graph, 5)
    method = make("graphfl", clients, secure="shares", rounds=2, hidden=4, **about)
    assert [row["clients"] for row in rounds(method, 2)] == [4, 4]
    method.finish()


def test_nobody_trains_where_too_few_are_left_to_hide_each_other(small_graph: ClientGraph) -> None:
    """``mode=threshold``: clients that search do not train, and the others wait for them."""
    small = {"population": 2, "iterations": 1, "inner_steps": 1, "adapt_steps": 1}
    small |= {"mode": "threshold", "threshold": 1.0, "lr": 1e-5, "adapt_lr": 1e-5, "inner_lr": 1e-5}
    about = {**small, "rounds": 4, "hidden": 4}
    method = make("graphfl-ga", clients_of(small_graph, 3), secure="shares", **about)
    assert [row["clients"] for row in rounds(method, 4)] == [3, 0, 3, 0]
    method.finish()


def test_a_client_without_labels_counts_as_nobody(small_graph: ClientGraph) -> None:
    nothing = np.zeros(3)
    assert not has_weight({"share": np.array(0.0), "w": np.ones(3)})
    assert has_weight({"share": np.array(0.1), "w": nothing})
    assert not has_weight({"counts": nothing})
    assert has_weight({"metrics": np.array([0.0, 1.0])})


def test_the_user_is_told_that_more_train(small_graph: ClientGraph) -> None:
    clients = clients_of(small_graph, 5)
    method = make("fedavg", clients, secure="shares", **SMALL)
    assert method.notices == [
        "participation=0.2 is 1 of 5 clients; 4 train in every round, since --secure shares "
        "reveals no sum of fewer"
    ]
    assert not make("fedavg", clients, **SMALL).notices
    assert not make("fedavg", clients, secure="shares", rounds=3).notices
