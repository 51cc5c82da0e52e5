"""SFGNN with a common network besides: a round recomputed, and predictions over all classes."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.asfgnn.settings import SFGNNSettings
from autofgl.nn.models.sfgnn import DISCRIMINATOR
from autofgl.sharing.own_and_common import blended_spec
from federations import local_model, make, parties, rounds

SMALL = {"common": True, "common_layers": 1, "hidden": 8, "rounds": 4, "dropout": 0.0}


@pytest.fixture(scope="module")
def apart(small_graph: ClientGraph) -> list[ClientGraph]:
    """Two clients without a common label."""
    return autofgl.partition(small_graph, clients=2, method="labels", seed=0)


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_two_rounds_in_numpy(apart: list[ClientGraph], secure: str) -> None:
    method = make("sfgnn", apart, secure=secure, mixing="none", own_prior=0.9, **SMALL)
    rounds(method, 2)
    settings = SFGNNSettings(**SMALL)
    own_spec, common_spec = blended_spec(apart[0], settings).towers
    own = [local_model(client, settings, own_spec) for client in apart]
    common = [local_model(client, settings, common_spec) for client in apart]
    counts = np.array([np.bincount(c.y[c.train_mask], minlength=c.classes) for c in apart])
    for local in (*own, *common):
        local.train(1, at=1)
    mean = {
        name: (value + common[1].weights()[name]) / 2 for name, value in common[0].weights().items()
    }
    for at, party in enumerate(parties(method).values()):
        disc = {
            name: (value + own[1].weights()[name]) / 2
            for name, value in own[0].weights().items()
            if name.startswith(DISCRIMINATOR)
        }
        held = party.sharing.local.weights()  # as evaluated: after mixing, before the second step
        for name, value in mean.items():
            np.testing.assert_allclose(held[f"common.{name}"], value, atol=1e-5)
        for name, value in {**own[at].weights(), **disc}.items():
            np.testing.assert_allclose(held[f"own.{name}"], value, atol=1e-5)
        seen = counts[at] > 0
        share = counts.sum(0)[seen].sum() / counts.sum()
        shift = math.log(0.9 / 0.1) - math.log(share / (1 - share))
        assert held["seen"].tolist() == seen.tolist()
        assert held["shift"] == pytest.approx(shift, abs=1e-4)


def test_a_client_predicts_classes_that_it_has_no_labels_of(
    apart: list[ClientGraph], small_graph: ClientGraph, out: Path
) -> None:
    settings = {**SMALL, "hidden": 16, "rounds": 30, "lr": 0.05, "collect_models": True}
    result = autofgl.run("sfgnn", apart, secure="none", out=out, own_prior=0.5, **settings)
    for client in apart:
        model = autofgl.load_model(out, client.name)
        outputs = model(*_tensors(small_graph))
        np.testing.assert_allclose(outputs.exp().sum(1).detach(), 1.0, atol=1e-4)
        seen = np.unique(client.y[client.train_mask])
        assert not set(outputs.argmax(1).tolist()) <= set(seen.tolist())
    assert result.figures["mean_test_accuracy"] > 0.5


def test_the_description_has_two_depths(apart: list[ClientGraph]) -> None:
    settings = SFGNNSettings(**{**SMALL, "layers": 3})
    spec = blended_spec(apart[0], settings)
    assert [tower.layers for tower in spec.towers] == [3, 1]
    assert type(spec).from_json(spec.to_json()) == spec
    with pytest.raises(autofgl.UserError, match="of the family 'blended'"):
        replace(spec, family="gcn")


def _tensors(graph: ClientGraph) -> tuple[object, object]:
    import torch

    from autofgl.graphs.client_graph import to_dense

    return torch.from_numpy(to_dense(graph.x)), torch.from_numpy(graph.edge_index)
