"""A network on one client's graph, to stay and on trial."""

from typing import Any

import numpy as np
import pytest
from torch.nn import functional as F

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.settings import CandidateSettings
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.local_model import WORST_LOSS, LocalModel
from autofgl.runtime.specs import model_spec
from autofgl.runtime.trial_model import LARGEST_GRADIENT, TrialModel
from autofgl.sharing.common import network_spec
from autofgl.tasks.losses import disagreement
from federations import local_model

SETTINGS = CandidateSettings(hidden=8)


def model_of(client: ClientGraph, kind: type[LocalModel], scale: float) -> Any:
    """A network whose weights are scaled."""
    spec = network_spec(client, SETTINGS, "identity | gcn<0 | identity")
    model = local_model(client, SETTINGS, spec, kind)
    model.load_weights({key: value * scale for key, value in model.weights().items()})
    return model


def test_what_a_trial_sends_is_bounded(small_clients: list[ClientGraph]) -> None:
    model = model_of(small_clients[0], TrialModel, 1e9)
    train, val, test = model.evaluate().reshape(3, 3)
    assert train[0] == WORST_LOSS * train[2] > 0
    assert val[2] == small_clients[0].val_mask.sum()
    assert test.tolist() == [0, 0, 0], "no test nodes"
    assert model.flags()["diverged"] == 0, "large is not diverged"
    assert max(np.abs(value).max() for value in model.gradient(1).values()) == LARGEST_GRADIENT


def test_a_trial_says_that_it_has_diverged(small_clients: list[ClientGraph]) -> None:
    model = model_of(small_clients[0], TrialModel, np.nan)
    train, val, test = model.evaluate().reshape(3, 3)
    assert (train[0], train[1]) == (WORST_LOSS * train[2], 0)
    assert (val[0], val[1]) == (WORST_LOSS * val[2], 0)
    assert test.tolist() == [0, 0, 0]
    assert model.flags()["diverged"] == 1
    assert not any(value.any() for value in model.gradient(1).values())
    again = model_of(small_clients[0], TrialModel, 1.0)
    again.load_state(decode(encode(model.state())))
    assert again.flags()["diverged"] == 1
    with pytest.raises(AutoFGLError, match="client-0 is no longer finite: lower 'lr'"):
        model_of(small_clients[0], LocalModel, np.nan).evaluate()


def test_epochs_that_lead_nowhere_are_undone(small_clients: list[ClientGraph]) -> None:
    model = model_of(small_clients[0], TrialModel, 1.0)
    model._optimizer.param_groups[0]["lr"] = np.inf
    before = model.weights()
    model.train(2, at=1)
    assert model.flags()["diverged"] == 1
    assert all(np.array_equal(value, before[name]) for name, value in model.weights().items())


@pytest.mark.parametrize("given", [{}, {"batch": 4, "fanout": "0"}], ids=["whole", "batch"])
def test_consistency_adds_what_two_passes_disagree_on(
    small_clients: list[ClientGraph], given: dict[str, Any]
) -> None:
    """Of all own nodes, of which most have no labels; of the nodes of a mini-batch."""
    client = small_clients[0]
    settings = FederatedSettings(
        model="grand", hidden=8, consistency=0.7, node_dropout=0.3, **given
    )
    model = local_model(client, settings, model_spec(client, settings))
    gradient = model.gradient(at=3)

    generator, network = model.dropout_generator(3), model.model
    network.zero_grad()
    features, structure = model._features, model._structure
    nodes, labels, every = model._nodes[0], model._labels[0], slice(None)
    if model._batches:
        batch = model._batches.at(3, model._seed, model.name)
        features, structure, labels = batch.features, batch.structure, batch.labels
        nodes = every = slice(len(labels))
    passes = [
        network(features.drop_nodes(0.3, generator), structure, generator=generator)
        for _ in range(2)
    ]
    loss = sum(F.cross_entropy(one[nodes], labels) for one in passes) / 2
    (loss + 0.7 * disagreement([one[every] for one in passes])).backward()
    for name, parameter in network.named_parameters():
        np.testing.assert_allclose(gradient[name], parameter.grad.numpy(), rtol=1e-5, atol=1e-7)
