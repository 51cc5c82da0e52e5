"""A population of linear networks, tried at once, is judged as each of them would be alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl import trials
from autofgl.methods.graphfl.configurator import Configurator
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.trials import Situation
from autofgl.tasks.losses import NodeLoss

COUNT = 6


def both(client: ClientGraph, loss: NodeLoss | None = None, **settings: Any) -> tuple[Any, Any]:
    """Losses of random chromosomes: together, and each by training its network."""
    settings = {"adapt_steps": 3, "common_rate": False, **settings}
    search = Configurator(client, GraphFLGASettings(**settings), 0)
    rng = np.random.default_rng(0)
    blocks = search.space.initial(0)
    drift = {name: rng.normal(0, 0.1, value.shape).astype("f4") for name, value in blocks.items()}
    drawn = (search.space.genes.draw(rng) for _ in range(COUNT))
    population = [{**one, "model": "sgc"} for one in drawn]
    now = Situation(2, blocks, [0.4] * len(search.space.shapes), drift)
    search.trials.loss = loss or search.trials.loss
    alone = []
    for one in population:
        search.trials.begin()  # nobody is given up for being worse than the others
        alone.append(search.trials.trial(one, now)[0])
    return search.trials.linear(population, now), alone


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"first_order": True, "horizon": 3, "outer_steps": 2},
        {"adapt_support": 3, "adapt_lr": 0.2, "fitness": "adapted", "measure": "accuracy"},
        {"inner_steps": 0, "objective": "macro_f1", "normalize_features": "unit"},
    ],
)
def test_a_population_is_judged_as_its_members(
    small_clients: list[ClientGraph], settings: dict[str, Any]
) -> None:
    together, alone = both(small_clients[1], **settings)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert len(set(alone)) == COUNT


def test_with_weights_of_the_classes(small_clients: list[ClientGraph]) -> None:
    loss = NodeLoss(class_weights=(0.5, 2.0, 1.0))
    together, alone = both(small_clients[1], loss, first_order=True, fitness="trained")
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_a_single_training_node_supports_and_judges(small_clients: list[ClientGraph]) -> None:
    client = small_clients[1]
    one = np.zeros_like(client.train_mask)
    one[np.flatnonzero(client.train_mask)[0]] = True
    together, alone = both(replace(client, train_mask=one), first_order=True)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_what_is_not_in_the_span_is_tried_alone(small_clients: list[ClientGraph]) -> None:
    def linear(**changed: Any) -> bool:
        search = Configurator(small_clients[0], GraphFLGASettings(**changed), 0)
        return search.trials.is_linear(search.space.environment)

    assert linear()
    for other in ({"dropout": 0.5}, {"model": "gcn"}, {"optimizer": "adam"}, {"loss": "focal"}):
        assert not linear(**other)
    assert not linear(time_weight=0.1), "who tells how long each takes?"


def test_what_means_the_same_is_tried_once(small_clients: list[ClientGraph]) -> None:
    search = Configurator(small_clients[0], GraphFLGASettings(), 0)
    own = search.space.environment
    now = Situation(1, search.space.initial(0), [1.0] * len(search.space.shapes))
    losses = search.trials.losses([own, {**own, "hidden": 16}, {**own, "hops": 1}], now)
    assert losses[0] == losses[1] != losses[2]
    assert search.trials.made == 2
    assert search.trials.losses([own], now) == losses[:1]
    assert search.trials.made == 2


def test_the_hopeless_are_given_up(small_clients: list[ClientGraph]) -> None:
    """Worse than half of the others after the first round: the second is not made."""
    settings = GraphFLGASettings(horizon=2, dropout=0.5, adapt_steps=2, common_rate=False)
    search = Configurator(small_clients[0], settings, 0)
    now = Situation(1, search.space.initial(0), [1.0] * len(search.space.shapes))
    for best, rounds in ((-1.0, 1), (2.0, 0)):
        search.trials.begin()
        search.trials._scores = {0: [best] * trials._FEWEST}
        loss, model = search.trials.trial(search.space.environment, now)
        assert len(search.trials._scores.get(1, [])) == rounds
        assert model is not None
        assert np.isfinite(loss)
