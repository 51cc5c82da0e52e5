"""A server that tells one client something else than the others, to have the sum to itself.

A variant of finding 3: nobody is left out, but the weights by which clients count, or the model
that they train, are chosen so that all parts but one are next to nothing, or known.
"""

from typing import Any

import pytest

from autofgl.graphs.client_graph import ClientGraph
from autofgl.secure import SecureSumError
from federations import make

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
