"""Membership inference on models that remember, and on such as cannot."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from autofgl.audit.membership import area_under_curve, membership_leak, model_losses
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.networks import build_network
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.specs import model_spec
from autofgl.seeding import torch_generator
from federations import local_model


def test_area_under_the_curve() -> None:
    high, low = np.array([2.0, 3.0]), np.array([0.0, 1.0])
    assert area_under_curve(high, low) == 1.0
    assert area_under_curve(low, high) == 0.0
    assert area_under_curve(low, low) == 0.5


def test_an_over_fit_model_tells_its_training_nodes(small_graph: ClientGraph) -> None:
    settings = FederatedSettings(protocol="plain", hidden=64, lr=0.05)
    labels = np.random.default_rng(0).permutation(small_graph.y)  # can only be remembered
    graph = replace(small_graph, y=labels)
    trained = local_model(graph, settings)
    trained.train(100, 1)
    losses = {graph.name: model_losses(trained.model, graph, settings.normalize_features)}
    leak = membership_leak(losses, [graph])
    assert leak.figure is not None
    assert leak.figure > 0.6
    assert leak.verdict != "nothing"


def test_a_random_model_tells_nothing(small_graph: ClientGraph) -> None:
    settings = FederatedSettings(hidden=8)
    areas = []
    for seed in range(8):
        network = build_network(model_spec(small_graph, settings), torch_generator(seed, "w"))
        losses = {small_graph.name: model_losses(network, small_graph, scaling=True)}
        leak = membership_leak(losses, [small_graph])
        assert leak.figure is not None
        areas.append(leak.figure)
    assert np.mean(areas) == pytest.approx(0.5, abs=0.1)


def test_without_a_model_there_is_nothing_to_infer(small_clients: list[ClientGraph]) -> None:
    assert membership_leak({}, small_clients).verdict == "nothing"
    assert torch.is_grad_enabled()
