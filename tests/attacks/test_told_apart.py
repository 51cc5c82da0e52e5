"""A server that tells one client something else than the others, to have the sum to itself.

A variant of finding 3: nobody is left out, but the weights by which clients count, or the model
that they train, are chosen so that all parts but one are next to nothing, or known.
"""

from typing import Any

import pytest

import autofgl
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.secure import SecureSumError
from federations import make, parties, to_the_end, without

SMALL = {"rounds": 3, "hidden": 4, "aggregate": "parameters"}


@pytest.mark.parametrize("secure", ["shares", "shares-additive", "ckks"])
@pytest.mark.parametrize("lie", ["totals", "weights"])
def test_clients_that_were_told_different_things_open_nothing(
    small_clients: list[ClientGraph], secure: str, lie: str
) -> None:
    method = make("fedavg", small_clients, secure=secure, **SMALL)
    method.setup()
    method.step()
    victim, sharing = method.federation.parties[0], method.training.sharing
    honest = sharing.handout_each

    def apart(chosen: set[str]) -> dict[str, dict[str, Any]]:
        each = honest(chosen)
        for name in each:
            if lie == "totals" and name != victim:
                each[name]["totals"] = [10**9] * 3
            if lie == "weights" and name != victim:
                weights = sharing.handout()["weights"]
                each[name]["weights"] = {key: 0 * value for key, value in weights.items()}
        return each

    sharing.handout_each = apart
    with pytest.raises(SecureSumError, match=r"sent the parties different things|none of them"):
        method.step()


@pytest.mark.parametrize("secure", ["shares", "shares-additive", "ckks"])
def test_clients_that_were_told_the_same_go_on(
    small_clients: list[ClientGraph], secure: str
) -> None:
    method = make("fedavg", small_clients, secure=secure, **SMALL)
    method.setup()
    assert [method.step()["round"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("aggregate", ["parameters", "gradients"])
def test_a_client_that_claims_to_have_been_told_something_else_is_left_out(
    small_graph: ClientGraph, aggregate: str
) -> None:
    """It blocks sums, and nobody can say whether it or the server lies: so it is looked for as one
    that spoils sums, and the others go on.
    """
    clients = autofgl.partition(small_graph, clients=8, method="random", seed=0)
    method = make("fedavg", clients, secure="shares", rounds=10, hidden=4, aggregate=aggregate)
    method.setup()
    liar = parties(method)["client-3"]
    protect = liar.sums.protect

    def lie(tag: str, vectors: Any, **about: Any) -> Payload:
        return dict(
            protect(
                tag, vectors, **about | ({"broadcast": bytes(16)} if about["broadcast"] else {})
            )
        )

    liar.sums.protect = lie
    rows = to_the_end(method)
    assert [*method.clients.dropped] == ["client-3"]
    assert "refused" in rows[0]
    assert all("refused" not in row for row in rows[6:])


@pytest.mark.parametrize("secure", ["shares", "ckks"])
def test_a_client_without_training_nodes_blocks_no_sum_that_has_enough_others(
    small_clients: list[ClientGraph], secure: str
) -> None:
    """At a threshold of all clients it does, and the message says what to set."""
    clients = [without(small_clients[0], "train_mask"), *small_clients[1:]]
    enough = make("fedavg", clients, secure=secure, secure_threshold=2, **SMALL)
    enough.setup()
    assert all("refused" not in row for row in to_the_end(enough))
    assert not enough.clients.dropped
    all_of_them = make("fedavg", clients, secure=secure, secure_threshold=3, **SMALL)
    all_of_them.setup()
    with pytest.raises(autofgl.AutoFGLError, match="lower secure_threshold") as error:
        to_the_end(all_of_them)
    assert str(error.value).count("lower secure_threshold") == 1
    assert "'update-1' has 2" in str(error.value)
