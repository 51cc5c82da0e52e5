"""A server that hands out the same weights twice, with and without a client: what it learns.

It may choose the weights that it hands out, so both sums are of enough clients and of clients that
were sent the same: no secure sum can refuse them. Clients could refuse weights that they have seen
before, but not those that are next to them, which serve as well: this is measured here, so that the
documentation says it. What ends it is that clients sum in fixed sets only.
"""

from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.errors import FederationError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.secure import SecureSumError
from federations import die_in, make, parties

VICTIM = "client-0"


@pytest.fixture(scope="module")
def five_clients(small_graph: ClientGraph) -> list[ClientGraph]:
    return autofgl.partition(small_graph, clients=5, method="metis", seed=0)


def flat(weights: Any) -> Any:
    return np.concatenate([np.ravel(weights[name]) for name in sorted(weights)])


def learned(clients: list[ClientGraph], moved: float, **settings: Any) -> float:
    """Cosine of the victim's update and of what two sums say of it, when the second round begins so
    far from the weights of the first, relative to their size.
    """
    settings = {"rounds": 3, "hidden": 8, "aggregate": "parameters", "dropout": 0.0} | settings
    method = make("fedavg", clients, secure="shares", **settings)
    method.setup()
    sharing, sums = method.training.sharing, []
    usual_total, usual_each = method.clients.total, sharing.handout_each

    def total(tag: str, *given: Any) -> Any:
        found = usual_total(tag, *given)
        if "update" in tag:
            sums.append(found)
        return found

    method.clients.total = total
    start = sharing.handout()["weights"]
    method.step()
    own = flat(parties(method)[VICTIM].sharing.local.weights()) - flat(start)
    rng = np.random.default_rng(0)
    sharing._handout = {
        "weights": {
            name: (value * (1 + moved * rng.normal(size=value.shape))).astype(np.float32)
            for name, value in start.items()
        }
    }
    sharing.handout_each = lambda chosen: usual_each(chosen - {VICTIM})
    method.step()
    share = float(sums[0]["share"] - sums[1]["share"])
    parts = {name: (sums[0][name] - sums[1][name]) / share for name in start}
    guess = flat(parts) - flat(start)
    return float(own @ guess / np.linalg.norm(own) / np.linalg.norm(guess))


@pytest.mark.parametrize("moved", [0.0, 1e-3])
def test_what_two_sums_say_of_one_update(five_clients: list[ClientGraph], moved: float) -> None:
    """With weights that differ in the third digit about as much as with the very same."""
    assert learned(five_clients, moved) > 0.7


def test_a_threshold_of_all_clients_ends_it(five_clients: list[ClientGraph]) -> None:
    with pytest.raises((SecureSumError, FederationError), match="lower secure_threshold"):
        learned(five_clients, 0.0, secure_threshold=5)


@pytest.fixture(scope="module")
def eight_clients(small_graph: ClientGraph) -> list[ClientGraph]:
    return autofgl.partition(small_graph, clients=8, method="random", seed=0)


@pytest.mark.parametrize("moved", [0.0, 1e-3])
def test_sums_of_whole_sets_end_it(eight_clients: list[ClientGraph], moved: float) -> None:
    assert learned(eight_clients, moved) > 0.7
    with pytest.raises(SecureSumError, match="are in sums together"):
        learned(eight_clients, moved, secure_together=2)


def test_with_sets_a_lost_client_is_not_alone_in_what_two_sums_differ_by(
    eight_clients: list[ClientGraph],
) -> None:
    """An honest server, which sees the last round with a client and the first one without: it is
    about that client alone, or about its set. The run goes on.
    """
    shares = {}
    for together in (1, 2):
        settings = {"rounds": 3, "hidden": 8, "secure_together": together}
        method = make("fedavg", eight_clients, secure="shares", aggregate="parameters", **settings)
        method.setup()
        sums, usual = [], method.clients.total

        def total(tag: str, *given: Any, sums: Any = sums, usual: Any = usual) -> Any:
            sums.append(usual(tag, *given))
            return sums[-1]

        method.clients.total = total
        method.step()
        die_in(parties(method)[VICTIM], 2)
        method.step()
        method.step()
        first, second, third = (float(one["share"]) for one in sums if "share" in one)
        assert second == third < first
        shares[together] = first - second
    assert shares[2] > 1.5 * shares[1]


def test_with_gradients_the_server_hands_out_no_weights(five_clients: list[ClientGraph]) -> None:
    method = make("fedavg", five_clients, secure="shares", rounds=2, hidden=8)
    method.setup()
    method.step()
    assert "weights" not in method.training.sharing.handout()


def test_with_gradients_it_takes_a_colluding_client(five_clients: list[ClientGraph]) -> None:
    """The server withholds a sum, and the colluder opens it and the next, from the same weights."""
    method = make("fedavg", five_clients, secure="shares", rounds=3, hidden=8, dropout=0.0)
    method.setup()
    sharing, sealed = method.training.sharing, []
    usual_seal, usual_each = method.clients.seal, sharing.handout_each

    def seal(*given: Any) -> Any:
        sealed.append(usual_seal(*given))
        return sealed[-1]

    method.clients.seal = seal
    method.step()
    own = flat(parties(method)[VICTIM].sharing.local.gradient(1))
    sharing._handout = {}
    sharing.handout_each = lambda chosen: usual_each(chosen - {VICTIM})
    method.step()
    one, other = (parties(method)["client-1"].sums.open(sum_) for sum_ in sealed)
    names = parties(method)[VICTIM].sharing.local.weights()
    guess = flat({name: one[name] - other[name] for name in names})
    assert own @ guess / np.linalg.norm(own) / np.linalg.norm(guess) > 0.99
    assert not any(name in sealed[0] for name in names), "the server alone reads nothing"
