"""Alone on the round engine is what `separate` does."""

from typing import ClassVar

import numpy as np
import pytest

from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.method import SharedTraining
from autofgl.sharing.alone_rounds import ALONE
from federations import make, parties, to_the_end


class AloneTogether(SharedTraining):
    """Every client alone, round by round."""

    Settings = FederatedSettings
    ways: ClassVar = {"alone": ALONE}


SMALL = {"rounds": 12, "lr": 0.05, "hidden": 8}


@pytest.mark.parametrize("settings", [SMALL, {**SMALL, "patience": 2, "lr": 0.3}])
def test_it_is_separate_with_sums(
    small_clients: list[ClientGraph], settings: dict[str, float]
) -> None:
    separate = make("separate", small_clients, **settings)
    separate.setup()
    rows = to_the_end(separate)
    expected = separate.finish()
    method = make(AloneTogether, small_clients, **settings)
    method.setup()
    found = [method.step() for _ in rows]
    outcome = method.finish()
    assert outcome.test_accuracy == expected.test_accuracy
    assert outcome.models == {}
    assert [one["test_accuracy"] for one in outcome.per_client] == [
        one["test_accuracy"] for one in expected.per_client
    ]
    for name, party in parties(method).items():
        for key, value in party.sharing.local.weights().items():
            assert np.array_equal(value, expected.models[name][key])
    losses = [row["val_loss"] for row in found]  # of every client's best so far
    assert losses == sorted(losses, reverse=True)


def test_nobody_gets_the_weights_and_sums_hide_figures(small_clients: list[ClientGraph]) -> None:
    plain, hidden = (
        make(AloneTogether, small_clients, secure=mode, **SMALL) for mode in ("none", "shares")
    )
    for method in (plain, hidden):
        method.setup()
        to_the_end(method)
    accuracies = [method.finish() for method in (plain, hidden)]
    assert accuracies[0].test_accuracy == accuracies[1].test_accuracy
    assert accuracies[1].per_client == [{"name": one.name} for one in small_clients]
    reply = hidden.federation.call("export", {}, to=["client-0"])
    assert "keeps its weights" in reply.failed["client-0"].message
